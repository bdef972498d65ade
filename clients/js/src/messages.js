// Messages as bytes: as many for every message of a protocol.

import { bigEndian, concat } from "./octets.js";

/** @param {bigint} size */
function width(size) {
  return Math.max(1, Math.ceil((size - 1n).toString(2).length / 8));
}

/**
 * Bytes of a message, whatever it says.
 * @param {import("./laws.js").MessageCode} code
 */
export function messageSize(code) {
  if ("bits" in code) return Math.ceil(code.bits / 8);
  return code.sizes.reduce((sum, size) => sum + width(size), 0);
}

/**
 * @param {import("./laws.js").MessageCode} code
 * @param {import("./laws.js").Message} message
 */
export function encodeMessage(code, message) {
  if ("bits" in code) {
    const octets = new Uint8Array(messageSize(code));
    /** @type {boolean[]} */ (message).forEach((bit, place) => {
      if (bit) octets[place >> 3] |= 0x80 >> (place & 7);
    });
    return octets;
  }
  const numbers = Array.isArray(message) ? message : [message];
  return concat(...code.sizes.map((size, place) => bigEndian(/** @type {bigint} */ (numbers[place]), width(size))));
}

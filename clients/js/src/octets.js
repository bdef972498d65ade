// Bytes: joining, hexadecimal digits, big-endian numbers.

import { WireError } from "./errors.js";

/** @param {...Uint8Array} parts */
export function concat(...parts) {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let place = 0;
  for (const part of parts) {
    joined.set(part, place);
    place += part.length;
  }
  return joined;
}

/** @param {string} text */
export function utf8(text) {
  return new TextEncoder().encode(text);
}

/** @param {Uint8Array} bytes */
export function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** @param {string} text */
export function fromHex(text) {
  if (!/^([0-9a-f]{2})*$/.test(text)) throw new TypeError(`${text} is not hexadecimal`);
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/**
 * @param {number | bigint} value
 * @param {number} size
 */
export function bigEndian(value, size) {
  const bytes = new Uint8Array(size);
  let left = BigInt(value);
  for (let place = size - 1; place >= 0; place--) {
    bytes[place] = Number(left & 255n);
    left >>= 8n;
  }
  if (left) throw new RangeError(`${value} does not fit into ${size} bytes`);
  return bytes;
}

/** @param {Uint8Array} bytes */
export async function sha256(bytes) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

/**
 * The body of a reply, up to `most` bytes: its sender may be hostile.
 * @param {Response} reply
 * @param {number} most
 */
export async function readAtMost(reply, most) {
  const pieces = [];
  let size = 0;
  const reader = reply.body?.getReader();
  for (;;) {
    const value = (await reader?.read())?.value; // none at the end
    if (!value) return concat(...pieces);
    size += value.length;
    if (size > most) {
      await reader?.cancel();
      throw new WireError("unreachable", `the server sends more than ${most} bytes`);
    }
    pieces.push(value);
  }
}

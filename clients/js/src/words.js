// The tape: uniform words of a given number of bits, as BigInt. Randomizers draw nothing themselves.

/**
 * @typedef {object} WordSource
 * @property {(count: number, bits: number) => bigint[]} words the next `count` uniform words of `bits` bits
 */

const MOST_BYTES = 65536; // of one call of getRandomValues

/** Words of the platform's secure generator. @type {WordSource} */
export const secureWords = {
  words(count, bits) {
    const size = Math.ceil(bits / 8);
    const bytes = new Uint8Array(count * size);
    for (let place = 0; place < bytes.length; place += MOST_BYTES) {
      crypto.getRandomValues(bytes.subarray(place, place + MOST_BYTES));
    }
    const mask = (1n << BigInt(bits)) - 1n;
    return Array.from({ length: count }, (_, word) => {
      let value = 0n;
      for (let place = word * size; place < (word + 1) * size; place++) {
        value = (value << 8n) | BigInt(bytes[place]);
      }
      return value & mask;
    });
  },
};

/**
 * Given words, in turn: for vectors and for enumeration. NOT private.
 * @param {Iterable<bigint>} given
 * @returns {WordSource}
 */
export function listedWords(given) {
  const left = given[Symbol.iterator]();
  return {
    words(count, bits) {
      return Array.from({ length: count }, () => {
        const { value, done } = left.next();
        if (done || value < 0n || value >> BigInt(bits)) throw new RangeError("no such word is left");
        return value;
      });
    },
  };
}

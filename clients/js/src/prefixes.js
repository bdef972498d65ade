// The randomizer of words: a prefix of the word, hashed, by k-ary randomized response. Few surveys have one, so that
// `loadLaws` loads this module and that of texts.

import { bitLength, buildRandomizer, decimal, demand, readBits, readList, readSize } from "./laws.js";
import { codeOf, countBits, readSpelling } from "./texts.js";

/** The smallest irreducible polynomial of degree 16, without its highest term. */
const POLYNOMIAL = 0x2bn;

/** The sum over GF(2) of the columns whose bit is set in a number. @param {bigint[]} columns @param {bigint} number */
function applyColumns(columns, number) {
  return columns.reduce((sum, column, place) => ((number >> BigInt(place)) & 1n ? sum ^ column : sum), 0n);
}

/** a x in GF(2^16). @param {bigint} a @param {bigint} x */
function multiply(a, x) {
  let product = 0n, multiple = a;
  for (let left = x; left; left >>= 1n) {
    if (left & 1n) product ^= multiple;
    multiple = ((multiple << 1n) & 0xffffn) ^ (multiple >> 15n ? POLYNOMIAL : 0n);
  }
  return product;
}

/** @param {import("./laws.js").Law} law @returns {import("./laws.js").Randomizer} */
export function build(law) {
  const wordBits = readBits(law), spelling = readSpelling(law.domain), bits = countBits(spelling);
  demand(law.response?.type === "KRR", "the response must be k-ary randomized response");
  const response = buildRandomizer(law.response), buckets = readSize(law, "buckets", 2);
  demand(response.size === buckets && response.wordBits === wordBits, "the response must be that of the buckets");
  const lengths = readList(law.lengths, "lengths", 1n, BigInt(bits)), rows = readList(law.rows, "rows", 1n, 1n << 16n);
  const all = rows.reduce((sum, each) => sum + each, 0n), rowBits = BigInt(bitLength(all) - 1);
  const powers = [all, BigInt(buckets)].every((each) => (each & (each - 1n)) === 0n && each <= 1n << 16n);
  demand(powers && rows.length === lengths.length && rowBits <= wordBits, "rows and buckets must be powers of two");
  const stir = readList(law.stir, "stir", 0n, (1n << BigInt(bits)) - 1n);
  demand(Array.isArray(law.coefficients) && law.coefficients.length === 4, "there must be four coefficients");
  const coefficients = law.coefficients.map((/** @type {any} */ each) => readList(each, "coefficients", 0n, 0xffffn));
  const columns = [stir, ...coefficients].every((each) => each.length === bits);
  demand(columns, "the functions must look at all bits of a word");
  const shift = 16n - BigInt(bitLength(BigInt(buckets)) - 1);
  return {
    size: 2 ** bits, wordBits, wordsPerInput: 2, epsilon0: decimal(law, "epsilon0"), spelling,
    codeOf: (answer) => codeOf(spelling, answer),
    ratio: response.ratio, code: { sizes: [all * BigInt(buckets)] },
    encode: (code, [first, second]) => {
      const row = first >> (BigInt(wordBits) - rowBits);
      let level = 0, end = rows[0];
      while (row >= end) end += rows[++level];
      // A row looks at the first bits of the stirred word; its cell is the first bits of a polynomial at the row.
      const hidden = BigInt(bits) - lengths[level];
      const seen = (applyColumns(stir, BigInt(code)) >> hidden) << hidden;
      const value = coefficients.reduceRight(
        (/** @type {bigint} */ sum, /** @type {bigint[]} */ each) => multiply(sum, row) ^ applyColumns(each, seen), 0n,
      );
      const cell = Number(value >> shift);
      return row * BigInt(buckets) + BigInt(/** @type {number} */ (response.encode(cell, [second])));
    },
  };
}

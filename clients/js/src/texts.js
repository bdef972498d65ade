// Words that nobody has listed, as in Python: texts up to a length over an alphabet, or integers of so many bits.
//
// Spaces around a text are taken off; it is normalised (NFKC and lower case for `letters` and `word`, NFC for `ascii` and
// `utf-8`) and written in UTF-8. Its code is the number whose digits are its bytes' places in the alphabet, counted from
// 1, filled up with zeros to the declared length.

import { WireError } from "./errors.js";
import { utf8 } from "./octets.js";

/**
 * @typedef {object} Spelling
 * @property {string | null} alphabet null: integers
 * @property {number} maxLength of texts, in bytes
 * @property {number} bits of integers
 */

const SPACES = /^[ \t\r\n]+|[ \t\r\n]+$/g;
const range = (/** @type {number} */ first, /** @type {number} */ last) =>
  Array.from({ length: last - first + 1 }, (_, place) => first + place);

/** @type {Record<string, { symbols: number[], form: "NFC" | "NFKC", folds: boolean }>} */
const ALPHABETS = {
  letters: { symbols: range(97, 122), form: "NFKC", folds: true },
  word: { symbols: [...range(97, 122), ...range(48, 57), 45, 95], form: "NFKC", folds: true },
  ascii: { symbols: range(32, 126), form: "NFC", folds: false },
  "utf-8": { symbols: range(1, 255), form: "NFC", folds: false },
};

/** @param {Record<string, any>} domain of a law @returns {Spelling} */
export function readSpelling(domain) {
  const size = (/** @type {string} */ name) => {
    const text = domain[name];
    const fine = typeof text === "string" && /^[1-9]\d?$/.test(text) && Number(text) <= 64;
    if (!fine) throw new WireError("law", `${name} must be a whole number from 1 to 64`);
    return Number(text);
  };
  if (domain?.type === "Keys") return { alphabet: null, maxLength: 0, bits: size("bits") };
  const known = domain?.type === "Texts" && typeof domain.alphabet === "string" && Object.hasOwn(ALPHABETS, domain.alphabet);
  if (!known) throw new WireError("law", "the domain must be words");
  const spelling = { alphabet: domain.alphabet, maxLength: size("max_length"), bits: 0 };
  if (countBits(spelling) > 64) throw new WireError("law", "words must have codes of at most 64 bits");
  return spelling;
}

/** Bits of the largest code. @param {Spelling} spelling */
export function countBits({ alphabet, maxLength, bits }) {
  if (alphabet === null) return bits;
  return (BigInt(ALPHABETS[alphabet].symbols.length + 1) ** BigInt(maxLength) - 1n).toString(2).length;
}

/** A text as it is counted, before anything is refused. @param {string} alphabet @param {string} text */
export function normalize(alphabet, text) {
  const { form, folds } = ALPHABETS[alphabet];
  const stripped = text.replace(SPACES, "").normalize(form);
  return (folds ? stripped.toLowerCase() : stripped).replace(SPACES, "");
}

/**
 * The code of a word; a RangeError says what is wrong with it.
 * @param {Spelling} spelling
 * @param {unknown} answer
 * @returns {bigint}
 */
export function codeOf(spelling, answer) {
  const { alphabet, maxLength, bits } = spelling;
  if (alphabet === null) return readKey(String(answer).replace(SPACES, ""), bits);
  const { symbols } = ALPHABETS[alphabet], word = normalize(alphabet, String(answer ?? "")); // "null" is a word
  if (!word) throw new RangeError("is empty");
  const octets = [...utf8(word)], digits = octets.map((each) => BigInt(symbols.indexOf(each) + 1));
  if (/\p{Surrogate}/u.test(word) || digits.includes(0n)) {
    throw new RangeError(`has a character outside the alphabet ${alphabet}`);
  }
  if (octets.length > maxLength) throw new RangeError(`is longer than ${maxLength} bytes`);
  const base = BigInt(symbols.length + 1);
  return digits.reduce((sum, digit) => sum * base + digit, 0n) * base ** BigInt(maxLength - octets.length);
}

/** @param {string} text @param {number} bits */
function readKey(text, bits) {
  if (!text) throw new RangeError("is missing");
  if (!/^-?\d{1,40}$/.test(text)) throw new RangeError("is not an integer");
  const number = BigInt(text), largest = (1n << BigInt(bits)) - 1n;
  if (number < 0n || number > largest) throw new RangeError(`is outside the domain 0 .. ${largest}`);
  return number;
}

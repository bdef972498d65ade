// Randomizers. Each is made from the *law* in the collection document: every threshold is an integer there, so
// nothing is computed with floating point here, and the messages are those of Python on the same words.
//
// `encode(code, words)` is a pure function; `ratio` is the largest likelihood ratio as a fraction [over, under],
// by which a device checks the local floor; `code` says how messages become bytes.

import { WireError } from "./errors.js";
import { isAtMostExp } from "./exact.js";

/**
 * @typedef {number | bigint | boolean[] | bigint[]} Message
 * @typedef {{ sizes: bigint[] } | { bits: number }} MessageCode numbers below `sizes`, or a vector of `bits` bits
 * @typedef {object} Randomizer
 * @property {number} size how many codes there are: 0 .. size-1
 * @property {number} wordBits
 * @property {number} wordsPerInput
 * @property {(code: number | bigint, words: bigint[]) => Message} encode
 * @property {[bigint, bigint]} ratio [1, 0] if there is no floor
 * @property {number} epsilon0 as the document states it
 * @property {MessageCode} code
 * @property {Odds=} odds of what is sent, where a few words say them
 * @property {Hashed=} hashed of messages that are a hash function and a value; absent otherwise
 * @property {Grid=} grid of real numbers; absent otherwise
 * @property {Cells=} cells of the numbers of a tree; absent otherwise
 * @property {import("./texts.js").Spelling=} spelling of words; absent otherwise
 * @property {((answer: unknown) => bigint)=} codeOf the code of a word, or a RangeError; absent otherwise
 * @typedef {{ lower: number, upper: number, cells: number | null }} Cells null: integers, each its own cell
 * @typedef {{ lower: number, upper: number, steps: bigint }} Grid
 * @typedef {{ r: number, s: number, width: number, support: number, p: number, q: number }} Hashed `support`: the share of all
 *   messages that support a category; p and q: how often a message supports its own alone, and another's
 * @typedef {{ own: number } | { marked: number, unmarked: number } | { coin: number }} Odds how often the answer itself is
 *   sent; its mark, and that of another; a 1 at the lower end of a range
 * @typedef {Record<string, any>} Law
 */

/** The smallest irreducible polynomial of each degree, without its highest term. */
const POLYNOMIALS = {
  2: 0x3n, 3: 0x3n, 4: 0x3n, 5: 0x5n, 6: 0x3n, 7: 0x3n, 8: 0x1bn, 9: 0x3n, 10: 0x9n, 11: 0x5n, 12: 0x9n,
  13: 0x1bn, 14: 0x21n, 15: 0x3n, 16: 0x2bn, 32: 0x8dn,
};

/** a x in the field of 2^r elements. @param {bigint} a @param {number | bigint} x @param {number} r */
function multiply(a, x, r) {
  const wide = BigInt(r), top = (1n << wide) - 1n, polynomial = POLYNOMIALS[/** @type {keyof POLYNOMIALS} */ (r)];
  let value = 0n, multiple = a;
  for (let left = BigInt(x); left; left >>= 1n) {
    if (left & 1n) value ^= multiple;
    multiple = ((multiple << 1n) & top) ^ (multiple >> (wide - 1n) ? polynomial : 0n);
  }
  return value;
}

/** @param {boolean} holds @param {string} sentence @returns {asserts holds} */
export function demand(holds, sentence) {
  if (!holds) throw new WireError("law", sentence);
}

/** @param {Law} law @param {string | number} name @param {bigint} least */
function whole(law, name, least = 0n) {
  const text = law[name];
  demand(typeof text === "string" && /^(0|[1-9]\d{0,20})$/.test(text), `${name} must be a whole number`);
  demand(BigInt(text) >= least, `${name}=${text} must be >= ${least}`);
  return BigInt(text);
}

/** @param {Law} law @param {string} name */
export function decimal(law, name) {
  const text = law[name];
  const fine = typeof text === "string" && /^-?(0|[1-9]\d{0,15})(\.\d{1,20})?(e-?\d{1,3})?$/.test(text);
  demand(fine && Number.isFinite(Number(text)), `${name} must be a decimal in a string`);
  return Number(text);
}

/** @param {Law} law @param {number} most */
export function readBits(law, most = 64) {
  const bits = Number(whole(law, "word_bits", 1n));
  demand(bits <= most, `word_bits=${bits} must be <= ${most}`);
  return bits;
}

/** @param {Law} law @param {string | number} name @param {number} least */
export function readSize(law, name, least) {
  const size = whole(law, name, BigInt(least));
  demand(size <= 2n ** 31n, `${name}=${size} must be <= 2^31`);
  return Number(size);
}

/** @param {Law} law @returns {Grid} */
function readGrid(law) {
  const domain = law.domain;
  demand(domain?.type === "Reals", "the domain must be a grid of real numbers");
  const grid = {
    lower: decimal(domain, "lower"),
    upper: decimal(domain, "upper"),
    steps: whole(domain, "steps", 1n),
  };
  const fine = grid.lower < grid.upper && Number.isFinite(grid.upper - grid.lower);
  demand(fine && grid.steps <= 2n ** 32n, "the grid must have lower < upper and at most 2^32 steps");
  return grid;
}

/** @param {Law} law @returns {Cells} */
function readCells(law) {
  const domain = law.domain;
  demand(domain?.type === "Integers" || domain?.type === "Cells", "the domain must be integers or cells");
  const lower = decimal(domain, "lower"), upper = decimal(domain, "upper");
  const cells = domain.type === "Cells" ? readSize(domain, "cells", 2) : null;
  const fine = cells !== null || (Number.isSafeInteger(lower) && Number.isSafeInteger(upper));
  demand(fine && lower < upper && Number.isFinite(upper - lower), "the domain must have lower < upper");
  return { lower, upper, cells };
}

/** A list of whole numbers from `least` to `most`. @param {any} list @param {string} name @param {bigint} least @param {bigint} most */
export function readList(list, name, least, most) {
  demand(Array.isArray(list) && list.length >= 1 && list.length <= 64, `${name} must be a list of 1 to 64 numbers`);
  const found = list.map((/** @type {any} */ _, /** @type {number} */ place) => whole(list, place, least));
  demand(found.every((/** @type {bigint} */ each) => each <= most), `${name} must be at most ${most}`);
  return /** @type {bigint[]} */ (found);
}

/** @param {bigint} part @param {bigint} all */
const share = (part, all) => Number(part) / Number(all);

/** @param {bigint} value */
export function bitLength(value) {
  return value === 0n ? 0 : value.toString(2).length;
}

/** @param {bigint} value */
function parity(value) {
  return (value.toString(2).match(/1/g)?.length ?? 0) % 2;
}

/** @type {Record<string, (law: Law) => Randomizer>} */
const BUILDERS = {
  RR(law) {
    const wordBits = readBits(law), all = 1n << BigInt(wordBits);
    const threshold = whole(law, "threshold", 1n);
    demand(2n * threshold < all, "threshold leaves nothing of the value");
    return {
      size: 2, wordBits, wordsPerInput: 1, epsilon0: decimal(law, "epsilon0"),
      ratio: [all - threshold, threshold], code: { sizes: [2n] }, odds: { own: share(all - threshold, all) },
      encode: (code, [word]) => code ^ Number(word < threshold),
    };
  },

  KRR(law) {
    const wordBits = readBits(law), all = 1n << BigInt(wordBits);
    const k = readSize(law, "k", 2), each = whole(law, "share", 1n), own = all - BigInt(k - 1) * each;
    demand(BigInt(k) * each < all, "share leaves nothing of the value");
    return {
      size: k, wordBits, wordsPerInput: 1, epsilon0: decimal(law, "epsilon0"),
      ratio: [own, each], code: { sizes: [BigInt(k)] }, odds: { own: share(own, all) },
      encode: (code, [word]) => {
        const drawn = word / each;
        return drawn < BigInt(k) ? Number(drawn) : code;
      },
    };
  },

  Unary(law) {
    const wordBits = readBits(law), all = 1n << BigInt(wordBits);
    const k = readSize(law, "k", 2), one = whole(law, "one", 1n), zero = whole(law, "zero", 1n);
    demand(zero < one && one < all, "thresholds must be 0 < zero < one < 2^word_bits");
    return {
      size: k, wordBits, wordsPerInput: k, epsilon0: decimal(law, "epsilon0"),
      ratio: [one * (all - zero), zero * (all - one)], code: { bits: k },
      odds: { marked: share(one, all), unmarked: share(zero, all) },
      encode: (code, words) => words.map((word, place) => word < (place === code ? one : zero)),
    };
  },

  LocalHashing(law) {
    const wordBits = readBits(law), k = readSize(law, "k", 2), g = readSize(law, "g", 2);
    const r = wordBits / 2;
    demand(Object.hasOwn(POLYNOMIALS, r), "word_bits must be 4, 6, 8, ..., 32 or 64");
    demand(k <= 2 ** r && g <= 2 ** (r - 1), "k must be <= 2^r and g <= 2^(r-1)");
    demand(law.response?.type === "KRR", "the response must be k-ary randomized response");
    const response = BUILDERS.KRR(law.response);
    demand(response.size === g && response.wordBits === wordBits, "the response must be that of the g buckets");
    const wide = BigInt(r), top = (1n << wide) - 1n;
    return {
      size: k, wordBits, wordsPerInput: 2, epsilon0: decimal(law, "epsilon0"), ratio: response.ratio,
      code: { sizes: [1n << wide, 1n << wide, BigInt(g)] },
      encode: (code, [line, word]) => {
        const a = line >> wide, b = line & top, value = multiply(a, code, r) ^ b;
        const bucket = Number((value * BigInt(g)) >> wide);
        return [a, b, BigInt(/** @type {number} */ (response.encode(bucket, [word])))];
      },
    };
  },

  SubsetSelection(law) {
    const wordBits = readBits(law), all = 1n << BigInt(wordBits);
    const k = readSize(law, "k", 2), w = readSize(law, "w", 1), threshold = whole(law, "threshold", 1n);
    demand(w < k && threshold < all && threshold * BigInt(k) > all * BigInt(w), "threshold leaves nothing of the value");
    return {
      size: k, wordBits, wordsPerInput: w + 1, epsilon0: decimal(law, "epsilon0"),
      ratio: [threshold * BigInt(k - w), (all - threshold) * BigInt(w)], code: { bits: k },
      odds: { marked: share(threshold, all), unmarked: (w - share(threshold, all)) / (k - 1) },
      encode: (code, words) => {
        // The others are numbered 0 .. k-2 by calling the last one `code`. Floyd's method: one step more for sets
        // without it, before the others. Both kinds are rejected by the same words.
        const set = new Array(k).fill(false), holds = words[0] < threshold;
        let accepted = true;
        for (let step = 0; step < w; step++) {
          const top = k - 1 - w + step;
          const drawn = words[step + 1] / (all / BigInt(top + 1));
          const fits = drawn <= BigInt(top);
          accepted &&= fits;
          const spot = fits ? Number(drawn) : 0;
          set[top] = set[spot];
          set[spot] = true;
          if (step === 0 && holds) set.fill(false);
        }
        if (!accepted) return set.fill(false);
        set[k - 1] = set[code];
        set[code] = holds;
        return set;
      },
    };
  },

  HadamardResponse(law) {
    const wordBits = readBits(law), all = 1n << BigInt(wordBits);
    const k = readSize(law, "k", 2), blocks = whole(law, "blocks", 1n), length = whole(law, "block_length", 2n);
    const low = whole(law, "low", 1n), outputs = blocks * length, toward = all / outputs - low;
    const powers = [blocks, length].every((each) => (each & (each - 1n)) === 0n) && outputs <= 2n ** 32n;
    demand(powers && toward >= 1n, "blocks and block_length must be powers of two that leave something of the value");
    demand(BigInt(k) <= blocks * (length - 1n), "the blocks must hold all k categories");
    const blockBits = BigInt(bitLength(blocks) - 1), positionBits = BigInt(bitLength(length) - 1);
    return {
      size: k, wordBits, wordsPerInput: 1, epsilon0: decimal(law, "epsilon0"),
      ratio: [low + 2n * blocks * toward, low], code: { sizes: [outputs] },
      encode: (code, [word]) => {
        const y = word & (outputs - 1n);
        if (word >= toward * outputs) return y;
        const x = BigInt(code), row = (x >> blockBits) + 1n, inside = y & (length - 1n);
        const moved = parity(row & inside) ? inside ^ (row & -row) : inside;
        return moved | ((x & (blocks - 1n)) << positionBits);
      },
    };
  },

  LocalTree(law) {
    const wordBits = readBits(law), all = 1n << BigInt(wordBits), cells = readCells(law);
    demand(law.sign?.type === "RR", "the sign must be flipped by randomized response");
    const sign = BUILDERS.RR(law.sign);
    demand(sign.wordBits === wordBits, "the sign must have words of the same size");
    demand(Array.isArray(law.shape) && law.shape.length >= 1 && law.shape.length <= 40, "shape must be a list");
    const size = cells.cells ?? cells.upper - cells.lower + 1;
    const nodes = [];
    let leaves = 1;
    for (const place of law.shape.keys()) {
      leaves *= readSize(law.shape, place, 2);
      demand(leaves <= 2 ** 30, "the tree must have at most 2^30 leaves");
      nodes.push(leaves);
    }
    demand(leaves >= size, "the tree must have a leaf for every cell");
    const columns = nodes.map((count) => 2 ** bitLength(BigInt(count - 1)));
    const starts = columns.map((_, level) => columns.slice(0, level).reduce((sum, each) => sum + each, 0));
    const depth = BigInt(nodes.length), total = starts[starts.length - 1] + columns[columns.length - 1];
    demand(BigInt(Math.max(columns[columns.length - 1], nodes.length)) <= all, "word_bits must be enough for the columns");
    return {
      size, wordBits, wordsPerInput: 3, epsilon0: decimal(law, "epsilon0"), cells,
      ratio: sign.ratio, code: { sizes: [2n * BigInt(total)] },
      encode: (code, [first, second, coin]) => {
        // The words are dealt to the levels in turn; the first levels have one more each if they do not divide.
        const part = all / depth, longer = all % depth, end = longer * (part + 1n);
        const level = Number(first < end ? first / (part + 1n) : longer + (first - end) / part);
        const node = Math.floor(code / (leaves / nodes[level]));
        const column = Number(second & BigInt(columns[level] - 1));
        const odd = parity(BigInt(node) & BigInt(column));
        return 2 * (starts[level] + column) + /** @type {number} */ (sign.encode(odd, [coin]));
      },
    };
  },

  Duchi(law) {
    const wordBits = readBits(law), all = 1n << BigInt(wordBits);
    const grid = readGrid(law), slope = whole(law, "slope", 1n), span = grid.steps * slope;
    demand(span < all && span % 2n === all % 2n, "slope is too steep");
    const least = (all - span) / 2n;
    return {
      size: Number(grid.steps) + 1, wordBits, wordsPerInput: 1, epsilon0: decimal(law, "epsilon0"), grid,
      ratio: [all - least, least], code: { sizes: [2n] }, odds: { coin: share(least, all) },
      encode: (code, [word]) => Number(word < least + BigInt(code) * slope),
    };
  },

  OneBin(law) {
    const wordBits = readBits(law), type = law.domain?.type;
    const grid = type === "Reals" ? readGrid(law) : undefined;
    const cells = type === "Integers" || type === "Cells" ? readCells(law) : undefined;
    demand(["Bits", "Categories"].includes(type) || grid !== undefined || cells !== undefined, "the domain must have bins");
    const size = grid ? Number(grid.steps) + 1 : cells ? cells.cells ?? cells.upper - cells.lower + 1
      : type === "Bits" ? 2 : readSize(law.domain, "k", 2);
    demand(size <= 2 ** 16, "there must be at most 2^16 bins");
    demand(law.response === null || law.response?.type === "KRR", "the response must be k-ary randomized response, or none");
    const response = law.response === null ? null : BUILDERS.KRR(law.response);
    demand(response === null || (response.size === size && response.wordBits === wordBits), "the response must be that of the bins");
    return {
      size, wordBits, wordsPerInput: response ? 1 : 0, epsilon0: response ? response.epsilon0 : Infinity,
      ratio: response ? response.ratio : [1n, 0n], code: { sizes: [BigInt(size)] }, odds: response ? response.odds : { own: 1 },
      ...(grid && { grid }), ...(cells && { cells }),
      encode: (code, words) => (response ? response.encode(code, words) : Number(code)),
    };
  },

  HashedBin(law) {
    const wordBits = readBits(law), all = 1n << BigInt(wordBits), k = readSize(law, "k", 2);
    const r = readSize(law, "r", 2), s = readSize(law, "s", 1), width = whole(law, "width", 1n), blanket = whole(law, "blanket");
    demand(Object.hasOwn(POLYNOMIALS, r) && s <= r && r + s <= wordBits, "r must be 2, 3, ..., 16 or 32, and s at most r");
    demand(k <= 2 ** r && width < 1n << BigInt(s) && blanket < all, "k must be <= 2^r, width < 2^s and blanket < 2^word_bits");
    demand((law.floor === null) === (blanket === 0n), "the blanket is that of a floor, and only of it");
    // What is not drawn from the messages that support the category is uniform.
    const values = 1n << BigInt(s), told = (all - blanket) * (all - (all % width)), rest = all * all - told;
    const support = Number(width) / Number(values), apart = (Number(rest) / Number(all * all)) * support;
    const functions = BigInt(r), each = all / width;
    return {
      size: k, wordBits, wordsPerInput: law.floor === null ? 2 : 3, epsilon0: law.floor === null ? Infinity : decimal(law, "floor"),
      ratio: law.floor === null ? [1n, 0n] : [rest * width + told * values, rest * width], code: { sizes: [1n << functions, values] },
      hashed: { r, s, width: Number(width), support, p: Number(told) / Number(all * all) + apart, q: apart },
      encode: (code, [word, near, coin]) => {
        const a = word & ((1n << functions) - 1n), spare = (word >> functions) & (values - 1n), t = near / each;
        const tells = t < width && !(coin < blanket);
        return [a, tells ? (multiply(a, code, r) >> BigInt(r - s)) ^ t : spare];
      },
    };
  },

  Piecewise(law) {
    const wordBits = readBits(law), all = 1n << BigInt(wordBits), grid = readGrid(law);
    const stride = whole(law, "stride", 1n), window = whole(law, "window", 1n);
    const low = whole(law, "low", 1n), extra = whole(law, "extra", 1n);
    const alphabet = window + grid.steps * stride, background = alphabet * low, inside = window * extra;
    const rest = all - background - inside;
    demand(rest >= 0n && rest <= alphabet && alphabet <= 2n ** 52n, "the shares must fill 2^word_bits words");
    return {
      size: Number(grid.steps) + 1, wordBits, wordsPerInput: 1, epsilon0: decimal(law, "epsilon0"), grid,
      ratio: [low + extra, low], code: { sizes: [alphabet] },
      encode: (code, [word]) => {
        if (word < background) return word / low;
        const beyond = word - background;
        return beyond < inside ? BigInt(code) * stride + beyond / extra : beyond - inside;
      },
    };
  },

  Hybrid(law) {
    const wordBits = readBits(law), grid = readGrid(law), threshold = whole(law, "threshold");
    demand(law.piecewise?.type === "Piecewise" && law.duchi?.type === "Duchi", "the parts must be piecewise and duchi");
    const piecewise = BUILDERS.Piecewise(law.piecewise), duchi = BUILDERS.Duchi(law.duchi);
    const alike = [piecewise, duchi].every(
      (part) => part.size === Number(grid.steps) + 1 && part.wordBits === wordBits,
    );
    demand(alike && threshold <= 1n << BigInt(wordBits), "the parts must have one grid");
    const alphabet = /** @type {{ sizes: bigint[] }} */ (piecewise.code).sizes[0];
    const steeper = piecewise.ratio[0] * duchi.ratio[1] > duchi.ratio[0] * piecewise.ratio[1];
    return {
      size: piecewise.size, wordBits, wordsPerInput: 2, epsilon0: decimal(law, "epsilon0"), grid,
      ratio: steeper ? piecewise.ratio : duchi.ratio, code: { sizes: [alphabet + 2n] },
      encode: (code, [coin, word]) =>
        coin < threshold
          ? piecewise.encode(code, [word])
          : alphabet + BigInt(/** @type {number} */ (duchi.encode(code, [word]))),
    };
  },
};

/** Laws that few surveys have: their modules wait until a document names one. @type {Record<string, () => Promise<any>>} */
const LATER = { LocalPrefixes: () => import("./prefixes.js") };

/** The types of laws that this client runs. */
export const LAWS = Object.freeze([...Object.keys(BUILDERS), ...Object.keys(LATER)]);

/** Load what the laws of these types need, before they are built. @param {Iterable<unknown>} types */
export async function loadLaws(types) {
  for (const type of new Set(types)) {
    if (typeof type !== "string" || !Object.hasOwn(LATER, type) || Object.hasOwn(BUILDERS, type)) continue;
    BUILDERS[type] = (await LATER[type]()).build;
  }
}

/**
 * The randomizer that a law describes; `loadLaws` comes first. The floor is checked with integers: e^epsilon0 is what the law may not exceed.
 * @param {Law} law
 * @returns {Randomizer}
 */
export function buildRandomizer(law) {
  const build = typeof law?.type === "string" && Object.hasOwn(BUILDERS, law.type) ? BUILDERS[law.type] : null;
  demand(build !== null, `this client has no randomizer ${law?.type}`);
  const made = build(law);
  const [over, under] = made.ratio;
  if (made.epsilon0 === Infinity) return made; // there is no floor, and the document must say so
  demand(isAtMostExp(over, under, made.epsilon0), `the likelihood ratio ${over}/${under} is above e^${made.epsilon0}`);
  return made;
}

// Every randomizer over all of its words: what comes out, how often, and whether its ratio is the largest there is.

import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { buildRandomizer } from "../src/laws.js";
import { placeOf, roundPlace } from "../src/places.js";
import { listedWords, secureWords } from "../src/words.js";

const GRID = { type: "Reals", lower: "0", upper: "1", steps: "2" };
const FREE = { epsilon0: "20" };
const FIVE = { ...FREE, word_bits: "5" }, FOUR = { ...FREE, word_bits: "4" };
const PIECEWISE = { type: "Piecewise", ...FREE, word_bits: "6", domain: GRID, stride: "1", window: "2", low: "5", extra: "22" };
const DUCHI = { type: "Duchi", ...FREE, word_bits: "6", domain: GRID, slope: "13" };
const KRR = { type: "KRR", ...FIVE, k: "3", share: "5" };

/** @type {Record<string, any>} */
const LAWS = {
  RR: { type: "RR", ...FIVE, threshold: "7" },
  KRR,
  Unary: { type: "Unary", ...FOUR, k: "3", one: "11", zero: "3" },
  LocalHashing: { type: "LocalHashing", ...FOUR, k: "4", g: "2", response: { type: "KRR", ...FOUR, k: "2", share: "5" } },
  "SubsetSelection of one": { type: "SubsetSelection", ...FIVE, k: "3", w: "1", threshold: "20" },
  "SubsetSelection of two": { type: "SubsetSelection", ...FOUR, k: "4", w: "2", threshold: "11" },
  HadamardResponse: { type: "HadamardResponse", ...FIVE, k: "3", blocks: "1", block_length: "4", low: "2" },
  "HadamardResponse of two blocks": { type: "HadamardResponse", ...FIVE, k: "2", blocks: "2", block_length: "2", low: "3" },
  LocalTree: {
    type: "LocalTree", ...FOUR, domain: { type: "Integers", lower: "1", upper: "4" }, shape: ["2", "2"], sign: { type: "RR", ...FOUR, threshold: "3" },
  },
  Duchi: DUCHI,
  OneBin: { type: "OneBin", word_bits: "5", domain: { type: "Categories", k: "3" }, response: KRR },
  "HashedBin of width one": { type: "HashedBin", word_bits: "4", k: "4", r: "2", s: "1", width: "1", blanket: "3", floor: "20" },
  "HashedBin of width three": { type: "HashedBin", word_bits: "4", k: "3", r: "2", s: "2", width: "3", blanket: "5", floor: "20" },
  Piecewise: PIECEWISE,
  Hybrid: { type: "Hybrid", ...FREE, word_bits: "6", domain: GRID, threshold: "40", piecewise: PIECEWISE, duchi: DUCHI },
};

/** How many of all words give each output. @param {any} made @param {number} code */
function count(made, code) {
  /** @type {Map<string, bigint>} */
  const found = new Map();
  const each = 1 << made.wordBits, all = each ** made.wordsPerInput;
  for (let number = 0; number < all; number++) {
    const words = Array.from({ length: made.wordsPerInput }, (_, place) => BigInt(Math.floor(number / each ** place) % each));
    const key = String(made.encode(code, words));
    found.set(key, (found.get(key) ?? 0n) + 1n);
  }
  return { found, all };
}

const codes = (/** @type {any} */ made) => Array.from({ length: made.size }, (_, code) => code);

for (const [name, law] of Object.entries(LAWS)) {
  test(`the likelihood ratio of ${name} is the largest of all outputs and inputs`, () => {
    const made = buildRandomizer(law), [over, under] = made.ratio;
    const laws = codes(made).map((code) => count(made, code).found);
    const outputs = new Set(laws.flatMap((each) => [...each.keys()]));
    let reached = false;
    for (const key of outputs) {
      const shares = laws.map((each) => each.get(key) ?? 0n);
      for (const one of shares) {
        for (const other of shares) {
          assert.ok(one * under <= over * other, `${name}: ${key}`);
          reached ||= one * under === over * other && one !== other;
        }
      }
    }
    assert.ok(reached, name);
  });
}

const near = (/** @type {number} */ one, /** @type {number} */ other) => assert.ok(Math.abs(one - other) < 1e-12, `${one} ${other}`);

/** How often an output has what `test` looks for. @param {any} made @param {number} code @param {(output: string) => boolean} test */
function share(made, code, test) {
  const { found, all } = count(made, code);
  return Number([...found].reduce((sum, [key, n]) => sum + (test(key) ? n : 0n), 0n)) / all;
}

test("the odds that are told are those of all words", () => {
  for (const name of ["RR", "KRR"]) {
    const made = /** @type {any} */ (buildRandomizer(LAWS[name]));
    for (const code of codes(made)) near(made.odds.own, share(made, code, (key) => key === String(code)));
  }
  for (const name of ["Unary", "SubsetSelection of one"]) {
    const made = /** @type {any} */ (buildRandomizer(LAWS[name]));
    for (const code of codes(made)) {
      for (const place of codes(made)) {
        const seen = share(made, code, (key) => key.split(",")[place] === "true");
        near(place === code ? made.odds.marked : made.odds.unmarked, seen);
      }
    }
  }
  const duchi = /** @type {any} */ (buildRandomizer(DUCHI));
  near(duchi.odds.coin, share(duchi, 0, (key) => key === "1"));
  near(1 - duchi.odds.coin, share(duchi, 2, (key) => key === "1"));
  near(0.5, share(duchi, 1, (key) => key === "1"));
});

test("how often a hashed message supports its own category, and another one", () => {
  for (const name of ["HashedBin of width one", "HashedBin of width three"]) {
    const law = LAWS[name], made = /** @type {any} */ (buildRandomizer(law)), free = buildRandomizer({ ...law, blanket: "0", floor: null });
    const { p, q, support, r, s, width } = made.hashed;
    assert.deepEqual([r, s, width], [law.r, law.s, law.width].map(Number));
    near(support, width / 2 ** s);
    // With the words 0 for `near` and no blanket, the value is that of the category: so each function is known.
    const functions = 2 ** r, mask = codes(made).map((code) => Array.from({ length: functions }, (_, a) => free.encode(code, [BigInt(a), 0n])[1]));
    const supports = (/** @type {number} */ code) => (/** @type {string} */ key) => {
      const [a, value] = key.split(",").map(Number);
      return Number(mask[code][a] ^ BigInt(value)) < width;
    };
    for (const code of codes(made)) near(p, share(made, code, supports(code)));
    // Messages that tell of another category support this one as often as any: over all functions, pairwise independent.
    const told = p - q;
    for (const code of codes(made)) {
      for (const other of codes(made)) if (other !== code) near(q + told * support, share(made, code, supports(other)));
    }
    assert.deepEqual(free.ratio, [1n, 0n]);
    assert.equal(free.wordsPerInput, 2);
  }
});

test("a remainder of the shares of a piecewise law is spread over the first outputs, whatever is sent", () => {
  const made = buildRandomizer({ ...PIECEWISE, extra: "21" }), [over, under] = made.ratio;
  assert.deepEqual([over, under], [26n, 5n]);
  const laws = codes(made).map((code) => count(made, code).found);
  assert.deepEqual(laws.map((each) => ["0", "1", "2", "3"].map((key) => Number(each.get(key)))), [[27, 27, 5, 5], [6, 27, 26, 5], [6, 6, 26, 26]]);
});

test("a number within rounding of a point of the grid is that point, and no further one is", () => {
  // Of 127 steps, places that 127 times differ from a point's by 63, 64 and 65 parts of 2^41.
  const grid = { lower: 0, upper: 1, steps: 127n }, top = 1n << 41n, words = [0n, (1n << 64n) - 1n];
  const inverse = (() => {
    let found = 1n;
    for (let bits = 1n; bits < 64n; bits *= 2n) found = (found * (2n - 127n * found)) % top;
    return (found + top) % top;
  })();
  const look = (/** @type {bigint} */ apart) => {
    const place = (((apart * inverse) % top) + top) % top, code = (place * 127n + (apart < 0n ? top : 0n)) / top - (apart < 0n ? 1n : 0n);
    const point = Number(apart < 0n ? code + 1n : code);
    return words.map((word) => roundPlace(grid, Number(place), word, 64) - point);
  };
  assert.deepEqual(look(63n), [0, 0]);
  assert.deepEqual(look(64n), [0, 0]);
  assert.deepEqual(look(65n), [1, 0]);
  assert.deepEqual(look(-64n), [0, 0]);
  assert.deepEqual(look(-65n), [0, -1]);
  assert.equal(roundPlace(grid, placeOf(grid, 1), 0n, 64), 127);
});

test("every byte of every word is drawn, and the highest bits that are too many are dropped", () => {
  /** @type {number[]} */
  let asked = [], next = 0;
  const fill = mock.method(crypto, "getRandomValues", (/** @type {Uint8Array} */ bytes) => {
    asked.push(bytes.length);
    for (let place = 0; place < bytes.length; place++) bytes[place] = 128 + (next++ % 127);
    return bytes;
  });
  try {
    for (const [count, bits, wanted] of /** @type {[number, number, number[]][]} */ ([
      [1, 1, [1]], [3, 8, [3]], [2, 9, [4]], [0, 64, []], [8192, 64, [65536]], [8193, 64, [65536, 8]],
    ])) {
      [asked, next] = [[], 0];
      const words = secureWords.words(count, bits), size = Math.ceil(bits / 8);
      assert.deepEqual(asked, wanted);
      assert.equal(words.length, count);
      for (const place of new Set([0, 1, count - 2, count - 1].filter((each) => each >= 0 && each < count))) {
        let value = 0n;
        for (let byte = 0; byte < size; byte++) value = value * 256n + BigInt(128 + ((place * size + byte) % 127));
        assert.equal(words[place], value % 2n ** BigInt(bits), `${count} ${bits} ${place}`);
      }
    }
  } finally {
    fill.mock.restore();
  }
});

test("words that are given are taken in turn, and have as many bits as are asked for", () => {
  const source = listedWords([0n, 7n, 8n, 1n]);
  assert.deepEqual(source.words(2, 3), [0n, 7n]);
  assert.throws(() => source.words(1, 3), { name: "RangeError", message: "no such word is left" });
  assert.deepEqual(source.words(0, 3), []);
  assert.deepEqual(source.words(1, 1), [1n]);
  assert.throws(() => source.words(1, 1), /no such word is left/);
  assert.throws(() => listedWords([-1n]).words(1, 64), /no such word is left/);
});

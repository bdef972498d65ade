// The promise of the servers' noise, recomputed: every divergence against the sum over all values of the noise.

import assert from "node:assert/strict";
import { test } from "node:test";

import { checkPromise, findDelta } from "../src/promise.js";

/** The law of the noise of one bin, from -most to most. */
function list({ rate, most }) {
  const masses = Array.from({ length: 2 * most + 1 }, (_, z) => Math.exp(-rate * Math.abs(z - most)));
  const all = masses.reduce((sum, each) => sum + each);
  return masses.map((each) => each / all);
}

/** The pairs (with the person, without) of all outcomes of `moves` bins, each of which the person moves by one. */
function outcomes({ rate, most, moves }) {
  const law = list({ rate, most }), at = (z) => law[z] ?? 0;
  const one = Array.from({ length: law.length + 1 }, (_, z) => [at(z), at(z - 1)]);
  let found = [[1, 1]];
  for (let each = 0; each < moves; each++) {
    found = found.flatMap(([a, b]) => one.map(([c, d]) => [a * c, b * d]));
  }
  return found;
}

function sumUp(curve, epsilon) {
  const { p, q } = curve, growth = Math.exp(epsilon);
  return outcomes(curve).reduce((sum, [a, b]) => sum + Math.max(0, p * a + q * b - growth * (p * b + q * a)), 0);
}

function assertWithin(found, wanted, part) {
  assert.ok(Math.abs(found - wanted) <= part * wanted, `${found}, not ${wanted}`);
}

function assertClose(found, wanted, what) {
  assert.ok(Math.abs(found - wanted) <= 1e-9 * wanted + 1e-14, `${what}: ${found}, not ${wanted}`);
}

test("delta is the divergence of the noise, with and without a floor", () => {
  for (const rate of [0.3, 1.1]) {
    for (const most of [1, 4, 7]) {
      for (const moves of most === 1 ? [1, 2, 3, 5] : [1, 2, 3]) {
        for (const epsilon of [0.05, 0.3, 0.7, 1.5, 2.9, 4]) {
          for (const [p, q] of [[1, 0], [0.75, 0.25], [0.6, 0.1]]) {
            const curve = { rate, most, moves, p, q };
            assertClose(findDelta({ ...curve, floor: q ? { p, q } : null }, epsilon), sumUp(curve, epsilon), JSON.stringify({ ...curve, epsilon }));
          }
        }
      }
    }
  }
});

const BITS = 10;

/** A question as far as the promise reads it. */
function ask({ kind, rate, most, under = 0, bins = 4 }) {
  return { noise: { kind, rate, most, bins }, randomizer: { ratio: [BigInt(2 ** BITS - under), BigInt(under)], wordBits: BITS } };
}

const COUNT = { kind: "count", rate: 0.4, most: 9 }, BINS = { kind: "bins", rate: 0.4, most: 9 };
const ONCE = { epsilon: 0.6, composed: false, reportsPerDevice: 1, oneQuestion: false };
/** What is asked, what is promised but for delta, and the curve of all of it. */
const DECIDED = [
  [[COUNT], ONCE, { moves: 1 }],
  [[BINS], ONCE, { moves: 2 }],
  [[BINS], { ...ONCE, reportsPerDevice: 5 }, { moves: 2 }], // not composed: it is about one report
  [[COUNT], { ...ONCE, composed: true, reportsPerDevice: 3 }, { moves: 3 }],
  [[COUNT, BINS], ONCE, { moves: 3 }],
  [[COUNT, COUNT], { ...ONCE, oneQuestion: true }, { moves: 1 }],
  [[COUNT, BINS], { ...ONCE, oneQuestion: true }, { moves: 2 }],
  [[{ ...BINS, under: 200 }], ONCE, { moves: 2, p: (1024 - 200) / 1024, q: 200 / 1024 }],
  [[COUNT, { ...COUNT, under: 200 }], { ...ONCE, oneQuestion: true }, { moves: 1 }],
];

test("a promise is kept down to its delta, and broken just below", () => {
  for (const [asked, promise, curve] of DECIDED) {
    const questions = asked.map(ask), exact = sumUp({ rate: 0.4, most: 9, p: 1, q: 0, ...curve }, promise.epsilon);
    const what = JSON.stringify([asked, promise]);
    assert.equal(checkPromise(questions, { ...promise, delta: exact * (1 + 1e-8) }), true, what);
    for (const delta of [exact * (1 - 1e-8), exact / 2]) {
      assert.throws(() => checkPromise(questions, { ...promise, delta }), /does not keep the promised epsilon and delta/, what);
    }
  }
});

test("no rounding decides whether more than the ends is left", () => {
  const weeks = { ...ONCE, delta: 1e-18, composed: true, reportsPerDevice: 3 }, rate = 0.7; // a little less: 3 of them are not 2.1
  const asked = [ask({ kind: "count", rate, most: 400 })], at = (/** @type {number} */ epsilon) => checkPromise(asked, { ...weeks, epsilon });
  assert.ok(3 * rate === 2.0999999999999996);
  assert.throws(() => at(2.0999999999999996), /does not keep/); // 6e-17 is left
  assert.equal(at(2.1), true);
  const left = findDelta({ rate, most: 400, moves: 3, floor: null }, 2.0999999999999996), one = Math.exp(rate) / (1 + Math.exp(rate));
  assertWithin(left, one ** 3 * 2 ** -52, 1e-9);
});

test("within a part in a thousand million nobody decides: neither kept nor broken", () => {
  const exact = sumUp({ rate: 0.4, most: 9, moves: 1, p: 1, q: 0 }, ONCE.epsilon);
  const look = (/** @type {number} */ off) => {
    try {
      return checkPromise([ask(COUNT)], { ...ONCE, delta: exact * (1 + off) });
    } catch {
      return "broken";
    }
  };
  // The words of the generators take far less than that.
  assert.deepEqual([-2e-9, -1.2e-9, -0.8e-9, 0, 0.8e-9, 1.2e-9, 2e-9].map(look), ["broken", "broken", false, false, false, true, true]);
});

test("where the answers differ, the ends must fit together, or it takes the accountant", () => {
  const other = { kind: "count", rate: 0.2, most: 30 }, both = [COUNT, other].map(ask);
  const ends = sumUp({ ...COUNT, moves: 1, p: 1, q: 0 }, 0.4) + sumUp({ ...other, moves: 1, p: 1, q: 0 }, 0.2);
  const at = (/** @type {object} */ change) => checkPromise(both, { ...ONCE, epsilon: 0.4 + 0.2, delta: ends * (1 + 1e-8), ...change });
  assert.equal(at({ epsilon: 0.6000000000000001 }), true);
  assert.equal(at({ epsilon: 0.5999 }), false); // more than the ends is left
  assert.equal(at({ delta: ends * (1 - 1e-8) }), false);
  assert.throws(() => at({ delta: sumUp({ ...COUNT, moves: 1, p: 1, q: 0 }, 0.6000000000000001) / 2 }), /does not keep/); // one alone
  assert.equal(at({ epsilon: 1.1999, composed: true, reportsPerDevice: 2, delta: 3 * ends }), false);
  assert.equal(at({ epsilon: 1.2000000000000002, composed: true, reportsPerDevice: 2, delta: 2 * ends * (1 + 1e-8) }), true);
  assert.equal(at({ epsilon: 1.2000000000000002, composed: true, reportsPerDevice: 2, delta: 2 * ends * (1 - 1e-8) }), false);
  // Two that are alike, with a floor: not one law with twice the moves.
  const own = Math.log((Math.exp(0.4) * 824 + 200) / (824 + Math.exp(0.4) * 200)), twin = { ...COUNT, under: 200 };
  const half = sumUp({ ...COUNT, moves: 1, p: 824 / 1024, q: 200 / 1024 }, own);
  const twins = { ...ONCE, epsilon: 2 * own * (1 + 1e-9), delta: 2 * half * (1 + 1e-8) };
  assert.equal(checkPromise([twin, twin].map(ask), twins), true);
  assert.equal(checkPromise([twin, twin].map(ask), { ...twins, delta: 2 * half * (1 - 1e-6) }), false);
  const floors = [{ ...COUNT, under: 200 }, { ...other, under: 200 }];
  const pure = floors.map(({ rate }) => Math.log((Math.exp(rate) * 824 + 200) / (824 + Math.exp(rate) * 200)));
  const sum = pure[0] + pure[1], p = 824 / 1024, q = 200 / 1024;
  const parts = floors.map((each, place) => sumUp({ ...each, moves: 1, p, q }, pure[place]));
  const promise = { ...ONCE, epsilon: sum * (1 + 1e-9), delta: (parts[0] + parts[1]) * (1 + 1e-8) };
  assert.equal(checkPromise(floors.map(ask), promise), true);
  assert.equal(checkPromise(floors.map(ask), { ...promise, epsilon: sum * (1 - 1e-9) }), false);
  assert.equal(checkPromise(floors.map(ask), { ...promise, delta: promise.delta * (1 - 1e-6) }), false);
});

test("many answers take the accountant, and the words of the generator take a part of delta", () => {
  const calm = ask({ kind: "count", rate: 0.1, most: 400 }), many = Array.from({ length: 61 }, () => calm);
  const weekly = { ...ONCE, epsilon: 40, delta: 0.5, composed: true };
  assert.equal(checkPromise(many, { ...weekly, reportsPerDevice: 6 }), true); // 366 answers
  assert.equal(checkPromise([...many, calm], { ...weekly, reportsPerDevice: 6 }), false);
  // Nothing but the words: (1 + e^epsilon) times the advantage, for two keys of so many words and for the device.
  const quiet = (/** @type {number} */ bins) => [ask({ kind: "count", rate: 0.5, most: 400, bins })], epsilon = 0.5;
  for (const [bins, keys] of [[1, 2], [2 ** 18, 2], [2 ** 18 + 1, 3]]) {
    const least = (1 + Math.exp(epsilon)) * 1.0098e-28 * keys;
    assert.equal(checkPromise(quiet(bins), { ...ONCE, epsilon, delta: least * 1.01 }), true, `${bins}`);
    assert.throws(() => checkPromise(quiet(bins), { ...ONCE, epsilon, delta: least * 0.99 }), /does not keep/);
  }
});

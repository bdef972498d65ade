// What either server's noise alone keeps of a promise, recomputed from the document: the same formulas as in
// accounting/server_noise.py. One message that moves changes `moves` numbers of dummies; each changes probabilities by a
// factor of at most e^rate, but for an end of mass f that nothing else reaches. In floating point, with room for its rounding:
// what is too close to tell is not told. Among uniform messages of a hash family (noise.js) losses have no largest one.

import { WireError } from "./errors.js";
import { scale } from "./exact.js";
import { countWords, divergeHashed, logFactorials } from "./noise.js";

/**
 * @typedef {import("./document.js").Question} Question
 * @typedef {{ moves: number, rate: number, most: number, floor: { p: number, q: number } | null, hashed?: { messages: number, support: number } }} Curve
 *   p and q of randomized response, if there is a floor
 */

const SLACK = 1e-9, CLOSE = 1 + 1e-13;
const MOST_ANSWERS = 366; // that are composed
const LARGEST = 30;
const ADVANTAGE = 1.0098e-28; // of telling the words of one key of the generator from uniform ones
const SPAN = 2 ** 19; // words of one key

/** @param {Question} question @returns {Curve} */
function describe({ noise, randomizer }) {
  const law = /** @type {import("./noise.js").Dummies} */ (noise), [over, under] = randomizer.ratio;
  if (law.kind === "hashed") {
    const { support, p, q } = /** @type {import("./laws.js").Hashed} */ (randomizer.hashed);
    return { moves: 2, rate: 0, most: 0, floor: under ? { p, q } : null, hashed: { messages: law.messages, support } };
  }
  const { kind, rate, most } = law, all = 2 ** randomizer.wordBits;
  return { moves: kind === "count" ? 1 : 2, rate, most, floor: under ? { p: Number(over) / all, q: Number(under) / all } : null };
}

/** The masses of Z = 0 .. L-1, of Z < 0, and of the end. @param {Curve} curve */
function split({ rate, most }) {
  const step = Math.exp(-rate), sides = -Math.expm1(-rate * (most + 1)) - step * Math.expm1(-rate * most);
  const middle = -Math.expm1(-rate) / sides, end = middle * Math.exp(-rate * most), below = (1 - middle) / 2;
  return { up: middle + below - end, down: below, end };
}

/** ln x^n, and 0^0 = 1. @param {number} x @param {number} n */
const logPower = (x, n) => (n ? n * Math.log(x) : 0);

/** By how much `times` of rate exceed the loss: the product is not rounded, for 3 * 0.7 is above 2.0999999999999996. @param {number} rate @param {number} times @param {number} loss */
const exceed = (rate, times, loss) => Number((scale(rate) * BigInt(times) - scale(loss)) >> 100n) * 2 ** -974;

/** The divergence at the ratio e^loss; `pure`: nothing but the ends is left there. @param {Curve} curve @param {number} loss @param {boolean} pure */
function diverge(curve, loss, pure) {
  if (curve.hashed) return divergeHashed(curve.hashed.messages, curve.hashed.support, loss);
  const { moves, rate } = curve, { up, down, end } = split(curve);
  let total = -Math.expm1(moves * Math.log1p(-end));
  if (pure) return total;
  const facts = logFactorials(moves);
  for (let j = moves; j >= 0; j--) {
    const excess = exceed(rate, 2 * j - moves, loss);
    if (excess <= 0) break;
    const mass = Math.exp(facts[moves] - facts[j] - facts[moves - j] + logPower(up, j) + logPower(down, moves - j));
    total += mass * -Math.expm1(-excess);
  }
  return total;
}

/** The epsilon from which on only the ends are left. @param {Curve} curve */
function findPure({ moves, rate, floor }) {
  if (!floor) return moves * rate;
  const { p, q } = floor, ratio = Math.exp(Math.min(moves * rate, LARGEST));
  return Math.log((ratio * p + q) / (p + ratio * q));
}

/** At least the delta of one message, or of all messages of one law without a floor. @param {Curve} curve @param {number} epsilon */
export function findDelta(curve, epsilon) {
  const { floor } = curve;
  if (!floor) return diverge(curve, epsilon, false); // if it is pure, nothing exceeds epsilon
  const { p, q } = floor, growth = Math.exp(Math.min(epsilon, LARGEST)), left = p - growth * q;
  if (left <= 0) return 0;
  return left * diverge(curve, Math.log((growth * p - q) / left), findPure(curve) * CLOSE <= epsilon);
}

/** What the generators' words take of delta: those of a server, and of this device. @param {number} words @param {number} epsilon */
const setAside = (words, epsilon) => (1 + Math.exp(epsilon)) * ADVANTAGE * (Math.ceil(words / SPAN) + 1);

/**
 * Whether the noise that the document tells the servers to add keeps its promise: true if it surely does, false if this
 * takes the accountant of the Python package; a WireError if it surely does not.
 * @param {Question[]} questions
 * @param {import("./document.js").Promised} promise
 */
export function checkPromise(questions, { epsilon, delta, composed, reportsPerDevice, oneQuestion }) {
  const times = composed ? reportsPerDevice : 1, curves = questions.map(describe);
  if (times * curves.length > MOST_ANSWERS) return false;
  const words = questions.reduce((sum, { noise }) => sum + countWords(noise), 0);
  const left = delta - setAside(words * times, epsilon);
  const largest = Math.max(...curves.map((each) => findDelta(each, epsilon)));
  if (oneQuestion || times * curves.length === 1) return judge(largest, left, true);
  const [{ rate, most }] = curves, alike = curves.every((each) => !each.hashed && !each.floor && each.rate === rate && each.most === most);
  if (alike) {
    const moves = times * curves.reduce((sum, each) => sum + each.moves, 0);
    return judge(findDelta({ rate, most, moves, floor: null }, epsilon), left, true);
  }
  judge(largest, left, true); // all messages tell at least as much as one
  if (curves.some((each) => each.hashed)) return false;
  const exact = curves.reduce((sum, each) => sum + scale(each.rate) * BigInt(each.moves * times), 0n) <= scale(epsilon);
  const close = times * curves.reduce((sum, each) => sum + findPure(each), 0) * CLOSE <= epsilon;
  const ends = times * curves.reduce((sum, each) => sum + findDelta(each, findPure(each) * CLOSE), 0);
  return (curves.some((each) => each.floor) ? close : exact) && judge(ends, left, false);
}

/** @param {number} found @param {number} left @param {boolean} exact whether more than what is left breaks the promise */
function judge(found, left, exact) {
  if (exact && !(found * (1 - SLACK) <= left)) throw new WireError("promise", "the noise of the servers does not keep the promised epsilon and delta");
  return found * (1 + SLACK) <= left;
}

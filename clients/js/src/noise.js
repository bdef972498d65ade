// What the servers add to the answers of a question, as the document states it: who adds noise, and how much.

/**
 * @typedef {{ kind: "bins" | "count", bins: number, rate: number, most: number }} BinDummies
 * @typedef {{ kind: "hashed", messages: number, r: number, s: number, width: number }} HashedDummies
 * @typedef {BinDummies | HashedDummies} Dummies
 */

/**
 * What one server's noise alone is worth for one answer, whatever everybody else does: discrete Laplace numbers of messages,
 * cut at `most`, where bins change by two numbers and a count by one; or uniform messages of a hash family, which are worth
 * some delta at every epsilon: here at 1. Computed in floating point: for people to read.
 * @param {Dummies} noise
 */
export function weighNoise(noise) {
  if (noise.kind === "hashed") {
    const { messages } = noise;
    return { epsilon: 1, delta: divergeHashed(messages, noise.width / 2 ** noise.s, 1), messages, least: messages };
  }
  const { kind, bins, rate, most } = noise, moves = kind === "count" ? 1 : 2;
  const step = Math.exp(-rate), tail = Math.exp(-rate * most);
  const edge = (tail * -Math.expm1(-rate)) / (1 + step - 2 * step * tail);
  return { epsilon: moves * rate, delta: moves === 1 ? edge : edge * (2 - edge), messages: bins * most, least: kind === "count" ? bins * most : 0 };
}

/** ln n! for n = 0 .. most. @param {number} most */
export function logFactorials(most) {
  const found = [0];
  for (let n = 1; n <= most; n++) found.push(found[n - 1] + Math.log(n));
  return found;
}

/**
 * The divergence at the ratio e^loss of a message that supports one category in place of another, among uniform ones. T of
 * them, binomial, support one of the two alone, and either is as likely: (A + 1, B) against (A, B + 1) with T = A + B.
 * @param {number} messages
 * @param {number} support the share of all messages that support a category
 * @param {number} loss
 */
export function divergeHashed(messages, support, loss) {
  const pair = 2 * support * (1 - support), growth = Math.expm1(loss), mean = messages * pair;
  const last = Math.min(messages, Math.ceil(mean + 14 * Math.sqrt(mean) + 100)), facts = logFactorials(last);
  let logMass = messages * Math.log1p(-pair), found = 0, sum = 0;
  for (let t = 0; t <= last; t++) {
    const mass = Math.exp(logMass), k = Math.min(Math.max(Math.ceil((t + 1) / (growth + 2)) - 1, 0), t);
    let term = Math.exp(facts[t] - facts[k] - facts[t - k] - t * Math.LN2), below = 0;
    const most = term;
    for (let j = k; j > 0 && term > 1e-20 * most; j--) below += term *= j / (t - j + 1);
    found += mass * Math.max(0, most - growth * below);
    sum += mass;
    logMass += Math.log(((messages - t) / (t + 1)) * (pair / (1 - pair)));
  }
  return found / sum;
}

/** Whether the noise is that of the messages of a question. @param {Dummies} noise @param {Pick<import("./laws.js").Randomizer, "size" | "hashed">} randomizer */
export function fitsNoise(noise, { size, hashed }) {
  if (noise.kind !== "hashed") return !hashed && noise.bins === size && (noise.kind === "count") === (size === 2);
  return hashed !== undefined && noise.r === hashed.r && noise.s === hashed.s && noise.width === hashed.width;
}

/** Messages that each server adds to a window, on average. @param {Iterable<{ noise: Dummies | null }>} questions */
export function countDummies(questions) {
  const count = (/** @type {Dummies | null} */ noise) => (noise === null ? 0 : noise.kind === "hashed" ? noise.messages : noise.bins * noise.most);
  return [...questions].reduce((sum, { noise }) => sum + count(noise), 0);
}

/** Words that a server draws for a window, at most. @param {Dummies | null} noise */
export function countWords(noise) {
  return noise === null ? 0 : noise.kind === "hashed" ? noise.messages : 2 * noise.bins;
}

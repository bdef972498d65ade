// What the servers add to the answers of a question, as the document states it: who adds noise, and how much.

/**
 * @typedef {{ kind: "bins" | "count", bins: number, rate: number, most: number }} Dummies
 */

/**
 * What one server's noise alone is worth for one answer, whatever everybody else does: discrete Laplace numbers of messages,
 * cut at `most`. Bins change by two numbers, a count by one. Computed in floating point: for people to read.
 * @param {Dummies} noise
 */
export function weighNoise({ kind, bins, rate, most }) {
  const moves = kind === "count" ? 1 : 2;
  const step = Math.exp(-rate), tail = Math.exp(-rate * most);
  const edge = (tail * -Math.expm1(-rate)) / (1 + step - 2 * step * tail);
  return { epsilon: moves * rate, delta: moves === 1 ? edge : edge * (2 - edge), messages: bins * most, least: kind === "count" ? bins * most : 0 };
}

/** Whether the noise is that of a question with so many bins. @param {Dummies} noise @param {number} size */
export function fitsNoise(noise, size) {
  return noise.bins === size && (noise.kind === "count") === (size === 2);
}

/** Messages that each server adds to a window, on average. @param {Iterable<{ noise: Dummies | null }>} questions */
export function countDummies(questions) {
  return [...questions].reduce((sum, { noise }) => sum + (noise === null ? 0 : noise.bins * noise.most), 0);
}

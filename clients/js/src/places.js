// Real numbers: first a public fixed-point place in the range, in units of 2^-41 of it, then one of the two points of
// the grid around it, at random, so that the expectation is right.

import { WireError } from "./errors.js";

const PLACE_BITS = 41n;

/** Rounds to the nearest integer, halves to the even one, as IEEE 754 and Python do. @param {number} value */
function roundHalfEven(value) {
  const below = Math.floor(value), part = value - below;
  if (part !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
}

/**
 * The place of a value.
 * @param {import("./laws.js").Grid} grid
 * @param {number} value
 */
export function placeOf(grid, value) {
  if (!(value >= grid.lower && value <= grid.upper)) {
    throw new WireError("answers", `${value} is outside [${grid.lower}, ${grid.upper}]`);
  }
  return roundHalfEven(((value - grid.lower) / (grid.upper - grid.lower)) * 2 ** Number(PLACE_BITS));
}

/**
 * One of the two points around a place, by a uniform word.
 * @param {import("./laws.js").Grid} grid
 * @param {number} place
 * @param {bigint} word
 * @param {number} bits of the word
 */
export function roundPlace(grid, place, word, bits) {
  const near = (grid.steps * 65n) >> 7n;
  const scaled = BigInt(place) * grid.steps + near;
  const code = scaled >> PLACE_BITS;
  const above = scaled & ((1n << PLACE_BITS) - 1n);
  const part = above <= 2n * near ? 0n : above - near;
  const wide = BigInt(bits);
  const drawn = wide > PLACE_BITS ? word >> (wide - PLACE_BITS) : word;
  const share = wide < PLACE_BITS ? part >> (PLACE_BITS - wide) : part;
  return Number(code + (drawn < share ? 1n : 0n));
}

/**
 * The cell of a value: the number of an integer, or of the part of the range. A value on an edge belongs to the lower one.
 * @param {import("./laws.js").Cells} domain
 * @param {number} value
 */
export function cellOf({ lower, upper, cells }, value) {
  if (!(value >= lower && value <= upper) || (cells === null && !Number.isInteger(value))) {
    throw new WireError("answers", `${value} is outside [${lower}, ${upper}]`);
  }
  if (cells === null) return value - lower;
  const edge = (/** @type {number} */ place) => (place === cells ? upper : lower + (upper - lower) * (place / cells));
  let low = 0, high = cells; // value <= edge(high), and edge(low) < value unless it is the lower end
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (edge(middle) < value) low = middle;
    else high = middle;
  }
  return low;
}

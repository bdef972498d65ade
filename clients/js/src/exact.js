// Comparisons that no rounding decides: a floating-point number is a whole number of 2^-1074.

const PLACES = 1074n;
const FIXED = 256n;

/**
 * x 2^1074, for a finite x >= 0.
 * @param {number} x
 * @returns {bigint}
 */
export function scale(x) {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, x);
  const word = bits.getBigUint64(0), exponent = word >> 52n, fraction = word & ((1n << 52n) - 1n);
  return exponent === 0n ? fraction : ((1n << 52n) | fraction) << (exponent - 1n);
}

/**
 * Whether over / under is at most e^x: the series of e^x in fixed point, each term rounded down, is below it by less
 * than one part in 10^70.
 * @param {bigint} over
 * @param {bigint} under
 * @param {number} x
 */
export function isAtMostExp(over, under, x) {
  if (!(x >= 0)) return false;
  const exact = scale(Math.min(x, 200));
  let sum = 0n;
  for (let term = 1n << FIXED, k = 1n; term > 0n; k += 1n) {
    sum += term;
    term = (term * exact) / (k << PLACES);
  }
  return over << FIXED <= under * sum;
}

const DECIMALS = 400;

/**
 * x 10^400 as people read it: 0.1 is one tenth. For a finite x >= 0.
 * @param {number} x
 * @returns {bigint}
 */
export function readTenths(x) {
  const [mantissa, exponent = "0"] = String(x).split("e"), [whole, part = ""] = mantissa.split(".");
  return BigInt(whole + part) * 10n ** BigInt(DECIMALS - part.length + Number(exponent));
}

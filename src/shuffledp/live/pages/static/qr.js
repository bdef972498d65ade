// QR codes (ISO/IEC 18004): bytes, error correction level M, versions 1 to 20, which is room for any link of a survey.
// Drawn here, so that no other site learns of the link.

/** Error correction codewords of a block, and blocks, at level M, by version. */
const CORRECTION = [10, 16, 26, 18, 24, 16, 18, 22, 22, 26, 30, 22, 22, 24, 24, 28, 28, 26, 26, 26];
const BLOCKS = [1, 1, 1, 2, 2, 4, 4, 4, 5, 5, 5, 8, 9, 9, 10, 10, 11, 13, 14, 16];

/** @type {((row: number, column: number) => number)[]} zero where a mask flips */
const MASKS = [
  (r, c) => (r + c) % 2, (r) => r % 2, (_, c) => c % 3, (r, c) => (r + c) % 3,
  (r, c) => (Math.floor(r / 2) + Math.floor(c / 3)) % 2, (r, c) => ((r * c) % 2) + ((r * c) % 3),
  (r, c) => (((r * c) % 2) + ((r * c) % 3)) % 2, (r, c) => (((r + c) % 2) + ((r * c) % 3)) % 2,
];

/** The product in the field of 256 elements. @param {number} a @param {number} b */
function multiply(a, b) {
  let product = 0;
  for (let bit = 7; bit >= 0; bit--) product = ((product << 1) ^ ((product >> 7) * 0x11d)) ^ (((b >> bit) & 1) * a);
  return product;
}

/** The remainder that a block is corrected by. @param {number[]} block @param {number} length */
function correct(block, length) {
  const divisor = [...new Array(length - 1).fill(0), 1];
  for (let i = 0, root = 1; i < length; i++, root = multiply(root, 2)) {
    for (let j = 0; j < length; j++) divisor[j] = multiply(divisor[j], root) ^ (divisor[j + 1] ?? 0);
  }
  const rest = new Array(length).fill(0);
  for (const byte of block) {
    const factor = byte ^ /** @type {number} */ (rest.shift());
    rest.push(0);
    divisor.forEach((each, place) => (rest[place] ^= multiply(each, factor)));
  }
  return rest;
}

/** Codewords of a version, data and correction. @param {number} version */
function countCodewords(version) {
  const aligned = version > 1 ? Math.floor(version / 7) + 2 : 0;
  const modules = (16 * version + 128) * version + 64 - (aligned ? (25 * aligned - 10) * aligned - 55 : 0) - (version > 6 ? 36 : 0);
  return Math.floor(modules / 8);
}

/** All codewords of a text, interleaved; the version is the smallest with room. @param {Uint8Array} bytes @returns {[number, number[]]} */
function encode(bytes) {
  const room = (/** @type {number} */ v) => countCodewords(v) - CORRECTION[v - 1] * BLOCKS[v - 1];
  let version = 1;
  while (version <= 20 && room(version) * 8 < 4 + (version < 10 ? 8 : 16) + 8 * bytes.length) version += 1;
  if (version > 20) throw new RangeError(`${bytes.length} bytes are too many for a code`);
  const bits = [0, 1, 0, 0];
  const push = (/** @type {number} */ value, /** @type {number} */ width) => { for (let bit = width - 1; bit >= 0; bit--) bits.push((value >> bit) & 1); };
  push(bytes.length, version < 10 ? 8 : 16);
  bytes.forEach((each) => push(each, 8));
  push(0, Math.min(4, 8 * room(version) - bits.length));
  push(0, (8 - (bits.length % 8)) % 8);
  for (let pad = 0xec; bits.length < 8 * room(version); pad ^= 0xec ^ 0x11) push(pad, 8);
  const words = Array.from({ length: bits.length / 8 }, (_, place) => parseInt(bits.slice(8 * place, 8 * place + 8).join(""), 2));
  const count = BLOCKS[version - 1], length = CORRECTION[version - 1], short = Math.floor(countCodewords(version) / count) - length;
  const longer = count - (countCodewords(version) % count);
  let start = 0;
  const blocks = Array.from({ length: count }, (_, place) => words.slice(start, (start += short + Number(place >= longer))));
  const ends = blocks.map((block) => correct(block, length));
  const weave = (/** @type {number[][]} */ lists, /** @type {number} */ most) =>
    Array.from({ length: most }, (_, place) => lists.map((list) => list[place])).flat().filter((each) => each !== undefined);
  return [version, [...weave(blocks, short + 1), ...weave(ends, length)]];
}

/** A number with the remainder of a shortened cyclic code. @param {number} value @param {number} width @param {number} divisor */
function protect(value, width, divisor) {
  let rest = value;
  for (let i = 0; i < width; i++) rest = (rest << 1) ^ ((rest >> (width - 1)) * divisor);
  return (value << width) | rest;
}

/**
 * The modules of a code: rows of booleans, dark ones true.
 * @param {string} text
 * @param {number=} wanted a mask; the best one if it is not given
 */
export function makeCode(text, wanted) {
  const [version, words] = encode(new TextEncoder().encode(text)), size = 4 * version + 17;
  /** @type {(boolean | null)[][]} */
  const base = Array.from({ length: size }, () => new Array(size).fill(null));
  const square = (/** @type {number} */ row, /** @type {number} */ column, /** @type {number} */ reach, /** @type {number[]} */ light) => {
    for (let r = -reach; r <= reach; r++) {
      for (let c = -reach; c <= reach; c++) {
        if (base[row + r]?.[column + c] !== undefined) base[row + r][column + c] = !light.includes(Math.max(Math.abs(r), Math.abs(c)));
      }
    }
  };
  for (let i = 0; i < size; i++) base[6][i] = base[i][6] = i % 2 === 0;
  for (const [row, column] of [[3, 3], [3, size - 4], [size - 4, 3]]) square(row, column, 4, [2, 4]);
  const many = version > 1 ? Math.floor(version / 7) + 2 : 0, step = many && Math.ceil((4 * version + 4) / (2 * many - 2)) * 2;
  const places = many ? [6, ...Array.from({ length: many - 1 }, (_, i) => size - 7 - i * step).reverse()] : [];
  const last = places.length - 1;
  places.forEach((row, i) => places.forEach((column, j) => {
    if (!((i === 0 && (j === 0 || j === last)) || (i === last && j === 0))) square(row, column, 2, [1]);
  }));
  if (version > 6) {
    const bits = protect(version, 12, 0x1f25);
    for (let i = 0; i < 18; i++) {
      const near = Math.floor(i / 3), far = size - 11 + (i % 3);
      base[near][far] = base[far][near] = Boolean((bits >> i) & 1);
    }
  }
  writeFormat(base, size, 0);
  const drawn = (wanted === undefined ? [...MASKS.keys()] : [wanted]).map((mask) => fillIn(base, size, words, mask));
  return drawn.reduce((best, each) => (judge(each) < judge(best) ? each : best));
}

/** @param {(boolean | null)[][]} rows @param {number} size @param {number} mask */
function writeFormat(rows, size, mask) {
  const bits = protect(mask, 10, 0x537) ^ 0x5412, at = (/** @type {number} */ i) => Boolean((bits >> i) & 1);
  for (let i = 0; i < 15; i++) {
    if (i < 8) rows[i < 6 ? i : i + 1][8] = at(i);
    else rows[8][i === 8 ? 7 : 14 - i] = at(i);
    if (i < 8) rows[8][size - 1 - i] = at(i);
    else rows[size - 15 + i][8] = at(i);
  }
  rows[size - 8][8] = true;
}

/** Codewords in their zigzag, under a mask. @param {(boolean | null)[][]} base @param {number} size @param {number[]} words @param {number} mask */
function fillIn(base, size, words, mask) {
  const rows = base.map((row) => [...row]);
  let place = 0, up = true;
  for (let right = size - 1; right > 0; right -= 2, up = !up) {
    if (right === 6) right = 5;
    for (let i = 0; i < size; i++) {
      const row = up ? size - 1 - i : i;
      for (const column of [right, right - 1]) {
        if (base[row][column] !== null) continue;
        const bit = place < 8 * words.length ? (words[place >> 3] >> (7 - (place & 7))) & 1 : 0;
        rows[row][column] = Boolean(bit) !== (MASKS[mask](row, column) === 0);
        place += 1;
      }
    }
  }
  writeFormat(rows, size, mask);
  return /** @type {boolean[][]} */ (rows);
}

/** How hard a code is to read: long runs, squares, and too much of one colour. @param {boolean[][]} rows */
function judge(rows) {
  const size = rows.length, columns = rows.map((_, place) => rows.map((row) => row[place]));
  let penalty = 0, dark = 0;
  for (const line of [...rows, ...columns]) {
    let run = 0;
    line.forEach((each, place) => {
      run = place && each === line[place - 1] ? run + 1 : 1;
      penalty += run === 5 ? 3 : Number(run > 5);
    });
  }
  for (let r = 0; r < size; r++) {
    for (let c = 0; c < size; c++) {
      dark += Number(rows[r][c]);
      const same = r && c && [rows[r - 1][c], rows[r][c - 1], rows[r - 1][c - 1]].every((each) => each === rows[r][c]);
      penalty += same ? 3 : 0;
    }
  }
  return penalty + 10 * Math.floor(Math.abs((20 * dark) / size ** 2 - 10));
}

/** The code of a text as a picture. @param {string} text @param {string} title */
export function drawCode(text, title) {
  const rows = makeCode(text), size = rows.length + 8, space = "http://www.w3.org/2000/svg";
  const path = rows.flatMap((row, r) => row.flatMap((dark, c) => (dark ? [`M${c + 4} ${r + 4}h1v1h-1z`] : []))).join("");
  const chart = document.createElementNS(space, "svg"), back = document.createElementNS(space, "rect"), ink = document.createElementNS(space, "path");
  for (const [element, attributes] of /** @type {[Element, Record<string, string>][]} */ ([
    [chart, { viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": title, class: "qr", "shape-rendering": "crispEdges" }],
    [back, { width: String(size), height: String(size), fill: "#ffffff" }], [ink, { d: path, fill: "#000000" }],
  ])) for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  chart.append(back, ink);
  return chart;
}

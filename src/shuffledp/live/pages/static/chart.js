// Charts as inline SVG, with the numbers as text: bars with intervals, a mean on its range, a series over rounds.

import { count } from "./strings.js";

const SVG = "http://www.w3.org/2000/svg";

/** @param {string} name @param {Record<string, string | number>} attributes @param {string=} text */
function draw(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  if (text !== undefined) element.textContent = text;
  return element;
}

/** @param {number} value */
export function show(value) {
  return Math.abs(value) >= 1000 ? count(Math.round(value)) : count(value, { maximumSignificantDigits: 4 });
}

/** How wide a chart is drawn in a row of `columns` charts: text keeps its size on a phone. */
export function fitWidth(columns = 1) {
  return Math.min(640, Math.max(300, Math.min(innerWidth, 1056) / columns - 70));
}

/** @typedef {{ label: string, value: number, low: number, high: number }} Row */

/**
 * A bar for each row with its interval; negative values go to the left. Labels stand above their bars on a phone.
 * @param {Row[]} rows
 * @param {string} title for screen readers
 * @param {number} width
 * @param {number | null} people of whom a value is a share, if it is one
 */
export function drawBars(rows, title, width = fitWidth(), people = null) {
  const narrow = width < 480, height = narrow ? 54 : 34;
  const left = narrow ? 2 : Math.round(0.3 * width), right = narrow ? 2 : people ? 110 : 70, most = narrow ? Math.floor(width / 11) : Math.floor(left / 8);
  // A lone share is drawn on a scale of all people: otherwise it would fill the chart whatever it is.
  const low = Math.min(0, ...rows.map((row) => Math.min(row.low, row.value)));
  const high = Math.max(...rows.map((row) => Math.max(row.high, row.value)), people && rows.length === 1 ? people : 1e-12);
  const place = (/** @type {number} */ value) => left + ((value - low) / (high - low)) * (width - left - right);
  const chart = draw("svg", { viewBox: `0 0 ${width} ${rows.length * height + 6}`, role: "img", "aria-label": title });
  rows.forEach((row, index) => {
    const middle = index * height + height / 2 + (narrow ? 9 : 0), [start, end] = [place(Math.min(0, row.value)), place(Math.max(0, row.value))];
    const label = row.label.length > most ? `${row.label.slice(0, most - 1)}…` : row.label;
    const value = people ? `${count(Math.round(row.value) + 0)} (${count(Math.round((100 * row.value) / people) + 0)} %)` : show(row.value);
    chart.append(
      draw("text", narrow ? { x: place(0) + 6, y: middle - 16 } : { x: left - 10, y: middle + 5, "text-anchor": "end" }, label),
      draw("rect", { x: start, y: middle - 9, width: Math.max(end - start, 1), height: 18, class: "bar", rx: 2 }),
      draw("line", { x1: place(row.low), x2: place(row.high), y1: middle, y2: middle, class: "whisker" }),
      draw("line", { x1: place(row.low), x2: place(row.low), y1: middle - 5, y2: middle + 5, class: "whisker" }),
      draw("line", { x1: place(row.high), x2: place(row.high), y1: middle - 5, y2: middle + 5, class: "whisker" }),
      draw("text", { x: width, y: narrow ? middle - 16 : middle + 5, "text-anchor": "end" }, value),
    );
  });
  chart.append(draw("line", { x1: place(0), x2: place(0), y1: 0, y2: rows.length * height, class: "axis" }));
  return chart;
}

/**
 * A number with its interval on the range that was asked about.
 * @param {Row} row
 * @param {number} lower
 * @param {number} upper
 * @param {string} title
 * @param {string} unit of the number, after a space
 */
export function drawRange(row, lower, upper, title, width = fitWidth(), unit = "") {
  const margin = 40;
  const [low, high] = [Math.min(lower, row.low), Math.max(upper, row.high)];
  const place = (/** @type {number} */ value) => margin + ((value - low) / (high - low)) * (width - 2 * margin);
  const chart = draw("svg", { viewBox: `0 0 ${width} 84`, role: "img", "aria-label": title });
  chart.append(
    draw("line", { x1: place(lower), x2: place(upper), y1: 46, y2: 46, class: "axis" }),
    draw("line", { x1: place(row.low), x2: place(row.high), y1: 46, y2: 46, class: "whisker" }),
    draw("circle", { cx: place(row.value), cy: 46, r: 7, class: "dot" }),
    draw("text", { x: place(row.value), y: 26, "text-anchor": "middle" }, show(row.value) + unit),
    draw("text", { x: place(lower), y: 76, "text-anchor": "middle" }, show(lower)),
    draw("text", { x: place(upper), y: 76, "text-anchor": "middle" }, show(upper)),
  );
  return chart;
}

/**
 * One row of several rounds: a band for the intervals, dots for the values.
 * @param {Row[]} rows one per round
 * @param {string} title
 */
export function drawSeries(rows, title, width = fitWidth()) {
  const height = 180, left = 70, bottom = 26;
  const low = Math.min(0, ...rows.map((row) => row.low)), high = Math.max(...rows.map((row) => row.high));
  const x = (/** @type {number} */ round) => left + (rows.length > 1 ? round / (rows.length - 1) : 0.5) * (width - left - 20);
  const y = (/** @type {number} */ value) => 10 + (1 - (value - low) / (high - low || 1)) * (height - bottom - 10);
  const band = [...rows.map((row, i) => `${x(i)},${y(row.high)}`), ...rows.map((row, i) => `${x(i)},${y(row.low)}`).reverse()];
  const chart = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  chart.append(draw("polygon", { points: band.join(" "), class: "band" }));
  rows.forEach((row, i) => {
    chart.append(
      draw("line", { x1: x(i), x2: x(i), y1: y(row.low), y2: y(row.high), class: "whisker" }),
      draw("circle", { cx: x(i), cy: y(row.value), r: 4, class: "dot" }),
      draw("text", { x: x(i), y: height - 6, "text-anchor": "middle" }, String(i + 1)),
    );
  });
  chart.append(
    draw("text", { x: left - 10, y: y(high) + 5, "text-anchor": "end" }, show(high)),
    draw("text", { x: left - 10, y: y(low) + 5, "text-anchor": "end" }, show(low)),
  );
  return chart;
}

/** Save a chart as a picture of twice its size, on white. @param {SVGElement} chart @param {string} name */
export async function savePicture(chart, name) {
  const [, , width, height] = (chart.getAttribute("viewBox") ?? "").split(" ").map(Number);
  const copy = /** @type {SVGElement} */ (chart.cloneNode(true));
  copy.setAttribute("xmlns", SVG);
  for (const [key, value] of Object.entries({ width: 2 * width, height: 2 * height })) copy.setAttribute(key, String(value));
  const colours = { bar: "#0072b2", dot: "#0072b2", band: "#7fb3d5" };
  for (const each of copy.querySelectorAll("*")) {
    const kind = /** @type {keyof typeof colours} */ (each.getAttribute("class") ?? "");
    if (each.localName === "line") each.setAttribute("stroke", "#16202a");
    else each.setAttribute("fill", colours[kind] ?? "#16202a");
  }
  copy.setAttribute("font-family", "sans-serif");
  copy.setAttribute("font-size", "13");
  const picture = new Image(), canvas = document.createElement("canvas");
  picture.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await picture.decode();
  Object.assign(canvas, { width: 2 * width, height: 2 * height });
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.fillStyle = "#ffffff";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(picture, 0, 0);
  const link = document.createElement("a");
  Object.assign(link, { href: canvas.toDataURL("image/png"), download: name });
  link.click();
}

// Elements with text content only: nothing that a document says is ever read as HTML.

/**
 * @param {string} name
 * @param {Record<string, any>=} attributes
 * @param {...(Node | string)} children
 * @returns {any}
 */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children);
  return element;
}

/** A heading that says nothing is no heading. @param {string} tag @param {string | Node} cell @param {Record<string, string>} kind */
function makeCell(tag, cell, kind) {
  return tag === "th" && cell !== "" ? make("th", { scope: "col", ...kind }, cell) : make("td", kind, cell);
}

/** @param {string[]} head @param {(string | Node)[][]} rows @param {number[]} numbers columns that are numbers @param {string} label what it is about */
export function makeTable(head, rows, numbers = [], label = head.filter(Boolean).join(", ")) {
  const kind = (/** @type {number} */ place) => (numbers.includes(place) ? { class: "number" } : {});
  const cells = (/** @type {string} */ tag, /** @type {(string | Node)[]} */ row) =>
    make("tr", {}, ...row.map((cell, place) => makeCell(tag, cell, kind(place))));
  const top = head.some(Boolean) ? [make("thead", {}, cells("th", head))] : [];
  const table = make("table", {}, ...top, make("tbody", {}, ...rows.map((row) => cells("td", row))));
  return make("div", { class: "table", tabindex: 0, role: "region", "aria-label": label }, table);
}

/** @param {string} id */
export function find(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`there is no #${id}`);
  return element;
}

/** @param {HTMLElement} status @param {string} sentence @param {string} kind */
export function tell(status, sentence, kind = "") {
  status.textContent = sentence;
  status.className = kind;
}

/** A button that copies a text, and says so. @param {() => string} text @param {string} label @param {string} done */
export function makeCopy(text, label, done) {
  const status = make("span", { role: "status", class: "good" });
  return make("p", { class: "copy" }, make("button", { type: "button", class: "quiet", onclick: async () => {
    await navigator.clipboard.writeText(text());
    status.textContent = done;
  } }, label), " ", status);
}

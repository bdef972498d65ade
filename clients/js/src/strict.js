// JSON that has one meaning: no key twice, no number but whole ones below 2^53, no control or invisible characters,
// no nesting without end. Decimals are strings. Python refuses the same.

import { WireError } from "./errors.js";

const DEEPEST = 8;
/** Of a document. */
export const MOST_BYTES = 1 << 20;
/** Controls and other invisible or private characters: a list, because each version of Unicode knows other ones. */
const RANGES =
  "0-1f 7f-9f ad 600-605 61c 6dd 70f 890-891 8e2 180e 200b-200f 2028-202e 2060-206f d800-f8ff fdd0-fdef feff " +
  "fff9-fffb fffe-ffff 110bd 110cd 13430-1345f 1bca0-1bca3 1d173-1d17a 1fffe-1ffff 2fffe-2ffff 3fffe-3ffff " +
  "4fffe-4ffff 5fffe-5ffff 6fffe-6ffff 7fffe-7ffff 8fffe-8ffff 9fffe-9ffff afffe-affff bfffe-bffff cfffe-cffff " +
  "dfffe-e0fff efffe-10ffff";
const UNWANTED = new RegExp(`[${RANGES.split(" ").map((part) => part.split("-").map((end) => `\\u{${end}}`).join("-")).join("")}]`, "u");
const ESCAPES = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

/** @param {string} sentence */
function bad(sentence) {
  return new WireError("document", sentence);
}

class Reader {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.place = 0;
  }

  skip() {
    while (" \t\n\r".includes(this.text[this.place] ?? "x")) this.place++;
  }

  /** @param {string} wanted */
  take(wanted) {
    if (!this.text.startsWith(wanted, this.place)) throw bad("it is not JSON");
    this.place += wanted.length;
  }

  /** @param {number} depth @returns {any} */
  value(depth) {
    if (depth > DEEPEST) throw bad("it is nested too deeply");
    this.skip();
    const first = this.text[this.place];
    let found;
    if (first === "{") found = this.object(depth);
    else if (first === "[") found = this.list(depth);
    else if (first === '"') found = this.string();
    else if (first === "t") (this.take("true"), (found = true));
    else if (first === "f") (this.take("false"), (found = false));
    else if (first === "n") (this.take("null"), (found = null));
    else found = this.number();
    this.skip();
    return found;
  }

  /** @param {number} depth */
  object(depth) {
    /** @type {Record<string, any>} */
    const found = Object.create(null);
    this.take("{");
    this.skip();
    if (this.text[this.place] === "}") return (this.place++, found);
    for (;;) {
      this.skip();
      const key = this.string();
      if (key in found) throw bad(`the key '${key}' is there twice`);
      this.skip();
      this.take(":");
      found[key] = this.value(depth + 1);
      if (this.text[this.place] === "}") return (this.place++, found);
      this.take(",");
    }
  }

  /** @param {number} depth */
  list(depth) {
    /** @type {any[]} */
    const found = [];
    this.take("[");
    this.skip();
    if (this.text[this.place] === "]") return (this.place++, found);
    for (;;) {
      found.push(this.value(depth + 1));
      if (this.text[this.place] === "]") return (this.place++, found);
      this.take(",");
    }
  }

  string() {
    this.take('"');
    let found = "";
    for (;;) {
      const each = this.text[this.place++];
      if (each === undefined || each < " ") throw bad("it is not JSON");
      if (each === '"') break;
      found += each === "\\" ? this.escape() : each;
    }
    if (!found.isWellFormed?.() && /[\ud800-\udfff]/.test(found.replace(/[\ud800-\udbff][\udc00-\udfff]/g, ""))) {
      throw bad("a text has half a character");
    }
    if (UNWANTED.test(found)) throw bad("a text has a control or invisible character");
    return found;
  }

  escape() {
    const each = this.text[this.place++];
    if (each === "u") {
      const digits = this.text.slice(this.place, this.place + 4);
      if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw bad("it is not JSON");
      this.place += 4;
      return String.fromCharCode(parseInt(digits, 16));
    }
    if (!Object.hasOwn(ESCAPES, each ?? "")) throw bad("it is not JSON");
    return ESCAPES[/** @type {keyof ESCAPES} */ (each)];
  }

  number() {
    const match = /^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/.exec(this.text.slice(this.place, this.place + 400));
    if (!match) throw bad("it is not JSON");
    if (match[2] || match[3]) throw bad(`the number ${match[0].slice(0, 40)} is not a whole one`);
    if (!Number.isSafeInteger(Number(match[0]))) throw bad(`the number ${match[0].slice(0, 40)} is not below 2^53`);
    this.place += match[0].length;
    return Number(match[0]) + 0;
  }
}

/**
 * The object that the bytes say, strictly.
 * @param {Uint8Array} raw
 * @returns {Record<string, any>}
 */
export function readJson(raw) {
  if (raw.length > MOST_BYTES) throw bad(`it has more than ${MOST_BYTES} bytes`);
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(raw);
  } catch {
    throw bad("it is not UTF-8");
  }
  const reader = new Reader(text);
  const found = reader.value(0);
  if (reader.place !== text.length) throw bad("it is not JSON");
  if (found === null || typeof found !== "object" || Array.isArray(found)) throw bad("it is not an object");
  return found;
}

/** The fields of an object, each taken once by its type; `done` refuses what is left. */
export class Fields {
  /** @param {string} where @param {any} content */
  constructor(where, content) {
    if (content === null || typeof content !== "object" || Array.isArray(content)) throw bad(`${where} must be an object`);
    this.where = where;
    this.left = new Map(Object.entries(content));
  }

  /** @param {string} name */
  has(name) {
    return this.left.has(name);
  }

  /** @param {string} name */
  take(name) {
    if (!this.left.has(name)) throw bad(`${this.where} lacks '${name}'`);
    const value = this.left.get(name);
    this.left.delete(name);
    return value;
  }

  /** @param {string} name @param {number} low @param {number} high @returns {number} */
  whole(name, low, high) {
    const value = this.take(name);
    if (typeof value !== "number" || value < low || value > high) {
      throw bad(`${this.where}.${name} must be a whole number from ${low} to ${high}`);
    }
    return value;
  }

  /** @param {string} name @param {number} longest @returns {string} */
  text(name, longest = 500) {
    const value = this.take(name);
    if (typeof value !== "string" || !value.trim() || [...value].length > longest) {
      throw bad(`${this.where}.${name} must be a text of 1 to ${longest} characters`);
    }
    return value;
  }

  /** A text, or null. @param {string} name @param {number} longest @returns {string | null} */
  optionalText(name, longest = 500) {
    return this.left.get(name) === null ? this.take(name) : this.text(name, longest);
  }

  /** Letters, digits, _ and -, beginning with a letter. @param {string} name */
  name(name) {
    const value = this.text(name, 60);
    if (!/^[A-Za-z][A-Za-z0-9_-]*$/.test(value)) throw bad(`the name '${value}' must be letters, digits, _ and -`);
    return value;
  }

  /** @param {string} name @returns {boolean} */
  flag(name) {
    const value = this.take(name);
    if (typeof value !== "boolean") throw bad(`${this.where}.${name} must be true or false`);
    return value;
  }

  /** @param {string} name @returns {number} */
  decimal(name) {
    const text = this.take(name);
    if (typeof text !== "string" || !/^-?(0|[1-9]\d{0,15})(\.\d{1,20})?(e-?\d{1,3})?$/.test(text)) {
      throw bad(`${this.where}.${name} must be a decimal in a string, such as "0.25"`);
    }
    return Number(text);
  }

  /** @param {string} name @returns {string} */
  key(name) {
    const text = this.take(name);
    if (typeof text !== "string" || !/^[0-9a-f]{64}$/.test(text)) {
      throw bad(`${this.where}.${name} must be 64 hexadecimal digits`);
    }
    return text;
  }

  /** @param {string} name @param {number} most @returns {any[]} */
  items(name, most) {
    const value = this.take(name);
    if (!Array.isArray(value) || value.length < 1 || value.length > most) {
      throw bad(`${this.where}.${name} must be a list of 1 to ${most} entries`);
    }
    return value;
  }

  done() {
    const [name] = this.left.keys();
    if (name !== undefined) throw bad(`${this.where} has the unknown field '${name}'`);
  }
}

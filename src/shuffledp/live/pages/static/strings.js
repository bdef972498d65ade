// What the pages say: a catalogue for each language (texts/NAME.json), of texts with {placeholders}. The page loads
// the parts that it needs; the server makes a module of each.

/** @type {any} */
let table = {};
let language = "en";

/** The language that the page speaks. */
export const current = () => language;

/** Speak a language with these parts of its catalogue. @param {string} tag @param {any} parts */
export function use(tag, parts) {
  table = { ...table, ...parts };
  language = tag;
  const root = globalThis.document?.documentElement;
  if (root) Object.assign(root, { lang: tag, dir: table.about?.direction ?? "ltr" });
}

/** The first of the wanted languages that there is a catalogue for, or English. @param {readonly string[]} wanted */
export function chooseLanguage(wanted) {
  const there = (/** @type {HTMLMetaElement | null} */ (document.querySelector("meta[name=languages]"))?.content ?? "en").split(" ");
  for (const tag of wanted) {
    const known = [tag.toLowerCase(), tag.toLowerCase().split("-")[0]].find((each) => there.includes(each));
    if (known) return known;
  }
  return "en";
}

/** Load parts of the catalogue of a language. @param {string} tag @param {...string} parts */
export async function load(tag, ...parts) {
  const loaded = await Promise.all(parts.map((part) => import(`./${tag}.${part}.js`)));
  use(tag, Object.assign({}, ...loaded.map((each) => each.default)));
}

/** What a key like "answer.states.sent" stands for: a text, a list, or texts by number. @param {string} key @returns {any} */
export function look(key) {
  const text = key.split(".").reduce((/** @type {any} */ part, name) => (part && Object.hasOwn(part, name) ? part[name] : undefined), table);
  if (text === undefined) throw new Error(`there is no text ${key}`);
  return text;
}

/** A number as the language writes it. @param {number} value @param {Intl.NumberFormatOptions=} how */
export const count = (value, how) => value.toLocaleString(language, how);

/** A time as people say it, without seconds. @param {number} moment seconds since 1970 */
export const tellTime = (moment) => new Date(1000 * moment).toLocaleString(language, { dateStyle: "medium", timeStyle: "short" });

/** Fill in a text; numbers are written as the language writes them, and `n` chooses singular or plural. @param {any} text @param {Record<string, any>} values */
export function fill(text, values = {}) {
  const form = typeof text === "string" ? text : text[new Intl.PluralRules(language).select(values.n)] ?? text.other;
  return form.replace(/\{(\w+)\}/g, (/** @type {string} */ _, /** @type {string} */ name) =>
    typeof values[name] === "number" ? count(values[name]) : String(values[name]));
}

/** The text of a key, filled in. @param {string} key @param {Record<string, any>=} values */
export const say = (key, values) => fill(look(key), values);

/** A percentage that is not below the share, with as many digits as tell it from 100. @param {number} value */
export const percentAbove = (value) => {
  for (let digits = 1; digits < 5; digits++) {
    const percent = Math.ceil(value * 10 ** (digits + 2)) / 10 ** digits;
    if (percent < 100) return count(percent, { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }
  return "100";
};

/** An end of an interval as a multiple of `unit`, rounded outwards: what is inside stays inside. @param {number} value @param {boolean} up @param {number} unit */
export function roundOut(value, up, unit) {
  const scaled = value / unit, near = Math.round(scaled);
  const exact = Math.abs(scaled - near) <= 1e-12 * Math.abs(scaled); // but for the rounding of floats
  return (exact ? near : up ? Math.ceil(scaled) : Math.floor(scaled)) * unit;
}

/** The same in so many digits. @param {number} value @param {boolean} up @param {number} digits */
export const cutOut = (value, up, digits) => (value ? roundOut(value, up, 10 ** (Math.floor(Math.log10(Math.abs(value))) + 1 - digits)) : 0);

/** Rounded up to six digits. @param {number} value */
export const roundUp = (value) => {
  const near = Number(value.toPrecision(6));
  return String(near >= value ? near : Number((near + 10 ** (Math.floor(Math.log10(value)) - 5)).toPrecision(6)));
};

/** How often a guess between yes and no, equally likely before an (epsilon, delta) release, is right at most. @param {number} epsilon @param {number} delta */
export function guessAfter(epsilon, delta) {
  return Math.min(1, ((1 + 1e-15) * (1 + delta * Math.exp(-epsilon))) / (1 + Math.exp(-epsilon)));
}

/** The place of the first tier that a guess is not above. @param {number} guess @param {number[]} tiers */
export function tier(guess, tiers) {
  const place = tiers.findIndex((most) => guess <= most);
  return place < 0 ? tiers.length - 1 : place;
}

/**
 * The number that a person wrote: with a point or a comma, as people do.
 * @param {string} text
 * @returns {number | { one: string, other: string } | null} two readings if it may be either, null if it is none
 */
export function readNumber(text) {
  const shown = text.trim().replace(/[\u2212\u2013]/, "-").replace(/^\+/, ""), form = /^-?(\d+)?(?:([.,])(\d+))?(e-?\d{1,3})?$/i.exec(shown);
  if (!form || !(form[1] || form[3])) return null;
  const own = count(1.5).includes(",") ? "," : ".";
  // 1,500 is 1.5 in some countries and 1500 in others; what the language of the page does is taken for granted.
  if (form[2] && form[2] !== own && form[3].length === 3 && form[1] && form[1].length <= 3 && form[1] !== "0") {
    return { one: shown.replace(/[.,]/, ""), other: shown.replace(/[.,]/, own) };
  }
  return Number(shown.replace(",", "."));
}

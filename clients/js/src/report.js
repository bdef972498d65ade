// What a device sends:
//
//   hdr    = suite u8 || shuffler_key_id u8
//   inner  = HPKE(analyzer, "shuffledp/1 inner\0" || suite || collection_id || window u32,  kind u8 || message || 0*)
//   outer  = HPKE(shuffler, "shuffledp/1 outer\0" || hdr || collection_id,                  window u32 || token || inners)
//   upload = collection_id[32] || (hdr || outer)*

import { findPlace } from "./document.js";
import { WireError } from "./errors.js";
import { SUITE, seal } from "./hpke.js";
import { encodeMessage } from "./messages.js";
import { bigEndian, concat, sha256, utf8 } from "./octets.js";
import { roundPlace } from "./places.js";

export const MEDIA_TYPE = "application/vnd.shuffledp.reports";

/**
 * @typedef {import("./document.js").Collection} Collection
 * @typedef {(question: import("./document.js").Question, message: import("./laws.js").Message) => void} Told
 */

/**
 * The randomized message of one person's answer to a question.
 * @param {import("./document.js").Question} question
 * @param {number | bigint} place of the answer
 * @param {import("./words.js").WordSource} source
 */
export function randomize(question, place, source) {
  const { randomizer, range } = question;
  const grid = range ?? randomizer.grid, own = randomizer.wordsPerInput;
  const words = source.words(own + (grid ? 1 : 0), randomizer.wordBits);
  if (!grid) return randomizer.encode(place, words);
  // By group: the group at one of the two ends of the range. Otherwise there is no group, and the grid's own point.
  const number = Number(place), group = range ? Math.floor(number / (2 ** 41 + 1)) : 0;
  const point = roundPlace(grid, number - group * (2 ** 41 + 1), words[own], randomizer.wordBits);
  return randomizer.encode(2 * group + point, words.slice(0, own));
}

/**
 * The randomized answers of one person: a plaintext for each message, all of one size.
 * @param {Collection} collection
 * @param {Record<string, unknown>} answers
 * @param {import("./words.js").WordSource} source
 * @param {Told} told is shown every message that was drawn
 */
export function encodeAnswers(collection, answers, source, told = () => {}) {
  const names = new Set(collection.questions.map((each) => each.name));
  for (const name of Object.keys(answers)) {
    if (!names.has(name)) throw new WireError("answers", `there is no question '${name}'`);
  }
  // Who leaves out a question that may be skipped has chosen its last category.
  const skipped = collection.questions.filter((each) => each.asked.skip).map((each) => [each.name, each.labels?.at(-1)]);
  answers = { ...Object.fromEntries(skipped), ...answers };
  for (const name of names) {
    if (!Object.hasOwn(answers, name)) throw new WireError("answers", `there is no answer to ${name}`);
  }
  const places = collection.questions.map((question) => findPlace(question, answers[question.name]));
  const kinds = [...collection.questions.keys()];
  return (collection.promise.oneQuestion ? [choose(kinds.length, source)] : kinds).map((kind) => {
    const question = collection.questions[kind];
    const plain = new Uint8Array(1 + collection.messageSize);
    plain[0] = kind;
    const message = randomize(question, places[kind], source);
    plain.set(encodeMessage(question.randomizer.code, message), 1);
    told(question, message);
    return plain;
  });
}

/** Which of `size` questions a report answers, whatever the answers are. @param {number} size @param {import("./words.js").WordSource} source */
function choose(size, source) {
  const [word] = source.words(1, 64);
  return Number((word * BigInt(size)) >> 64n);
}

/** @param {Collection} collection @param {number} window */
export function innerInfo(collection, window) {
  return concat(utf8("shuffledp/1 inner\0"), Uint8Array.of(SUITE), collection.id, bigEndian(window, 4));
}

/** @param {Collection} collection @param {Uint8Array} header */
export function outerInfo(collection, header) {
  return concat(utf8("shuffledp/1 outer\0"), header, collection.id);
}

/** One message, for the analyzer. @param {Collection} collection @param {number} window @param {Uint8Array} plain */
export function sealInner(collection, window, plain) {
  return seal(plain, collection.analyzerKey, innerInfo(collection, window));
}

/**
 * A report for the shuffler. Sealing it again gives other bytes, and the same report.
 * @param {Collection} collection
 * @param {number} window
 * @param {Uint8Array} inners
 * @param {Uint8Array} token
 */
export async function sealReport(collection, window, inners, token = new Uint8Array(0)) {
  if (token.length !== (collection.tokens ? 32 : 0)) {
    throw new WireError("token", `this collection ${collection.tokens ? "needs a" : "takes no"} token`);
  }
  const key = collection.keyFor(window);
  const header = Uint8Array.of(SUITE, key.id);
  const plain = concat(bigEndian(window, 4), token, inners);
  return concat(header, await seal(plain, key.public, outerInfo(collection, header)));
}

/** What makes two copies of a report one report. @param {Collection} collection @param {number} window @param {Uint8Array} inners */
export async function reportId(collection, window, inners) {
  const content = concat(utf8("shuffledp/1 report\0"), collection.id, bigEndian(window, 4), inners);
  return (await sha256(content)).slice(0, 16);
}

/** The body of an upload. @param {Collection} collection @param {Uint8Array[]} reports */
export function joinUpload(collection, reports) {
  return concat(collection.id, ...reports);
}

/**
 * For each report of an upload null, or the reason why it was refused.
 * @param {string} text
 * @param {number} reports
 * @returns {(string | null)[]}
 */
export function readReply(text, reports) {
  const refused = new WireError("reply", "the shuffler's reply cannot be understood");
  /** @type {(string | null)[]} */
  const outcomes = new Array(reports).fill(null);
  try {
    const { accepted, failed } = JSON.parse(text);
    for (const { index, reason } of failed) {
      if (!Number.isInteger(index) || index < 0 || index >= reports || typeof reason !== "string") throw refused;
      outcomes[index] = reason.slice(0, 60);
    }
    if (accepted !== outcomes.filter((each) => each === null).length) throw refused;
  } catch {
    throw refused;
  }
  return outcomes;
}

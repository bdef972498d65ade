// The collection document, as a device reads it. Its id is the SHA-256 of its exact bytes. A client checks the hash, the
// laws and their floor, sizes, keys and URL. Where the servers add the noise it recomputes epsilon (promise.js); where the
// devices do it cannot, and epsilon is *claimed*.

import { checkParts, readAsking, readTexts, suggestAsking } from "./asking.js";
import { WireError } from "./errors.js";
import { scale } from "./exact.js";
import { OVERHEAD, SUITE } from "./hpke.js";
import { buildRandomizer, loadLaws } from "./laws.js";
import { messageSize } from "./messages.js";
import { countDummies, fitsNoise } from "./noise.js";
import { fromHex, sha256, toHex } from "./octets.js";
import { cellOf, placeOf } from "./places.js";
import { Fields, readJson } from "./strict.js";

const FORMATS = ["shuffledp collection 1", "shuffledp collection 2"];
/** Beyond it the floor of a report is meaningless, and the document must say whom people trust. */
const LARGEST_FLOOR = 8;
/** Messages that each server adds to a window at most, on average. */
const MOST_DUMMIES = 200_000;
const SAMPLED = ["count", "histogram", "mean", "sum"];
const BY_GROUP = ["mean_by_group", "sum_by_group"];
/** What the law of each task is about. @type {Record<string, string>} */
const KINDS = {
  count: "codes", histogram: "codes", mean_by_group: "codes", sum_by_group: "codes", mean: "grid", sum: "grid",
  quantiles: "cells", cdf: "cells", range: "cells", variance: "cells", std: "cells", words: "words",
};
/** A number as Python reads it, too. */
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const YES = ["no", "yes", "false", "true", "0", "1"];

/** @param {string} sentence */
function bad(sentence) {
  return new WireError("document", sentence);
}

/**
 * @typedef {object} Question
 * @property {string} name
 * @property {string} text
 * @property {string} task
 * @property {string[] | null} labels what a participant chooses among; null for numbers
 * @property {string} protocol
 * @property {import("./laws.js").Randomizer} randomizer
 * @property {import("./laws.js").Grid | null} range the two ends of a number by group; the groups are the labels
 * @property {import("./asking.js").Asking} asked
 * @property {import("./noise.js").Dummies | null} noise what each server adds to the messages of a window
 * @property {number} parts of how many questions a report answers one, where servers add noise
 *
 * @typedef {{ id: number, first: number, last: number, public: Uint8Array }} ShufflerKey
 *
 * @typedef {object} Promised
 * @property {number} epsilon claimed, unless `Collection.checked`
 * @property {number} delta the same
 * @property {number} honest
 * @property {number} minBatch
 * @property {number} localEpsilon checked against the laws; Infinity: there is no floor
 * @property {boolean} trustTheShuffler whether people are told that shuffler and analyzer together could read answers
 * @property {"devices" | "servers"} noise who adds it
 * @property {number} reportsPerDevice
 * @property {boolean} composed
 * @property {boolean} oneQuestion whether a report answers one random question
 */

export class Collection {
  /** Use `Collection.read`. @param {Uint8Array} raw @param {Uint8Array} id @param {Fields} top */
  constructor(raw, id, top) {
    this.raw = raw;
    this.id = id;
    /** Whether this client recomputed the promise; otherwise it is claimed. */
    this.checked = false;
    this.version = 1 + FORMATS.indexOf(top.take("format"));
    if (!this.version) throw bad(`its format is none of ${FORMATS.join(", ")}`);
    if (top.take("suite") !== SUITE) throw bad(`its suite is not ${SUITE}`);
    this.windows = readWindows(new Fields("windows", top.take("windows")));
    const shuffler = takeShuffler(top, this.version);
    this.texts = this.version === 1
      ? { title: top.text("title"), language: "en", direction: "ltr", welcome: null, consent: null, contact: null, logo: null }
      : readTexts(new Fields("texts", top.take("texts")));
    this.questions = readQuestions(top.items("questions", 64), this.version);
    this.promise = readPromise(new Fields("promise", top.take("promise")), this.windows.count, this.version);
    const analyzer = new Fields("analyzer", top.take("analyzer"));
    this.url = readUrl(shuffler.text("url"));
    this.shufflerKeys = readKeys(shuffler.items("keys", 256), this.windows.count);
    const signs = [shuffler.key("sign"), analyzer.key("sign")];
    const analyzerKey = analyzer.key("public");
    this.analyzerKey = fromHex(analyzerKey);
    this.tokens = top.flag("tokens");
    this.slots = top.whole("slots", 1, 255);
    this.messageSize = top.whole("message_size", 1, 65535);
    for (const each of [top, shuffler, analyzer]) each.done();
    const size = Math.max(...this.questions.map((each) => messageSize(each.randomizer.code)));
    const one = this.promise.oneQuestion;
    if (this.slots !== (one ? 1 : this.questions.length) || this.messageSize !== size) {
      throw bad("slots and message_size do not follow from its questions");
    }
    if (one && (this.questions.length < 2 || this.questions.some((each) => !SAMPLED.includes(each.task)))) {
      throw bad(`one random question per report is for ${SAMPLED.join(", ")}`);
    }
    if (one && this.promise.composed && this.promise.reportsPerDevice > 1) {
      throw bad("one random question per report is not composed over several reports");
    }
    const keys = [...this.shufflerKeys.map((each) => toHex(each.public)), analyzerKey, ...signs];
    if (new Set(keys).size < keys.length) throw bad("two of its keys are equal: each role needs its own");
    const floors = this.questions.map((each) => each.randomizer.epsilon0);
    const together = one ? [Math.max(...floors)] : floors;
    const none = this.promise.localEpsilon === Infinity;
    if (!none && (floors.includes(Infinity) || together.reduce((sum, each) => sum + scale(each), 0n) > scale(this.promise.localEpsilon))) {
      const all = floors.join(" + ");
      throw new WireError("promise", `the answers of a report are ${all}-private together, not ${this.promise.localEpsilon}`);
    }
    const servers = this.promise.noise === "servers";
    for (const { name, noise, protocol, randomizer } of this.questions) {
      if ((protocol === "server_noise") !== (noise !== null)) throw bad("server_noise is the protocol of noise of the servers, and only of it");
      if (noise !== null && !fitsNoise(noise, randomizer)) throw bad(`the noise of '${name}' does not fit its bins`);
      if ((noise !== null) !== servers) throw bad(`the question '${name}' has a law of the servers' noise if they add it, and only then`);
    }
    const parts = one ? this.questions.length : 1;
    if (servers && this.questions.some((each) => each.parts !== parts)) throw bad(`parts must be ${parts}, of which a report answers one`);
    if (this.dummies > MOST_DUMMIES) throw bad(`a server would add more than ${MOST_DUMMIES} messages to a window`);
    if (none && !servers) throw bad("without a floor the noise must come from the servers");
  }

  /** Messages that each server adds to a window, on average. */
  get dummies() {
    return countDummies(this.questions);
  }

  get title() {
    return this.texts.title;
  }

  /**
   * The collection that the bytes describe, if they have the id of the link.
   * @param {Uint8Array} raw
   * @param {string} expectedId hexadecimal
   */
  static async read(raw, expectedId) {
    const id = await sha256(raw);
    if (toHex(id) !== expectedId) throw bad("its hash is not the id of the collection");
    const content = readJson(raw), { questions } = content;
    await loadLaws(Array.isArray(questions) ? questions.map((each) => each?.law?.type) : []);
    const found = new Collection(raw, id, new Fields("document", content));
    if (found.promise.noise === "servers") found.checked = (await import("./promise.js")).checkPromise(found.questions, found.promise);
    return found;
  }

  get innerSize() {
    return 1 + this.messageSize + OVERHEAD;
  }

  /** Bytes of a report in an upload: the same whatever the answers are. */
  get reportSize() {
    return 2 + OVERHEAD + 4 + (this.tokens ? 32 : 0) + this.slots * this.innerSize;
  }

  /** Whether one operator plays all roles: the shuffler is on this very machine, or its address says so. */
  get development() {
    return !this.url.startsWith("https://") || this.url.endsWith("/one-operator");
  }

  /** What is left for a person if everybody else conspires: all reports of a device add up. */
  get floor() {
    return this.promise.localEpsilon * this.promise.reportsPerDevice;
  }

  /** How often somebody who thought yes and no equally likely guesses right, at most, if everybody else conspires. */
  get guess() {
    return Math.min(1, (1 + 1e-15) / (1 + Math.exp(-this.floor)));
  }

  /** The window of a moment in seconds since 1970, or null. @param {number} now */
  windowAt(now) {
    const window = Math.floor((now - this.windows.start) / this.windows.seconds);
    return window >= 0 && window < this.windows.count ? window : null;
  }

  /** @param {number} window */
  keyFor(window) {
    const found = this.shufflerKeys.find((each) => each.first <= window && window <= each.last);
    if (!found) throw bad(`there is no window ${window}`);
    return found;
  }
}

/**
 * The code of an answer (of a word it is a bigint), or its place in the range if it is a real number.
 * @param {Question} question
 * @param {unknown} answer
 * @returns {number | bigint}
 */
export function findPlace(question, answer) {
  if (question.range) {
    const { group, rest } = splitAnswer(question, String(answer));
    return group * (2 ** 41 + 1) + placeOf(question.range, readNumber(question, rest));
  }
  if (question.labels) {
    const shown = String(answer), label = question.labels.indexOf(shown);
    const place = label < 0 && question.task === "count" ? YES.indexOf(shown.toLowerCase()) % 2 : label;
    if (place < 0) throw new WireError("answers", `${question.name}='${shown}' must be one of ${question.labels.slice(0, 20).join(", ")}`);
    return place;
  }
  if (question.randomizer.codeOf) return findCode(question, question.randomizer.codeOf, answer);
  const { grid, cells } = question.randomizer, given = readNumber(question, answer);
  return cells ? cellOf(cells, given) : placeOf(/** @type {import("./laws.js").Grid} */ (grid), given);
}

/** Between which numbers answers are; null if they are no numbers. @param {Question} question */
export function findEnds(question) {
  const { grid, cells } = question.randomizer, found = question.range ?? grid ?? cells;
  return found ? { lower: found.lower, upper: found.upper, whole: cells?.cells === null } : null;
}

/** @param {Question} question @param {(answer: unknown) => bigint} codeOf @param {unknown} answer */
function findCode(question, codeOf, answer) {
  try {
    return codeOf(answer);
  } catch (error) {
    throw error instanceof RangeError ? new WireError("answers", `${question.name}='${answer}' ${error.message}`) : error;
  }
}

/** @param {Question} question @param {unknown} answer */
function readNumber(question, answer) {
  // What else there is, Number takes for one, too: null is 0, and "0x10" is 16.
  const fine = typeof answer === "string" ? NUMBER.test(answer.trim()) : ["number", "bigint", "boolean"].includes(typeof answer);
  const given = fine ? Number(answer) : NaN;
  if (Number.isNaN(given)) throw new WireError("answers", `${question.name}='${answer}' must be a number`);
  return given;
}

/** The group that "GROUP: NUMBER" begins with (the longest, if several), and the rest. @param {Question} question @param {string} answer */
function splitAnswer(question, answer) {
  const groups = /** @type {string[]} */ (question.labels);
  const fitting = groups.filter((each) => answer.startsWith(`${each}:`)).sort((a, b) => b.length - a.length);
  if (!fitting.length) {
    throw new WireError("answers", `${question.name}='${answer}' must be GROUP: NUMBER, with one of the groups ${groups.slice(0, 20).join(", ")}`);
  }
  return { group: groups.indexOf(fitting[0]), rest: answer.slice(fitting[0].length + 1) };
}

/** @param {Fields} top @param {number} version */
function takeShuffler(top, version) {
  if (version === 1) return new Fields("shuffler", top.take("shuffler"));
  const shufflers = top.items("shufflers", 2);
  if (shufflers.length > 1) throw new WireError("planned", "this version cannot use two shufflers in a row");
  return new Fields("shuffler", shufflers[0]);
}

/** @param {any[]} entries @param {number} version @returns {Question[]} */
function readQuestions(entries, version) {
  const questions = entries.map((each) => readQuestion(each, version));
  if (new Set(questions.map((each) => each.name)).size < questions.length) throw bad("two questions have the same name");
  checkParts(questions.map((each) => each.asked));
  return questions;
}

/** @param {any} content @param {number} version @returns {Question} */
function readQuestion(content, version) {
  const found = new Fields("question", content);
  const name = found.name("name"), text = found.text("text"), task = found.text("task", 40);
  const labels = readLabels(found.take("labels")), protocol = found.text("protocol", 60);
  const parameters = found.take("parameters");
  if (parameters === null || typeof parameters !== "object" || Array.isArray(parameters)) throw bad("parameters must be an object");
  const randomizer = buildRandomizer(found.take("law"));
  const range = BY_GROUP.includes(task) ? readRange(new Fields("range", found.take("range"))) : null;
  const asked = version === 1 ? suggestAsking(task) : readAsking(found.take("asked"), name, task, labels);
  const noise = version === 1 ? null : readNoise(found.take("noise"));
  found.done();
  const kind = randomizer.grid ? "grid" : randomizer.cells ? "cells" : randomizer.spelling ? "words" : "codes";
  if (!Object.hasOwn(KINDS, task) || KINDS[task] !== kind) {
    throw bad(`${protocol} does not answer the ${task} '${name}'`);
  }
  const codes = labels && labels.length * (range ? 2 : 1);
  if ((labels === null) !== (kind !== "codes") || (labels && codes !== randomizer.size) || (range && codes > 2000)) {
    throw bad(`the labels of '${name}' do not fit its law`);
  }
  const crossed = (/** @type {string} */ word, /** @type {number} */ place) => YES.indexOf(word.toLowerCase()) % 2 === 1 - place;
  if (task === "count" && (labels?.some(crossed) || (version === 1 && labels?.join() !== "no,yes"))) {
    throw bad(`the labels of the count '${name}' must be no and yes`);
  }
  return { name, text, task, labels, protocol, randomizer, range, asked, noise, parts: noise ? parameters.parts : 1 };
}

/** @param {any} content @returns {import("./noise.js").Dummies | null} */
function readNoise(content) {
  if (content === null) return null;
  const found = new Fields("noise", content), kind = found.text("kind", 20);
  if (kind === "hashed") {
    const hashed = { kind, messages: found.whole("messages", 1, MOST_DUMMIES), r: found.whole("r", 2, 32), s: found.whole("s", 1, 32), width: found.whole("width", 1, 2 ** 32 - 1) };
    found.done();
    return hashed;
  }
  if (kind !== "bins" && kind !== "count") throw bad(`noise.kind='${kind}' must be bins, count or hashed`);
  const noise = { kind, bins: found.whole("bins", 2, 1 << 16), most: found.whole("most", 1, 1 << 16), rate: found.decimal("rate") };
  found.done();
  if (!(noise.rate > 0 && noise.rate < Infinity) || (kind === "count" && noise.bins !== 2)) throw bad("the noise of a question: rate and bins");
  return noise;
}

/** @param {Fields} found @returns {import("./laws.js").Grid} */
function readRange(found) {
  const lower = found.decimal("lower"), upper = found.decimal("upper");
  found.done();
  if (!(lower < upper && Number.isFinite(upper - lower))) throw bad("the range of a number must have lower < upper");
  return { lower, upper, steps: 1n };
}

/** @param {any} content @returns {string[] | null} */
function readLabels(content) {
  if (content === null) return null;
  if (!Array.isArray(content) || content.length < 2 || content.length > 10000) throw bad("labels must be null or 2 to 10,000 texts");
  const fine = content.every((each) => typeof each === "string" && each.trim() && [...each].length <= 200);
  if (!fine) throw bad("labels must be texts of 1 to 200 characters");
  if (new Set(content).size < content.length) throw bad("two labels are the same");
  return content;
}

/** @param {Fields} found */
function readWindows(found) {
  const windows = {
    start: found.whole("start", 0, 2 ** 40),
    seconds: found.whole("seconds", 1, 1e9),
    count: found.whole("count", 1, 1e5),
    grace: found.whole("grace", 0, 1e7),
  };
  found.done();
  return windows;
}

/** @param {Fields} found @param {number} windows @param {number} version @returns {Promised} */
function readPromise(found, windows, version) {
  const none = version > 1 && found.left.get("local_epsilon") === "none";
  /** @type {Promised} */
  const promise = {
    epsilon: found.decimal("epsilon"),
    delta: found.decimal("delta"),
    honest: found.decimal("honest"),
    minBatch: found.whole("min_batch", 2, 1e9),
    localEpsilon: none ? (found.take("local_epsilon"), Infinity) : found.decimal("local_epsilon"),
    trustTheShuffler: version > 1 && found.flag("trust_the_shuffler"),
    noise: version === 1 ? "devices" : /** @type {"devices"} */ (found.text("noise", 20)),
    reportsPerDevice: found.whole("reports_per_device", 1, windows),
    composed: found.flag("composed"),
    oneQuestion: found.flag("one_question"),
  };
  found.done();
  const { epsilon, delta, honest, minBatch, localEpsilon } = promise;
  if (!(epsilon > 0 && epsilon <= 100 && localEpsilon > 0 && (none || localEpsilon <= 100))) {
    throw bad("epsilon and local_epsilon must be above 0 and at most 100");
  }
  if (!(delta >= 1e-100 && delta < 1 && honest > 0 && honest <= 1)) {
    throw bad("delta must be from 1e-100 to 1, honest above 0 and at most 1");
  }
  if (honest * minBatch < 1) throw bad("honest * min_batch must be at least 1");
  if (!["devices", "servers"].includes(promise.noise)) throw bad(`promise.noise='${promise.noise}' must be devices or servers`);
  if (version > 1 && localEpsilon > LARGEST_FLOOR && !promise.trustTheShuffler) {
    throw bad(`a floor above ${LARGEST_FLOOR}, or none, needs trust_the_shuffler`);
  }
  return promise;
}

/** @param {any[]} entries @param {number} windows @returns {ShufflerKey[]} */
function readKeys(entries, windows) {
  const keys = entries.map((each) => {
    const found = new Fields("key", each);
    const key = {
      id: found.whole("id", 0, 255),
      first: found.whole("first", 0, windows - 1),
      last: found.whole("last", 0, windows - 1),
      public: fromHex(found.key("public")),
    };
    found.done();
    return key;
  });
  let next = 0;
  const fine = keys.every((key, place) => {
    const follows = key.id === place && key.first === next && key.last >= key.first;
    next = key.last + 1;
    return follows;
  });
  if (!fine || next !== windows) throw bad("the shuffler's keys must cover each window once, in order");
  return keys;
}

/** @param {string} text */
function readUrl(text) {
  const refused = bad(`the URL '${text}' must be https (http only on this machine), without user, query, fragment or a slash at the end`);
  const form = /^(https|http):\/\/([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[1-9]\d{0,4})?(\/[!-~]*)?$/.exec(text);
  if (!form || text.endsWith("/") || /[?#@]/.test(text)) throw refused;
  if (form[3] && Number(form[3].slice(1)) > 65535) throw refused;
  if (form[1] === "http" && !["127.0.0.1", "localhost", "[::1]"].includes(form[2])) throw refused;
  return text;
}

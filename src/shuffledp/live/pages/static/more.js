// What the page explains when it is asked: what would be sent for a made-up answer, what was sent, who may learn what.

import { findEnds, findPlace, randomize, secureWords } from "../device/index.js";
import { make, makeTable } from "./dom.js";
import { nameChoice } from "./fields.js";
import { count, look, say } from "./strings.js";
import { describeTrust } from "./trust.js";

/** @typedef {import("../device/index.js").Collection} Collection */

/** What a message says, in words. @param {any} question @param {any} message */
export function describeMessage(question, message) {
  if (Array.isArray(message) && typeof message[0] === "boolean") {
    const names = question.range ? question.labels.flatMap((/** @type {string} */ each) =>
      [`${each}: ${question.range.lower}`, `${each}: ${question.range.upper}`]) : question.labels;
    const marked = names.filter((/** @type {string} */ _, /** @type {number} */ place) => message[place]);
    return marked.length ? say("more.marks", { labels: marked.join(", ") }) : say("more.noMarks");
  }
  const { code } = question.randomizer;
  if (question.range && !Array.isArray(message) && Number(code.sizes?.[0]) === 2 * question.labels.length) {
    const end = Number(message) % 2 ? question.range.upper : question.range.lower;
    return `${question.labels[Math.floor(Number(message) / 2)]}: ${end}`;
  }
  const alike = question.labels && !question.range && "sizes" in code && code.sizes.length === 1 && Number(code.sizes[0]) === question.labels.length;
  return alike ? nameChoice(question, question.labels[Number(message)]) : say("more.numberSent", { text: String(isRounded(question) ? findLevel(question, Number(message)) : message) });
}

/** Whether what is sent is a value that answers are rounded to. @param {any} question */
function isRounded({ range, randomizer }) {
  return randomizer.odds?.own !== undefined && Boolean(range || randomizer.grid || randomizer.cells);
}

/** The number that a level stands for: a step of a grid, an integer, or the middle of a cell. @param {any} question @param {number} level */
function findLevel({ randomizer: { grid, cells } }, level) {
  if (grid) return Number((grid.lower + (level * (grid.upper - grid.lower)) / Number(grid.steps)).toPrecision(6));
  if (!cells) return level;
  const { lower, upper } = cells;
  return cells.cells === null ? lower + level : Number((lower + ((level + 0.5) * (upper - lower)) / cells.cells).toPrecision(6));
}

/** How often in ten. @param {number} share */
const inTen = (share) => count(10 * share, { maximumSignificantDigits: share < 0.1 ? 1 : 2, maximumFractionDigits: 1 });

/** What chance does, in words: from the law of the question. @param {any} question */
export function describeOdds(question) {
  const { odds } = question.randomizer;
  const rounded = isRounded(question) ? `${say("more.odds.rounded", { n: question.randomizer.size })} ` : "";
  if (odds?.own === 1) return rounded + say("more.odds.same");
  if (odds?.own >= 0.95) return rounded + say("more.odds.almost", { times: Math.floor(1 / (1 - odds.own)) });
  if (odds?.own >= 0.05) return rounded + say("more.odds.own", { tenths: count(Math.round(10 * odds.own)) });
  if (odds?.marked && !question.range) return say("more.odds.marks", { own: inTen(odds.marked), other: inTen(odds.unmarked) });
  const ends = odds?.coin && findEnds(question);
  if (ends) return say("more.odds.coin", { low: ends.lower, high: ends.upper, one: inTen(odds.coin), other: inTen(1 - odds.coin) });
  return say("more.odds.code");
}

/** Made-up words. @param {any} question @returns {string[]} */
function makeUpWords(question) {
  const { alphabet, maxLength, bits } = question.randomizer.spelling;
  return alphabet === null ? ["0", "1", String((1n << BigInt(bits)) - 1n)] : ["cat", "dog", "cow"].map((each) => each.slice(0, maxLength));
}

/** Made-up answers to a question: what they say, and their places. @param {any} question @returns {[string, number | bigint][]} */
function makeUp(question) {
  if (question.randomizer.spelling) return makeUpWords(question).map((each) => [each, findPlace(question, each)]);
  const ends = findEnds(question);
  const numbers = ends ? [ends.lower, (ends.lower + ends.upper) / 2, ends.upper].map((each) => (ends.whole ? Math.floor(each) : each)) : [];
  const answers = question.range
    ? question.labels.flatMap((/** @type {string} */ label) => numbers.map((value) => `${label}: ${value}`))
    : question.labels ?? numbers.map(String);
  return answers.map((/** @type {string} */ answer) => [nameChoice(question, answer), findPlace(question, answer)]);
}

/** @param {Collection} collection @returns {Node[]} */
export function illustrate(collection) {
  const place = make("div");
  const choose = (/** @type {any} */ question) => place.replaceChildren(...tryOut(question));
  choose(collection.questions[0]);
  const options = collection.questions.map((each, at) => make("option", { value: at, dir: "auto" }, each.text));
  const which = make("select", { id: "made-up-question", onchange: () => choose(collection.questions[Number(which.value)]) }, ...options);
  const several = options.length > 1 ? [make("p", {}, make("label", { for: "made-up-question" }, `${say("more.madeUpQuestion")} `), which)] : [];
  return [make("p", { class: "soft" }, say(collection.promise.localEpsilon === Infinity ? "more.illustrationPlain" : "more.illustrationHelp")), ...several, place,
    make("p", { class: "soft" }, say("more.bytes", { n: collection.reportSize }))];
}

/** @param {any} question @returns {Node[]} */
function tryOut(question) {
  const choice = make("select", { id: "made-up" });
  for (const [answer, place] of makeUp(question)) choice.append(make("option", { value: place }, answer));
  const shown = make("p", { role: "status", class: "code", id: "drawn", dir: "auto" }), tally = make("p", { class: "soft", id: "tally" });
  let drawn = 0, own = 0;
  const drawIt = () => {
    const place = (question.randomizer.spelling ? BigInt : Number)(choice.value);
    const message = describeMessage(question, randomize(question, place, secureWords));
    drawn += 1;
    own += Number(message === choice.selectedOptions[0].textContent);
    shown.textContent = message;
    tally.textContent = question.randomizer.odds?.own && !isRounded(question) ? say("more.drawnSoFar", { n: drawn, own }) : "";
  };
  choice.addEventListener("change", () => { drawn = own = 0; drawIt(); });
  drawIt();
  return [make("p", { id: "odds" }, describeOdds(question)),
    make("p", {}, make("label", { for: "made-up" }, `${say("more.ifAnswer")} `), choice),
    make("p", {}, say("more.wouldSend")), shown, tally,
    make("button", { type: "button", class: "quiet", onclick: drawIt }, say("more.drawAgain"))];
}

/** What left the device, after it did. @param {[any, any][]} sent questions and their messages */
export function showSent(sent) {
  return make("section", { class: "card", id: "sent", "aria-labelledby": "sent-title" }, make("h2", { id: "sent-title" }, say("more.reallySent")),
    make("dl", {}, ...sent.flatMap(([question, message]) =>
      [make("dt", { dir: "auto" }, question.text), make("dd", { class: "code", dir: "auto" }, describeMessage(question, message))])),
    make("p", { class: "soft" }, say(sent.some(([{ randomizer }]) => randomizer.epsilon0 === Infinity) ? "more.reallySentPlain" : "more.reallySentHelp")));
}

/** @param {Collection} collection @returns {Node[]} */
export function explainTrust(collection) {
  return [makeTable(look("more.trustHead"), describeTrust(collection))];
}

/** @param {Collection} collection @returns {Node[]} */
export function explainCheck(collection) {
  const id = Array.from(collection.id, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [make("p", {}, say("more.checkText")), make("p", { class: "code" }, id)];
}

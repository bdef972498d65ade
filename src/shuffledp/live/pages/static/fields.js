// The fields of a form: one for each kind of question. Each reads its answer, or says what is wrong with it, beside itself.

import { findEnds, findPlace } from "../device/index.js";
import { make } from "./dom.js";
import { count, readNumber, say } from "./strings.js";

/** @typedef {{ sentence: string, at: HTMLElement }} Fault what is wrong, and where to go */
/** @typedef {Record<string, string>} Answers by the names of questions */
/** @typedef {{ box: HTMLElement, read: () => { answers: Answers } | Fault }} Field */
/** @typedef {{ nodes: Node[], read: () => { answer: string } | Fault }} Part */

/** A choice as the page shows it: yes and no in the page's language, unless the survey has words of its own. @param {any} question @param {string} label */
export const nameChoice = (question, label) => (question.task === "count" && /^(yes|no)$/.test(label) ? say(`answer.${label}`) : label);

/** Say what is wrong beside a field, or nothing. @param {HTMLElement} box @param {Fault | null} fault */
export function mark(box, fault) {
  const place = /** @type {HTMLElement} */ (box.querySelector(".error"));
  place.textContent = fault ? fault.sentence : "";
  for (const each of box.querySelectorAll("[aria-invalid]")) each.setAttribute("aria-invalid", "false");
  (fault?.at.closest("[role=radiogroup]") ?? fault?.at)?.setAttribute("aria-invalid", "true");
}

/** Read all fields; says what is wrong beside each, and goes to the first. @param {Field[]} fields @returns {Answers | number} or how many are wrong */
export function readFields(fields) {
  const entries = fields.map((each) => each.read());
  const faults = entries.map((each) => ("sentence" in each ? each : null));
  fields.forEach(({ box }, place) => mark(box, faults[place]));
  const first = faults.find(Boolean);
  first?.at.focus();
  return first ? faults.filter(Boolean).length : Object.assign({}, ...entries.map((each) => /** @type {any} */ (each).answers));
}

/** The fields of all questions; the choices of one that takes several are one field. @param {any[]} questions @param {Record<string, string>} own what the texts of a survey have: their language @returns {Field[]} */
export function makeFields(questions, own) {
  const part = (/** @type {any} */ question) => question.asked?.partOf?.name;
  return questions.flatMap((each, place) => {
    if (!part(each)) return [makeField(each, own)];
    return place && part(questions[place - 1]) === part(each) ? [] : [makeSeveral(questions.filter((other) => part(other) === part(each)), own)];
  });
}

/** @param {string} name @param {string} text @param {string | null | undefined} description @param {Record<string, string>} own */
function makeBox(name, text, description, own) {
  return make("fieldset", { name }, make("legend", own, text), ...(description ? [make("p", { class: "soft", ...own }, description)] : []));
}

/** @param {string} name */
const makeError = (name) => make("p", { class: "bad error", id: `${name}:error`, "aria-live": "polite" });

/** @param {any} question @param {Record<string, string>} own @returns {Field} */
function makeField(question, own) {
  const box = makeBox(question.name, question.text, question.asked?.description, own);
  const parts = question.range ? [makeChoices(question, own, `${question.name}:group`), makeNumber(question)]
    : [question.labels ? makeChoices(question, own, question.name) : question.randomizer.spelling ? makeWord(question) : makeNumber(question)];
  box.append(...parts.flatMap((each) => each.nodes), makeError(question.name));
  // As soon as something is typed: a text that goes when the field is left would move the button away from the finger.
  box.addEventListener("input", () => mark(box, null));
  const read = () => {
    const entries = parts.map((each) => each.read()), fault = entries.find((each) => "sentence" in each);
    return /** @type {Fault | undefined} */ (fault) ?? { answers: { [question.name]: entries.map((each) => /** @type {any} */ (each).answer).join(": ") } };
  };
  return { box, read };
}

/** Yes or no to several choices. @param {any[]} questions @param {Record<string, string>} own @returns {Field} */
function makeSeveral(questions, own) {
  const { name, text } = questions[0].asked.partOf, box = makeBox(name, text, questions[0].asked.description, own);
  const ticks = questions.map((each) => make("input", { type: "checkbox", name: each.name }));
  box.append(make("p", { class: "soft" }, say(questions.some((each) => each.randomizer.odds?.own === 1) ? "answer.severalPlain" : "answer.severalHelp")),
    ...questions.map((each, place) => make("label", { class: "choice" }, ticks[place], make("span", own, each.text))), makeError(name));
  return { box, read: () => ({ answers: Object.fromEntries(questions.map((each, place) => [each.name, ticks[place].checked ? "yes" : "no"])) }) };
}

/** @param {any} question @param {Record<string, string>} own @param {string} name @returns {Part} */
function makeChoices(question, own, name) {
  const scale = question.asked?.ends;
  const box = make("div", { role: "radiogroup", class: scale ? "scale" : "", "aria-label": question.range ? say("answer.group") : question.text, "aria-invalid": "false",
    "aria-describedby": `${question.name}:error` });
  const steps = scale ? question.labels.length - 1 - Number(question.asked.skip) : -1;
  question.labels.forEach((/** @type {string} */ label, /** @type {number} */ place) => {
    const input = make("input", { type: "radio", name, value: label, required: true }), end = place === 0 ? scale?.[0] : place === steps ? scale?.[1] : null;
    box.append(make("label", { class: "choice" }, input, make("span", own, nameChoice(question, label)), ...(end ? [" ", make("span", { class: "soft", ...own }, end)] : [])));
  });
  return { nodes: [box], read: () => {
    const chosen = box.querySelector("input:checked");
    if (!chosen && question.asked?.skip) return { answer: question.labels.at(-1) }; // a category like any other
    return chosen ? { answer: chosen.value } : { sentence: say(question.range ? "answer.wrong.group" : "answer.wrong.choose"), at: box.querySelector("input") };
  } };
}

/** What there is room for, in words. @param {any} spelling */
function sayRoom({ alphabet, maxLength, bits }) {
  return alphabet === null ? say("answer.words.number", { most: String((1n << BigInt(bits)) - 1n) }) : say(`answer.words.${alphabet}`, { n: maxLength });
}

/** What is wrong with a word, or nothing. @param {any} question @param {string} word */
function complain(question, word) {
  if (word.trim() === "") return say("answer.wrong.empty");
  try {
    findPlace(question, word);
    return "";
  } catch (error) {
    const { alphabet, maxLength } = question.randomizer.spelling;
    if (alphabet === null) return sayRoom(question.randomizer.spelling);
    return say(/ is longer than \d+ bytes$/.test(String(error)) ? "answer.wrong.tooLong" : `answer.wrong.${alphabet}`, { n: maxLength });
  }
}

/** Whether a button is being pressed, which says itself what is wrong: nothing may move it away. */
let pressed = false;
globalThis.addEventListener?.("pointerdown", (event) => (pressed = event.target instanceof Element && event.target.closest("button") !== null), true);
globalThis.addEventListener?.("pointerup", () => (pressed = false), true);

/** A box for a word. It says what is wrong with it as soon as it is left. @param {any} question */
function makeWord(question) {
  const { spelling } = question.randomizer, help = `${question.name}:help`;
  const box = make("input", { type: "text", name: question.name, "aria-label": question.text, "aria-describedby": `${help} ${question.name}:error`,
    "aria-invalid": "false", dir: "auto", autocomplete: "off", autocapitalize: "off", spellcheck: false, inputmode: spelling.alphabet === null ? "numeric" : "text" });
  const read = () => {
    const wrong = complain(question, box.value);
    return wrong ? { sentence: wrong, at: box } : { answer: box.value };
  };
  box.addEventListener("focusout", () => {
    const wrong = box.value.trim() === "" || pressed ? "" : complain(question, box.value);
    if (wrong) mark(box.closest("fieldset"), { sentence: wrong, at: box });
  });
  return { nodes: [box, make("p", { class: "soft", id: help }, sayRoom(spelling))], read };
}

/** A number as people read it: all its digits. @param {number} value */
const plain = (value) => count(value, { maximumSignificantDigits: 15 });

/** A slider and a box for the exact number. @param {any} question */
function makeNumber(question) {
  const { lower, upper, whole } = /** @type {any} */ (findEnds(question));
  const step = whole || (upper - lower > 20 && Number.isInteger(lower) && Number.isInteger(upper)) ? 1 : (upper - lower) / 1000;
  const middle = lower + Math.round((upper - lower) / 2 / step) * step;
  const ends = { low: plain(lower), high: plain(upper), unit: question.asked?.unit }, help = `${question.name}:help`;
  const slider = make("input", { type: "range", min: lower, max: upper, step, value: middle, "aria-label": question.text, class: "unset" });
  const box = make("input", { type: "text", name: question.name, inputmode: "decimal", autocomplete: "off", size: 8, dir: "ltr", "aria-invalid": "false",
    "aria-label": say("answer.exactly", { text: question.text }), "aria-describedby": `${help} ${question.name}:error` });
  slider.addEventListener("input", () => (box.value = count(Number(slider.value), { useGrouping: false, maximumSignificantDigits: 6 })));
  box.addEventListener("input", () => { const given = readNumber(box.value); if (typeof given === "number") slider.value = String(given); });
  // Pale until something was chosen: a slider in the middle looks like an answer.
  for (const each of [slider, box]) each.addEventListener("input", () => slider.classList.toggle("unset", box.value === ""));
  const find = () => {
    const given = readNumber(box.value);
    if (box.value.trim() === "") return say("answer.wrong.empty");
    if (given === null) return say("answer.wrong.number", ends);
    if (typeof given !== "number") return say("answer.wrong.separator", given);
    if (!(given >= lower && given <= upper)) return say("answer.wrong.range", ends);
    return whole && !Number.isInteger(given) ? say("answer.wrong.whole") : "";
  };
  const read = () => {
    const wrong = find();
    return wrong ? { sentence: wrong, at: box } : { answer: String(readNumber(box.value)) };
  };
  const room = say(question.asked?.unit ? "answer.betweenUnit" : "answer.between", ends);
  return { nodes: [make("div", { class: "pair" }, slider, box), make("p", { class: "soft", id: help }, room)], read };
}

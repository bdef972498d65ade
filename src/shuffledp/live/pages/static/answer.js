// The participation page: the questions, the promise, what leaves the device, sending.

import { BrowserOutbox, Device, findEnds, findPlace, isSupported, MemoryOutbox, randomize, secureWords, WireError } from "/device/index.js";
import { describeTrust } from "./trust.js";
import { find, make, makeTable } from "./dom.js";
import { strings } from "./strings.js";

/** @typedef {import("/device/index.js").Collection} Collection */

const main = find("main");

/** What stands after the #: the id, or link=LINK if the page is hosted apart from the shuffler; and token=TOKEN. */
const given = new URLSearchParams(location.hash.slice(1));

/** The link of the collection. */
function findLink() {
  if (given.get("link")) return given.get("link");
  const id = /\/c\/([0-9a-f]{64})$/.exec(location.pathname)?.[1];
  const named = [...given.keys()].find((key) => /^[0-9a-f]{64}$/.test(key)) ?? id;
  return id ? `${location.origin}/collections/${id}#${named}` : null;
}

function openOutbox() {
  return "indexedDB" in globalThis && navigator.locks ? new BrowserOutbox() : new MemoryOutbox();
}

/** @param {string} sentence @param {string=} more */
function refuse(sentence, more) {
  main.replaceChildren(make("h1", {}, strings.cannot), make("p", { class: "bad", role: "alert" }, sentence));
  if (more) main.append(make("p", { class: "soft" }, more));
}

async function start() {
  const link = findLink();
  if (!link) return refuse(strings.noLink);
  const device = new Device(openOutbox());
  const [supported, opened] = await Promise.allSettled([isSupported(), device.open(link)]);
  if (supported.status === "rejected" || !supported.value) return refuse(strings.noCurve);
  if (opened.status === "fulfilled") return show(device, opened.value);
  const error = opened.reason, known = error instanceof WireError && error.reason !== "unreachable";
  refuse(known ? strings.tampered : strings.noAnswer, String(error instanceof Error ? error.message : error));
}

/** @param {Device} device @param {Collection} collection */
async function show(device, collection) {
  document.title = collection.title;
  const window = collection.windowAt(Date.now() / 1000);
  main.replaceChildren(make("h1", { dir: "auto" }, collection.title));
  if (collection.development) main.append(make("p", { class: "bad" }, strings.development));
  main.append(describePromise(collection));
  const status = make("p", { role: "status", "aria-live": "polite", id: "state" });
  // What an earlier visit could not send is sent now, whichever round it is for.
  const kept = await device.kept(collection), waiting = kept.filter(({ state }) => state === "pending" || state === "sent");
  const own = window === null ? waiting.at(-1) : kept.find((each) => each.window === window) ?? waiting.at(-1);
  const closed = own ? null : await explainClosed(collection, window);
  if (own) main.append(make("p", {}, strings.answered), status, makeAgain(device, collection, own.window, status));
  else if (closed) main.append(make("p", { role: "alert", id: "closed" }, closed));
  else main.append(makeForm(device, collection, status));
  if (own) say(status, own.state);
  main.append(illustrate(collection), explainTrust(collection), explainCheck(collection));
  for (const each of waiting) await send(device, collection, each.window, each === own ? status : make("p"));
}

/** Why there is no form, or null if there is one. @param {Collection} collection @param {number | null} window */
async function explainClosed(collection, window) {
  const { start, seconds, count } = collection.windows, now = Date.now() / 1000;
  const time = (/** @type {number} */ moment) => new Date(1000 * moment).toLocaleString(document.documentElement.lang);
  if (now < start) return strings.notYet(time(start));
  if (window === null) return now >= start + seconds * count ? strings.over(time(start + seconds * count)) : strings.between_rounds;
  try {
    const reply = await fetch(`${collection.url}/windows`, { credentials: "omit", referrerPolicy: "no-referrer" });
    /** @type {{ window: number, state: string }[]} */
    const windows = (await reply.json()).windows;
    const state = windows.find((each) => each.window === window)?.state;
    return state === undefined || state === "open" ? null : strings.closed;
  } catch {
    return null; // the form says so when it cannot send
  }
}

/** What is promised about all reports of a device. @param {Collection["promise"]} promise @returns {[number, number]} */
function addUp({ epsilon, delta, composed, reportsPerDevice }) {
  const times = composed ? 1 : reportsPerDevice;
  return [times * epsilon, times * delta];
}

/** @param {Collection} collection */
function describePromise(collection) {
  const { promise } = collection;
  return make(
    "section", { class: "card", "aria-labelledby": "promise" },
    make("h2", { id: "promise" }, strings.inShort),
    make("p", { id: "noise" }, strings.promise.noise(collection.guess)),
    ...(promise.oneQuestion ? [make("p", {}, strings.promise.one)] : []),
    make("p", { id: "published" }, strings.promise.published(...addUp(promise))),
    make("p", {}, strings.promise.guess(collection.guess)),
    make("details", {}, make("summary", {}, strings.numbers),
      make("p", {}, strings.promise.shuffled(promise)),
      make("p", {}, strings.promise.batch(promise.minBatch))),
  );
}

/** @param {Device} device @param {Collection} collection @param {HTMLElement} status */
function makeForm(device, collection, status) {
  const token = make("input", { type: "text", id: "token", autocomplete: "off", size: 64, dir: "ltr",
    value: given.get("token") ?? "" });
  const button = make("button", { type: "submit" }, strings.send);
  const form = make("form", { novalidate: true }, ...collection.questions.map(makeQuestion));
  if (collection.tokens) form.append(make("p", {}, make("label", { for: "token" }, strings.token), token));
  form.append(button, status);
  form.addEventListener("submit", async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const answers = readAnswers(form, collection);
    if (!answers) return tell(status, strings.choose, "bad");
    const key = collection.tokens ? readCode(token) : new Uint8Array(0);
    if (!key) return tell(status, strings.codes.form, "bad");
    button.disabled = true;
    try {
      const yes = /** @type {HTMLInputElement | null} */ (form.querySelector("#accept"));
      const window = await device.answer(collection, answers, undefined, key, yes?.checked);
      form.querySelectorAll("fieldset").forEach((/** @type {HTMLElement} */ each) => each.setAttribute("disabled", ""));
      button.remove();
      form.append(makeAgain(device, collection, window, status));
      await send(device, collection, window, status);
    } catch (error) {
      button.disabled = false;
      if (error instanceof WireError && error.reason === "consent" && !form.querySelector("#accept")) {
        button.before(make("p", {}, make("label", {}, make("input", { type: "checkbox", id: "accept" }), ` ${strings.accept}`)));
      }
      tell(status, error instanceof Error ? error.message : String(error), "bad");
    }
  });
  return form;
}

/** The code of an invitation, or null if it cannot be one. @param {HTMLInputElement} box */
function readCode(box) {
  const text = box.value.trim().toLowerCase(), good = /^[0-9a-f]{64}$/.test(text);
  box.setAttribute("aria-invalid", String(!good));
  if (!good) box.focus();
  return good ? Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16)) : null;
}

/** @param {any} question */
function makeQuestion(question) {
  const group = make("fieldset", { name: question.name });
  group.append(make("legend", { dir: "auto" }, question.text));
  if (question.labels) group.append(makeChoices(question));
  if (question.randomizer.spelling) group.append(...makeWord(question));
  else if (!question.labels || question.range) group.append(...makeNumber(question));
  return group;
}

/** @param {any} question */
function makeChoices(question) {
  const box = make("div", { role: "radiogroup", "aria-label": question.range ? strings.group : question.text });
  question.labels.forEach((/** @type {string} */ label) => {
    const name = question.range ? `${question.name}:group` : question.name;
    const input = make("input", { type: "radio", name, value: label, required: true });
    box.append(make("label", { class: "choice" }, input, make("span", { dir: "auto" }, label)));
  });
  return box;
}

/** A box for a word. It says what is wrong with it as soon as it is left. @param {any} question */
function makeWord(question) {
  const { spelling } = question.randomizer, help = `${question.name}:help`;
  const box = make("input", { type: "text", name: question.name, "aria-label": question.text, "aria-describedby": help, dir: "auto",
    autocomplete: "off", autocapitalize: "off", spellcheck: false, inputmode: spelling.alphabet === null ? "numeric" : "text" });
  const words = make("p", { class: "soft", id: help }, strings.words(spelling));
  box.addEventListener("change", () => {
    const wrong = box.value.trim() === "" ? "" : complain(question, box.value);
    box.setAttribute("aria-invalid", String(wrong !== ""));
    tell(words, wrong || strings.words(spelling), wrong ? "bad" : "soft");
  });
  return [box, words];
}

/** What is wrong with a word, or nothing. @param {any} question @param {string} word */
function complain(question, word) {
  try {
    findPlace(question, word);
    return "";
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** A slider and a box for the exact number. @param {any} question */
function makeNumber(question) {
  const { lower, upper, whole } = /** @type {any} */ (findEnds(question));
  const step = whole || (upper - lower > 20 && Number.isInteger(lower) && Number.isInteger(upper)) ? 1 : (upper - lower) / 1000;
  const middle = lower + Math.round((upper - lower) / 2 / step) * step;
  const ends = { min: lower, max: upper, step };
  const slider = make("input", { type: "range", ...ends, value: middle, "aria-label": question.text, class: "unset" });
  const box = make("input", { type: "number", ...ends, step: whole ? 1 : "any", name: question.name, inputmode: "decimal",
    "aria-label": strings.exactly(question.text) });
  slider.addEventListener("input", () => (box.value = slider.value));
  box.addEventListener("input", () => (slider.value = box.value));
  // Pale until something was chosen: a slider in the middle looks like an answer.
  for (const each of [slider, box]) each.addEventListener("input", () => slider.classList.toggle("unset", box.value === ""));
  return [make("div", { class: "pair" }, slider, box), make("p", { class: "soft" }, strings.between(lower, upper))];
}

/** @param {HTMLFormElement} form @param {Collection} collection */
function readAnswers(form, collection) {
  const data = new FormData(form);
  /** @type {Record<string, any>} */
  const answers = {};
  for (const { name, range } of collection.questions) {
    const value = data.get(name), group = range ? data.get(`${name}:group`) : "";
    if (value === null || value === "" || group === null) return null;
    answers[name] = range ? `${group}: ${value}` : value;
  }
  return answers;
}

/** @param {HTMLElement} status @param {string} sentence @param {string} kind */
function tell(status, sentence, kind = "") {
  status.textContent = sentence;
  status.className = kind;
}

/** @param {HTMLElement} status @param {import("/device/device.js").State} state */
function say(status, state) {
  tell(status, strings.states[state], state === "acknowledged" ? "good" : state === "refused" ? "bad" : "");
}

/** @param {Device} device @param {Collection} collection @param {number} window @param {HTMLElement} status @param {Uint8Array=} code */
async function send(device, collection, window, status, code = undefined) {
  try {
    say(status, await device.send(collection, window, code));
  } catch (error) {
    const reason = error instanceof WireError ? error.reason : "", mend = strings.codes[/** @type {keyof typeof strings.codes} */ (reason)];
    if (mend) askAgain(device, collection, window, status, mend);
    else if (error instanceof WireError && reason !== "unreachable") tell(status, error.message, "bad");
    else tell(status, strings.offline, "bad");
  }
  const state = await device.state(collection, window);
  status.dataset.state = state;
  for (const each of document.querySelectorAll("button.again")) {
    each.classList.toggle("hidden", !["pending", "sent"].includes(state));
  }
}

/** The code was not taken: the report waits for another one. @param {Device} device @param {Collection} collection @param {number} window @param {HTMLElement} status @param {string} sentence */
function askAgain(device, collection, window, status, sentence) {
  tell(status, sentence, "bad");
  document.getElementById("mend")?.remove();
  document.getElementById("token")?.closest("p")?.remove();
  const box = make("input", { type: "text", id: "token", autocomplete: "off", size: 64, dir: "ltr", "aria-invalid": "true" });
  const mend = make("form", { id: "mend", novalidate: true }, make("p", {}, make("label", { for: "token" }, strings.token), box),
    make("button", { type: "submit" }, strings.newCode));
  mend.addEventListener("submit", async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const key = readCode(box);
    if (!key) return tell(status, strings.codes.form, "bad");
    mend.remove();
    await send(device, collection, window, status, key);
  });
  (status.closest("form") ?? status).after(mend);
  box.focus();
}

/** @param {Device} device @param {Collection} collection @param {number} window @param {HTMLElement} status */
function makeAgain(device, collection, window, status) {
  const again = () => send(device, collection, window, status);
  addEventListener("online", again);
  return make("button", { type: "button", class: "quiet again hidden", onclick: again }, strings.again);
}

/** What a message says, in words. @param {any} question @param {any} message */
function describeMessage(question, message) {
  if (Array.isArray(message) && typeof message[0] === "boolean") {
    const names = question.range ? question.labels.flatMap((/** @type {string} */ each) =>
      [`${each}: ${question.range.lower}`, `${each}: ${question.range.upper}`]) : question.labels;
    return strings.marks(names.filter((/** @type {string} */ _, /** @type {number} */ place) => message[place]));
  }
  const { code } = question.randomizer;
  if (question.range && !Array.isArray(message) && Number(code.sizes?.[0]) === 2 * question.labels.length) {
    const end = Number(message) % 2 ? question.range.upper : question.range.lower;
    return `${question.labels[Math.floor(Number(message) / 2)]}: ${end}`;
  }
  const alike = question.labels && !question.range && "sizes" in code && code.sizes.length === 1 && Number(code.sizes[0]) === question.labels.length;
  return alike ? question.labels[Number(message)] : strings.numberSent(String(message));
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
  return answers.map((/** @type {string} */ answer) => [answer, findPlace(question, answer)]);
}

/** @param {Collection} collection */
function illustrate(collection) {
  const question = collection.questions[0];
  const choice = make("select", { id: "made-up" });
  for (const [answer, place] of makeUp(question)) choice.append(make("option", { value: place }, answer));
  const shown = make("p", { role: "status", class: "code", id: "drawn", dir: "auto" });
  const drawIt = () => (shown.textContent = describeMessage(question, randomize(question, (question.randomizer.spelling ? BigInt : Number)(choice.value), secureWords)));
  choice.addEventListener("change", drawIt);
  drawIt();
  return make(
    "details", {}, make("summary", {}, strings.illustration),
    make("p", { class: "soft" }, strings.illustrationHelp),
    make("p", {}, make("label", { for: "made-up" }, `${strings.ifAnswer} `), choice),
    make("p", {}, strings.wouldSend), shown,
    make("button", { type: "button", class: "quiet", onclick: drawIt }, strings.drawAgain),
    make("p", { class: "soft" }, strings.bytes(collection.reportSize)),
  );
}

/** @param {Collection} collection */
function explainTrust(collection) {
  return make("details", {}, make("summary", {}, strings.trust), makeTable(strings.trustHead, describeTrust(collection)));
}

/** @param {Collection} collection */
function explainCheck(collection) {
  const id = Array.from(collection.id, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return make("details", {}, make("summary", {}, strings.check), make("p", {}, strings.checkText), make("p", { class: "code" }, id));
}

start();

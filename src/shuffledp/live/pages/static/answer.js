// The participation page: the questions, the promise, what leaves the device, sending.

import { BrowserOutbox, Device, isSupported, MemoryOutbox, WireError } from "../device/index.js";
import { find, make, tell } from "./dom.js";
import { makeFields, readFields } from "./fields.js";
import { chooseLanguage, current, guessAfter, load, look, percentAbove, say, tellTime, tier } from "./strings.js";

/** @typedef {import("../device/index.js").Collection} Collection */

const main = find("main");

/** What stands after the #: the id, or link=LINK if the page is hosted apart from the shuffler; and token=TOKEN. */
const given = new URLSearchParams(location.hash.slice(1));
/** Whether this is the operator's look at a draft. */
const previewed = /\/preview\/([0-9a-f]{64})$/.exec(location.pathname)?.[1];

/** The link of the collection. */
function findLink() {
  if (given.get("link")) return given.get("link");
  if (previewed) return `${location.origin}/drafts/${previewed}#${previewed}`;
  const [, base, id] = /^(.*)\/c\/([0-9a-f]{64})$/.exec(location.pathname) ?? [];
  const named = [...given.keys()].find((key) => /^[0-9a-f]{64}$/.test(key)) ?? id;
  return id ? `${location.origin}${base}/collections/${id}#${named}` : null;
}

function openOutbox() {
  return !previewed && "indexedDB" in globalThis && navigator.locks ? new BrowserOutbox() : new MemoryOutbox();
}

/** @param {string} sentence @param {string=} more */
function refuse(sentence, more) {
  document.title = say("answer.cannot");
  main.replaceChildren(make("h1", {}, say("answer.cannot")), make("p", { class: "bad", role: "alert" }, sentence));
  if (more) main.append(make("p", { class: "soft" }, more));
}

async function start() {
  const link = findLink(), spoken = load(chooseLanguage(navigator.languages), "answer");
  if (!link || !isSecureContext) {
    await spoken;
    return refuse(say(link ? "answer.insecure" : "answer.noLink"));
  }
  const device = new Device(openOutbox());
  const [supported, opened] = await Promise.allSettled([isSupported(), device.open(link), spoken]);
  if (supported.status === "rejected" || !supported.value) return refuse(say("answer.noCurve"));
  if (opened.status === "fulfilled") {
    const best = chooseLanguage([readTexts(opened.value).language]);
    if (best !== current()) await load(best, "answer");
    return show(device, opened.value);
  }
  const error = opened.reason, known = error instanceof WireError && error.reason !== "unreachable";
  refuse(say(known ? "answer.tampered" : "answer.noAnswer"), known ? String(error.message) : undefined);
  if (!known) main.append(make("button", { type: "button", onclick: () => location.reload() }, say("answer.retry")));
}

/** What stands around the questions. @param {Collection} collection @returns {{ language: string, direction: string, welcome?: string | null, consent?: string | null, contact?: string | null, logo?: string | null }} */
const readTexts = (collection) => /** @type {any} */ (collection).texts ?? { language: "en", direction: "ltr" };

/** The language of what the survey says: the page may have no catalogue for it. @param {Collection} collection */
const speakSurvey = (collection) => ({ lang: readTexts(collection).language, dir: readTexts(collection).language === current() ? "auto" : readTexts(collection).direction });

/** @param {Device} device @param {Collection} collection */
async function show(device, collection) {
  document.title = collection.title;
  const window = collection.windowAt(Date.now() / 1000);
  const { welcome, contact, logo } = readTexts(collection), own = speakSurvey(collection);
  main.replaceChildren(...(logo ? [make("img", { id: "logo", src: logo, alt: "" })] : []), make("h1", own, collection.title));
  if (previewed) main.append(make("p", { class: "bad", id: "preview-only" }, say("answer.preview")));
  else if (collection.development) main.append(make("p", { class: "bad" }, say("answer.development")));
  const status = make("p", { role: "status", "aria-live": "polite", id: "state" });
  // What an earlier visit could not send is sent now, whichever round it is for.
  const kept = await device.kept(collection), waiting = kept.filter(({ state }) => state === "pending" || state === "sent");
  const mine = window === null ? waiting.at(-1) : kept.find((each) => each.window === window) ?? waiting.at(-1);
  const state = previewed ? { closed: null } : await learnState(collection, window, kept.length), closed = mine ? null : state.closed;
  if (welcome) main.append(make("p", { id: "welcome", ...own }, welcome));
  if (!closed) main.append(describePromise(collection));
  if (mine) main.append(make("p", {}, say("answer.answered")), status, makeAgain(device, collection, mine.window, status));
  else if (closed) main.append(make("p", { role: "alert", id: "closed" }, closed));
  else main.append(makeForm(device, collection, status));
  if (mine) tellState(status, mine.state);
  if ((mine && state.counted) || closed) await import("./closed.js").then(({ showResult }) => showResult(main, collection, state), () => {});
  main.append(explain(collection, "illustration", "illustrate"), explain(collection, "trust", "explainTrust"), explain(collection, "check", "explainCheck"));
  if (!previewed) main.append(make("p", {}, make("a", { href: `${collection.url}/c/${Array.from(collection.id, (byte) => byte.toString(16).padStart(2, "0")).join("")}/privacy`, target: "_blank", rel: "noopener" }, say("answer.privacyPage"))));
  if (contact) main.append(make("p", { class: "soft", id: "contact" }, say("answer.contact", { contact })));
  for (const each of waiting) await send(device, collection, each.window, each === mine ? status : make("p"));
}

/** Something to open, which is loaded only then. @param {Collection} collection @param {string} key @param {"illustrate" | "explainTrust" | "explainCheck"} what */
function explain(collection, key, what) {
  const box = make("details", {}, make("summary", {}, say(`answer.${key}`)));
  const wait = () => box.addEventListener("toggle", async () => {
    try {
      box.append(...(await loadMore())[what](collection));
    } catch { // no connection: it can be opened again
      box.removeAttribute("open");
      wait();
    }
  }, { once: true });
  wait();
  return box;
}

async function loadMore() {
  const [more] = await Promise.all([import("./more.js"), load(current(), "more")]);
  return more;
}

/** @typedef {{ closed: string | null, results?: string | null, counted?: boolean, expired?: boolean }} Known */

/** Why there is no form (or null), and where results are. @param {Collection} collection @param {number | null} window @param {number} answered @returns {Promise<Known>} */
async function learnState(collection, window, answered) {
  const { start, seconds, count } = collection.windows, now = Date.now() / 1000;
  /** @type {string | null} */
  let closed = null;
  if (now < start) closed = say("answer.closed.notYet", { time: tellTime(start) });
  else if (window === null) closed = now >= start + seconds * count ? say("answer.closed.over", { time: tellTime(start + seconds * count) }) : say("answer.closed.between");
  else if (answered >= collection.promise.reportsPerDevice) closed = say("answer.closed.full");
  try {
    const reply = await fetch(`${collection.url}/windows`, { credentials: "omit", referrerPolicy: "no-referrer" });
    /** @type {{ windows: { window: number, state: string, reports?: number }[], results?: string | null }} */
    const { windows, results } = await reply.json(), known = windows.find((each) => each.window === window)?.state;
    if (window !== null && known !== undefined && known !== "open") closed = say("answer.closed.closed");
    // A round that was given up though it had enough reports may have been counted, and its result be there.
    const few = (/** @type {{ reports?: number }} */ each) => (each.reports ?? 0) < collection.promise.minBatch;
    const counted = windows.some((each) => ["written", "sealed", "deleted"].includes(each.state) || (each.state === "expired" && !few(each)));
    return { closed, results, counted, expired: windows.some((each) => each.state === "expired") };
  } catch {
    return { closed }; // the form says so when it cannot send
  }
}

/** @param {Collection} collection */
function describePromise(collection) {
  const { promise } = collection, times = promise.composed ? 1 : promise.reportsPerDevice;
  const guess = guessAfter(times * promise.epsilon, times * promise.delta);
  const plain = promise.localEpsilon === Infinity; // the device changes nothing: what is stated is the servers' noise
  const published = look("answer.published")[tier(guess, [0.53, 0.74, 0.955, 1])];
  return make(
    "section", { class: "card", "aria-labelledby": "promise" },
    make("h2", { id: "promise" }, say("answer.inShort")),
    make("p", { id: "noise" }, plain ? say("answer.noiseless") : look("answer.noise")[tier(guessAfter(promise.localEpsilon, 0), [0.75, 0.955, 1])]),
    ...(promise.reportsPerDevice > 1 && !plain ? [make("p", { id: "repeated" }, say("answer.repeated", { n: promise.reportsPerDevice }))] : []),
    ...(promise.oneQuestion ? [make("p", {}, say("answer.one"))] : []),
    make("p", { id: "published" }, say("answer.publishedGuess", { tier: published, percent: percentAbove(guess) })),
    make("p", { id: "guess" }, plain ? say("answer.noGuess") : say("answer.guess", { percent: percentAbove(collection.guess) })),
    make("details", {}, make("summary", {}, say("answer.numbers")),
      make("p", {}, say("answer.shuffled", { epsilon: String(promise.epsilon), delta: String(promise.delta), together: say(promise.composed ? "answer.together" : "answer.each"), by: say(collection.checked ? "answer.checked" : "answer.claimed") })),
      make("p", {}, say("answer.batch", { n: promise.minBatch }))),
  );
}

/** @param {Device} device @param {Collection} collection @param {HTMLElement} status */
function makeForm(device, collection, status) {
  const button = make("button", { type: "submit" }, say("answer.send"));
  const fields = makeFields(collection.questions, speakSurvey(collection)), { consent } = readTexts(collection);
  if (consent) fields.push(makeConsent(consent, speakSurvey(collection)));
  if (collection.tokens) fields.push(makeCode(given.get("token") ?? ""));
  const form = make("form", { novalidate: true }, ...fields.map(({ box }) => box), button, status);
  form.addEventListener("submit", async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const filled = readFields(fields);
    if (typeof filled === "number") return tell(status, say("answer.summary", { n: filled }), "bad");
    if (previewed) return tell(status, say("answer.preview"), "bad");
    const answers = Object.fromEntries(collection.questions.map(({ name }) => [name, filled[name]]));
    const key = collection.tokens ? readCode(filled[CODE]) : new Uint8Array(0);
    button.disabled = true;
    /** @type {[any, any][]} */
    const sent = [];
    try {
      const yes = /** @type {HTMLInputElement | null} */ (form.querySelector("#accept"));
      const window = await device.answer(collection, answers, undefined, /** @type {Uint8Array} */ (key), yes?.checked, (question, message) => sent.push([question, message]));
      form.querySelectorAll("fieldset").forEach((/** @type {HTMLElement} */ each) => each.setAttribute("disabled", ""));
      button.remove();
      form.append(makeAgain(device, collection, window, status));
      addEventListener("acknowledged", () => loadMore().then((more) => form.after(more.showSent(sent)), () => {}), { once: true });
      await send(device, collection, window, status);
    } catch (error) {
      const reason = error instanceof WireError ? error.reason : "", known = look("answer.failures");
      button.disabled = Object.hasOwn(known, reason) && reason !== "consent";
      if (reason === "consent" && !form.querySelector("#accept")) {
        button.before(make("label", { class: "choice" }, make("input", { type: "checkbox", id: "accept" }), make("span", {}, say("answer.accept"))));
      }
      tell(status, say(`answer.failures.${Object.hasOwn(known, reason) ? reason : "other"}`, { reason: error instanceof Error ? error.message : String(error) }), "bad");
    }
  });
  return form;
}

/** The code of an invitation, or null if it cannot be one. @param {string} text */
function readCode(text) {
  const shown = text.trim().toLowerCase();
  return /^[0-9a-f]{64}$/.test(shown) ? Uint8Array.from(shown.match(/../g) ?? [], (pair) => parseInt(pair, 16)) : null;
}

/** The name of the code among the answers: no question has it. */
const CODE = "#code";

/** A box to tick before anything is sent. @param {string} text @param {Record<string, string>} own @returns {import("./fields.js").Field} */
function makeConsent(text, own) {
  const tick = make("input", { type: "checkbox", id: "consent", "aria-invalid": "false", "aria-describedby": "consent:error" });
  const box = make("div", { class: "card" }, make("label", { class: "choice" }, tick, make("span", own, text)), make("p", { class: "bad error", id: "consent:error" }));
  return { box, read: () => (tick.checked ? { answers: {} } : { sentence: say("answer.wrong.consent"), at: tick }) };
}

/** A field for the code. @param {string} value @returns {import("./fields.js").Field} */
function makeCode(value) {
  const box = make("input", { type: "text", id: "token", autocomplete: "off", size: 64, dir: "ltr", value, "aria-invalid": "false", "aria-describedby": "token:error" });
  const read = () => (readCode(box.value) ? { answers: { [CODE]: box.value } } : { sentence: say("answer.codes.form"), at: box });
  return { box: make("div", {}, make("label", { for: "token" }, say("answer.token")), make("br"), box, make("p", { class: "bad error", id: "token:error" })), read };
}

/** @param {HTMLElement} status @param {import("../device/device.js").State} state */
function tellState(status, state) {
  status.dataset.state = state;
  tell(status, say(`answer.states.${state}`), state === "acknowledged" ? "good" : state === "refused" ? "bad" : "");
}

/** @param {Device} device @param {Collection} collection @param {number} window @param {HTMLElement} status @param {Uint8Array=} code */
async function send(device, collection, window, status, code = undefined) {
  try {
    tellState(status, await device.send(collection, window, code));
  } catch (error) {
    const reason = error instanceof WireError ? error.reason : "", codes = look("answer.codes");
    if (Object.hasOwn(codes, reason)) askAgain(device, collection, window, status, codes[reason]);
    else if (error instanceof WireError && reason !== "unreachable") tell(status, say("answer.failures.other", { reason: error.message }), "bad");
    else tell(status, say("answer.offline"), "bad");
  }
  const state = await device.state(collection, window);
  status.dataset.state = state;
  if (state === "acknowledged") dispatchEvent(new Event("acknowledged"));
  for (const each of document.querySelectorAll("button.again")) {
    each.classList.toggle("hidden", !["pending", "sent"].includes(state));
  }
}

/** The code was not taken: the report waits for another one. @param {Device} device @param {Collection} collection @param {number} window @param {HTMLElement} status @param {string} sentence */
function askAgain(device, collection, window, status, sentence) {
  tell(status, sentence, "bad");
  document.getElementById("mend")?.remove();
  document.getElementById("token")?.parentElement?.remove();
  const code = makeCode("");
  const mend = make("form", { id: "mend", class: "card", novalidate: true }, code.box, make("button", { type: "submit" }, say("answer.newCode")));
  mend.addEventListener("submit", async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const filled = readFields([code]);
    if (typeof filled === "number") return;
    mend.remove();
    await send(device, collection, window, status, /** @type {Uint8Array} */ (readCode(filled[CODE])));
  });
  (status.closest("form") ?? status).after(mend);
  const box = find("token");
  box.setAttribute("aria-invalid", "true");
  box.focus();
}

/** @param {Device} device @param {Collection} collection @param {number} window @param {HTMLElement} status */
function makeAgain(device, collection, window, status) {
  const again = () => send(device, collection, window, status);
  addEventListener("online", again);
  return make("button", { type: "button", class: "quiet again hidden", onclick: again }, say("answer.again"));
}

start();

// The operator's desk: collections and how they are doing, and a form that plans a new one while it is filled in.

import { drawBars, drawRange, fitWidth, show } from "./chart.js";
import { find, make, makeTable } from "./dom.js";
import { isShare, nameRow, showResults } from "./results.js";
import { percentAbove, strings } from "./strings.js";

const main = find("main");
const text = strings.desk;
const token = location.hash.slice(1);

/** @param {string} path @param {object=} body */
async function ask(path, body) {
  const reply = await fetch(path, {
    method: body ? "POST" : "GET", body: body && JSON.stringify(body), credentials: "omit",
    headers: { authorization: `Bearer ${token}`, ...(body ? { "content-type": "application/json" } : {}) },
  });
  const content = await reply.json();
  if (!reply.ok) throw new Error(content.detail);
  return content;
}

// ---- Collections

/** @param {any} window @param {any} collection */
function describeWindow(window, collection) {
  const until = new Date(1000 * window.closes).toLocaleString();
  const progress = make("progress", { max: collection.min_batch, value: Math.min(window.reports, collection.min_batch),
    "aria-label": text.progress(window.reports, collection.min_batch) });
  const waiting = window.state === "open" ? null : collection.waiting[String(window.window)];
  return make("li", {}, make("strong", {}, text.window(window.window)), ` ${text.states[window.state] ?? window.state} `,
    make("span", { class: "soft" }, text.until(until)), progress, text.progress(window.reports, collection.min_batch),
    ...(waiting ? [make("p", { class: "soft" }, waiting.replace(/^\w+: /, ""))] : []));
}

/** A button that says what closing does, and asks. @param {any} collection @param {any} window */
function makeClosing(collection, window) {
  const missing = collection.min_batch - window.reports;
  const says = missing > 0 ? text.closeDeletes(missing, window.reports) : text.closePublishes(window.reports);
  const turn = async (/** @type {boolean} */ asking) => {
    if (asking) asked.add(collection.id);
    else asked.delete(collection.id);
    await refresh(true); // the numbers of this moment
    document.getElementById(`${asking ? "keep" : "close"}-${collection.id}`)?.focus();
  };
  if (!asked.has(collection.id)) {
    return make("button", { type: "button", class: "quiet", id: `close-${collection.id}`, onclick: () => turn(true) }, text.close);
  }
  const yes = make("button", { type: "button", onclick: async () => {
    yes.disabled = true;
    asked.delete(collection.id);
    await ask(`/api/collections/${collection.id}/close`, {}).finally(() => refresh(true));
  } }, missing > 0 ? text.reallyDelete : text.reallyClose);
  const no = make("button", { type: "button", class: "quiet", id: `keep-${collection.id}`, onclick: () => turn(false) }, text.keepOpen);
  return make("div", { role: "alertdialog", "aria-label": text.close, class: "card" }, make("p", {}, says), yes, " ", no);
}

/** Collections whose closing is being confirmed: the page is drawn anew every few seconds. @type {Set<string>} */
const asked = new Set();

/** @param {any} collection */
function showCollection(collection) {
  const results = make("div", { class: "card" });
  showResults(results, collection, collection.results);
  const reasons = Object.entries(collection.rejected).map(([reason, count]) => [reason, String(count)]);
  const commands = [
    `shuffledp collection status ${collection.folder}`, `shuffledp collection close ${collection.folder}`,
    `shuffledp report '${collection.link}' ...`,
  ];
  const open = collection.windows.find((/** @type {any} */ each) => each.state === "open");
  return make("article", { class: "card" },
    make("h2", { dir: "auto" }, collection.title),
    make("p", {}, make("a", { href: collection.page, target: "_blank", rel: "noopener" }, text.page), " · ",
      make("a", { href: collection.results_page, target: "_blank", rel: "noopener" }, text.results)),
    make("p", {}, text.accepted(collection.accepted), " ", text.keyAge(collection.key_age_seconds), " ",
      collection.analyzer_seen_seconds_ago === null ? text.analyzerNever : text.analyzerSeen(collection.analyzer_seen_seconds_ago)),
    ...(collection.failing ? [make("p", { class: "bad", role: "alert" }, text.failing(collection.failing))] : []),
    make("ol", { class: "timeline" }, ...collection.windows.map((/** @type {any} */ each) => describeWindow(each, collection))),
    ...(reasons.length ? [makeTable(text.rejected, reasons, [1])] : []),
    ...(open ? [makeClosing(collection, open)] : []),
    results,
    make("details", {}, make("summary", {}, text.commands), ...commands.map((each) => make("p", { class: "code" }, each))));
}

/** What changes with every look, and is no reason to draw anew. */
const AGES = ["analyzer_seen_seconds_ago", "key_age_seconds"];
let shown = "";

/** @param {boolean} anew whether to draw it in any case */
async function refresh(anew = false) {
  const place = document.getElementById("collections");
  if (!place) return;
  try {
    const found = await ask("/api/status");
    const { collections } = found, said = JSON.stringify(found, (key, value) => (AGES.includes(key) ? undefined : value));
    // A new drawing would take the keyboard's focus away: only if there is news, and never while somebody decides.
    if (!anew && place.childElementCount && (said === shown || asked.size > 0)) return;
    shown = said;
    const opened = [...place.querySelectorAll("details[open] > summary")].map((each) => each.textContent);
    place.replaceChildren(...(collections.length ? collections.map(showCollection) : [make("p", { class: "soft" }, text.none)]));
    for (const each of place.querySelectorAll("details > summary")) {
      if (opened.includes(each.textContent)) /** @type {HTMLDetailsElement} */ (each.parentElement).open = true;
    }
  } catch (error) {
    place.replaceChildren(make("p", { class: "bad", role: "alert" }, String(error instanceof Error ? error.message : error)));
  }
}

// ---- A new survey

/** @param {string} label @param {any} input */
function field(label, input) {
  return make("p", {}, make("label", {}, make("span", {}, `${label} `), make("br"), input));
}

/** A slider on a logarithmic scale with the number beside it. @param {string} name @param {number} low @param {number} high @param {number} value */
function slider(name, low, high, value) {
  const range = make("input", { type: "range", min: Math.log(low), max: Math.log(high), step: "any", value: Math.log(value), "aria-label": text.fields[name] });
  const box = make("input", { type: "text", inputmode: "decimal", name, value, size: 9, "aria-label": text.fields[name] });
  const whole = name === "people";
  range.addEventListener("input", () => {
    const chosen = Math.exp(Number(range.value));
    box.value = String(whole ? Number(chosen.toPrecision(2)) : Number(chosen.toPrecision(2)));
    box.dispatchEvent(new Event("input", { bubbles: true }));
  });
  box.addEventListener("change", () => (range.value = String(Math.log(Number(box.value)))));
  return make("p", {}, make("span", { "aria-hidden": "true" }, text.fields[name]), make("span", { class: "pair" }, range, box));
}

let questions = 0;

/** @param {Partial<{ text: string, task: string, categories: string }>} given */
function makeQuestion(given = {}) {
  questions += 1;
  const box = make("fieldset", { class: "question", "data-name": `q${questions}` }, make("legend", {}, text.question(questions)));
  const task = make("select", { class: "task" }, ...Object.entries(text.tasks).map(([value, label]) =>
    make("option", { value, selected: value === given.task }, label)));
  const choices = field(text.categories, make("textarea", { class: "categories", rows: 5, cols: 40 }, given.categories ?? ""));
  const ends = make("div", {}, field(text.lower, make("input", { type: "text", inputmode: "decimal", class: "lower", value: "0", size: 8 })),
    field(text.upper, make("input", { type: "text", inputmode: "decimal", class: "upper", value: "100", size: 8 })));
  const spelling = make("div", {}, field(text.alphabet, make("select", { class: "alphabet" }, ...Object.entries(text.alphabets).map(([value, label]) =>
    make("option", { value }, label)))), field(text.longest, make("input", { type: "text", inputmode: "numeric", class: "longest", value: "8", size: 4 })));
  const adapt = () => {
    spelling.classList.toggle("hidden", task.value !== "words");
    choices.classList.toggle("hidden", task.value !== "histogram");
    ends.classList.toggle("hidden", !["mean", "quantiles"].includes(task.value));
  };
  task.addEventListener("change", adapt);
  const remove = make("button", { type: "button", class: "quiet", onclick: () => { box.remove(); plan(); } }, text.remove);
  box.append(field(text.words, make("input", { type: "text", class: "words", value: given.text ?? "", size: 40 })),
    field(text.task, task), choices, ends, spelling, remove);
  adapt();
  return box;
}

/** @param {string} noise @param {string} floor */
function readNoise(noise, floor) {
  if (noise === "none") return { noise: "servers", local_epsilon: "none", trust_the_shuffler: true };
  return { ...(noise === "either" ? {} : { noise }), local_epsilon: floor };
}

/** @param {HTMLElement} form */
function readSurvey(form) {
  const value = (/** @type {string} */ name) => /** @type {HTMLInputElement} */ (form.querySelector(`[name=${name}]`)).value.trim();
  /** @type {Record<string, any>} */
  const asked = {};
  for (const each of form.querySelectorAll("fieldset.question")) {
    const inner = (/** @type {string} */ kind) => /** @type {HTMLInputElement} */ (each.querySelector(`.${kind}`)).value.trim();
    const name = /** @type {HTMLElement} */ (each).dataset.name ?? "";
    asked[name] = { task: inner("task"), text: inner("words") || name };
    if (inner("task") === "histogram") asked[name].categories = inner("categories").split("\n").map((part) => part.trim()).filter(Boolean);
    if (["mean", "quantiles"].includes(inner("task"))) Object.assign(asked[name], { lower: inner("lower"), upper: inner("upper") });
    if (inner("task") === "words") Object.assign(asked[name], { alphabet: inner("alphabet"), max_length: Number(inner("longest")) });
    if (inner("task") === "quantiles") asked[name].at = ["0.25", "0.5", "0.75"];
  }
  const hours = Number(value("hours"));
  const wanted = value("error");
  return {
    epsilon: value("epsilon"), delta: value("delta"), questions: asked, ...(wanted ? { error: String(Number(wanted) / 100) } : {}),
    collection: { title: value("title") || "A survey", people: Math.round(Number(value("people"))), ...readNoise(value("noise"), value("local_epsilon")),
      seconds: Math.max(1, Math.round(3600 * hours)), grace: Math.min(600, Math.round(3600 * hours)) },
  };
}

let asking = 0;
/** The document that the preview shows: what is started is this one. @type {string | null} */
let draft = null;

async function plan() {
  const form = find("survey"), place = find("preview");
  const mine = ++asking;
  draft = null;
  allowStart();
  await new Promise((resolve) => setTimeout(resolve, 200));
  if (mine !== asking) return;
  try {
    const found = await ask("/api/preview", readSurvey(form));
    if (mine !== asking) return;
    draft = found.draft ?? null;
    allowStart();
    place.replaceChildren(...showPreview(found));
  } catch (error) {
    if (mine === asking) place.replaceChildren(make("p", { class: "bad" }, error instanceof Error ? error.message : String(error)));
  }
}

/** Only what is previewed can be started. */
function allowStart() {
  const button = /** @type {HTMLButtonElement | null} */ (document.getElementById("make"));
  if (button) button.disabled = draft === null;
}

/** @param {any} found */
function showPreview(found) {
  const facts = [
    [text.facts.epsilon, `${found.epsilon}, delta = ${found.delta}`], [text.facts.local, found.floor === null ? text.noFloor : `${found.floor} (${percentAbove(found.guess)} %)`],
    [text.facts.batch, found.min_batch.toLocaleString("en")], [text.facts.bytes, String(found.bytes)],
    [text.facts.influence, found.influence === null ? text.unbounded : show(found.influence)], [text.facts.limit, found.limited_by],
  ];
  const width = fitWidth(matchMedia("(min-width: 56rem)").matches ? 2 : 1);
  return [
    make("h3", {}, text.preview), makeTable(["", ""], facts), make("p", { class: "compared" }, found.compared),
    ...found.questions.flatMap((/** @type {any} */ each) => {
      const title = `${each.text} (${each.protocol})`;
      const chart = each.lower !== null && each.task === "mean" ? drawRange(each.estimate[0], each.lower, each.upper, title, width) : drawBars(each.estimate.map((/** @type {any} */ row) => nameRow(each.task, row)), title, width, isShare(each.task) ? each.people : null);
      const found = each.found ? [make("p", { class: "found" }, text.found(each.found, each.people))] : [];
      return [make("p", { dir: "auto" }, make("strong", {}, each.text), make("span", { class: "soft" }, ` ${each.protocol}`)), chart, ...found];
    }),
    make("p", { class: "soft" }, text.madeUp),
  ];
}

/** @param {boolean} alone without collections */
function makePlanner(alone) {
  const form = make("form", { id: "survey" });
  const list = make("div", {}, makeQuestion({ text: "How do you come to work?", task: "histogram", categories: "car\nbicycle\nbus\ntrain\nother" }));
  const input = (/** @type {string} */ name, /** @type {any} */ value, /** @type {number} */ size) =>
    field(text.fields[name], make("input", { type: "text", name, value, size }));
  form.append(input("title", "A survey", 40), list,
    make("button", { type: "button", class: "quiet", onclick: () => { list.append(makeQuestion({ task: "count" })); plan(); } }, text.add),
    slider("people", 50, 1e6, 2000), slider("epsilon", 0.05, 8, 1), slider("local_epsilon", 0.2, 8, 3),
    field(text.fields.noise, make("select", { name: "noise" }, ...Object.entries(text.noises).map(([value, label]) => make("option", { value }, label)))),
    input("delta", "1e-8", 10), input("hours", "168", 6), input("error", "", 6));
  form.addEventListener("input", plan);
  const status = make("p", { role: "status" });
  if (!alone) form.append(make("button", { type: "submit", id: "make" }, text.make), status);
  form.addEventListener("submit", async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    status.textContent = text.starting;
    try {
      const made = await ask("/api/collections", { draft });
      status.replaceChildren(make("a", { href: made.page, id: "made", target: "_blank", rel: "noopener" }, text.made));
      await refresh();
    } catch (error) {
      status.textContent = error instanceof Error ? error.message : String(error);
    }
    plan(); // a draft is started once
  });
  const preview = make("section", { id: "preview", class: "card", "aria-live": "polite", "aria-label": text.preview },
    make("p", { class: "soft" }, text.planning));
  return make("div", { class: "columns" }, form, preview);
}

async function start() {
  const alone = await ask("/api/status").then(() => false, (error) => (error.message === text.unauthorized ? null : true));
  if (alone === null) return main.replaceChildren(make("h1", {}, text.title), make("p", { class: "bad", role: "alert" }, text.unauthorized));
  main.replaceChildren(make("h1", {}, alone ? text.planner : text.title));
  if (!alone) main.append(make("section", { id: "collections", "aria-label": text.collections }), make("h2", {}, text.fresh));
  main.append(makePlanner(alone));
  plan();
  if (!alone) {
    await refresh();
    setInterval(() => refresh(), 3000);
  }
}

start();

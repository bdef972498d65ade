// A form that plans a survey while it is filled in. What is previewed is what is started.

import { ask, Refusal } from "./ask.js";
import { drawBars, drawRange, fitWidth, show } from "./chart.js";
import { find, make, makeTable, tell } from "./dom.js";
import { isShare, nameRow } from "./results.js";
import { count, current, cutOut, look, percentAbove, readNumber, say } from "./strings.js";

/** A field with its label and a place for what is wrong. @param {string} label @param {any} input */
function field(label, input) {
  fields += 1;
  const error = `error-${fields}`;
  input.setAttribute("aria-describedby", error);
  input.setAttribute("aria-invalid", "false");
  return make("div", { class: "field" }, make("label", {}, make("span", {}, `${label} `), make("br"), input), make("p", { class: "bad error", id: error }));
}
let fields = 0;

/** A slider on a logarithmic scale with the number beside it. @param {string} name @param {number} low @param {number} high @param {number} value */
function slider(name, low, high, value) {
  const label = say(`desk.fields.${name}`), error = `error-${name}`;
  const range = make("input", { type: "range", min: Math.log(low), max: Math.log(high), step: "any", value: Math.log(value), "aria-label": label });
  const box = make("input", { type: "text", inputmode: "decimal", name, value, size: 9, "aria-label": label, "aria-describedby": error, "aria-invalid": "false" });
  range.addEventListener("input", () => {
    box.value = count(Number(Math.exp(Number(range.value)).toPrecision(2)), { useGrouping: false });
    box.dispatchEvent(new Event("input", { bubbles: true }));
  });
  box.addEventListener("input", () => { const given = readNumber(box.value); if (typeof given === "number" && given > 0) range.value = String(Math.log(given)); });
  return make("div", { class: "field" }, make("span", { "aria-hidden": "true" }, label), make("span", { class: "pair" }, range, box), make("p", { class: "bad error", id: error }));
}

/** What a kind of question asks besides its words. */
const NEEDS = /** @type {Record<string, string[]>} */ ({
  histogram: ["categories", "optional", "by"], count: ["by"], scale: ["ends", "optional"], several: ["categories"], mean: ["range", "unit"], quantiles: ["range", "unit"], words: ["spelling"],
});

let questions = 0;

/** @param {any} given */
function makeQuestion(given) {
  questions += 1;
  const number = questions, box = make("fieldset", { class: "question", "data-name": given.name ?? `q${number}` }, make("legend", {}, say("desk.question", { n: number })));
  const options = (/** @type {Record<string, string>} */ table, /** @type {string=} */ chosen) => Object.entries(table).map(([value, label]) => make("option", { value, selected: value === chosen }, label));
  const text = (/** @type {string} */ kind, /** @type {any} */ value, /** @type {number} */ size, /** @type {string=} */ mode) =>
    make("input", { type: "text", class: kind, value, size, ...(mode ? { inputmode: mode } : {}) });
  const task = make("select", { class: "task" }, ...options(look("desk.tasks"), given.task));
  const parts = /** @type {Record<string, any>} */ ({
    categories: field(say("desk.categories"), make("textarea", { class: "categories", rows: 5, cols: 40 }, (given.categories ?? []).join("\n"))),
    ends: make("div", {}, field(say("desk.scaleLow"), text("low", given.low ?? "", 30)), field(say("desk.scaleHigh"), text("high", given.high ?? "", 30))),
    optional: make("p", {}, make("label", { class: "choice" }, make("input", { type: "checkbox", class: "optional", checked: Boolean(given.optional) }), say("desk.optional"))),
    by: field(say("desk.by"), make("select", { class: "by", "data-wanted": given.by ?? "" })),
    range: make("div", {}, field(say("desk.lower"), text("lower", given.lower ?? "0", 8, "decimal")), field(say("desk.upper"), text("upper", given.upper ?? "100", 8, "decimal"))),
    unit: field(say("desk.unit"), text("unit", given.unit ?? "", 12)),
    spelling: make("div", {}, field(say("desk.alphabet"), make("select", { class: "alphabet" }, ...options(look("desk.alphabets"), given.alphabet))),
      field(say("desk.longest"), text("longest", given.longest ?? "8", 4, "numeric"))),
  });
  const adapt = () => Object.entries(parts).forEach(([name, part]) => part.classList.toggle("hidden", !NEEDS[task.value].includes(name)));
  task.addEventListener("change", adapt);
  const remove = make("button", { type: "button", class: "quiet", "aria-label": say("desk.removeNamed", { n: number }), onclick: () => { box.remove(); changed(); } }, say("desk.remove"));
  box.append(field(say("desk.text"), text("words", given.text ?? "", 40)), field(say("desk.task"), task), field(say("desk.description"), text("description", given.description ?? "", 40)), ...Object.values(parts), remove);
  adapt();
  return box;
}

/** Offer the other questions with choices to each: a table of both. @param {HTMLElement} form */
function offerCrossing(form) {
  const all = [...form.querySelectorAll("fieldset.question")].map((each) => /** @type {HTMLElement} */ (each));
  const value = (/** @type {HTMLElement} */ each, /** @type {string} */ kind) => /** @type {HTMLInputElement} */ (each.querySelector(`.${kind}`)).value.trim();
  for (const each of all) {
    const box = /** @type {HTMLSelectElement} */ (each.querySelector(".by")), wanted = box.value || box.dataset.wanted;
    const others = all.filter((other) => other !== each && value(other, "task") === "histogram");
    const names = others.map((other) => [other.dataset.name ?? "", value(other, "words") || other.dataset.name || ""]);
    const offered = JSON.stringify(names);
    if (box.dataset.offered === offered) continue;
    box.dataset.offered = offered;
    box.replaceChildren(make("option", { value: "" }, say("desk.byNone")), ...names.map(([name, text]) => make("option", { value: name, selected: name === wanted }, text)));
  }
}

/** What the form says, as it stands: strings. @param {HTMLElement} form */
function readForm(form) {
  const value = (/** @type {string} */ name) => /** @type {HTMLInputElement} */ (form.querySelector(`[name=${name}]`)).value.trim();
  const asked = [...form.querySelectorAll("fieldset.question")].map((each) => {
    const inner = (/** @type {string} */ kind) => /** @type {HTMLInputElement} */ (each.querySelector(`.${kind}`)).value.trim();
    const kinds = ["task", "description", "low", "high", "by", "lower", "upper", "unit", "alphabet", "longest"];
    return { name: /** @type {HTMLElement} */ (each).dataset.name ?? "", text: inner("words"), ...Object.fromEntries(kinds.map((kind) => [kind, inner(kind)])),
      categories: splitLines(inner("categories")), optional: /** @type {HTMLInputElement} */ (each.querySelector(".optional")).checked };
  });
  return { ...Object.fromEntries(NAMES.map((name) => [name, value(name)])), questions: asked };
}

const NAMES = ["language", "welcome", "consent", "contact", "logo", "title", "people", "epsilon", "local_epsilon", "noise", "delta", "hours", "error"];

/** A picture that is made small here, so that nothing but the picture is sent. @param {string} given */
function makeLogo(given) {
  const kept = make("input", { type: "hidden", name: "logo", value: given }), shown = make("img", { class: "logo", alt: "" });
  const file = make("input", { type: "file", id: "logo-file", accept: "image/png,image/jpeg" });
  const box = field(say("desk.fields.logo"), file), none = make("button", { type: "button", class: "quiet", id: "no-logo", onclick: () => take("") }, say("desk.noLogo"));
  const take = (/** @type {string} */ logo) => {
    /** @type {HTMLInputElement} */ (kept).value = logo;
    if (logo) shown.setAttribute("src", logo);
    shown.hidden = none.hidden = !logo;
    if (!logo) /** @type {HTMLInputElement} */ (file).value = "";
    kept.dispatchEvent(new Event("input", { bubbles: true }));
  };
  file.addEventListener("input", (event) => event.stopPropagation());
  file.addEventListener("change", async () => {
    const chosen = /** @type {HTMLInputElement} */ (file).files?.[0], error = /** @type {HTMLElement} */ (box.querySelector(".error"));
    if (!chosen) return;
    const logo = await shrink(chosen).catch(() => null);
    error.textContent = logo ? "" : say("desk.wrong.logo");
    take(logo ?? "");
  });
  shown.hidden = none.hidden = !given;
  if (given) shown.setAttribute("src", given);
  box.append(kept, shown, none);
  return box;
}

/** At most 240 by 80 pixels and as many bytes as a document takes; null if that cannot be. @param {Blob} file */
async function shrink(file) {
  const picture = await createImageBitmap(file), scale = Math.min(1, 240 / picture.width, 80 / picture.height);
  for (const [kind, size] of /** @type {[string, number][]} */ ([["png", 1], ["png", 0.6], ["jpeg", 1], ["jpeg", 0.6]])) {
    const canvas = document.createElement("canvas"), pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    canvas.width = Math.max(1, Math.round(picture.width * scale * size));
    canvas.height = Math.max(1, Math.round(picture.height * scale * size));
    if (kind === "jpeg") pen.fillStyle = "#fff", pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
    const logo = canvas.toDataURL(`image/${kind}`, 0.8);
    if (logo.length <= 10_600) return logo;
  }
  return null;
}

/** @param {HTMLElement} form @param {HTMLElement} at @param {string} sentence */
function complain(form, at, sentence) {
  const place = /** @type {HTMLElement} */ (at.closest(".field"))?.querySelector(".error");
  at.setAttribute("aria-invalid", "true");
  if (place) place.textContent = sentence;
}

/** What is wrong with what was filled in: where, and in which words. @param {HTMLElement} form @param {any} filled @returns {[HTMLElement, string][]} */
function findFaults(form, filled) {
  const box = (/** @type {string} */ name) => /** @type {HTMLElement} */ (form.querySelector(`[name=${name}]`));
  const number = (/** @type {string} */ text) => { const given = readNumber(text); return typeof given === "number" ? given : NaN; };
  /** @type {[HTMLElement, string][]} */
  const faults = [];
  const check = (/** @type {HTMLElement} */ at, /** @type {boolean} */ fine, /** @type {string} */ key, /** @type {Record<string, any>=} */ values) => fine || faults.push([at, say(`desk.wrong.${key}`, values)]);
  const people = number(filled.people), hours = number(filled.hours), error = number(filled.error), epsilon = number(filled.epsilon), delta = number(filled.delta), local = number(filled.local_epsilon);
  check(box("title"), filled.title !== "", "title");
  check(box("language"), /^([a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?)?$/.test(filled.language), "language");
  [...form.querySelectorAll("fieldset.question")].forEach((each, place) => {
    const asked = filled.questions[place], at = (/** @type {string} */ kind) => /** @type {HTMLElement} */ (each.querySelector(`.${kind}`)), needs = NEEDS[asked.task];
    check(at("words"), asked.text !== "", "text");
    const choices = asked.categories, twice = choices.find((/** @type {string} */ label, /** @type {number} */ i) => choices.indexOf(label) < i);
    if (needs.includes("categories")) check(at("categories"), choices.length > 1, "categories");
    if (needs.includes("categories") && twice !== undefined) check(at("categories"), false, "twice", { label: twice });
    if (needs.includes("range")) {
      for (const kind of ["lower", "upper"]) check(at(kind), Number.isFinite(number(asked[kind])), "number", { example: kind === "lower" ? "0" : "100" });
      if (number(asked.lower) >= number(asked.upper)) check(at("upper"), false, "order");
    }
    const longest = number(asked.longest);
    if (needs.includes("spelling")) check(at("longest"), Number.isInteger(longest) && longest >= 1 && longest <= 64, "longest");
  });
  check(box("people"), Number.isInteger(people) && people >= 4 && people <= 1e9, "people");
  check(box("epsilon"), epsilon > 0 && epsilon <= 100, "epsilon");
  check(box("local_epsilon"), local > 0 && local <= 8, "local_epsilon");
  check(box("delta"), delta > 0 && delta < 1, "delta");
  check(box("hours"), hours > 0 && hours <= 8760, "hours");
  check(box("error"), filled.error === "" || (error > 0 && error < 100), "error");
  return faults;
}

/** @param {string} text */
const splitLines = (text) => text.split("\n").map((part) => part.trim()).filter(Boolean);

/** @param {string} noise @param {string} floor */
function describeNoise(noise, floor) {
  if (noise === "none") return { noise: "servers", local_epsilon: "none", trust_the_shuffler: true };
  return { ...(noise === "either" ? {} : { noise }), local_epsilon: floor };
}

/** The survey that the form describes, as survey files have it. @param {any} filled */
function describeSurvey(filled) {
  const number = (/** @type {string} */ text) => String(readNumber(text));
  /** @type {Record<string, any>} */
  const asked = {};
  for (const each of filled.questions) {
    const { name, text } = each, rather = each.optional ? [say("desk.rather")] : [];
    const words = [say("answer.no"), say("answer.yes")], said = each.description ? { description: each.description } : {};
    if (each.task === "several") {
      each.categories.forEach((/** @type {string} */ label, /** @type {number} */ place) =>
        (asked[`${name}_${place + 1}`] = { task: "count", text: label, asked: { ...said, kind: "several", part_of: { name, text }, answers: words } }));
      continue;
    }
    asked[name] = { task: each.task === "scale" ? "histogram" : each.task, text, asked: { ...said, ...(each.optional && NEEDS[each.task].includes("optional") ? { skip: true } : {}) } };
    if (each.task === "count") asked[name].asked.answers = words;
    if (each.task === "scale") {
      asked[name].categories = ["1", "2", "3", "4", "5", ...rather];
      Object.assign(asked[name].asked, { kind: "scale", ends: [each.low || "1", each.high || "5"] });
    }
    if (each.unit && ["mean", "quantiles"].includes(each.task)) asked[name].asked.unit = each.unit;
    if (each.task === "histogram") asked[name].categories = [...each.categories, ...rather];
    if (["histogram", "count"].includes(each.task) && each.by && each.by !== name) {
      asked[name].by = each.by;
      asked[name].asked = said; // pairs are chosen among
    }
    if (["mean", "quantiles"].includes(each.task)) Object.assign(asked[name], { lower: number(each.lower), upper: number(each.upper) });
    if (each.task === "words") Object.assign(asked[name], { alphabet: each.alphabet, max_length: Number(each.longest) });
    if (each.task === "quantiles") asked[name].at = ["0.25", "0.5", "0.75"];
  }
  const seconds = Math.max(1, Math.round(3600 * Number(number(filled.hours))));
  return {
    epsilon: number(filled.epsilon), delta: number(filled.delta), questions: asked, ...(filled.error ? { error: String(Number(number(filled.error)) / 100) } : {}),
    collection: { title: filled.title, language: filled.language || current(), ...Object.fromEntries(["welcome", "consent", "contact", "logo"].flatMap((kind) => (filled[kind] ? [[kind, filled[kind]]] : []))), people: Number(number(filled.people)), ...describeNoise(filled.noise, number(filled.local_epsilon)), seconds, grace: Math.min(600, seconds) },
  };
}

let asking = 0;
/** The document that the preview shows: what is started is this one. @type {string | null} */
let draft = null;
/** The saved draft that is being edited. @type {string | null} */
let key = null;

/** Something was changed. */
function changed() {
  offerCrossing(find("survey"));
  plan();
}

async function plan() {
  const form = find("survey"), place = find("preview");
  const mine = ++asking;
  draft = null;
  allowStart();
  await new Promise((resolve) => setTimeout(resolve, 200));
  if (mine !== asking) return;
  for (const each of form.querySelectorAll("[aria-invalid]")) each.setAttribute("aria-invalid", "false");
  for (const each of form.querySelectorAll(".error")) each.textContent = "";
  const filled = readForm(form), faults = findFaults(form, filled);
  faults.forEach(([at, sentence]) => complain(form, at, sentence));
  if (!filled.questions.length) return place.replaceChildren(make("p", { class: "bad" }, say("desk.wrong.questions")));
  if (faults.length) return place.replaceChildren(make("p", { class: "bad" }, say("desk.wrong.summary", { n: faults.length })));
  try {
    const preview = await ask("/api/preview", describeSurvey(filled));
    if (mine !== asking) return;
    draft = preview.draft ?? null;
    allowStart();
    place.replaceChildren(...showPreview(preview));
  } catch (error) {
    if (mine !== asking) return;
    const sentence = error instanceof Error ? error.message : String(error);
    const at = error instanceof Refusal && error.field ? form.querySelector(`[name="${CSS.escape(error.field)}"]`) : null;
    if (at) complain(form, /** @type {HTMLElement} */ (at), sentence);
    place.replaceChildren(make("p", { class: "bad" }, sentence));
  }
}

/** Only what is previewed can be started. */
function allowStart() {
  for (const id of ["make", "see"]) {
    const button = /** @type {HTMLButtonElement | null} */ (document.getElementById(id));
    if (button) button.disabled = draft === null;
  }
}

/** @param {any} preview */
function showPreview(preview) {
  const facts = [
    [say("desk.facts.epsilon"), `${preview.epsilon}, delta = ${preview.delta}`], [say("desk.facts.local"), preview.floor === null ? say("desk.noFloor") : `${preview.floor} (${percentAbove(preview.guess)} %)`],
    [say("desk.facts.batch"), count(preview.min_batch)], [say("desk.facts.bytes"), String(preview.bytes)],
    [say("desk.facts.influence"), preview.influence === null ? say("desk.unbounded") : show(preview.influence)], [say("desk.facts.limit"), look("desk.limits")[preview.limited_by] ?? preview.limited_by],
  ];
  const width = fitWidth(matchMedia("(min-width: 56rem)").matches ? 2 : 1), people = preview.questions[0]?.people;
  const worst = (/** @type {boolean} */ shares) => Math.max(-1, ...preview.questions.filter((/** @type {any} */ each) => isShare(each.task) === shares && each.task !== "words")
    .flatMap((/** @type {any} */ each) => each.estimate.map((/** @type {any} */ row) => (100 * (row.high - row.value)) / each.unit)));
  const sums = [["desk.summary", worst(true)], ["desk.summaryNumber", worst(false)]].filter(([, percent]) => Number(percent) >= 0);
  return [
    make("h3", {}, say("desk.preview")),
    ...sums.map(([text, percent]) => make("p", { class: "summary" }, say(String(text), { people, percent: count(Number(percent), { maximumSignificantDigits: 2 }) }))),
    ...preview.several.map((/** @type {any} */ each) => make("p", { class: "price" }, say("desk.severalPrice", { text: each.text, n: each.choices, ...Object.fromEntries(["share", "alone"].map((kind) => [kind, count(cutOut(100 * each[kind], true, 2), { maximumSignificantDigits: 2 })])) }))),
    ...preview.questions.flatMap((/** @type {any} */ each) => {
      const title = `${each.text} (${each.protocol})`, rows = each.estimate.map((/** @type {any} */ row) => nameRow(each, row));
      const chart = each.lower !== null && each.task === "mean" ? drawRange(each.estimate[0], each.lower, each.upper, title, width) : drawBars(rows, title, width, isShare(each.task) ? each.people : null);
      return [make("p", { dir: "auto" }, make("strong", {}, each.part ? `${each.part}: ${each.text}` : each.text)), chart,
        ...(each.found ? [make("p", { class: "found" }, say("desk.foundWords", { people: each.people, n: each.found }))] : [])];
    }),
    make("p", { class: "soft" }, say("desk.madeUp")),
    make("details", {}, make("summary", {}, say("desk.details")), makeTable(["", ""], [...facts, ...preview.questions.map((/** @type {any} */ each) => [each.text, each.protocol])]), make("p", { class: "compared" }, preview.compared)),
  ];
}

/** @param {boolean} alone without collections @param {() => Promise<void>} refresh the list of surveys */
export function makePlanner(alone, refresh) {
  const form = make("form", { id: "survey", novalidate: true }), place = make("section", { "aria-labelledby": "planner" });
  const status = make("p", { role: "status" }), heading = make("h2", { id: "planner" }, say("desk.fresh"));
  const preview = make("section", { id: "preview", class: "card", "aria-live": "polite", "aria-label": say("desk.preview") }, make("p", { class: "soft" }, say("desk.planning")));
  const input = (/** @type {string} */ name, /** @type {any} */ value, /** @type {number} */ size) => field(say(`desk.fields.${name}`), make("input", { type: "text", name, value, size }));
  const fillIn = (/** @type {any} */ given) => {
    questions = 0;
    const list = make("div", { id: "questions" }, ...given.questions.map(makeQuestion));
    const number = (/** @type {string} */ name) => { const value = readNumber(given[name]); return typeof value === "number" ? value : NaN; };
    form.replaceChildren(input("title", given.title, 40), list,
      make("p", {}, make("button", { type: "button", class: "quiet", onclick: () => { list.append(makeQuestion({ task: "count" })); changed(); } }, say("desk.add"))),
      slider("people", 50, 1e6, number("people")),
      make("details", {}, make("summary", {}, say("desk.promiseDetails")), slider("epsilon", 0.05, 8, number("epsilon")), slider("local_epsilon", 0.2, 8, number("local_epsilon")),
        field(say("desk.fields.noise"), make("select", { name: "noise" }, ...Object.entries(look("desk.noises")).map(([value, label]) => make("option", { value, selected: value === given.noise }, label)))),
        input("hours", given.hours, 6), input("error", given.error, 6), input("delta", given.delta, 10)),
      make("details", {}, make("summary", {}, say("desk.texts")), field(say("desk.fields.language"), make("input", { type: "text", name: "language", value: given.language ?? current(), size: 6 })),
        ...["welcome", "consent", "contact"].map((name) => input(name, given[name] ?? "", 40)), makeLogo(given.logo ?? "")),
      ...(alone ? [] : [make("p", { class: "controls" }, make("button", { type: "button", class: "quiet", id: "see", onclick: () => open(`/preview/${draft}`, "_blank", "noopener") }, say("desk.seePage")), " ",
        make("button", { type: "button", class: "quiet", id: "save", onclick: save }, say("desk.save")), " ", make("button", { type: "submit", id: "make" }, say("desk.make"))), status]));
    offerCrossing(form);
  };
  const save = async () => {
    key = (await ask("/api/drafts", { key: key ?? "", content: readForm(form) })).key;
    tell(status, say("desk.saved"), "good");
    await refresh();
  };
  form.addEventListener("input", () => { tell(status, ""); changed(); });
  form.addEventListener("submit", async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const wrong = /** @type {HTMLElement | null} */ (form.querySelector("[aria-invalid=true]"));
    if (wrong) {
      const closed = /** @type {HTMLDetailsElement | null} */ (wrong.closest("details:not([open])"));
      if (closed) closed.open = true;
      return wrong.focus();
    }
    tell(status, say("desk.starting"));
    try {
      const made = await ask("/api/collections", { draft, key: key ?? "" });
      key = null;
      status.replaceChildren(make("a", { href: made.page, id: "made", target: "_blank", rel: "noopener" }, say("desk.made")));
      await refresh();
    } catch (error) {
      tell(status, error instanceof Refusal && error.field === "draft" ? say("desk.wrong.old") : error instanceof Error ? error.message : String(error), "bad");
    }
    plan(); // a draft is started once
  });
  fillIn(FRESH());
  place.append(heading, make("div", { class: "columns" }, form, preview));
  const edit = (/** @type {any} */ saved) => {
    key = saved.key;
    heading.textContent = say("desk.editing", { title: saved.title });
    fillIn(saved.content);
    plan();
    /** @type {HTMLElement | null} */ (form.querySelector("[name=title]"))?.focus();
  };
  return { place, plan, edit };
}

/** What the form begins with. */
const FRESH = () => ({
  title: say("desk.example.title"), people: "2000", epsilon: "1", local_epsilon: "3", noise: "either", delta: "1e-8", hours: "168", error: "",
  questions: [{ name: "q1", text: say("desk.example.text"), task: "histogram", categories: look("desk.example.choices") }],
});

// The operator's desk: surveys, how they are doing and how to invite people, drafts, and a form that plans a new one.

import { ask, Refusal } from "./ask.js";
import { find, make, makeCopy, makeTable } from "./dom.js";
import { makePlanner } from "./planner.js";
import { drawCode } from "./qr.js";
import { showResults } from "./results.js";
import { chooseLanguage, load, look, say, tellTime } from "./strings.js";

const main = find("main");
/** @param {any} window @param {any} collection */
function describeWindow(window, collection) {
  const values = { n: window.reports, needed: collection.min_batch };
  const progress = make("progress", { max: collection.min_batch, value: Math.min(window.reports, collection.min_batch), "aria-label": say("desk.progress", values) });
  const waiting = window.state === "open" ? null : collection.waiting[String(window.window)], states = look("desk.states");
  return make("li", {}, make("strong", {}, say("desk.window", { n: window.window + 1 })), ` ${states[window.state] ?? window.state} `,
    ...(window.state === "open" ? [make("span", { class: "soft" }, say("desk.until", { time: tellTime(window.closes) }))] : []), progress, say("desk.progress", values),
    ...(waiting ? [make("p", { class: "soft" }, waiting.replace(/^\w+: /, ""))] : []));
}

/** A button that says what closing does, and asks. @param {any} collection @param {any} window */
function makeClosing(collection, window) {
  const missing = collection.min_batch - window.reports;
  const says = missing > 0 ? say("desk.closeDeletes", { n: missing, deletes: say("desk.deletes", { n: window.reports }) }) : say("desk.closePublishes", { n: window.reports });
  const turn = async (/** @type {boolean} */ asking) => {
    if (asking) asked.add(collection.id);
    else asked.delete(collection.id);
    await refresh(true); // the numbers of this moment
    document.getElementById(`${asking ? "keep" : "close"}-${collection.id}`)?.focus();
  };
  if (!asked.has(collection.id)) {
    return make("button", { type: "button", class: "quiet", id: `close-${collection.id}`, onclick: () => turn(true) }, say("desk.close"));
  }
  const yes = make("button", { type: "button", onclick: async () => {
    yes.disabled = true;
    asked.delete(collection.id);
    await ask(`/api/collections/${collection.id}/close`, {}).finally(() => refresh(true));
  } }, say(missing > 0 ? "desk.reallyDelete" : "desk.reallyClose"));
  const no = make("button", { type: "button", class: "quiet", id: `keep-${collection.id}`, onclick: () => turn(false) }, say("desk.keepOpen"));
  return make("div", { role: "alertdialog", "aria-label": say("desk.close"), class: "card" }, make("p", {}, says), yes, " ", no);
}

/** Collections whose closing is being confirmed: the page is drawn anew every few seconds. @type {Set<string>} */
const asked = new Set();

/** The link, to copy and to scan. @param {any} collection */
function makeInvitation(collection) {
  const id = `link-${collection.id}`, code = drawCode(collection.page, say("desk.qr"));
  const save = () => {
    const copy = /** @type {SVGElement} */ (code.cloneNode(true)), link = document.createElement("a");
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    Object.assign(link, { href: `data:image/svg+xml,${encodeURIComponent(copy.outerHTML)}`, download: "survey-qr.svg" });
    link.click();
  };
  return make("details", { class: "invite" }, make("summary", {}, say("desk.share")),
    make("p", {}, make("label", { for: id }, say("desk.link")), make("br"), make("input", { type: "text", id, readonly: true, value: collection.page, class: "wide", dir: "ltr" })),
    makeCopy(() => collection.page, say("desk.copy"), say("desk.copied")), code,
    make("p", {}, make("button", { type: "button", class: "quiet", onclick: save }, say("desk.saveQr"))),
    make("p", { class: "soft" }, say(collection.page.startsWith("http:") ? "desk.thisMachine" : "desk.oneOperator")),
    ...(collection.fingerprint ? [make("p", {}, say("desk.fingerprint")), make("p", { class: "code", dir: "ltr" }, make("code", {}, collection.fingerprint))] : []));
}

/** @param {any} collection */
function showCollection(collection) {
  const heading = make("h3", { dir: "auto" }, collection.title);
  for (const what of ["stopped", "ended"]) {
    if (collection[what]) return make("article", { class: "card" }, heading, make("p", { class: "bad", role: "alert" }, say(`desk.${what}`, { reason: collection[what] })));
  }
  const results = make("div");
  showResults(results, collection, collection.results, collection.results_page);
  const known = look("desk.reasons");
  const reasons = Object.entries(collection.rejected).map(([reason, count]) => [known[reason] ?? reason, String(count)]);
  const commands = [
    `shuffledp collection status ${collection.folder}`, `shuffledp collection close ${collection.folder}`,
    ...(collection.fingerprint ? [] : [`shuffledp report '${collection.link}' ...`]), // programs refuse such a certificate
  ];
  const open = collection.windows.find((/** @type {any} */ each) => each.state === "open");
  const link = (/** @type {string} */ href, /** @type {string} */ key) => make("a", { href, target: "_blank", rel: "noopener" }, say(key));
  return make("article", { class: "card", "aria-label": collection.title }, heading,
    make("p", {}, link(collection.page, "desk.page"), " · ", link(collection.results_page, "desk.results"), " · ",
      link(`${collection.page.split("#")[0]}/privacy`, "desk.privacyPage")),
    ...(collection.failing ? [make("p", { class: "bad", role: "alert" }, say("desk.failing", { reason: collection.failing }))] : []),
    make("ol", { class: "timeline" }, ...collection.windows.map((/** @type {any} */ each) => describeWindow(each, collection))),
    ...(open ? [makeInvitation(collection), make("div", { class: "controls" }, makeClosing(collection, open))] : []),
    ...(collection.results.length ? [results] : []),
    make("details", {}, make("summary", {}, say("desk.details")),
      make("p", {}, say("desk.accepted", { n: collection.accepted }), " ", say("desk.keyAge", { n: Math.round(collection.key_age_seconds / 3600) }), " ",
        collection.analyzer_seen_seconds_ago === null ? say("desk.analyzerNever") : say("desk.analyzerSeen", { n: Math.round(collection.analyzer_seen_seconds_ago) })),
      ...(reasons.length ? [makeTable(look("desk.rejected"), reasons, [1])] : []),
      make("p", {}, say("desk.commands")), ...commands.map((each) => make("p", { class: "code" }, each))));
}

/** @param {any} drafts */
function showDrafts(drafts) {
  const place = find("drafts");
  place.replaceChildren(...(drafts.length ? [make("h2", {}, say("desk.drafts")), make("p", { class: "soft" }, say("desk.draftsHelp"))] : []),
    ...drafts.map((/** @type {any} */ each) => make("article", { class: "card" }, make("h3", { dir: "auto" }, each.title), make("p", {},
      make("button", { type: "button", class: "quiet", onclick: () => planner.edit(each) }, say("desk.edit")), " ",
      make("button", { type: "button", class: "quiet", onclick: async () => { await ask(`/api/drafts/${each.key}/delete`, {}); await refresh(true); } }, say("desk.discard"))))));
}

/** What changes with every look, and is no reason to draw anew. */
const AGES = ["analyzer_seen_seconds_ago", "key_age_seconds"];
let shown = "";
/** @type {ReturnType<typeof makePlanner>} */
let planner;

/** @param {boolean} anew whether to draw it in any case */
async function refresh(anew = false) {
  const place = find("collections");
  try {
    const status = await ask("/api/status");
    const { collections, drafts } = status, said = JSON.stringify(status, (key, value) => (AGES.includes(key) ? undefined : value));
    // A new drawing would take the keyboard's focus away: only if there is news, and never while somebody decides.
    if (!anew && place.childElementCount && (said === shown || asked.size > 0)) return;
    shown = said;
    const opened = new Set([...place.querySelectorAll("article")].flatMap((each) =>
      [...each.querySelectorAll("details[open] > summary")].map((summary) => each.ariaLabel + (summary.textContent ?? ""))));
    place.replaceChildren(make("p", { class: "soft" }, say("desk.kept", { folder: status.folder })),
      ...(collections.length ? collections.map(showCollection) : [make("p", { class: "soft" }, say("desk.none"))]));
    for (const each of place.querySelectorAll("article")) {
      for (const summary of each.querySelectorAll("details > summary")) {
        if (opened.has(each.ariaLabel + (summary.textContent ?? ""))) /** @type {HTMLDetailsElement} */ (summary.parentElement).open = true;
      }
    }
    showDrafts(drafts);
  } catch (error) {
    place.replaceChildren(make("p", { class: "bad", role: "alert" }, String(error instanceof Error ? error.message : error)));
  }
}

async function start() {
  await load(chooseLanguage(navigator.languages), "answer", "more", "result", "desk");
  const alone = await ask("/api/status").then(() => false, (/** @type {Refusal} */ error) => (error.status === 401 || error.status === 0 ? error : true));
  document.title = say(alone === true ? "desk.planner" : "desk.title");
  if (alone instanceof Refusal) {
    return main.replaceChildren(make("h1", {}, say("desk.title")), make("p", { class: "bad", role: "alert" }, alone.status ? say("desk.unauthorized") : alone.message));
  }
  main.replaceChildren(make("h1", {}, say(alone ? "desk.planner" : "desk.title")));
  planner = makePlanner(alone, () => refresh(true));
  if (!alone) main.append(make("h2", {}, say("desk.collections")), make("section", { id: "collections", "aria-label": say("desk.collections") }), make("section", { id: "drafts", "aria-label": say("desk.drafts") }));
  main.append(planner.place);
  planner.plan();
  if (!alone) {
    await refresh();
    setInterval(() => refresh(), 3000);
  }
}

addEventListener("beforeprint", () => document.querySelectorAll("#collections details").forEach((each) => (/** @type {HTMLDetailsElement} */ (each).open = true)));
start();

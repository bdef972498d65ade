// Results as charts and tables, to download, print and cite; used by the public page, the participants' and the operator's.

import { drawBars, drawRange, drawSeries, fitWidth, savePicture } from "./chart.js";
import { make, makeCopy, makeTable } from "./dom.js";
import { count, cutOut, look, roundOut, roundUp, say } from "./strings.js";
import { describePromised, percentHonest, sayTogether } from "./trust.js";

/**
 * @param {HTMLElement} place
 * @param {any} collection what /results.json says about it
 * @param {any[]} results one per round, oldest first
 * @param {string} base where the downloads are
 */
export function showResults(place, collection, results, base = "") {
  if (!results.length) return place.append(make("p", {}, say("result.none")));
  const last = results[results.length - 1], { promise } = last;
  for (const [question, answers] of joinChoices(collection.questions, results)) place.append(showQuestion(question, answers));
  const link = (/** @type {string} */ kind) => make("a", { href: `${base}/results.${kind}`, download: `results.${kind}` }, kind.toUpperCase());
  place.append(
    make("p", { class: "soft" }, say("result.intervals", { percent: Math.round(100 * last.level) })),
    make("p", { class: "downloads" }, `${say("result.download")}: `, ...["csv", "xlsx", "json"].flatMap((kind) => [link(kind), " "]),
      make("button", { type: "button", class: "quiet", onclick: () => print() }, say("result.print"))),
    ...showMethods(collection, results),
    make("details", {}, make("summary", {}, say("result.details")),
      make("p", {}, describeFloor("promise", promise)), make("p", {}, describeFloor("floor", promise)),
      make("h3", {}, say("answer.trust")), makeTable(look("more.trustHead"), describePromised(promise, collection)),
      make("h3", {}, say("answer.check")), make("p", {}, say("more.checkText")), make("p", { class: "code" }, collection.id)),
  );
}

/**
 * Each question with its results; choices of the same question are one, if the same people answered them.
 * @param {any[]} questions @param {any[]} results @returns {[any, any[]][]}
 */
function joinChoices(questions, results) {
  return questions.flatMap((question, place) => {
    const choices = question.part ? questions.filter((each) => each.part === question.part) : [question];
    const answered = (/** @type {any} */ each) => results.map((result) => result.questions[each.name].people).join();
    if (!question.part || choices.some((each) => answered(each) !== answered(question))) return [[question, results]];
    if (questions.findIndex((each) => each.part === question.part) < place) return [];
    const joined = results.map((result) => ({ ...result, questions: { [question.name]: {
      ...result.questions[question.name], estimate: choices.map((each) => ({ ...result.questions[each.name].estimate[0], label: each.text })) } } }));
    return [[{ ...question, text: question.part, part: null, task: "several" }, joined]];
  });
}

// Whoever prints has no use for what is folded away.
globalThis.addEventListener?.("beforeprint", () => document.querySelectorAll("details").forEach((each) => (each.open = true)));

/** The promise, or the floor, of a published result in words. @param {"promise" | "floor"} what @param {any} p */
export function describeFloor(what, p) {
  if (what === "promise") {
    if (p.noise === "servers") return say("result.promiseServers", { together: sayTogether(p.composed), epsilon: String(p.epsilon), delta: String(p.delta) });
    return say("result.promise", { together: sayTogether(p.composed), epsilon: String(p.epsilon), delta: String(p.delta), percent: percentHonest(p.honest), n: p.min_batch });
  }
  const several = p.reports_per_device > 1;
  if (p.local_epsilon === "none") return say("result.noFloor");
  return say(several ? "result.floors" : "result.floor", { floor: roundUp(p.local_epsilon * p.reports_per_device), n: p.reports_per_device });
}

/** A paragraph for a paper or a report, about all rounds. @param {any} collection @param {any[]} results */
function showMethods(collection, results) {
  const last = results[results.length - 1], { promise } = last, servers = promise.noise === "servers", none = promise.local_epsilon === "none";
  const more = [promise.one_question && "methodsOne", collection.one_operator && "methodsOperator"].map((each) => (each ? ` ${say(`result.${each}`)}` : "")).join("");
  const protocols = collection.questions.map((/** @type {any} */ each) => say("result.methodsProtocol", each)).join("; ");
  const text = say("result.methodsText", {
    condition: servers ? say("result.methodsServers", { n: collection.dummies }) : say("result.methodsDevices", { percent: percentHonest(promise.honest), batch: promise.min_batch }),
    conspire: none ? say("result.methodsNoFloor") : say("result.methodsFloor", { floor: roundUp(promise.local_epsilon * promise.reports_per_device) }),
    version: last.version ?? "", n: results.reduce((sum, result) => sum + (result.reports ?? Math.max(...collection.questions.map((/** @type {any} */ each) => result.questions[each.name].of))), 0),
    device: say(none ? "result.methodsPlain" : "result.methodsRandomized", { protocols }),
    epsilon: String(promise.epsilon), delta: String(promise.delta), together: sayTogether(promise.composed), level: Math.round(100 * last.level), id: collection.id,
  }) + more;
  return [make("details", { class: "methods" }, make("summary", {}, say("result.methods")), make("p", { class: "paragraph" }, text),
    makeCopy(() => text, say("result.copy"), say("result.copied")))];
}

/** The row with a label in words. @param {any} question @param {any} row */
export function nameRow(question, row) {
  if (question.task === "count") return { ...row, label: question.yes && question.yes !== "yes" ? question.yes : say("answer.yes") };
  if (question.scale?.[row.label]) return { ...row, label: `${row.label} (${question.scale[row.label]})` };
  if (question.task !== "quantiles") return row;
  const at = Number(row.label);
  return { ...row, label: at === 0.5 ? say("result.half") : say("result.quantile", { percent: count(Number((100 * at).toPrecision(4))) }) };
}

/** Whether the values of a task are numbers of people. @param {string} task */
export function isShare(task) {
  return ["count", "histogram", "range", "several", "words"].includes(task);
}

/** A share of people in percent. @param {number} value @param {number} people */
const percent = (value, people) => count((100 * value) / people, { maximumFractionDigits: 1, minimumFractionDigits: 1 });

/** A share and the ends of its interval, which are rounded outwards. @param {any} row @param {number} people */
export const percents = (row, people) => [percent(row.value, people), ...[false, true].map((up) => percent(roundOut((100 * row[up ? "high" : "low"]) / people, up, 0.1), 100))];

/** Groups and answers, if labels are all pairs of them. @param {string[]} labels @returns {[string[], string[]] | null} */
export function splitPairs(labels) {
  const pairs = labels.map((each) => each.split(": "));
  const groups = [...new Set(pairs.map(([group]) => group))], answers = [...new Set(pairs.map(([, ...rest]) => rest.join(": ")))];
  const all = groups.flatMap((group) => answers.map((answer) => `${group}: ${answer}`));
  return groups.length > 1 && answers.length > 1 && all.join("\n") === labels.join("\n") ? [groups, answers] : null;
}

/** @param {any} question @param {any[]} results */
function showQuestion(question, results) {
  const answers = results.map((each) => each.questions[question.name]);
  const last = answers[answers.length - 1], rows = last.estimate.map((/** @type {any} */ row) => nameRow(question, row)), of = last.of ?? last.people;
  const drawn = results[results.length - 1].promise?.one_question; // which answers they are is hidden among the servers' messages
  const heading = question.part ? `${question.part}: ${question.text}` : question.text;
  const section = make("section", { class: "question" }, make("h2", { dir: "auto" }, heading),
    make("p", { class: "soft" }, say("result.people", { n: last.people, round: results[results.length - 1].window + 1 })
      + (of > last.people ? ` ${say("result.sample", { n: of })}` : drawn ? ` ${say("result.drawn", { n: of })}` : "")));
  if (last.found) section.append(make("p", {}, say("result.found", { n: last.found.found_95 })));
  if (!rows.length) {
    section.append(make("p", {}, say("result.noWord")));
    return section;
  }
  const shares = isShare(question.task), unit = question.unit ? ` ${question.unit}` : "";
  const show = (/** @type {number} */ value) => (shares ? count(Math.round(value)) : count(value, { maximumSignificantDigits: 4 }) + unit);
  const title = `${question.text}: ${rows.map((/** @type {any} */ row) => `${row.label} ${shares ? `${percent(row.value, of)} %` : show(row.value)}`).join(", ")}`;
  const single = rows.length === 1 && question.lower !== null && question.task === "mean";
  const chart = single ? drawRange(rows[0], question.lower, question.upper, title, fitWidth(), unit) : drawBars(rows, title, fitWidth(), shares ? of : null);
  section.append(chart);
  if (rows.some((/** @type {any} */ row) => row.value < row.low || row.value > row.high)) section.append(make("p", { class: "soft outside" }, say("result.outside")));
  const pairs = question.task === "histogram" ? splitPairs(rows.map((/** @type {any} */ row) => row.label)) : null;
  if (pairs) section.append(showPairs(pairs, rows, of, heading));
  if (answers.length > 1) {
    const leading = rows.reduce((/** @type {number} */ best, /** @type {any} */ row, /** @type {number} */ i) => (row.value > rows[best].value ? i : best), 0);
    const series = answers.map((each) => each.estimate.find((/** @type {any} */ row) => row.label === last.estimate[leading].label)).filter(Boolean);
    section.append(make("h3", {}, `${say("result.over")}: ${rows[leading].label}`), drawSeries(series, say("result.over")));
  }
  // Numbers of people are whole: the one nearest to an end leaves out none that the interval has.
  const end = (/** @type {number} */ value, /** @type {boolean} */ up) => show(shares ? value : cutOut(value, up, 4));
  const cells = rows.map((/** @type {any} */ row) => [row.label, show(row.value), end(row.low, false), end(row.high, true), ...(shares ? percents(row, of).map((each) => `${each} %`) : [])]);
  const head = ["", say("result.value"), say("result.low"), say("result.high"), ...(shares ? [say("result.share"), say("result.low"), say("result.high")] : [])];
  section.append(make("details", { class: "numbers" }, make("summary", {}, say("result.table")), makeTable(head, cells, [1, 2, 3, 4, 5, 6], heading)),
    make("p", { class: "downloads" }, make("button", { type: "button", class: "quiet", onclick: () => savePicture(chart, `${question.name}.png`) }, say("result.picture"))));
  return section;
}

/** A table of two questions. @param {[string[], string[]]} pairs @param {any[]} rows @param {number} of @param {string} heading */
function showPairs([groups, answers], rows, of, heading) {
  const cells = groups.map((group) => [group, ...answers.map((answer) => {
    const row = rows.find((each) => each.label === `${group}: ${answer}`);
    const [share, low, high] = percents(row, of);
    return say("result.crossCell", { share, low, high });
  })]);
  return make("details", { class: "cross", open: true }, make("summary", {}, say("result.cross")), makeTable(["", ...answers], cells, answers.map((_, place) => place + 1), `${heading}: ${say("result.cross")}`));
}

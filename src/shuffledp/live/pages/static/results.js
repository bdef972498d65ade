// Results as charts and tables; used by the public page and by the operator's.

import { drawBars, drawRange, drawSeries, fitWidth, show } from "./chart.js";
import { make, makeTable } from "./dom.js";
import { strings } from "./strings.js";

/**
 * @param {HTMLElement} place
 * @param {any} collection what /results.json says about it
 * @param {any[]} results one per round, oldest first
 */
export function showResults(place, collection, results) {
  if (!results.length) return place.append(make("p", {}, strings.result.none));
  const last = results[results.length - 1];
  for (const question of collection.questions) place.append(showQuestion(question, results));
  place.append(
    make("section", { class: "card" },
      make("p", {}, strings.result.intervals(last.level)),
      make("p", {}, strings.result.promise(last.promise)),
      make("p", {}, strings.result.floor(last.promise))),
    make("details", {}, make("summary", {}, strings.trust), makeTable(strings.trustHead, collection.trust)),
    make("details", {}, make("summary", {}, strings.check), make("p", {}, strings.checkText),
      make("p", { class: "code" }, collection.id)),
    make("p", {}, make("a", { href: "/results.json", download: true }, `${strings.result.download} JSON`), " ",
      make("a", { href: "/results.csv", download: true }, `${strings.result.download} CSV`)),
  );
}

/** The row with a label in words. @param {string} task @param {any} row */
export function nameRow(task, row) {
  if (task === "count") return { ...row, label: strings.yes };
  return task === "quantiles" ? { ...row, label: strings.result.quantile(Number(row.label)) } : row;
}

/** Whether the values of a task are numbers of people. @param {string} task */
export function isShare(task) {
  return ["count", "histogram", "range", "words"].includes(task);
}

/** @param {any} question @param {any[]} results */
function showQuestion(question, results) {
  const answers = results.map((each) => each.questions[question.name]);
  const last = answers[answers.length - 1], rows = last.estimate.map((/** @type {any} */ row) => nameRow(question.task, row));
  const section = make("section", {}, make("h2", { dir: "auto" }, question.text),
    make("p", { class: "soft" }, strings.result.people(last.people, results[results.length - 1].window)
      + (last.of > last.people ? ` ${strings.result.sample(last.of)}` : "")));
  if (last.found) section.append(make("p", {}, strings.result.found(last.found.found_95)));
  if (!rows.length) {
    section.append(make("p", {}, strings.result.noWord));
    return section;
  }
  const title = `${question.text}: ${rows.map((/** @type {any} */ row) => `${row.label} ${show(row.value)}`).join(", ")}`;
  const single = rows.length === 1 && question.lower !== null && question.task === "mean";
  section.append(single ? drawRange(rows[0], question.lower, question.upper, title) : drawBars(rows, title, fitWidth(), isShare(question.task) ? last.of : null));
  if (answers.length > 1) {
    const leading = rows.reduce((/** @type {number} */ best, /** @type {any} */ row, /** @type {number} */ i) => (row.value > rows[best].value ? i : best), 0);
    const series = answers.map((each) => each.estimate.find((/** @type {any} */ row) => row.label === last.estimate[leading].label)).filter(Boolean);
    section.append(make("h3", {}, `${strings.result.over}: ${rows[leading].label}`), drawSeries(series, strings.result.over));
  }
  const cells = rows.map((/** @type {any} */ row) => [row.label, show(row.value), show(row.low), show(row.high)]);
  section.append(make("details", {}, make("summary", {}, strings.result.table), makeTable(strings.result.columns, cells, [1, 2, 3])));
  return section;
}

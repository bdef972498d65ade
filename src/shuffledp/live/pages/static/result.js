// The public result page: charts with intervals, the promise, how many took part, how to check.

import { find, make } from "./dom.js";
import { showResults } from "./results.js";
import { chooseLanguage, load, say } from "./strings.js";

const PATIENCE = 5000;

/** @param {boolean} first whether nothing was shown yet */
async function refresh(first) {
  const reply = await fetch("/results.json", { credentials: "omit" }).catch(() => null);
  if (!reply?.ok) {
    setTimeout(() => refresh(first), PATIENCE);
    if (!first) return;
    await load(chooseLanguage(navigator.languages), "result");
    return find("main").replaceChildren(make("h1", {}, say("result.pageTitle")), make("p", { class: "bad", role: "alert" }, say("result.away")));
  }
  const { collection, results } = await reply.json();
  if (!results.length) setTimeout(() => refresh(false), PATIENCE);
  if (!first && !results.length) return;
  await load(chooseLanguage(collection.language ? [collection.language] : navigator.languages), "answer", "more", "result");
  document.title = collection.title;
  const place = make("div");
  find("main").replaceChildren(make("h1", { dir: "auto" }, collection.title), place);
  if (collection.one_operator) place.before(make("p", { class: "bad" }, say("answer.development")));
  showResults(place, collection, results);
}

refresh(true);

// The public result page: charts with intervals, the promise, how many took part, how to check.

import { find, make } from "./dom.js";
import { showResults } from "./results.js";
import { strings } from "./strings.js";

const PATIENCE = 5000;

async function refresh() {
  const reply = await fetch("/results.json", { credentials: "omit" });
  const { collection, results } = await reply.json();
  document.title = collection.title;
  const place = make("div");
  find("main").replaceChildren(make("h1", { dir: "auto" }, collection.title), place);
  if (collection.one_operator) place.before(make("p", { class: "bad" }, strings.development));
  showResults(place, collection, results);
  if (!results.length) setTimeout(refresh, PATIENCE);
}

refresh();

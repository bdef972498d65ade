// What a survey that takes no answers shows: its result, or why there is none.

import { make } from "./dom.js";
import { showResults } from "./results.js";
import { current, load, say } from "./strings.js";

/** The result, once it is published. @param {HTMLElement} main @param {import("../device/index.js").Collection} collection @param {import("./answer.js").Known} state */
export async function showResult(main, collection, { closed, results, counted, expired }) {
  const place = make("section", { id: "result", "aria-label": say("answer.closed.result") });
  const id = Array.from(collection.id, (byte) => byte.toString(16).padStart(2, "0")).join("");
  /** @type {any} */
  let published = null;
  if (results && counted) {
    const reply = await fetch(`${results}/results.json`, { credentials: "omit", referrerPolicy: "no-referrer" }).catch(() => null);
    published = reply?.ok ? await reply.json() : null;
  }
  if (published?.collection?.id === id && published.results.length) {
    await load(current(), "result", "more");
    place.append(make("h2", {}, say("answer.closed.result")));
    showResults(place, published.collection, published.results, results ?? "");
  } else if (closed && counted) place.append(make("p", {}, say("answer.closed.waiting")));
  else if (closed && expired) place.append(make("p", {}, say("answer.closed.expired")));
  if (place.childElementCount) main.append(place);
}

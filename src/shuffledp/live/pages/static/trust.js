// Who may learn what, with the collection's own numbers; the same table as `shuffledp collection check` prints.

import { strings } from "./strings.js";

/** @param {import("/device/index.js").Collection} collection @returns {string[][]} */
export function describeTrust(collection) {
  const { promise } = collection;
  const needed = Math.floor(promise.minBatch * promise.honest).toLocaleString("en");
  const together = promise.composed ? strings.together : strings.each;
  const rows = strings.trustRows(promise, needed, together, (100 * collection.guess).toFixed(1));
  return collection.development ? [strings.trustDevelopment, ...rows] : rows;
}

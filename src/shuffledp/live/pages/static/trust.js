// Who may learn what, with the collection's own numbers; the same table as `shuffledp collection check` prints.

import { strings } from "./strings.js";

/** @param {import("/device/index.js").Collection} collection @returns {string[][]} */
export function describeTrust(collection) {
  const { promise } = collection;
  const needed = Math.floor(promise.minBatch * promise.honest).toLocaleString("en");
  const together = promise.composed ? strings.together : strings.each;
  const floor = promise.localEpsilon === Infinity ? strings.noFloor
    : strings.floor(promise.localEpsilon, promise.reportsPerDevice, collection.floor, collection.guess);
  const rows = promise.noise === "servers"
    ? strings.trustServers(promise, together, floor, collection.dummies)
    : strings.trustRows(promise, needed, together, floor);
  return collection.development ? [strings.trustDevelopment, ...rows] : rows;
}

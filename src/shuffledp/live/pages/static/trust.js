// Who may learn what, with the collection's own numbers; the same table as `shuffledp collection check` prints.

import { fill, look, percentAbove, roundUp, say } from "./strings.js";

/** Whether a promise is for all reports of a device. @param {boolean} composed */
export const sayTogether = (composed) => say(composed ? "answer.together" : "answer.each");

/** How many of so many reports are counted on as honest: 0.29 of 200 is 58, and the product of the two floats is below. @param {number} reports @param {number} share */
const countHonest = (reports, share) => Math.floor(reports * share * (1 + 1e-15));

/** Their share in percent, rounded up. @param {number} share */
export const percentHonest = (share) => Math.ceil(1e5 * share - 1e-9) / 1e3;

/** @typedef {Pick<import("../device/index.js").Collection, "promise" | "floor" | "guess" | "development" | "dummies">} Trusted */

/** @param {Trusted} collection @returns {string[][]} */
export function describeTrust(collection) {
  const { promise } = collection;
  const floor = promise.localEpsilon === Infinity ? say("more.noFloor") : say(promise.reportsPerDevice > 1 ? "more.floors" : "more.floor", {
    local: roundUp(promise.localEpsilon), n: promise.reportsPerDevice, together: roundUp(collection.floor), percent: percentAbove(collection.guess),
  });
  const values = { floor, epsilon: String(promise.epsilon), delta: String(promise.delta), together: sayTogether(promise.composed),
    needed: countHonest(promise.minBatch, promise.honest), added: collection.dummies };
  const rows = look(promise.noise === "servers" ? "more.trustServers" : "more.trustRows").map((/** @type {string[]} */ row) => row.map((cell) => fill(cell, values)));
  return collection.development ? [look("more.trustDevelopment"), ...rows] : rows;
}

/** The same from the promise of a published result. @param {any} p @param {{ one_operator: boolean, dummies: number }} about */
export function describePromised(p, about) {
  const local = p.local_epsilon === "none" ? Infinity : p.local_epsilon;
  const floor = local * (p.reports_per_device ?? 1), guess = Math.min(1, (1 + 1e-15) / (1 + Math.exp(-floor)));
  const promise = { ...p, minBatch: p.min_batch, localEpsilon: local, reportsPerDevice: p.reports_per_device ?? 1, oneQuestion: p.one_question };
  return describeTrust({ promise, floor, guess, development: about.one_operator, dummies: about.dummies });
}

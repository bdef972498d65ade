// The device: checks a collection, randomizes once, keeps the report until it is acknowledged.
//
//   randomized once (budget spent) -> pending -> sent -> acknowledged | refused | unknown
//
// A retry sends the same messages; only the outer layer is sealed anew. What is kept is the report, never the answer.

import { Collection } from "./document.js";
import { WireError } from "./errors.js";
import { readTenths } from "./exact.js";
import { concat, fromHex, readAtMost, toHex } from "./octets.js";
import { encodeAnswers, joinUpload, MEDIA_TYPE, readReply, sealInner, sealReport } from "./report.js";
import { MOST_BYTES } from "./strict.js";
import { secureWords } from "./words.js";

/**
 * @typedef {"pending" | "sent" | "acknowledged" | "refused" | "unknown"} State
 * @typedef {object} Kept a report; `floor` is null if there is none, and missing in reports of version 1
 * @property {string} collection
 * @property {number} window
 * @property {string} inners
 * @property {string} token
 * @property {State} state
 * @property {number} epsilon
 * @property {number | null=} floor
 * @property {number=} version
 *
 * @typedef {object} Outbox where reports are kept
 * @property {<T>(work: () => Promise<T>) => Promise<T>} lock nobody else uses the outbox while `work` runs
 * @property {() => Promise<Kept[]>} all
 * @property {(kept: Kept) => Promise<void>} put durable when it returns; replaces that of the same collection and window
 */

/** The epsilon that a device spends over all collections, unless its owner says otherwise. */
export const BUDGET = 8;
/** The floors of all reports of a device together: beyond, or without a floor, somebody must say yes to a collection. */
export const FLOOR_BUDGET = 8;
const VERSION = 2; // of a report in the outbox
const AGAIN = ["stale_key", "too_early", "busy"];
/** The code was wrong, and the report is fine: with another code the same messages are taken. */
const MENDABLE = ["unknown_token", "token_spent"];
const PATIENCE = 60_000; // milliseconds
const MOST_REPLY = 1 << 14;

/** An error whose body nobody reads. @param {Response} reply @param {string} sentence */
async function refuse(reply, sentence) {
  await reply.body?.cancel();
  return new WireError("unreachable", sentence);
}

export class Device {
  /**
   * @param {Outbox} outbox
   * @param {{ budget?: number, floorBudget?: number, source?: import("./words.js").WordSource, fetch?: typeof globalThis.fetch }} options
   */
  constructor(outbox, { budget = BUDGET, floorBudget = FLOOR_BUDGET, source = secureWords, fetch = globalThis.fetch } = {}) {
    this.outbox = outbox;
    this.budget = budget;
    this.floorBudget = floorBudget;
    this.source = source;
    this.fetch = fetch;
  }

  /**
   * Get the document of a link and check it. The part after # is the id that it must have.
   * @param {string} link
   */
  async open(link) {
    const [address, id] = link.split("#");
    if (!/^[0-9a-f]{64}$/.test(id ?? "")) throw new WireError("link", "the link must end in # and the id of the collection");
    const reply = await this.#ask(address, {});
    if (!reply.ok) throw await refuse(reply, `the server answered ${reply.status}`);
    return Collection.read(await readAtMost(reply, MOST_BYTES), id);
  }

  /** A request that says nothing of who asks, follows no redirect and does not wait for ever. @param {string} address @param {object} more */
  #ask(address, more) {
    return this.fetch.call(globalThis, address, {
      credentials: "omit", referrerPolicy: "no-referrer", redirect: "error", signal: AbortSignal.timeout(PATIENCE), ...more,
    });
  }

  /** All reports, as this version understands them. */
  async #all() {
    const all = await this.outbox.all();
    if (all.some(({ version = 1 }) => version > VERSION)) throw new WireError("outbox", "a newer version wrote it: use that one");
    return all.map((each) => ({ ...each, floor: each.floor === undefined ? FLOOR_BUDGET : each.floor })); // unknown: as much as there may be
  }

  /** What was spent over all collections: epsilon, floors, and how many reports have none. */
  async spent() {
    const all = await this.#all();
    return {
      epsilon: all.reduce((sum, each) => sum + each.epsilon, 0),
      floor: all.reduce((sum, each) => sum + (each.floor ?? 0), 0),
      withoutFloor: all.filter((each) => each.floor === null).length,
    };
  }

  /** Why somebody must say yes before this collection is answered; null if nobody must. @param {Collection} collection */
  async askConsent(collection) {
    const { localEpsilon, reportsPerDevice } = collection.promise, limit = this.floorBudget;
    if (localEpsilon === Infinity) return "it has no floor: shuffler and analyzer together could read the answers";
    if (readTenths(localEpsilon) * BigInt(reportsPerDevice) > readTenths(limit)) {
      return `its floor is above ${limit}: local epsilon = ${localEpsilon}` + (reportsPerDevice > 1 ? ` for each of ${reportsPerDevice} reports` : "");
    }
    const all = await this.#all(), total = all.reduce((sum, each) => sum + readTenths(each.floor ?? 0), readTenths(localEpsilon));
    return total > readTenths(limit) ? `the floors of all reports of this device would add up to more than ${limit}` : null;
  }

  /**
   * Randomize the answers, once, and keep the report; returns its window.
   * @param {Collection} collection
   * @param {Record<string, unknown>} answers
   * @param {number} now seconds since 1970
   * @param {Uint8Array} token
   * @param {boolean} acceptFloor whether somebody said yes to what `askConsent` says
   * @param {import("./report.js").Told=} told is shown what was drawn, once it is kept and spent
   */
  async answer(collection, answers, now = Date.now() / 1000, token = new Uint8Array(0), acceptFloor = false, told = undefined) {
    const window = collection.windowAt(now);
    if (window === null) throw new WireError("closed", "the collection takes no answers now");
    return this.outbox.lock(async () => {
      const epsilon = this.#price(collection, window, await this.#all());
      const reason = acceptFloor ? null : await this.askConsent(collection);
      if (reason) throw new WireError("consent", `${reason}; it is answered only if you say yes to that`);
      /** @type {Parameters<import("./report.js").Told>[]} */
      const drawn = [];
      const plains = encodeAnswers(collection, answers, this.source, (...each) => drawn.push(each));
      const inners = concat(...(await Promise.all(plains.map((plain) => sealInner(collection, window, plain)))));
      await sealReport(collection, window, inners, token); // refuses a token that does not fit
      const kept = { collection: toHex(collection.id), window, inners: toHex(inners), token: toHex(token) };
      const { localEpsilon } = collection.promise, floor = localEpsilon === Infinity ? null : localEpsilon;
      await this.outbox.put({ ...kept, state: "pending", epsilon, floor, version: VERSION });
      if (told) drawn.forEach((each) => told(...each));
      return window;
    });
  }

  /** @param {Collection} collection @param {number} window @param {Kept[]} all */
  #price(collection, window, all) {
    const earlier = all.filter((each) => each.collection === toHex(collection.id));
    const { composed, epsilon, reportsPerDevice } = collection.promise;
    if (earlier.some((each) => each.window === window)) {
      throw new WireError("answered", `this device has answered in window ${window} already`);
    }
    if (earlier.length >= reportsPerDevice) {
      throw new WireError("answered", `this device has answered as often as it may: ${reportsPerDevice} in all`);
    }
    const price = composed && earlier.length ? 0 : epsilon;
    const spent = all.reduce((sum, each) => sum + each.epsilon, 0);
    // Without rounding: three times 0.1 is 0.3.
    if (all.reduce((sum, each) => sum + readTenths(each.epsilon), readTenths(price)) > readTenths(this.budget)) {
      throw new WireError("budget", `the device has spent epsilon = ${spent} of ${this.budget}, and this collection costs ${price}`);
    }
    return price;
  }

  /** @param {Collection} collection @param {number} window */
  async #find(collection, window) {
    const id = toHex(collection.id);
    const found = (await this.#all()).find((each) => each.collection === id && each.window === window);
    if (!found) throw new WireError("unanswered", `this device has not answered in window ${window}`);
    return found;
  }

  /**
   * The reports of a collection that this device has made: their windows, and where they are.
   * @param {Collection} collection
   */
  async kept(collection) {
    const id = toHex(collection.id);
    return (await this.#all()).filter((each) => each.collection === id).map(({ window, state }) => ({ window, state }))
      .sort((one, other) => one.window - other.window);
  }

  /** Where the report of a window is. @param {Collection} collection @param {number} window */
  async state(collection, window) {
    return (await this.#find(collection, window)).state;
  }

  /**
   * Send the report of a window, again if need be. Resolves to its new state; a network failure leaves it "sent".
   * If only the code of the invitation was refused, it throws, and the report waits: send it with another `token`.
   * @param {Collection} collection
   * @param {number} window
   * @param {Uint8Array=} token
   * @returns {Promise<State>}
   */
  async send(collection, window, token = undefined) {
    return this.outbox.lock(async () => {
      const found = await this.#find(collection, window);
      const kept = token ? { ...found, token: toHex(token) } : found;
      const before = kept.state;
      if (before !== "pending" && before !== "sent") return before;
      await this.outbox.put({ ...kept, state: "sent" });
      const report = await sealReport(collection, window, fromHex(kept.inners), fromHex(kept.token));
      const [reason] = await this.#post(collection, joinUpload(collection, [report]));
      if (reason !== null && MENDABLE.includes(reason)) {
        await this.outbox.put({ ...kept, state: before });
        throw new WireError(reason, "the code was not taken; the report is kept");
      }
      const state = settle(before, reason);
      const done = state !== "pending" && state !== "sent"; // then neither report nor token is of any use here
      await this.outbox.put({ ...kept, ...(done ? { inners: "", token: "" } : {}), state });
      return state;
    });
  }

  /** @param {Collection} collection @param {Uint8Array} body */
  async #post(collection, body) {
    const reply = await this.#ask(`${collection.url}/reports`, { method: "POST", body, headers: { "content-type": MEDIA_TYPE } });
    if (!reply.ok) throw await refuse(reply, `the shuffler answered ${reply.status}; the report is kept`);
    return readReply(new TextDecoder().decode(await readAtMost(reply, MOST_REPLY)), 1);
  }
}

/**
 * @param {State} before this send
 * @param {string | null} reason
 * @returns {State}
 */
export function settle(before, reason) {
  if (reason === null) return "acknowledged";
  if (AGAIN.includes(reason)) return before;
  return before === "sent" ? "unknown" : "refused";
}

// Outboxes: of a browser, on a stand-in for IndexedDB and its locks; in a folder; and what a device spends over all of them.

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { BrowserOutbox, Collection, Device, FolderOutbox, MemoryOutbox } from "../src/node.js";
import { sha256, toHex, utf8 } from "../src/octets.js";

const report = JSON.parse(readFileSync(new URL("../../../vectors/report.json", import.meta.url), "utf8"));
const answers = { way: "bus", home: "yes", minutes: 37.5, cost: "car: 2.25", distance: 4.5, brand: "Ace" };

/** @param {object} promise what it says in place of the vector's */
async function loadWith(promise) {
  const document = JSON.parse(report.document);
  Object.assign(document.promise, promise);
  const raw = utf8(JSON.stringify(document));
  return Collection.read(raw, toHex(await sha256(raw)));
}

/** What a browser offers, as far as the outbox uses it; `fails` is the step that goes wrong. @param {string} fails */
function fakeBrowser(fails = "") {
  const log = /** @type {string[]} */ ([]), rows = new Map();
  let made = false;
  const later = (/** @type {() => void} */ work) => setTimeout(work, 0);
  const open = (/** @type {string} */ name, /** @type {number} */ version) => {
    log.push(`open ${name} ${version}`);
    const request = /** @type {any} */ ({ error: new Error("open failed") });
    request.result = {
      createObjectStore: (/** @type {string} */ store, /** @type {any} */ { keyPath }) => log.push(`make ${store} ${keyPath}`),
      close: () => log.push("close"),
      transaction: (/** @type {string} */ store, /** @type {string} */ mode, /** @type {any} */ { durability }) => {
        log.push(`${mode} ${store} ${durability}`);
        const transaction = /** @type {any} */ ({ error: new Error("disk full") });
        transaction.objectStore = () => ({
          getAll: () => ({ result: [...rows.values()] }),
          put: (/** @type {any} */ row) => (fails === "put" || rows.set(`${row.collection} ${row.window}`, row), { result: undefined }),
        });
        later(() => (fails === "put" ? transaction.onabort() : transaction.oncomplete()));
        return transaction;
      },
    };
    later(() => {
      if (fails === "open") return request.onerror();
      if (!made) request.onupgradeneeded();
      made = true;
      request.onsuccess();
    });
    return request;
  };
  const locks = { request: async (/** @type {string} */ name, /** @type {() => Promise<any>} */ work) => (log.push(`lock ${name}`), work()) };
  Object.defineProperty(globalThis, "navigator", { value: { locks }, configurable: true, writable: true });
  Object.defineProperty(globalThis, "indexedDB", { value: { open }, configurable: true, writable: true });
  return log;
}

test("a browser keeps a report for each collection and window, durably, and closes its database", async () => {
  const log = fakeBrowser(), outbox = new BrowserOutbox();
  const kept = /** @type {any} */ ({ collection: "a", window: 1, inners: "00", token: "", state: "pending", epsilon: 1 });
  assert.deepEqual(await outbox.all(), []);
  await outbox.put(kept);
  await outbox.put({ ...kept, window: 2 });
  await outbox.put({ ...kept, state: "sent" });
  assert.deepEqual((await outbox.all()).map((each) => [each.window, each.state]), [[1, "sent"], [2, "pending"]]);
  assert.deepEqual(log.slice(0, 8), [
    "open shuffledp 1", "make reports collection,window", "readonly reports strict", "close",
    "open shuffledp 1", "readwrite reports strict", "close", "open shuffledp 1",
  ]);
  assert.equal(log.filter((line) => line === "close").length, 5);
  assert.equal(await new BrowserOutbox("other").lock(async () => 7), 7);
  assert.equal(log.at(-1), "lock other outbox");
});

test("a browser that cannot open or write says so, and nothing counts as kept", async () => {
  fakeBrowser("open");
  await assert.rejects(new BrowserOutbox().all(), /open failed/);
  const log = fakeBrowser("put"), device = new Device(new BrowserOutbox());
  await assert.rejects(device.answer(await loadWith({}), answers, 1150), /disk full/);
  assert.equal(log.at(-1), "close");
});

test("a folder is for one program at a time, and for its owner's eyes", async () => {
  const folder = join(mkdtempSync(join(tmpdir(), "shuffledp-")), "a", "b"), outbox = new FolderOutbox(folder);
  assert.deepEqual(await outbox.all(), []);
  assert.equal(await outbox.lock(async () => readdirSync(folder).join()), "lock");
  assert.deepEqual(readdirSync(folder), []); // given back
  await assert.rejects(outbox.lock(() => Promise.reject(new Error("work failed"))), /work failed/);
  const isLocked = (/** @type {any} */ error) => error.reason === "locked";
  await outbox.lock(() => assert.rejects(outbox.lock(async () => 1), isLocked));
  const kept = /** @type {any} */ ({ collection: "c", window: 3, inners: "00", token: "", state: "pending", epsilon: 1 });
  await outbox.put(kept);
  writeFileSync(join(folder, "notes.txt"), "not a report");
  assert.deepEqual(await outbox.all(), [kept]);
  assert.deepEqual([folder, join(folder, "c-3.json")].map((path) => statSync(path).mode & 0o777), [0o700, 0o600]);
  const file = join(mkdtempSync(join(tmpdir(), "shuffledp-")), "file");
  writeFileSync(file, "");
  await assert.rejects(new FolderOutbox(join(file, "x")).lock(async () => 1), (/** @type {any} */ error) => error.code === "ENOTDIR");
});

test("a memory outbox lets one work after the other, also after a failure", async () => {
  const outbox = new MemoryOutbox(), done = /** @type {number[]} */ ([]);
  const slow = outbox.lock(() => new Promise((resolve) => { setTimeout(() => resolve(done.push(1)), 20); }));
  const failing = outbox.lock(() => Promise.reject(new Error("no")));
  const last = outbox.lock(async () => done.push(2));
  await assert.rejects(failing, /no/);
  await Promise.all([slow, last]);
  assert.deepEqual(done, [1, 2]);
});

test("what a device spends: every report, or the first of a composed collection; the sentence has the numbers", async () => {
  const spend = async (/** @type {object} */ promise, budget = 100) => {
    const collection = await loadWith({ reports_per_device: 2, local_epsilon: "3.0", ...promise });
    const device = new Device(new MemoryOutbox(), { budget });
    await device.answer(collection, answers, 1050);
    await device.answer(collection, answers, 1150);
    return (await device.spent()).epsilon;
  };
  const weekly = await loadWith({ reports_per_device: 2, local_epsilon: "3.0" }), backwards = new Device(new MemoryOutbox());
  await backwards.answer(weekly, answers, 1150);
  await backwards.answer(weekly, answers, 1050);
  assert.deepEqual(await backwards.kept(weekly), [{ window: 0, state: "pending" }, { window: 1, state: "pending" }]);
  assert.equal(await spend({ composed: true }), 4);
  assert.equal(await spend({ composed: false }), 8);
  assert.equal(await spend({ composed: false }, 8), 8);
  await assert.rejects(spend({ composed: false }, 7.5), /budget: the device has spent epsilon = 4 of 7.5, and this collection costs 4/);
  await assert.rejects(new Device(new MemoryOutbox()).state(await loadWith({}), 0), /unanswered: this device has not answered in window 0/);
  assert.equal(new Device(new MemoryOutbox()).budget, 8);
});

test("a floor above the device's limit, or many floors together, need a yes; nothing is kept without one", async () => {
  const high = await loadWith({ local_epsilon: "15", reports_per_device: 1 });
  const device = new Device(new MemoryOutbox());
  assert.match(String(await device.askConsent(high)), /its floor is above 8: local epsilon = 15$/);
  await assert.rejects(device.answer(high, answers, 1050), (/** @type {any} */ error) => error.reason === "consent");
  assert.deepEqual(await device.kept(high), []);
  await device.answer(high, answers, 1050, undefined, true);
  assert.deepEqual(await device.spent(), { epsilon: 4, floor: 15, withoutFloor: 0 });
  const weekly = await loadWith({ local_epsilon: "4.1", reports_per_device: 2 });
  assert.match(String(await new Device(new MemoryOutbox()).askConsent(weekly)), /4.1 for each of 2 reports$/);
  const twice = await loadWith({ local_epsilon: "4", reports_per_device: 2 });
  assert.equal(await new Device(new MemoryOutbox()).askConsent(twice), null);
});

test("floors add up over all collections, exactly; what an old report does not say counts as the whole limit", async () => {
  const one = await loadWith({ local_epsilon: "3.0" }), outbox = new MemoryOutbox();
  const kept = { collection: "00", window: 0, inners: "", token: "", state: /** @type {const} */ ("acknowledged"), epsilon: 0.1, version: 2 };
  await outbox.put({ ...kept, floor: 2.5 });
  await outbox.put({ ...kept, window: 1, floor: 2.5 });
  const device = new Device(outbox);
  assert.equal(await device.askConsent(one), null);
  await outbox.put({ ...kept, window: 2, floor: 0.1 });
  assert.match(String(await device.askConsent(one)), /add up to more than 8/);
  assert.equal(await new Device(outbox, { floorBudget: 8.1 }).askConsent(one), null);
  await outbox.put({ ...kept, window: 3, floor: null });
  assert.deepEqual(await device.spent(), { epsilon: 0.4, floor: 5.1, withoutFloor: 1 });
  // A report without a floor adds nothing to them, and takes nothing away.
  for (const [floor, limit] of /** @type {[number, number][]} */ ([[5, 8], [5.1, 8.1]])) {
    const without = new MemoryOutbox();
    await without.put({ ...kept, floor: null });
    await without.put({ ...kept, window: 1, floor });
    assert.equal(await new Device(without, { floorBudget: limit }).askConsent(one), null);
    assert.match(String(await new Device(without, { floorBudget: limit - 0.05 }).askConsent(one)), /would add up to more than/);
  }
  const { version, ...old } = kept, before = new MemoryOutbox();
  await before.put(old);
  assert.deepEqual(await new Device(before).spent(), { epsilon: 0.1, floor: 8, withoutFloor: 0 });
  assert.equal(version, 2);
  await before.put({ ...kept, version: 3 });
  await assert.rejects(new Device(before).spent(), /outbox: a newer version wrote it/);
});

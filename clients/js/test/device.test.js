// A device: randomizes once, keeps the report, retries with the same messages, and never spends more than its budget.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Collection, Device, FolderOutbox, listedWords, MemoryOutbox, open, secureWords, settle, WireError } from "../src/node.js";
import { encodeMessage } from "../src/messages.js";
import { fromHex, sha256, toHex, utf8 } from "../src/octets.js";
import { cellOf, placeOf, roundPlace } from "../src/places.js";
import { innerInfo, outerInfo, sealInner } from "../src/report.js";

const report = JSON.parse(readFileSync(new URL("../../../vectors/report.json", import.meta.url), "utf8"));
const load = () => Collection.read(utf8(report.document), report.collection_id);
const answers = { way: "bus", home: "yes", minutes: 37.5, cost: "car: 2.25", distance: 4.5, brand: "Ace" };

/** A shuffler that answers with what it is given, and keeps the bodies. @param {(string | Error | object)[]} replies */
function fakeShuffler(replies) {
  /** @type {Uint8Array[]} */
  const bodies = [];
  const fetch = async (/** @type {string} */ _url, /** @type {any} */ { body }) => {
    bodies.push(body);
    const reply = replies.shift();
    if (reply instanceof Error) throw reply;
    return reply instanceof Response ? reply : new Response(JSON.stringify(reply));
  };
  return { bodies, fetch: /** @type {any} */ (fetch) };
}

const FINE = { accepted: 1, failed: [] };
/** @param {string} reason */
const failed = (reason) => ({ accepted: 0, failed: [{ index: 0, reason }] });

/** @param {Uint8Array} body @param {Collection} collection */
async function innersOf(body, collection) {
  const header = body.slice(32, 34), secret = fromHex(report.secrets.shuffler);
  const plain = await open(body.slice(34), secret, collection.keyFor(1).public, outerInfo(collection, header));
  return toHex(plain.slice(4));
}

test("a retry after a lost reply sends the same messages in another envelope", async () => {
  const collection = await load();
  const { bodies, fetch } = fakeShuffler([new Error("lost"), FINE]);
  const device = new Device(new MemoryOutbox(), { fetch });
  assert.equal(await device.answer(collection, answers, 1150), 1);
  await assert.rejects(device.send(collection, 1), /lost/);
  assert.equal(await device.state(collection, 1), "sent");
  assert.equal(await device.send(collection, 1), "acknowledged");
  assert.notEqual(toHex(bodies[0]), toHex(bodies[1]));
  assert.equal(await innersOf(bodies[0], collection), await innersOf(bodies[1], collection));
  assert.equal(await device.send(collection, 1), "acknowledged");
  assert.equal(bodies.length, 2);
});

test("what is no success acknowledges nothing, whatever it says", async () => {
  const collection = await load();
  const json = (/** @type {object} */ content, /** @type {number} */ status) => new Response(JSON.stringify(content), { status });
  const { fetch } = fakeShuffler([json(FINE, 500), json(failed("too_late"), 429), new Response("away", { status: 503 }), FINE]);
  const device = new Device(new MemoryOutbox(), { fetch });
  await device.answer(collection, answers, 1150);
  for (const status of [500, 429, 503]) {
    await assert.rejects(device.send(collection, 1), new RegExp(`the shuffler answered ${status}; the report is kept$`));
    assert.equal(await device.state(collection, 1), "sent");
  }
  assert.equal(await device.send(collection, 1), "acknowledged");
});

test("too late after an unanswered send is unknown; at once it is refused", () => {
  assert.equal(settle("sent", "too_late"), "unknown");
  assert.equal(settle("pending", "too_late"), "refused");
  assert.equal(settle("pending", "stale_key"), "pending");
  assert.equal(settle("sent", null), "acknowledged");
});

test("one answer in a window, and none beyond the budget", async () => {
  const collection = await load();
  const device = new Device(new MemoryOutbox());
  await device.answer(collection, answers, 1150);
  await assert.rejects(device.answer(collection, answers, 1150), /already/);
  const poor = new Device(new MemoryOutbox(), { budget: collection.promise.epsilon / 2 });
  await assert.rejects(poor.answer(collection, answers, 1150), (/** @type {any} */ error) => error.reason === "budget");
  assert.equal((await poor.spent()).epsilon, 0);
});

test("two tabs: one of two answers at the same time wins", async () => {
  const collection = await load();
  const outbox = new MemoryOutbox();
  const tabs = [new Device(outbox), new Device(outbox)];
  const results = await Promise.allSettled(tabs.map((each) => each.answer(collection, answers, 1150)));
  assert.deepEqual(results.map((each) => each.status).sort(), ["fulfilled", "rejected"]);
});

test("answers that are no answers", async () => {
  const collection = await load();
  const device = new Device(new MemoryOutbox());
  for (const [changed, what] of /** @type {[object, RegExp][]} */ ([
    [{ ...answers, way: "rocket" }, /must be one of/],
    [{ ...answers, minutes: 241 }, /outside/],
    [{ ...answers, minutes: "" }, /must be a number/],
    [{ ...answers, cost: "bus: 1" }, /must be GROUP: NUMBER/],
    [{ ...answers, cost: "car: much" }, /must be a number/],
    [{ ...answers, cost: "car: 11" }, /outside/],
    [{ ...answers, distance: 8.6 }, /outside/],
    [{ ...answers, brand: " " }, /brand=' ' is empty/],
    [{ ...answers, brand: "a b" }, /outside the alphabet word/],
    [{ ...answers, brand: "aces5" }, /longer than 4 bytes/],
    [{ ...answers, more: 1 }, /no question/],
    [{ way: "bus" }, /no answer to home/],
  ])) {
    await assert.rejects(device.answer(collection, /** @type {any} */ (changed), 1150), what);
  }
  await assert.rejects(device.answer(collection, answers, 10), /takes no answers/);
  assert.equal((await device.spent()).epsilon, 0);
});

test("stale key after a lost reply: sealed anew with the same messages, never randomized again", async () => {
  const collection = await load();
  const { bodies, fetch } = fakeShuffler([new Error("lost"), failed("stale_key"), failed("too_late")]);
  const device = new Device(new MemoryOutbox(), { fetch });
  await device.answer(collection, answers, 1150);
  await assert.rejects(device.send(collection, 1), /lost/);
  assert.equal(await device.send(collection, 1), "sent");
  assert.equal(await device.send(collection, 1), "unknown");
  assert.equal(await innersOf(bodies[0], collection), await innersOf(bodies[2], collection));
  await assert.rejects(device.answer(collection, answers, 1151), /already/);
  assert.equal((await device.spent()).epsilon, collection.promise.epsilon);
});

test("a clock that jumps back does not give another answer", async () => {
  const collection = await load();
  const device = new Device(new MemoryOutbox());
  assert.equal(await device.answer(collection, answers, 1150), 1);
  await assert.rejects(device.answer(collection, answers, 1050), /as often as it may: 1 in all/);
});

test("inner in another window, in another collection, as outer; each flipped bit", async () => {
  const collection = await load(), inner = await sealInner(collection, 1, fromHex(report.plains[0]));
  const secret = fromHex(report.secrets.analyzer), key = collection.analyzerKey;
  const tryOpen = (/** @type {Uint8Array} */ sealed, /** @type {Uint8Array} */ info) => open(sealed, secret, key, info);
  assert.equal(toHex(await tryOpen(inner, innerInfo(collection, 1))), report.plains[0]);
  const other = /** @type {any} */ ({ id: collection.id.map((byte) => byte ^ 1) });
  for (const info of [innerInfo(collection, 0), innerInfo(other, 1), outerInfo(collection, Uint8Array.of(1, 1))]) {
    await assert.rejects(tryOpen(inner, info), /undecryptable/);
  }
  for (let bit = 0; bit < 8 * inner.length; bit += 3) {
    // The highest bit of an X25519 key is ignored (RFC 7748), but HPKE hashes the key as it was sent.
    const flipped = Uint8Array.from(inner);
    flipped[bit >> 3] ^= 1 << (bit & 7);
    await assert.rejects(tryOpen(flipped, innerInfo(collection, 1)), /undecryptable/);
  }
});

test("cells of numbers are those of Python: an edge belongs to the lower cell, the end to the first", () => {
  const cells = { lower: 0.1, upper: 0.7, cells: 6 };
  assert.deepEqual([0.1, 0.2, 0.20000000000000004, 0.4, 0.7].map((value) => cellOf(cells, value)), [0, 0, 1, 2, 5]);
  const whole = { lower: -3, upper: 4, cells: null };
  assert.deepEqual([-3, 0, 4].map((value) => cellOf(whole, value)), [0, 3, 7]);
  assert.throws(() => cellOf(whole, 0.5), /outside/);
  assert.throws(() => cellOf(whole, NaN), /outside/);
});

test("a number between two points of a grid goes up with the chance of its part, and one on a point stays", () => {
  const grid = { lower: 0, upper: 1, steps: 4n };
  for (const bits of [3, 64]) {
    const words = bits === 3 ? Array.from({ length: 8 }, (_, word) => BigInt(word)) : [0n, (1n << 62n) - 1n, 1n << 62n, (1n << 64n) - 1n];
    const round = (/** @type {number} */ value) => words.map((word) => roundPlace(grid, placeOf(grid, value), word, bits));
    assert.deepEqual(round(0.25), words.map(() => 1));
    assert.deepEqual(round(1), words.map(() => 4));
    const quarter = words.map((word) => 1 + Number(word < 1n << BigInt(bits - 2)));
    assert.deepEqual(round(0.3125), quarter); // a quarter of the way from 0.25 to 0.5
  }
});

test("a report that is settled is forgotten, whatever its messages and its token are", async () => {
  const text = report.document.replace('"tokens":false', '"tokens":true'), raw = utf8(text);
  const collection = await Collection.read(raw, toHex(await sha256(raw)));
  for (const [reply, state] of /** @type {[object, string][]} */ ([[FINE, "acknowledged"], [failed("too_late"), "refused"]])) {
    const outbox = new MemoryOutbox();
    const device = new Device(outbox, { fetch: fakeShuffler([failed("busy"), reply]).fetch });
    await device.answer(collection, answers, 1150, new Uint8Array(32).fill(7));
    assert.equal(await device.send(collection, 1), "pending");
    const [before] = await outbox.all();
    assert.equal(before.token, "07".repeat(32));
    assert.equal(before.inners.length, 2 * collection.slots * collection.innerSize);
    assert.equal(await device.send(collection, 1), state);
    const [after] = await outbox.all();
    assert.deepEqual([after.inners, after.token], ["", ""]);
  }
});

test("a report whose code is not taken waits for another one, which is kept and sent", async () => {
  const text = report.document.replace('"tokens":false', '"tokens":true'), raw = utf8(text);
  const collection = await Collection.read(raw, toHex(await sha256(raw)));
  const outbox = new MemoryOutbox(), [first, second] = [7, 9].map((byte) => new Uint8Array(32).fill(byte));
  const { bodies, fetch } = fakeShuffler([failed("unknown_token"), failed("token_spent"), new Error("lost"), failed("token_spent"), FINE]);
  const device = new Device(outbox, { fetch });
  await device.answer(collection, answers, 1150, first);
  for (const reason of ["unknown_token", "token_spent"]) {
    await assert.rejects(device.send(collection, 1, second), (/** @type {any} */ error) =>
      error.reason === reason && error.message === `${reason}: the code was not taken; the report is kept`);
    const [kept] = await outbox.all();
    assert.deepEqual([kept.state, kept.token], ["pending", "09".repeat(32)]);
  }
  await assert.rejects(device.send(collection, 1, first), /lost/);
  const [kept] = await outbox.all();
  assert.deepEqual([kept.state, kept.token], ["sent", "07".repeat(32)]);
  // It waits then, too: with this code it did not arrive, and is neither refused nor unknown.
  await assert.rejects(device.send(collection, 1, first), { reason: "token_spent" });
  assert.equal((await outbox.all())[0].state, "sent");
  assert.equal(await device.send(collection, 1), "acknowledged");
  const tokens = await Promise.all(bodies.map(async (body) => (await innersOf(body, collection)).slice(0, 64)));
  assert.deepEqual(tokens.map((each) => each.slice(0, 2)), ["09", "09", "07", "07", "07"]);
});

test("a server that never stops sending is not listened to for ever", async () => {
  const collection = await load();
  let given = 0;
  const endless = (/** @type {number} */ status) => new Response(new ReadableStream({
    pull(controller) {
      given += 65536;
      if (given > 64 * 65536) controller.error(new Error("nobody stopped reading"));
      else controller.enqueue(new Uint8Array(65536).fill(32));
    },
  }), { status });
  for (const status of [200, 500]) {
    given = 0;
    const device = new Device(new MemoryOutbox(), { fetch: fakeShuffler([endless(status)]).fetch });
    await device.answer(collection, answers, 1150);
    await assert.rejects(device.send(collection, 1), (/** @type {any} */ error) => error.reason === "unreachable");
    assert.equal(await device.state(collection, 1), "sent");
    given = 0;
    const opening = new Device(new MemoryOutbox(), { fetch: /** @type {any} */ (async () => endless(status)) });
    await assert.rejects(opening.open(`https://shuffler.example/c#${report.collection_id}`), (/** @type {any} */ error) => error.reason === "unreachable");
  }
});

test("requests have an end, follow no redirect and say nothing of who asks", async () => {
  const collection = await load();
  /** @type {any[]} */
  const seen = [];
  const fetch = /** @type {any} */ (async (/** @type {string} */ _url, /** @type {any} */ options) => (seen.push(options), new Response(JSON.stringify(FINE))));
  const device = new Device(new MemoryOutbox(), { fetch });
  await device.answer(collection, answers, 1150);
  await device.send(collection, 1);
  await assert.rejects(device.open(`https://shuffler.example/c#${"0".repeat(64)}`));
  assert.equal(seen.length, 2);
  for (const { credentials, referrerPolicy, redirect, signal } of seen) {
    assert.deepEqual({ credentials, referrerPolicy, redirect }, { credentials: "omit", referrerPolicy: "no-referrer", redirect: "error" });
    assert.ok(signal instanceof AbortSignal);
  }
});

test("an outbox is not locked for ever by a program that was killed", async () => {
  const collection = await load(), folder = mkdtempSync(join(tmpdir(), "shuffledp-"));
  const script = `
    import { FolderOutbox } from ${JSON.stringify(new URL("../src/node.js", import.meta.url).href)};
    await new FolderOutbox(${JSON.stringify(folder)}).lock(async () => { console.log("locked"); await new Promise((done) => setTimeout(done, 60000)); });`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", script], { stdio: ["ignore", "pipe", "inherit"] });
  await new Promise((resolve) => child.stdout.once("data", resolve));
  const device = new Device(new FolderOutbox(folder));
  await assert.rejects(device.answer(collection, answers, 1150), (/** @type {any} */ error) => error.reason === "locked");
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGKILL");
  await ended;
  assert.ok(readdirSync(folder).includes("lock"));
  assert.equal(await device.answer(collection, answers, 1150), 1);
  assert.deepEqual(readdirSync(folder), [`${report.collection_id}-1.json`]);
});

test("a lock of a process that has the number of another, and the folder of version 0.1, are taken over", async () => {
  for (const leave of [
    (/** @type {string} */ path) => writeFileSync(path, `${process.pid} 1`),
    (/** @type {string} */ path) => writeFileSync(path, ""),
    (/** @type {string} */ path) => mkdirSync(path),
  ]) {
    const folder = mkdtempSync(join(tmpdir(), "shuffledp-")), outbox = new FolderOutbox(folder);
    leave(join(folder, "lock"));
    assert.equal(await outbox.lock(async () => 7), 7);
    await outbox.lock(async () => assert.rejects(outbox.lock(async () => 8), /another program/));
    assert.deepEqual(readdirSync(folder), []);
  }
});

test("of two programs that take over the lock of a killed one, the second leaves it to the first", async () => {
  const folder = mkdtempSync(join(tmpdir(), "shuffledp-")), outbox = new FolderOutbox(folder), path = join(folder, "lock");
  const alive = await outbox.lock(async () => readFileSync(path, "utf8"));
  const { kill } = process;
  let looked = 0;
  writeFileSync(path, `${process.pid} 1`);
  process.kill = (...given) => {
    if (!looked++) writeFileSync(path, alive); // between a look at the lock and its removal
    return kill.apply(process, given);
  };
  try {
    await assert.rejects(outbox.lock(async () => assert.fail("both have it")), /another program uses the outbox; if none does, remove .*lock$/);
  } finally {
    process.kill = kill;
  }
  assert.ok(looked > 0);
  assert.equal(readFileSync(path, "utf8"), alive);
  assert.deepEqual(readdirSync(folder), ["lock"]);
});

test("a lock that was removed while it was held is no reason to fail", async () => {
  const folder = mkdtempSync(join(tmpdir(), "shuffledp-"));
  assert.equal(await new FolderOutbox(folder).lock(async () => (rmSync(join(folder, "lock")), 7)), 7);
});

test("who asks is shown what was drawn, message by message, once it is kept", async () => {
  const collection = await load(), outbox = new MemoryOutbox(), device = new Device(outbox);
  /** @type {[string, string][]} */
  const shown = [];
  const told = (/** @type {any} */ question, /** @type {any} */ message) =>
    shown.push([question.name, toHex(encodeMessage(question.randomizer.code, message))]);
  await device.answer(collection, answers, 1150, undefined, false, told);
  assert.deepEqual(shown.map(([name]) => name), collection.questions.map(({ name }) => name));
  const [{ inners, epsilon, floor, state, window }] = await outbox.all(), size = collection.innerSize;
  assert.deepEqual({ epsilon, floor, state, window }, { epsilon: 4, floor: 3, state: "pending", window: 1 });
  const plains = await Promise.all(shown.map((_, place) =>
    open(fromHex(inners).slice(place * size, (place + 1) * size), fromHex(report.secrets.analyzer), collection.analyzerKey, innerInfo(collection, 1))));
  assert.deepEqual(plains.map((plain, place) => [plain[0], toHex(plain.slice(1, 1 + shown[place][1].length / 2))]), shown.map(([, sent], place) => [place, sent]));
  const failing = new Device({ lock: (work) => work(), all: async () => [], put: () => Promise.reject(new Error("disk full")) });
  await assert.rejects(failing.answer(collection, answers, 1150, undefined, false, () => assert.fail("shown, and not kept")), /disk full/);
});

test("without a moment it is now", async () => {
  const content = JSON.parse(report.document);
  content.windows.start = Math.floor(Date.now() / 1000) - 150;
  const raw = utf8(JSON.stringify(content)), collection = await Collection.read(raw, toHex(await sha256(raw)));
  assert.equal(await new Device(new MemoryOutbox()).answer(collection, answers), 1);
  await assert.rejects(new Device(new MemoryOutbox()).answer(await load(), answers), { message: "closed: the collection takes no answers now" });
});

test("the folder keeps the report and never the answer", async () => {
  const collection = await load();
  const folder = mkdtempSync(join(tmpdir(), "shuffledp-"));
  await new Device(new FolderOutbox(folder)).answer(collection, answers, 1150);
  const names = readdirSync(folder);
  assert.deepEqual(names, [`${report.collection_id}-1.json`]);
  const text = readFileSync(join(folder, names[0]), "utf8");
  assert.ok(!text.includes("bus") && !text.includes("37.5"));
  const again = new Device(new FolderOutbox(folder), { fetch: fakeShuffler([failed("too_early"), FINE]).fetch });
  assert.equal(await again.send(collection, 1), "pending");
  assert.equal(await again.send(collection, 1), "acknowledged");
  const { inners, token, state } = JSON.parse(readFileSync(join(folder, names[0]), "utf8"));
  assert.deepEqual({ inners, token, state }, { inners: "", token: "", state: "acknowledged" });
});

test("words of the platform fill their range", () => {
  const words = secureWords.words(20000, 5);
  const counts = new Array(32).fill(0);
  for (const word of words) counts[Number(word)]++;
  assert.ok(counts.every((count) => count > 400 && count < 850), String(counts));
  // More bytes than one call of the platform gives: every word of 64 bits is its own, to the last.
  assert.equal(new Set(secureWords.words(20001, 64)).size, 20001);
  assert.ok(new Set(secureWords.words(20001, 32)).size >= 19990);
  assert.throws(() => listedWords([32n]).words(1, 5), RangeError);
  assert.ok(new WireError("a", "b").message === "a: b");
});

test("a refused code leaves the report, and another code sends the same messages", async () => {
  const collection = await load();
  const { bodies, fetch } = fakeShuffler([failed("unknown_token"), failed("token_spent"), FINE]);
  const device = new Device(new MemoryOutbox(), { fetch });
  await device.answer(collection, answers, 1150);
  await assert.rejects(device.send(collection, 1), (/** @type {any} */ error) => error instanceof WireError && error.reason === "unknown_token");
  assert.deepEqual(await device.kept(collection), [{ window: 1, state: "pending" }]);
  await assert.rejects(device.send(collection, 1), (/** @type {any} */ error) => error instanceof WireError && error.reason === "token_spent");
  assert.equal(await device.send(collection, 1), "acknowledged");
  const sent = await Promise.all(bodies.map((body) => innersOf(body, collection)));
  assert.equal(new Set(sent).size, 1);
  assert.equal((await device.spent()).epsilon, collection.promise.epsilon);
});

// What Python wrote into vectors/ holds here: laws by enumeration, messages byte for byte, documents, a whole report.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import {
  buildRandomizer, Collection, encodeAnswers, encodeMessage, findPlace, joinUpload, LAWS, listedWords, loadLaws, messageSize, open, randomize,
  reportId, sealInner, sealReport,
} from "../src/index.js";
import { isAtMostExp, readTenths, scale } from "../src/exact.js";
import { countDummies, fitsNoise, weighNoise } from "../src/noise.js";
import { concat, fromHex, sha256, toHex, utf8 } from "../src/octets.js";
import { innerInfo, outerInfo } from "../src/report.js";

/** @param {string} name */
const read = (name) => JSON.parse(readFileSync(new URL(`../../../vectors/${name}.json`, import.meta.url), "utf8"));

const laws = read("laws"), messages = read("messages"), documents = read("documents"), report = read("report");

const words = read("words");

/** @type {unknown} */
let early = null;
try {
  buildRandomizer(words[0].law);
} catch (error) {
  early = error;
}
await loadLaws([...LAWS, "LocalPrefixes", "Foreign", undefined]);

test("the laws of words are loaded when they are asked for, and no others", () => {
  assert.match(String(early), /no randomizer LocalPrefixes/);
  assert.equal(buildRandomizer(words[0].law).size > 0, true);
  assert.throws(() => buildRandomizer({ type: "Foreign" }), /no randomizer Foreign/);
});

/** @param {import("../src/laws.js").Randomizer} randomizer @param {number} code */
function enumerate(randomizer, code) {
  const bits = BigInt(randomizer.wordBits), count = randomizer.wordsPerInput, mask = (1n << bits) - 1n;
  /** @type {Record<string, number>} */
  const tapes = {};
  for (let tape = 0n; tape < 1n << (bits * BigInt(count)); tape++) {
    const words = Array.from({ length: count }, (_, place) => (tape >> (bits * BigInt(place))) & mask);
    const sent = toHex(encodeMessage(randomizer.code, randomizer.encode(code, words)));
    tapes[sent] = (tapes[sent] ?? 0) + 1;
  }
  return tapes;
}

for (const { protocol, law, tapes } of laws) {
  test(`all tapes of ${protocol} ${JSON.stringify(law)}`, () => {
    const randomizer = buildRandomizer(law);
    tapes.forEach((/** @type {Record<string, number>} */ declared, /** @type {number} */ code) => {
      const positive = Object.fromEntries(Object.entries(declared).filter(([, count]) => count));
      assert.deepEqual(enumerate(randomizer, code), { ...positive });
    });
  });
}

test("a law that is one word off is told", () => {
  const { law, tapes } = laws.find((/** @type {any} */ each) => each.protocol === "krr");
  const off = { ...law, share: String(BigInt(law.share) + 1n) };
  assert.notDeepEqual(enumerate(buildRandomizer(off), 0), tapes[0]);
});

for (const { protocol, law, cases } of messages) {
  test(`messages of ${protocol} ${law.k ?? ""} ${law.epsilon0 ?? ""}`, () => {
    const randomizer = buildRandomizer(law);
    for (const { place, words, message } of cases) {
      const source = listedWords(words.map(BigInt));
      const sent = encodeMessage(randomizer.code, randomize(/** @type {any} */ ({ randomizer }), place, source));
      assert.equal(toHex(sent), message);
      assert.equal(sent.length, messageSize(randomizer.code));
    }
  });
}

for (const { noise, epsilon, delta, messages: added, totals } of read("noise")) {
  test(`what servers add: ${JSON.stringify(noise)}`, () => {
    const hashed = noise.kind === "hashed", law = hashed ? noise : { ...noise, rate: Number(noise.rate) }, found = weighNoise(law);
    assert.ok(Math.abs(found.epsilon / epsilon - 1) < 1e-12);
    assert.ok(Math.abs(found.delta / delta - 1) < 1e-9);
    assert.deepEqual([found.messages, found.least], [added, totals[0]]);
    assert.equal(countDummies([{ noise: law }, { noise: null }]), added);
    const size = hashed ? 5 : law.bins, fitting = { size, ...(hashed && { hashed: law }) };
    assert.ok(fitsNoise(law, fitting));
    assert.ok(!fitsNoise(law, hashed ? { size, hashed: { ...law, width: law.width + 1 } } : { size: size + 1 }));
    assert.ok(!fitsNoise({ ...law, bins: size, kind: law.kind === "bins" ? "count" : "bins" }, fitting));
    assert.ok(!fitsNoise(law, hashed ? { size } : { size, hashed: law }));
  });
}

for (const { law, cases } of words) {
  test(`words of ${law.domain.alphabet ?? law.domain.bits}: normalised, coded and sent as in Python`, () => {
    const randomizer = buildRandomizer(law);
    const question = /** @type {any} */ ({ name: "word", labels: null, range: null, randomizer });
    for (const { text, code, words, message, said } of cases) {
      if (said) {
        assert.throws(() => findPlace(question, text), new RegExp(said.replace(/[.]/g, "\\.")), JSON.stringify(text));
        continue;
      }
      const place = findPlace(question, text);
      assert.equal(String(place), code, JSON.stringify(text));
      assert.equal(toHex(encodeMessage(randomizer.code, randomize(question, place, listedWords(words.map(BigInt))))), message);
    }
  });
}

test("every law of the vectors is one of ours, and the other way round", () => {
  const seen = new Set(messages.map((/** @type {any} */ each) => each.law.type));
  assert.deepEqual([...LAWS].filter((each) => !seen.has(each)), []);
});

test("a law with a larger likelihood ratio than it states is refused", () => {
  for (const { law } of messages.filter((/** @type {any} */ each) => each.law.epsilon0)) {
    const stated = { ...law, epsilon0: String(Number(law.epsilon0) * 0.999) };
    assert.throws(() => buildRandomizer(stated), /likelihood ratio/);
  }
  for (const { law } of messages.filter((/** @type {any} */ each) => ["RR", "KRR"].includes(each.law.type))) {
    if (law.word_bits !== "64") continue;
    const stated = { ...law, epsilon0: String(Number(law.epsilon0) * (1 - 1e-12)) };
    assert.throws(() => buildRandomizer(stated), /likelihood ratio/);
  }
});

test("numbers are compared exactly", () => {
  assert.equal(readTenths(0.1) * 3n, readTenths(0.3));
  assert.equal(readTenths(1e-7) * 10n ** 7n, readTenths(1));
  assert.equal(readTenths(5e-324) * 2n, 10n ** 77n);
  assert.equal(readTenths(1e21), 10n ** 421n);
  assert.equal(scale(0), 0n);
  assert.equal(scale(5e-324), 1n);
  assert.equal(scale(2 ** -1022), 1n << 52n);
  assert.equal(scale(0.1) + scale(0.2) > scale(0.3), true);
  assert.equal(scale(3), 3n << 1074n);
  // e = 2.71828182845904523536028747135266249775724709369995...
  const ten = 10n ** 45n;
  assert.equal(isAtMostExp(2718281828459045235360287471352662497757247093n, ten, 1), true);
  assert.equal(isAtMostExp(2718281828459045235360287471352662497757247094n, ten, 1), false);
  assert.equal(isAtMostExp(1n, 1n, 0), true);
  assert.equal(isAtMostExp(1n, 2n, -1), false);
  assert.equal(isAtMostExp(1n << 280n, 1n, 1e300), true);
  assert.equal(isAtMostExp(1n << 300n, 1n, NaN), false);
});

for (const { what, document, reason } of documents) {
  test(`a document with ${what} is refused`, async () => {
    const raw = utf8(document), id = toHex(await sha256(raw));
    await assert.rejects(Collection.read(raw, id), (/** @type {any} */ error) => error.reason === (reason ?? "law"));
  });
}

const formats = read("formats");

for (const { what, document, reason } of formats.refused) {
  test(`a document of format 2 with ${what} is refused`, async () => {
    const raw = utf8(document), id = toHex(await sha256(raw));
    await assert.rejects(Collection.read(raw, id), (/** @type {any} */ error) => error.reason === reason);
  });
}

for (const { what, document, words, cases } of formats.accepted) {
  test(`a document of format 2, ${what}: the same messages as in Python`, async () => {
    const raw = utf8(document), collection = await Collection.read(raw, toHex(await sha256(raw)));
    for (const { answers, plains } of cases) {
      assert.deepEqual(encodeAnswers(collection, answers, listedWords(words.map(BigInt))).map(toHex), plains);
    }
  });
}

for (const { kind, value, accepted } of read("texts")) {
  test(`${kind} ${JSON.stringify(value).slice(0, 60)} is ${accepted ? "accepted" : "refused"}, as in Python`, async () => {
    const content = JSON.parse(report.document);
    if (kind === "url") content.shuffler.url = value;
    else if (kind === "decimal") content.promise.delta = value;
    else content[kind === "suite" ? "suite" : "title"] = value;
    const raw = utf8(JSON.stringify(content)), found = Collection.read(raw, toHex(await sha256(raw)));
    if (accepted) await found;
    else await assert.rejects(found, (/** @type {any} */ error) => error.reason === "document");
  });
}

test("a document with another hash is refused", async () => {
  await assert.rejects(Collection.read(utf8(report.document + " "), report.collection_id), /hash/);
});

test("the report: words to plaintexts, and what Python sealed opens", async () => {
  const collection = await Collection.read(utf8(report.document), report.collection_id);
  const plains = encodeAnswers(collection, report.answers, listedWords(report.words.map(BigInt)));
  assert.deepEqual(plains.map(toHex), report.plains);
  const secret = fromHex(report.secrets.analyzer), info = innerInfo(collection, report.window);
  for (const [place, inner] of report.inners.entries()) {
    assert.equal(toHex(await open(fromHex(inner), secret, collection.analyzerKey, info)), report.plains[place]);
    await assert.rejects(open(fromHex(inner), secret, collection.analyzerKey, innerInfo(collection, 0)), /undecryptable/);
  }
  const sealed = fromHex(report.report), header = sealed.slice(0, 2), key = collection.keyFor(report.window);
  const outer = await open(sealed.slice(2), fromHex(report.secrets.shuffler), key.public, outerInfo(collection, header));
  assert.equal(toHex(outer), "00000001" + report.inners.join(""));
  assert.equal(toHex(await reportId(collection, report.window, outer.slice(4))), report.report_id);
  assert.equal(toHex(joinUpload(collection, [sealed])), report.upload);
  assert.equal(sealed.length, collection.reportSize);
});

test("a report that answers one random question: the same one as in Python, by the first word", async () => {
  const { document, collection_id: id, answers, cases } = read("choices");
  const collection = await Collection.read(utf8(document), id);
  assert.equal(collection.slots, 1);
  for (const { words, plain } of cases) {
    assert.deepEqual(encodeAnswers(collection, answers, listedWords(words.map(BigInt))).map(toHex), [plain]);
  }
  assert.deepEqual(new Set(cases.map((/** @type {any} */ each) => each.plain.slice(0, 2))), new Set(["00", "01", "02"]));
});

test("what we seal has the sizes of the document, and opens", async () => {
  const collection = await Collection.read(utf8(report.document), report.collection_id);
  const inner = await sealInner(collection, 1, fromHex(report.plains[0]));
  assert.equal(inner.length, collection.innerSize);
  const plain = await open(inner, fromHex(report.secrets.analyzer), collection.analyzerKey, innerInfo(collection, 1));
  assert.equal(toHex(plain), report.plains[0]);
  const sealed = await sealReport(collection, 1, concat(...new Array(collection.slots).fill(inner)));
  assert.equal(sealed.length, collection.reportSize);
});

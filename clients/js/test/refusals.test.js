// What a device refuses, and what it just about takes: documents, laws, JSON, answers and replies at their limits.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Collection, Device, listedWords, MemoryOutbox, secureWords } from "../src/node.js";
import { findEnds, findPlace } from "../src/document.js";
import { isAtMostExp } from "../src/exact.js";
import { buildRandomizer, loadLaws } from "../src/laws.js";
import { encodeMessage, messageSize } from "../src/messages.js";
import { bigEndian, concat, fromHex, sha256, toHex, utf8 } from "../src/octets.js";
import { cellOf, placeOf, roundPlace } from "../src/places.js";
import { randomize, readReply, sealReport } from "../src/report.js";
import { Fields, readJson } from "../src/strict.js";
import { codeOf, countBits, normalize, readSpelling } from "../src/texts.js";

const vectors = (/** @type {string} */ name) =>
  JSON.parse(readFileSync(new URL(`../../../vectors/${name}.json`, import.meta.url), "utf8"));
const report = vectors("report");
await loadLaws(["LocalPrefixes"]);

/** The document of the vectors, after a change. @param {(document: any) => void} change */
async function readChanged(change) {
  const document = JSON.parse(report.document);
  change(document);
  const raw = utf8(JSON.stringify(document));
  return Collection.read(raw, toHex(await sha256(raw)));
}

/** @param {string} path such as promise.delta @param {unknown} value */
const put = (path, value) => (/** @type {any} */ document) => {
  const names = path.split("."), last = /** @type {string} */ (names.pop());
  const place = names.reduce((found, name) => found[name], document);
  if (value === undefined) delete place[last];
  else place[last] = value;
};

/** @type {[string, unknown[], unknown[]][]} */
const LIMITS = [
  ["promise.epsilon", ["1e-9", "100"], ["0", "-1", "100.0001", "1e3", 4, "4,0", "04", undefined]],
  ["promise.local_epsilon", ["3.0", "100"], ["0", "-3.0", "100.0001", 3]],
  ["promise.delta", ["1e-100", "0.999"], ["0", "1e-101", "1", "1.0", "-0.1"]],
  ["promise.honest", ["0.05", "1"], ["0", "-0.5", "1.01", "0.049"]],
  ["promise.min_batch", [2, 1e9], [1, 0, 1e9 + 1, "20", true]],
  ["promise.reports_per_device", [1, 2], [0, 3, "1"]],
  ["promise.composed", [true, false], ["true", 1, null]],
  ["promise.one_question", [false], [0, "false"]],
  ["windows.start", [0, 2 ** 40], [-1, 2 ** 40 + 1]],
  ["windows.seconds", [1, 1e9], [0, 1e9 + 1]],
  ["windows.count", [2], [0, 1, 3, 1e5 + 1]],
  ["windows.grace", [0, 1e7], [-1, 1e7 + 1]],
  ["title", ["t", "t".repeat(500), "😀".repeat(500)], ["", " ", "t".repeat(501), 7]],
  ["tokens", [true, false], [0, null]],
  ["suite", [1], [0, 2, "1"]],
  ["format", ["shuffledp collection 1"], ["shuffledp collection 2"]],
  ["slots", [6], [5, 7, 0, 256]],
  ["message_size", [2], [1, 3, 0, 65536]],
  ["questions.0.name", ["way", "W_-9", "w".repeat(60)], ["", "9w", "w y", "wäy", "w".repeat(61), "home"]],
  ["questions.0.text", ["?", "?".repeat(500)], ["", "?".repeat(501)]],
  ["questions.0.labels", [["a", "b", "c"], ["a".repeat(200), "b", "c"]],
    [null, ["a", "b"], ["a", "b", "c", "d"], ["a", "b", "b"], ["a", "b", " "], ["a", "b", 3], ["a".repeat(201), "b", "c"], "abc"]],
  ["questions.0.task", ["histogram"], ["count", "mean", "words", "quantiles", "anything", "toString"]],
  ["questions.0.parameters", [{}, { k: 3 }], [null, [], "k"]],
  ["questions.1.labels", [["no", "yes"]], [["yes", "no"], ["no", "maybe"], ["nein", "yes"]]],
  ["questions.2.task", ["mean", "sum"], ["quantiles", "histogram", "words"]],
  ["questions.2.labels", [null], [["a", "b"]]],
  ["questions.3.range.lower", ["-1.5", "9.99"], ["10.0", "11", "much", -1]],
  ["questions.3.range", [{ lower: "-8e307", upper: "8e307" }], [{ lower: "-1.7e308", upper: "1.7e308" }]],
  ["questions.3.labels", [["x", "y"]], [["x"], ["x", "y", "z"], ["x", "y", "z", "u"]]],
  ["questions.4.task", ["quantiles", "cdf", "range", "variance", "std"], ["mean", "count"]],
  ["shuffler.url", ["https://a.example", "https://a.example:65535/x", "http://localhost:1", "http://[::1]:8000", "http://127.0.0.1"],
    ["http://a.example", "https://a.example/", "https://a.example:65536", "https://a.example:0", "https://u@a.example", "https://a.example?x",
      "https://a.example#x", "https://A.example", "ftp://a.example", "http://localhost.example", "x https://a.example", "https://a.example/ü"]],
  ["shuffler.keys.0.id", [0], [1, 2, -1, 256]],
  ["shuffler.keys.0.last", [0], [1, 2]],
  ["shuffler.keys.1.first", [1], [0, 2]],
  ["shuffler.keys.1.last", [1], [0, 2]],
  ["shuffler.keys.0.public", ["0".repeat(63) + "9"], ["0".repeat(63), "0".repeat(65), "G".repeat(64), "A".repeat(64)]],
  ["shuffler.sign", ["0".repeat(63) + "9"], ["0".repeat(63), 9]],
  ["analyzer.sign", ["0".repeat(63) + "9"], ["", null]],
];

const isRefused = (/** @type {any} */ error) => ["document", "law", "promise"].includes(error.reason);

test("every field of a document, to its limits and not beyond", async () => {
  for (const [path, fine, wrong] of LIMITS) {
    for (const value of fine) await assert.doesNotReject(readChanged(put(path, value)), `${path} = ${JSON.stringify(value)}`);
    for (const value of wrong) await assert.rejects(readChanged(put(path, value)), isRefused, `${path} = ${JSON.stringify(value)}`);
  }
});

test("a promise of nothing, or of too much, is refused as such, whatever the questions need", async () => {
  for (const name of ["epsilon", "local_epsilon"]) {
    for (const value of ["0", "-1", "100.0001"]) {
      await assert.rejects(readChanged(put(`promise.${name}`, value)), /epsilon and local_epsilon must be above 0 and at most 100/, `${name} = ${value}`);
    }
  }
});

test("a document without one of its fields, or with one more, is refused", async () => {
  const places = ["", "promise.", "windows.", "shuffler.", "analyzer.", "shuffler.keys.1.", "questions.0.", "questions.3.", "questions.3.range."];
  for (const place of places) {
    const names = place.split(".").slice(0, -1);
    const found = names.reduce((each, name) => each[name], JSON.parse(report.document));
    for (const name of Object.keys(found)) {
      await assert.rejects(readChanged(put(place + name, undefined)), isRefused, place + name);
    }
    await assert.rejects(readChanged(put(`${place}extra`, 1)), /unknown field/, place);
  }
});

test("lists of a document have at least one entry and at most so many", async () => {
  await assert.rejects(readChanged(put("questions", [])), /1 to 64/);
  await assert.rejects(readChanged((document) => { document.questions = new Array(65).fill(document.questions[0]); }), /1 to 64/);
  await assert.rejects(readChanged((document) => { document.shuffler.keys = []; }), /1 to 256/);
  await assert.rejects(readChanged((document) => { document.shuffler.keys.pop(); }), /cover each window/);
  const only = await readChanged((document) => { document.shuffler.keys = [{ ...document.shuffler.keys[0], last: 1 }]; });
  assert.equal(only.keyFor(0), only.keyFor(1));
  assert.throws(() => only.keyFor(2), /no window 2/);
  assert.throws(() => only.keyFor(-1), /no window -1/);
});

test("one question of several: for some tasks, and for one report", async () => {
  const one = (/** @type {any} */ document) => {
    document.questions = document.questions.slice(0, 3);
    Object.assign(document, { slots: 1, message_size: 1 });
    Object.assign(document.promise, { one_question: true, local_epsilon: "0.8" });
  };
  const collection = await readChanged(one);
  assert.equal(collection.slots, 1);
  await assert.rejects(readChanged((document) => { one(document); document.slots = 3; }), /slots/);
  await assert.rejects(readChanged((document) => { one(document); document.promise.local_epsilon = "0.79"; }), /promise/);
  await assert.rejects(readChanged((document) => { one(document); document.questions.length = 1; }), /one random question per report/);
  await assert.rejects(readChanged((document) => { one(document); document.promise.reports_per_device = 2; }), /not composed/);
  const apart = await readChanged((document) => {
    one(document);
    Object.assign(document.promise, { reports_per_device: 2, composed: false });
  });
  assert.equal(apart.promise.reportsPerDevice, 2);
});

test("what a collection says about itself", async () => {
  const collection = await readChanged(() => {});
  assert.equal(collection.innerSize, 1 + 2 + 48);
  assert.equal(collection.reportSize, 2 + 48 + 4 + 6 * 51);
  assert.equal((await readChanged(put("tokens", true))).reportSize, collection.reportSize + 32);
  assert.equal(collection.development, true);
  assert.equal((await readChanged(put("shuffler.url", "https://a.example"))).development, false);
  assert.equal((await readChanged(put("shuffler.url", "https://a.example/one-operator"))).development, true);
  assert.deepEqual([999.9, 1000, 1099.9, 1100, 1199.9, 1200].map((now) => collection.windowAt(now)), [null, 0, 0, 1, 1, null]);
  const ends = collection.questions.map(findEnds);
  assert.deepEqual(ends.map((each) => each && [each.lower, each.upper, each.whole]), [
    null, null, [0, 240, false], [-1.5, 10, false], [0.5, 8.5, false], null,
  ]);
});

/** @type {[string, string, (string | undefined)[]][]} a type of law, a field, and values that are refused */
const LAWS = [
  ["RR", "threshold", ["0", "-1", "x", "05", "9223372036854775808", undefined]],
  ["RR", "word_bits", ["0", "65", "64.0", undefined]],
  ["RR", "epsilon0", ["", "1,0", "inf", "1e999", "-1", undefined]],
  ["KRR", "k", ["1", "0", "2147483649", undefined]],
  ["KRR", "share", ["0", "9223372036854775808", undefined]],
  ["Unary", "k", ["1"]],
  ["Unary", "one", ["1880437611", "1880437610", "4294967296"]],
  ["Unary", "zero", ["0", "2414529685"]],
  ["LocalHashing", "k", ["1", "65537"]],
  ["LocalHashing", "g", ["1", "4", "32769"]],
  ["LocalHashing", "word_bits", ["33", "2", "34", "64"]],
  ["SubsetSelection", "w", ["0", "2", "3"]],
  ["SubsetSelection", "threshold", ["9223372036854775808", "18446744073709551616"]],
  ["HadamardResponse", "blocks", ["3", "0", "1073741824"]],
  ["HadamardResponse", "block_length", ["1", "3", "2"]],
  ["HadamardResponse", "low", ["0", "4611686018427387904"]],
  ["HadamardResponse", "k", ["4", "1"]],
  ["Duchi", "slope", ["0", "18446744073709552"]],
  ["Piecewise", "stride", ["0", "2"]],
  ["Piecewise", "window", ["0", "608"]],
  ["Piecewise", "low", ["0", "6961043196391983"]],
  ["Piecewise", "extra", ["0", "11961034031479808", "11961034031477808"]],
  ["Hybrid", "threshold", ["-1", "18446744073709551617"]],
  ["Hybrid", "word_bits", ["32"]],
  ["LocalTree", "word_bits", ["32", "63"]],
  ["LocalPrefixes", "buckets", ["3", "2", "8", "1", "131072"]],
  ["LocalPrefixes", "word_bits", ["63"]],
];
const lawOf = (/** @type {string} */ type) => vectors("messages").find((/** @type {any} */ each) => each.law.type === type).law;
const isLaw = (/** @type {any} */ error) => error.reason === "law";

test("a law with a wrong number is refused", () => {
  for (const [type, field, wrong] of LAWS) {
    const law = lawOf(type);
    buildRandomizer(law);
    for (const value of wrong) assert.throws(() => buildRandomizer({ ...law, [field]: value }), isLaw, `${type}: ${field}=${value}`);
  }
});

test("domains, shapes and parts of laws that do not fit are refused", () => {
  const duchi = lawOf("Duchi"), tree = lawOf("LocalTree"), hybrid = lawOf("Hybrid"), hashing = lawOf("LocalHashing");
  const prefixes = lawOf("LocalPrefixes"), [first, ...rest] = prefixes.coefficients;
  const grid = (/** @type {object} */ change) => ({ ...duchi, domain: { ...duchi.domain, ...change } });
  const cells = (/** @type {object} */ change) => ({ ...tree, domain: { ...tree.domain, ...change } });
  const wrong = [
    grid({ type: "Integers" }), grid({ upper: "-1.0" }), grid({ lower: "x" }), grid({ steps: "0" }), grid({ steps: "4294967297" }),
    { ...duchi, domain: undefined }, cells({ type: "Reals" }), cells({ lower: "59" }), cells({ lower: "0.5" }), cells({ upper: "64" }),
    cells({ upper: "58.5" }), { ...tree, domain: undefined },
    { ...tree, domain: { type: "Cells", lower: "0", upper: "59", cells: "1" } },
    { ...tree, domain: { type: "Cells", lower: "0", upper: "59", cells: "65" } },
    { ...tree, shape: [] }, { ...tree, shape: ["4", "4"] }, { ...tree, shape: ["4", "4", "1"] }, { ...tree, shape: "444" },
    { ...tree, shape: ["32768", "32769"] }, { ...tree, shape: new Array(41).fill("2") },
    { ...tree, sign: { ...tree.sign, word_bits: "63", threshold: "1" } }, { ...tree, sign: duchi }, { ...tree, sign: null },
    { ...hybrid, piecewise: hybrid.duchi }, { ...hybrid, duchi: hybrid.piecewise },
    { ...hybrid, duchi: { ...hybrid.duchi, domain: { ...hybrid.duchi.domain, steps: "998" } } },
    { ...hashing, response: lawOf("RR") }, { ...hashing, response: lawOf("KRR") }, { ...hashing, response: undefined },
    { ...prefixes, response: lawOf("RR") }, { ...prefixes, lengths: ["13"] }, { ...prefixes, lengths: ["0"] }, { ...prefixes, lengths: ["6", "12"] },
    { ...prefixes, lengths: [] }, { ...prefixes, rows: ["16383"] }, { ...prefixes, rows: ["131072"] }, { ...prefixes, rows: ["8192", "8192"] },
    { ...prefixes, stir: prefixes.stir.slice(1) }, { ...prefixes, stir: ["4096", ...prefixes.stir.slice(1)] },
    { ...prefixes, coefficients: rest }, { ...prefixes, coefficients: [first.slice(1), ...rest] },
    { ...prefixes, coefficients: [["65536", ...first.slice(1)], ...rest] }, { ...prefixes, coefficients: "none" },
    { type: "Other" }, { type: "toString" }, null, "RR",
  ];
  for (const law of wrong) assert.throws(() => buildRandomizer(/** @type {any} */ (law)), isLaw, JSON.stringify(law)?.slice(0, 300));
  assert.equal(buildRandomizer(cells({ upper: "63" })).size, 64);
});

test("messages of a tall tree are as long as its numbers, and bins have an end", () => {
  const tree = lawOf("LocalTree"), tall = buildRandomizer({ ...tree, shape: ["4", "4", "4", "4", "4"] });
  assert.deepEqual(tall.code, { sizes: [2n * (4n + 16n + 64n + 256n + 1024n)] });
  assert.equal(messageSize(tall.code), 2);
  const none = lawOf("OneBin"), bins = (/** @type {object} */ domain) => buildRandomizer({ ...none, domain });
  assert.equal(bins({ type: "Categories", k: "65536" }).size, 65536);
  assert.equal(bins({ type: "Integers", lower: "-3", upper: "65532" }).size, 65536);
  assert.equal(bins({ type: "Cells", lower: "0", upper: "1", cells: "65536" }).size, 65536);
  assert.equal(bins({ type: "Reals", lower: "0", upper: "1", steps: "65535" }).size, 65536);
  for (const domain of [
    { type: "Categories", k: "65537" }, { type: "Integers", lower: "-3", upper: "65533" }, { type: "Categories", k: "1" },
    { type: "Cells", lower: "0", upper: "1", cells: "65537" }, { type: "Reals", lower: "0", upper: "1", steps: "65536" },
    { type: "Integers", lower: "3", upper: "3" }, { type: "Cells", lower: "-1e308", upper: "1e308", cells: "4" }, { type: "Keys", bits: "8" }, null,
  ]) assert.throws(() => bins(/** @type {any} */ (domain)), isLaw, JSON.stringify(domain));
  const floor = vectors("messages").find((/** @type {any} */ each) => each.law.type === "OneBin" && each.law.response).law;
  assert.deepEqual([bins({ type: "Bits" }).epsilon0, buildRandomizer(floor).epsilon0], [Infinity, 1]);
  for (const response of [lawOf("RR"), { ...floor.response, word_bits: "63" }, lawOf("Unary"), undefined]) {
    assert.throws(() => buildRandomizer({ ...floor, response }), isLaw, JSON.stringify(response));
  }
});

test("a mixture of two laws is as private as the weaker one", () => {
  const common = { domain: { type: "Reals", lower: "0.0", upper: "1.0", steps: "2" }, word_bits: "8", epsilon0: "4.0" };
  const piecewise = { type: "Piecewise", ...common, stride: "1", window: "2", low: "10", extra: "108" };
  const mix = (/** @type {string} */ slope, epsilon0 = "4.0") =>
    buildRandomizer({ type: "Hybrid", ...common, epsilon0, threshold: "100", piecewise, duchi: { type: "Duchi", ...common, slope } });
  assert.deepEqual(mix("50").ratio, [118n, 10n]);
  assert.deepEqual(mix("120").ratio, [248n, 8n]);
  assert.throws(() => mix("50", "2.4"), isLaw); // ln 11.8 is more
  assert.throws(() => mix("120", "3.4"), isLaw); // ln 31 is more
  assert.equal(mix("50", "2.5").size, 3);
});

test("a number of a group becomes one end of the group's own range", async () => {
  const { questions: [, , , cost] } = await readChanged(() => {});
  const sent = [];
  const randomizer = { ...cost.randomizer, encode: (/** @type {number} */ code) => { sent.push(code); return code; } };
  for (const answer of ["car: -1.5", "car: 10", "car: old: -1.5", "car: old: 10"]) {
    randomize({ ...cost, randomizer }, findPlace(cost, answer), listedWords([0n, 1n << 63n]));
  }
  const middle = findPlace(cost, "car: old: 4.25"); // half of the words say the upper end
  for (const word of [0n, (1n << 63n) - 1n, 1n << 63n, (1n << 64n) - 1n]) {
    randomize({ ...cost, randomizer }, middle, listedWords([0n, word]));
  }
  assert.deepEqual(sent.slice(0, 4), [0, 1, 2, 3]);
  assert.deepEqual(sent.slice(4).sort(), [2, 2, 3, 3]);
});

test("the domains of words", () => {
  const texts = (/** @type {string} */ alphabet, /** @type {unknown} */ length) => ({ type: "Texts", alphabet, max_length: length });
  const refused = (/** @type {object} */ domain) => assert.throws(() => readSpelling(domain), isLaw, JSON.stringify(domain));
  assert.deepEqual(readSpelling({ type: "Keys", bits: "64" }), { alphabet: null, maxLength: 0, bits: 64 });
  for (const bits of ["0", "65", "99", "064", 12, undefined]) refused({ type: "Keys", bits });
  // The longest words whose codes fit into 64 bits, and their bits.
  for (const [alphabet, longest, bits] of /** @type {[string, number, number][]} */ ([["letters", 13, 62], ["word", 12, 64], ["ascii", 9, 60], ["utf-8", 8, 64]])) {
    assert.equal(countBits(readSpelling(texts(alphabet, String(longest)))), bits);
    refused(texts(alphabet, String(longest + 1)));
  }
  for (const domain of [texts("runes", "3"), texts("toString", "3"), texts("word", "0"), texts("word", 3), { type: "Other" }]) refused(domain);
});

test("words are folded, stripped and counted by their symbols", () => {
  assert.equal(normalize("word", "\t ÄBC\n"), "äbc");
  assert.equal(normalize("ascii", " A b "), "A b");
  assert.equal(normalize("letters", "\uff21\uff22"), "ab");
  const spelling = readSpelling({ type: "Texts", alphabet: "letters", max_length: "2" });
  assert.deepEqual(["a", "z", "aa", "zz"].map((word) => codeOf(spelling, word)), [27n, 702n, 28n, 728n]);
  for (const word of ["", " ", "a-", "aaa", "é", 3, null]) assert.throws(() => codeOf(spelling, word), RangeError, String(word));
});

test("answers: yes and no in every way, numbers and groups", async () => {
  const collection = await readChanged(() => {});
  const [way, home, minutes, cost, distance] = collection.questions;
  assert.deepEqual(["car", "bicycle", "bus"].map((answer) => findPlace(way, answer)), [0, 1, 2]);
  assert.deepEqual(["no", "No", false, 0, "yes", "TRUE", true, 1].map((answer) => findPlace(home, answer)), [0, 0, 0, 0, 1, 1, 1, 1]);
  assert.throws(() => findPlace(way, "yes"), /must be one of car, bicycle, bus/);
  assert.deepEqual([0, 120, 240].map((answer) => findPlace(minutes, answer)), [0, 2 ** 40, 2 ** 41]);
  for (const answer of [-0.001, 240.001, NaN, Infinity, "", " ", "x", undefined]) assert.throws(() => findPlace(minutes, answer), /answers/);
  const group = 2 ** 41 + 1;
  assert.deepEqual(["car: -1.5", "car:10", "car: old: -1.5", "car: old: 10"].map((answer) => findPlace(cost, answer)), [0, 2 ** 41, group, group + 2 ** 41]);
  assert.deepEqual([0.5, 1.1, 8.5].map((answer) => findPlace(distance, answer)), [0, 0, 11]);
});

test("places are rounded to the even one, and points around a place drawn in proportion", () => {
  const grid = { lower: 0, upper: 2 ** 42, steps: 4n };
  assert.deepEqual([0, 1, 2, 3, 5, 2 ** 42].map((value) => placeOf(grid, value)), [0, 0, 1, 2, 2, 2 ** 41]);
  const shifted = { lower: -3, upper: 5, steps: 4n };
  assert.deepEqual([-3, 1, 5].map((value) => placeOf(shifted, value)), [0, 2 ** 40, 2 ** 41]);
  const point = (/** @type {number} */ place, /** @type {bigint} */ word, bits = 8) => roundPlace(grid, place, word, bits);
  const quarter = 2 ** 39;
  assert.deepEqual([0, 1, 2, 3, 4].map((step) => point(step * quarter, 0n)), [0, 1, 2, 3, 4]);
  for (const eighths of [1, 4, 7]) {
    const above = Array.from({ length: 256 }, (_, word) => point(quarter + (eighths * quarter) / 8, BigInt(word))).filter((each) => each === 2);
    assert.equal(above.length, 32 * eighths);
  }
  assert.equal(point(quarter + quarter / 2, (1n << 63n) - 1n, 64), 2);
  assert.equal(point(quarter + quarter / 2, 1n << 63n, 64), 1);
  assert.throws(() => cellOf({ lower: 0, upper: 1, cells: 2 }, 1.5), /outside/);
});

test("JSON that has one meaning", () => {
  const read = (/** @type {string} */ text) => readJson(utf8(text));
  assert.deepEqual({ ...read(' { "a" : [ 1 , -2, true,false,null , "x\\u00e9\\n".length ] } '.replace('"x\\u00e9\\n".length', "0")) }, { a: [1, -2, true, false, null, 0] });
  assert.equal(read('{"a":"\\u00e9\\"\\/"}').a, 'é"/');
  assert.equal(read('{"a":9007199254740991}').a, Number.MAX_SAFE_INTEGER);
  const nested = (/** @type {number} */ depth) => `{"a":${"[".repeat(depth)}${"]".repeat(depth)}}`;
  read(nested(8));
  const wrong = [
    nested(9), '{"a":9007199254740992}', '{"a":1.0}', '{"a":1e2}', '{"a":01}', '{"a":+1}', '{"a":1,"a":1}', '{"a":1,}', '{"a" 1}', "{a:1}", "[1]", "null",
    '{"a":[1,]}', '{"a":[1 2]}', '{"a":"\t"}', '{"a":"\\n"}', '{"a":"\\x41"}', '{"a":"\\u12g4"}', '{"a":"\\ud800"}', '{"a":"\u200b"}', '{"a":"x}', '{"a":tru}',
    '{"a":1} x', "", '{"a":NaN}', '\ufeff{"a":1}',
  ];
  for (const text of wrong) assert.throws(() => read(text), /document/, text);
  assert.throws(() => readJson(Uint8Array.of(0x7b, 0xff, 0x7d)), /UTF-8/);
  const long = (/** @type {number} */ size) => utf8(`{"a":1}${" ".repeat(size - 7)}`);
  assert.equal(readJson(long(1 << 20)).a, 1);
  assert.throws(() => readJson(long((1 << 20) + 1)), /1048576 bytes/);
  assert.throws(() => new Fields("it", [1]), /must be an object/);
});

test("bytes", () => {
  assert.equal(toHex(concat(Uint8Array.of(1), new Uint8Array(0), Uint8Array.of(255, 16))), "01ff10");
  assert.deepEqual([...fromHex("00ff")], [0, 255]);
  for (const text of ["0", "0g", "FF", "0x"]) assert.throws(() => fromHex(text), TypeError);
  assert.equal(toHex(bigEndian(258, 3)), "000102");
  assert.throws(() => bigEndian(256, 1), RangeError);
  for (const [size, width] of /** @type {[bigint, number][]} */ ([[2n, 1], [256n, 1], [257n, 2], [65536n, 2], [65537n, 3]])) {
    assert.equal(messageSize({ sizes: [size] }), width);
  }
  assert.deepEqual([1, 8, 9].map((bits) => messageSize({ bits })), [1, 1, 2]);
  const bits = [true, false, false, false, false, false, false, true, true];
  assert.equal(toHex(encodeMessage({ bits: 9 }, bits)), "8180");
  assert.equal(toHex(encodeMessage({ sizes: [256n, 300n] }, [7n, 258n])), "070102");
  assert.equal(isAtMostExp(3n, 2n, 0.4), false);
  assert.equal(isAtMostExp(3n, 2n, 0.41), true);
});

test("replies of a shuffler: what was refused, and replies that make no sense", () => {
  const failed = (/** @type {unknown} */ index, /** @type {unknown} */ reason) => ({ index, reason });
  const read = (/** @type {unknown} */ reply, reports = 3) => readReply(JSON.stringify(reply), reports);
  assert.deepEqual(read({ accepted: 3, failed: [] }), [null, null, null]);
  assert.deepEqual(read({ accepted: 1, failed: [failed(0, "a"), failed(2, "b".repeat(61))] }), ["a", null, "b".repeat(60)]);
  const wrong = [
    { accepted: 2, failed: [] }, { accepted: 3, failed: [failed(0, "a")] }, { accepted: 2, failed: [failed(3, "a")] }, { accepted: 2, failed: [failed(-1, "a")] },
    { accepted: 2, failed: [failed(0.5, "a")] }, { accepted: 2, failed: [failed(0, 7)] }, { accepted: 3 }, [], null, 3,
    // Counted as if they were not there, or were of another kind.
    ...[-1, 3, 0.5, "0"].map((index) => ({ accepted: 3, failed: [failed(index, "a")] })), { accepted: 2, failed: [failed(0, ["a"])] },
  ];
  for (const reply of wrong) assert.throws(() => read(reply), /cannot be understood/, JSON.stringify(reply));
  assert.throws(() => readReply("{", 1), /cannot be understood/);
});

test("tokens: 32 bytes where the collection has them, none elsewhere", async () => {
  const plain = await readChanged(() => {}), guarded = await readChanged(put("tokens", true)), inners = new Uint8Array(6 * plain.innerSize);
  const sizes = async (/** @type {Collection} */ collection) => {
    const found = [];
    for (const size of [0, 31, 32, 33]) {
      const sealed = await sealReport(collection, 0, inners, new Uint8Array(size)).catch((error) => error.reason);
      found.push(sealed.length === collection.reportSize ? "fine" : sealed);
    }
    return found;
  };
  assert.deepEqual(await sizes(plain), ["fine", "token", "token", "token"]);
  assert.deepEqual(await sizes(guarded), ["token", "token", "fine", "token"]);
});

test("a link names its collection, and a server that fails is told", async () => {
  /** @type {any[]} */
  const asked = [];
  const serve = (/** @type {boolean} */ ok) => /** @type {any} */ (async (/** @type {string} */ address, /** @type {any} */ options) => {
    asked.push([address, options.credentials, options.referrerPolicy]);
    return new Response(report.document, { status: ok ? 200 : 404 });
  });
  const device = new Device(new MemoryOutbox(), { fetch: serve(true) });
  const found = await device.open(`https://a.example/x#${report.collection_id}`);
  assert.equal(toHex(found.id), report.collection_id);
  assert.deepEqual(asked, [["https://a.example/x", "omit", "no-referrer"]]);
  await assert.rejects(device.open(`https://a.example/x#${"0".repeat(64)}`), /hash/);
  for (const link of ["https://a.example/x", "https://a.example/x#00", `https://a.example/x#${report.collection_id}0`]) {
    await assert.rejects(device.open(link), /must end in #/);
  }
  const away = new Device(new MemoryOutbox(), { fetch: serve(false) });
  await assert.rejects(away.open(`https://a.example/x#${report.collection_id}`), /answered 404/);
});

test("words of the platform: as many and as wide as asked, beyond one call of the generator, too", () => {
  const words = secureWords.words(9000, 64);
  assert.equal(words.length, 9000);
  assert.equal(new Set(words).size, 9000);
  assert.ok(words.every((word) => word >= 0n && word < 1n << 64n));
  assert.ok(words.some((word) => word >> 63n));
  const narrow = secureWords.words(4000, 9);
  assert.ok(narrow.every((word) => word < 512n) && new Set(narrow).size > 500);
  assert.deepEqual(listedWords([0n, 31n]).words(2, 5), [0n, 31n]);
  for (const bad of [[-1n], [32n], []]) assert.throws(() => listedWords(bad).words(1, 5), RangeError);
});

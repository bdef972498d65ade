// What is said about a document, a law, a text or an answer that is refused: the whole sentence, so that whoever wrote it
// knows which of its rules it breaks; and documents of format 2 at their limits.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Collection, encodeAnswers, findEnds, findPlace, listedWords, WireError } from "../src/node.js";
import { buildRandomizer, loadLaws } from "../src/laws.js";
import { bigEndian, fromHex, readAtMost, sha256, toHex, utf8 } from "../src/octets.js";
import { sealReport } from "../src/report.js";
import { readJson } from "../src/strict.js";
import { codeOf, readSpelling } from "../src/texts.js";

/** @param {string} name */
const vectors = (name) => JSON.parse(readFileSync(new URL(`../../../vectors/${name}.json`, import.meta.url), "utf8"));
const formats = vectors("formats"), report = vectors("report"), messages = vectors("messages");
await loadLaws(["LocalPrefixes"]);

/** @param {string} what */
const baseOf = (what) => (what === "format 1" ? report : formats.accepted.find((/** @type {any} */ each) => each.what === what)).document;

/** A document of the vectors, after a change. @param {string} what @param {(document: any) => void} change */
async function read(what, change = () => {}) {
  const document = JSON.parse(baseOf(what));
  change(document);
  const raw = utf8(JSON.stringify(document));
  return Collection.read(raw, toHex(await sha256(raw)));
}

/** @param {[string, unknown][]} values paths such as promise.delta, and what is put there */
const put = (...values) => (/** @type {any} */ document) => {
  for (const [path, value] of values) {
    const names = path.split("."), last = /** @type {string} */ (names.pop());
    const place = names.reduce((found, name) => found[name], document);
    if (value === undefined) delete place[last];
    else place[last] = value;
  }
};

const PLAIN = "as it is", SERVERS = "noise of the servers without a floor", FLOOR = "noise of the servers with a floor";
const HASHED = "a hashed question without a floor", SCALE = "a scale", SEVERAL = "several choices";
const URL_SAID = (/** @type {string} */ url) =>
  `document: the URL '${url}' must be https (http only on this machine), without user, query, fragment or a slash at the end`;
/** @type {[string, unknown]} */
const ONE = ["promise.one_question", true];
const SAMPLED = [ONE, ["slots", 1], ["promise.local_epsilon", "0.8"]];
/** @type {[string, [string, unknown][], string][]} a document, what is changed, and the sentence */
const DOCUMENTS = [
  [PLAIN, [["format", "shuffledp collection 3"]], "document: its format is none of shuffledp collection 1, shuffledp collection 2"],
  [PLAIN, [["suite", 2]], "document: its suite is not 1"],
  [PLAIN, [["slots", 4]], "document: slots and message_size do not follow from its questions"],
  [PLAIN, [["message_size", 2]], "document: slots and message_size do not follow from its questions"],
  [PLAIN, [["slots", 256]], "document: document.slots must be a whole number from 1 to 255"],
  [PLAIN, [["slots", 0]], "document: document.slots must be a whole number from 1 to 255"],
  [PLAIN, [["message_size", 65536]], "document: document.message_size must be a whole number from 1 to 65535"],
  [PLAIN, [["tokens", 1]], "document: document.tokens must be true or false"],
  [PLAIN, [["tokens", undefined]], "document: document lacks 'tokens'"],
  [PLAIN, [["more", 1]], "document: document has the unknown field 'more'"],
  [PLAIN, [["analyzer.more", 1]], "document: analyzer has the unknown field 'more'"],
  [PLAIN, [["shufflers.0.more", 1]], "document: shuffler has the unknown field 'more'"],
  [PLAIN, [["shufflers.0.keys.0.more", 1]], "document: key has the unknown field 'more'"],
  [PLAIN, [["windows.more", 1]], "document: windows has the unknown field 'more'"],
  [PLAIN, [["promise.more", 1]], "document: promise has the unknown field 'more'"],
  [PLAIN, [["texts.more", 1]], "document: texts has the unknown field 'more'"],
  [PLAIN, [["questions.0.more", 1]], "document: question has the unknown field 'more'"],
  [PLAIN, [["questions.0.asked.more", 1]], "document: asked has the unknown field 'more'"],
  [SERVERS, [["questions.0.noise.more", 1]], "document: noise has the unknown field 'more'"],
  [HASHED, [["questions.0.noise.more", 1]], "document: noise has the unknown field 'more'"],
  [SEVERAL, [["questions.1.asked.part_of.more", 1]], "document: part_of has the unknown field 'more'"],
  [PLAIN, [["windows", 7]], "document: windows must be an object"],
  [PLAIN, [["analyzer", []]], "document: analyzer must be an object"],
  [PLAIN, [["questions", []]], "document: document.questions must be a list of 1 to 64 entries"],
  [PLAIN, [["questions", "none"]], "document: document.questions must be a list of 1 to 64 entries"],
  [PLAIN, [["questions", [7]]], "document: question must be an object"],
  [PLAIN, [["questions", [null]]], "document: question must be an object"],
  [PLAIN, [["questions.0.law", null]], "law: this client has no randomizer undefined"],
  [PLAIN, [["questions.0.law", { type: 7 }]], "law: this client has no randomizer 7"],
  [PLAIN, [["shufflers", []]], "document: document.shufflers must be a list of 1 to 2 entries"],
  [PLAIN, [["shufflers", [{}, {}]]], "planned: this version cannot use two shufflers in a row"],
  [PLAIN, [["shufflers", [{}, {}, {}]]], "document: document.shufflers must be a list of 1 to 2 entries"],
  [PLAIN, [["shufflers.0.keys", []]], "document: shuffler.keys must be a list of 1 to 256 entries"],
  [PLAIN, [["shufflers.0.keys", new Array(257).fill({})]], "document: shuffler.keys must be a list of 1 to 256 entries"],
  [PLAIN, [["shufflers.0.keys.0.id", 256]], "document: key.id must be a whole number from 0 to 255"],
  [PLAIN, [["shufflers.0.keys.0.id", -1]], "document: key.id must be a whole number from 0 to 255"],
  [PLAIN, [["shufflers.0.keys.0.first", -1]], "document: key.first must be a whole number from 0 to 1"],
  [PLAIN, [["shufflers.0.keys.0.first", 2]], "document: key.first must be a whole number from 0 to 1"],
  [PLAIN, [["shufflers.0.keys.0.last", -1]], "document: key.last must be a whole number from 0 to 1"],
  [PLAIN, [["shufflers.0.keys.1.last", 2]], "document: key.last must be a whole number from 0 to 1"],
  [PLAIN, [["shufflers.0.keys.1.first", 0]], "document: the shuffler's keys must cover each window once, in order"],
  [PLAIN, [["shufflers.0.keys.1.id", 0]], "document: the shuffler's keys must cover each window once, in order"],
  [PLAIN, [["shufflers.0.keys.0.last", 1], ["shufflers.0.keys.1.last", 0]], "document: the shuffler's keys must cover each window once, in order"],
  [PLAIN, [["windows.count", 3]], "document: the shuffler's keys must cover each window once, in order"],
  [PLAIN, [["shufflers.0.sign", "00"]], "document: shuffler.sign must be 64 hexadecimal digits"],
  [PLAIN, [["shufflers.0.sign", 7]], "document: shuffler.sign must be 64 hexadecimal digits"],
  [PLAIN, [["analyzer.sign", JSON.parse(baseOf(PLAIN)).analyzer.public]], "document: two of its keys are equal: each role needs its own"],
  [PLAIN, [["shufflers.0.sign", JSON.parse(baseOf(PLAIN)).analyzer.sign]], "document: two of its keys are equal: each role needs its own"],
  [PLAIN, [["shufflers.0.keys.0.public", JSON.parse(baseOf(PLAIN)).shufflers[0].keys[1].public]], "document: two of its keys are equal: each role needs its own"],
  [PLAIN, [["windows.start", 2 ** 40 + 1]], "document: windows.start must be a whole number from 0 to 1099511627776"],
  [PLAIN, [["windows.seconds", 0]], "document: windows.seconds must be a whole number from 1 to 1000000000"],
  [PLAIN, [["windows.count", 100001]], "document: windows.count must be a whole number from 1 to 100000"],
  [PLAIN, [["windows.grace", 1e7 + 1]], "document: windows.grace must be a whole number from 0 to 10000000"],
  [PLAIN, [["windows.grace", "7"]], "document: windows.grace must be a whole number from 0 to 10000000"],
  [PLAIN, [["promise.min_batch", 1]], "document: promise.min_batch must be a whole number from 2 to 1000000000"],
  [PLAIN, [["promise.reports_per_device", 3]], "document: promise.reports_per_device must be a whole number from 1 to 2"],
  [PLAIN, [["promise.reports_per_device", 0]], "document: promise.reports_per_device must be a whole number from 1 to 2"],
  [PLAIN, [["promise.composed", 1]], "document: promise.composed must be true or false"],
  [PLAIN, [["promise.trust_the_shuffler", null]], "document: promise.trust_the_shuffler must be true or false"],
  [PLAIN, [["promise.delta", 1]], 'document: promise.delta must be a decimal in a string, such as "0.25"'],
  [PLAIN, [["promise.delta", "1e-101"]], "document: delta must be from 1e-100 to 1, honest above 0 and at most 1"],
  [PLAIN, [["promise.delta", "1"]], "document: delta must be from 1e-100 to 1, honest above 0 and at most 1"],
  [PLAIN, [["promise.honest", "0"]], "document: delta must be from 1e-100 to 1, honest above 0 and at most 1"],
  [PLAIN, [["promise.honest", "1.01"]], "document: delta must be from 1e-100 to 1, honest above 0 and at most 1"],
  [PLAIN, [["promise.honest", "0.049"]], "document: honest * min_batch must be at least 1"],
  [PLAIN, [["promise.epsilon", "0"]], "document: epsilon and local_epsilon must be above 0 and at most 100"],
  [PLAIN, [["promise.epsilon", "100.5"]], "document: epsilon and local_epsilon must be above 0 and at most 100"],
  [PLAIN, [["promise.local_epsilon", "0"], ["promise.trust_the_shuffler", true]], "document: epsilon and local_epsilon must be above 0 and at most 100"],
  [PLAIN, [["promise.local_epsilon", "100.5"], ["promise.trust_the_shuffler", true]], "document: epsilon and local_epsilon must be above 0 and at most 100"],
  [PLAIN, [["promise.local_epsilon", "8.1"]], "document: a floor above 8, or none, needs trust_the_shuffler"],
  [PLAIN, [["promise.local_epsilon", "none"]], "document: a floor above 8, or none, needs trust_the_shuffler"],
  [PLAIN, [["promise.local_epsilon", "none"], ["promise.trust_the_shuffler", true]], "document: without a floor the noise must come from the servers"],
  [PLAIN, [["promise.local_epsilon", "nothing"]], 'document: promise.local_epsilon must be a decimal in a string, such as "0.25"'],
  ["format 1", [["promise.local_epsilon", "none"]], 'document: promise.local_epsilon must be a decimal in a string, such as "0.25"'],
  [PLAIN, [["promise.noise", "nobody"]], "document: promise.noise='nobody' must be devices or servers"],
  [PLAIN, [["promise.noise", "servers"]], "document: the question 'way' has a law of the servers' noise if they add it, and only then"],
  [PLAIN, [["promise.local_epsilon", "2.0999999999999996"]],
    "promise: the answers of a report are 0.8 + 0.8 + 0.5-private together, not 2.0999999999999996"],
  [PLAIN, [...SAMPLED, ["promise.local_epsilon", "0.7999999999999999"]],
    "promise: the answers of a report are 0.8 + 0.8 + 0.5-private together, not 0.7999999999999999"],
  [PLAIN, [...SAMPLED, ["slots", 3]], "document: slots and message_size do not follow from its questions"],
  [PLAIN, [...SAMPLED, ["promise.reports_per_device", 2]], "document: one random question per report is not composed over several reports"],
  ["format 1", [ONE, ["slots", 1]], "document: one random question per report is for count, histogram, mean, sum"],
  [FLOOR, [["promise.local_epsilon", "0.5"]], "promise: the answers of a report are 1.5 + 1.5-private together, not 0.5"],
  [SERVERS, [["promise.local_epsilon", "8"]], "promise: the answers of a report are Infinity + Infinity-private together, not 8"],
  [SERVERS, [["questions.0.noise", null]], "document: server_noise is the protocol of noise of the servers, and only of it"],
  [SERVERS, [["questions.0.protocol", "krr"]], "document: server_noise is the protocol of noise of the servers, and only of it"],
  [PLAIN, [["questions.0.protocol", "server_noise"]], "document: server_noise is the protocol of noise of the servers, and only of it"],
  [SERVERS, [["questions.0.noise.bins", 4]], "document: the noise of 'way' does not fit its bins"],
  [SERVERS, [["promise.noise", "devices"]], "document: the question 'way' has a law of the servers' noise if they add it, and only then"],
  [SERVERS, [["questions.1.parameters.parts", 2]], "document: parts must be 1, of which a report answers one"],
  [SERVERS, [["questions.0.noise.most", 65536], ["questions.1.noise.most", 1697]], "document: a server would add more than 200000 messages to a window"],
  [SERVERS, [["questions.0.noise.most", 65537]], "document: noise.most must be a whole number from 1 to 65536"],
  [SERVERS, [["questions.0.noise.most", 0]], "document: noise.most must be a whole number from 1 to 65536"],
  [SERVERS, [["questions.0.noise.bins", 65537]], "document: noise.bins must be a whole number from 2 to 65536"],
  [SERVERS, [["questions.0.noise.bins", 1]], "document: noise.bins must be a whole number from 2 to 65536"],
  [SERVERS, [["questions.0.noise.kind", "other"]], "document: noise.kind='other' must be bins, count or hashed"],
  [SERVERS, [["questions.0.noise.kind", "k".repeat(21)]], "document: noise.kind must be a text of 1 to 20 characters"],
  [SERVERS, [["questions.0.noise.rate", "0"]], "document: the noise of a question: rate and bins"],
  [SERVERS, [["questions.0.noise.rate", "1e999"]], "document: the noise of a question: rate and bins"],
  [SERVERS, [["questions.0.noise.kind", "count"]], "document: the noise of a question: rate and bins"],
  [SERVERS, [["questions.0.noise", 7]], "document: noise must be an object"],
  [HASHED, [["questions.0.noise.messages", 0]], "document: noise.messages must be a whole number from 1 to 200000"],
  [HASHED, [["questions.0.noise.messages", 200001]], "document: noise.messages must be a whole number from 1 to 200000"],
  [HASHED, [["questions.0.noise.r", 1]], "document: noise.r must be a whole number from 2 to 32"],
  [HASHED, [["questions.0.noise.r", 33]], "document: noise.r must be a whole number from 2 to 32"],
  [HASHED, [["questions.0.noise.s", 0]], "document: noise.s must be a whole number from 1 to 32"],
  [HASHED, [["questions.0.noise.s", 33]], "document: noise.s must be a whole number from 1 to 32"],
  [HASHED, [["questions.0.noise.width", 0]], "document: noise.width must be a whole number from 1 to 4294967295"],
  [HASHED, [["questions.0.noise.width", 2 ** 32]], "document: noise.width must be a whole number from 1 to 4294967295"],
  ...["r", "s", "width"].map((name) => /** @type {[string, [string, unknown][], string]} */ (
    [HASHED, [[`questions.0.noise.${name}`, 32]], "document: the noise of 'way' does not fit its bins"])),
  [PLAIN, [["questions.1.name", "way"]], "document: two questions have the same name"],
  [PLAIN, [["questions.0.name", "9w"]], "document: the name '9w' must be letters, digits, _ and -"],
  [PLAIN, [["questions.0.name", "w".repeat(61)]], "document: question.name must be a text of 1 to 60 characters"],
  [PLAIN, [["questions.0.text", "?".repeat(501)]], "document: question.text must be a text of 1 to 500 characters"],
  [PLAIN, [["questions.0.task", "t".repeat(41)]], "document: question.task must be a text of 1 to 40 characters"],
  [PLAIN, [["questions.0.protocol", "p".repeat(61)]], "document: question.protocol must be a text of 1 to 60 characters"],
  [PLAIN, [["questions.0.parameters", []]], "document: parameters must be an object"],
  [PLAIN, [["questions.0.parameters", null]], "document: parameters must be an object"],
  [PLAIN, [["questions.0.parameters", 3]], "document: parameters must be an object"],
  ["format 1", [["questions.0.task", "count"]], "document: the labels of the count 'way' must be no and yes"],
  ["format 1", [["questions.0.task", "mean"]], "document: krr does not answer the mean 'way'"],
  ["format 1", [["questions.0.task", "toString"]], "document: krr does not answer the toString 'way'"],
  ["format 1", [["questions.2.task", "histogram"]], "document: duchi does not answer the histogram 'minutes'"],
  ["format 1", [["questions.2.labels", ["a", "b"]]], "document: the labels of 'minutes' do not fit its law"],
  [PLAIN, [["questions.1.labels", null]], "document: the labels of 'home' do not fit its law"],
  [PLAIN, [["questions.1.labels", ["a", "b", "c"]]], "document: the labels of 'home' do not fit its law"],
  [PLAIN, [["questions.1.labels", ["a"]]], "document: labels must be null or 2 to 10,000 texts"],
  [PLAIN, [["questions.1.labels", new Array(10001).fill("a")]], "document: labels must be null or 2 to 10,000 texts"],
  [PLAIN, [["questions.1.labels", "ab"]], "document: labels must be null or 2 to 10,000 texts"],
  [PLAIN, [["questions.1.labels", ["a", 7]]], "document: labels must be texts of 1 to 200 characters"],
  [PLAIN, [["questions.1.labels", ["a", " "]]], "document: labels must be texts of 1 to 200 characters"],
  [PLAIN, [["questions.1.labels", ["a", "b".repeat(201)]]], "document: labels must be texts of 1 to 200 characters"],
  [PLAIN, [["questions.1.labels", ["a", "a"]]], "document: two labels are the same"],
  [PLAIN, [["questions.1.labels", ["yes", "b"]]], "document: the labels of the count 'home' must be no and yes"],
  [PLAIN, [["questions.1.labels", ["a", "False"]]], "document: the labels of the count 'home' must be no and yes"],
  [PLAIN, [["questions.1.labels", ["1", "0"]]], "document: the labels of the count 'home' must be no and yes"],
  ["format 1", [["questions.1.labels", ["nein", "ja"]]], "document: the labels of the count 'home' must be no and yes"],
  ["format 1", [["questions.3.range", null]], "document: range must be an object"],
  ["format 1", [["questions.3.range.lower", "10"]], "document: the range of a number must have lower < upper"],
  ["format 1", [["questions.3.range.upper", "1e999"]], "document: the range of a number must have lower < upper"],
  ["format 1", [["questions.3.range.more", "1"]], "document: range has the unknown field 'more'"],
  ["format 1", [["questions.3.labels", ["x", "y", "z"]]], "document: the labels of 'cost' do not fit its law"],
  [PLAIN, [["texts.title", "t".repeat(501)]], "document: texts.title must be a text of 1 to 500 characters"],
  [PLAIN, [["texts.contact", "t".repeat(501)]], "document: texts.contact must be a text of 1 to 500 characters"],
  [PLAIN, [["texts.welcome", "t".repeat(4001)]], "document: texts.welcome must be a text of 1 to 4000 characters"],
  [PLAIN, [["texts.consent", "t".repeat(4001)]], "document: texts.consent must be a text of 1 to 4000 characters"],
  [PLAIN, [["texts.welcome", undefined]], "document: texts lacks 'welcome'"],
  [PLAIN, [["texts.consent", ""]], "document: texts.consent must be a text of 1 to 4000 characters"],
  [PLAIN, [["texts.language", "english"]], "document: the language 'english' must be a tag such as en, pt-BR or sr-Latn"],
  [PLAIN, [["texts.direction", "ttb"]], "document: the direction 'ttb' must be ltr or rtl"],
  [PLAIN, [["texts.logo", null]], "document: texts.logo must be a text of 1 to 10706 characters"],
  [PLAIN, [["texts.logo", "x".repeat(10707)]], "document: texts.logo must be a text of 1 to 10706 characters"],
  [PLAIN, [["texts.logo", "x".repeat(10706)]], "document: its logo is not valid: it must be a PNG or JPEG"],
  [PLAIN, [["questions.0.asked.kind", "number"]], "document: the histogram 'way' is asked as choice or scale, not 'number'"],
  [PLAIN, [["questions.1.asked.kind", "choice"]], "document: the count 'home' is asked as yes_no or several, not 'choice'"],
  [PLAIN, [["questions.2.asked.kind", "text"]], "document: the mean 'minutes' is asked as number, not 'text'"],
  [PLAIN, [["questions.2.task", "words"], ["questions.2.asked.kind", "number"]], "document: the words 'minutes' is asked as text, not 'number'"],
  [PLAIN, [["questions.0.asked.kind", "k".repeat(21)]], "document: asked.kind must be a text of 1 to 20 characters"],
  [PLAIN, [["questions.0.asked.description", "d".repeat(4001)]], "document: asked.description must be a text of 1 to 4000 characters"],
  [PLAIN, [["questions.2.asked.unit", "u".repeat(41)]], "document: asked.unit must be a text of 1 to 40 characters"],
  [PLAIN, [["questions.0.asked.unit", "km"]], "document: 'way' has a unit, but is not a number"],
  [PLAIN, [["questions.0.asked.skip", 1]], "document: asked.skip must be true or false"],
  [PLAIN, [["questions.1.asked.skip", true]], "document: 'home' cannot be skipped: that is one of three or more categories"],
  [PLAIN, [["questions.2.asked.skip", true]], "document: 'minutes' cannot be skipped: that is one of three or more categories"],
  [PLAIN, [["questions.0.labels", ["a", "b"]]], "document: 'way' cannot be skipped: that is one of three or more categories"],
  [PLAIN, [["questions.0.labels", null]], "document: 'way' cannot be skipped: that is one of three or more categories"],
  [PLAIN, [["questions.0.asked.ends", ["a", "b"]]], "document: 'way' has ends if it is a scale, and only then"],
  [SCALE, [["questions.0.asked.ends", null]], "document: 'way' has ends if it is a scale, and only then"],
  [SCALE, [["questions.0.asked.ends", ["a"]]], "document: ends must be two texts"],
  [SCALE, [["questions.0.asked.ends", "ab"]], "document: ends must be two texts"],
  [SCALE, [["questions.0.asked.ends", ["a", "b", "c"]]], "document: ends must be two texts"],
  [SCALE, [["questions.0.asked.ends", ["a", "b".repeat(201)]]], "document: ends.text must be a text of 1 to 200 characters"],
  [SCALE, [["questions.0.labels", ["1", "2", "4", "skip"]]], "document: the labels of the scale 'way' must be 1, 2, ... up to 11"],
  [SCALE, [["questions.0.labels", ["0", "1", "2", "skip"]]], "document: the labels of the scale 'way' must be 1, 2, ... up to 11"],
  [PLAIN, [["questions.1.asked.part_of", { name: "a", text: "A?" }]], "document: 'home' is part of another question if several are chosen, and only then"],
  [SEVERAL, [["questions.1.asked.part_of", null]], "document: 'home' is part of another question if several are chosen, and only then"],
  [SEVERAL, [["questions.1.asked.part_of.text", "?".repeat(501)]], "document: part_of.text must be a text of 1 to 500 characters"],
  ...["https://a.example/", "http://a.example", "https://u@a.example", "https://a.example?x", "https://a.example:65536", "https://a.example/#x", "ftp://a.example"]
    .map((url) => /** @type {[string, [string, unknown][], string]} */ ([PLAIN, [["shufflers.0.url", url]], URL_SAID(url)])),
];

test("a document that is refused is told by the one rule that it breaks", async () => {
  const found = await Promise.all(DOCUMENTS.map(([what, changes]) => read(what, put(...changes)).then(() => "taken", ({ message }) => message)));
  const tell = (/** @type {string[]} */ sentences) => DOCUMENTS.map(([what, changes], place) => `${what}, ${JSON.stringify(changes).slice(0, 200)}: ${sentences[place]}`);
  assert.deepEqual(tell(found), tell(DOCUMENTS.map(([, , said]) => said)));
});

const LONG = "t".repeat(500), LONGER = "w".repeat(4000);
/** @type {[string, [string, unknown][]][]} changes that are just within the rules */
const FINE = [
  [PLAIN, [["promise.local_epsilon", "2.1"]]],
  [PLAIN, [["promise.local_epsilon", "8"]]],
  [PLAIN, [["promise.local_epsilon", "100"], ["promise.trust_the_shuffler", true], ["promise.epsilon", "100"]]],
  [PLAIN, SAMPLED],
  [PLAIN, [...SAMPLED, ["promise.reports_per_device", 2], ["promise.composed", false]]],
  [SERVERS, [["questions.0.noise.most", 65536], ["questions.1.noise.most", 1696]]],
  [PLAIN, [["texts.title", LONG], ["texts.contact", LONG], ["texts.welcome", LONGER], ["texts.consent", LONGER]]],
  [PLAIN, [["texts.language", "ast-Latn-419"]]],
  [PLAIN, [["questions.0.asked.description", LONGER], ["questions.2.asked.unit", "u".repeat(40)]]],
  [PLAIN, [["questions.1.labels", ["No", "YES"]]]],
  [PLAIN, [["questions.1.labels", ["0", "1"]]]],
  [PLAIN, [["questions.1.labels", ["false", "b".repeat(200)]]]],
  [PLAIN, [["questions.0.protocol", "p".repeat(60)], ["questions.0.name", "w".repeat(60)], ["questions.0.text", "?".repeat(500)]]],
  [SCALE, [["questions.0.asked.ends", ["a", "b".repeat(200)]]]],
  [SEVERAL, [["questions.1.asked.part_of.text", LONG], ["questions.2.asked.part_of.text", LONG]]],
];

test("what is just within the rules is taken", async () => {
  for (const [what, changes] of FINE) await assert.doesNotReject(read(what, put(...changes)), `${what}: ${JSON.stringify(changes).slice(0, 200)}`);
});

/** A question of so many labels. @param {number} k */
const chooses = (k, skip = false) => (/** @type {any} */ document) => {
  const [question] = document.questions, steps = Array.from({ length: skip ? k - 1 : k }, (_, place) => String(1 + place));
  question.labels = skip ? [...steps, "none"] : steps;
  question.law = { type: "KRR", k: String(k), epsilon0: "0.8", word_bits: "64", share: String((1n << 64n) / BigInt(k + 1)) };
  Object.assign(question.asked, { kind: "scale", skip, ends: ["low", "high"] });
};

test("a scale has up to 11 steps, and one label more if it may be skipped", async () => {
  const said = { message: "document: the labels of the scale 'way' must be 1, 2, ... up to 11" };
  await read(PLAIN, chooses(11));
  await read(PLAIN, chooses(12, true));
  await assert.rejects(read(PLAIN, chooses(12)), said);
  await assert.rejects(read(PLAIN, chooses(13, true)), said);
  const { questions: [{ asked }] } = await read(PLAIN, chooses(12, true));
  assert.deepEqual(asked, { kind: "scale", description: null, unit: null, skip: true, ends: ["low", "high"], partOf: null });
});

test("choices of one question are two or more neighbours that say the same of it", async () => {
  const said = { message: "document: the choices of 'places' must be two or more, neighbours, with one text" };
  const part = (text = "Where?") => ({ kind: "several", description: null, unit: null, skip: false, ends: null, part_of: { name: "places", text } });
  const asks = (/** @type {(string | null)[]} */ ...texts) => (/** @type {any} */ document) => {
    const home = document.questions[1];
    document.questions = texts.map((text, place) => ({ ...home, name: `q${place}`, asked: text === null ? home.asked : part(text) }));
    document.slots = texts.length;
    document.promise.local_epsilon = "8";
  };
  for (const texts of [["a", "a"], [null, "a", "a"], ["a", "a", "a", null]]) await read(PLAIN, asks(...texts));
  for (const texts of [["a", null], ["a", null, "a"], ["a", "b"], ["a", "a", "b"], ["b", "a", "a"], ["a", "a", null, "a"]]) {
    await assert.rejects(read(PLAIN, asks(...texts)), said, String(texts));
  }
  const { questions } = await read(PLAIN, asks("a", "a"));
  assert.deepEqual(questions.map((each) => each.asked.partOf), [{ name: "places", text: "a" }, { name: "places", text: "a" }]);
});

test("everything that a document says is kept as it says it", async () => {
  const found = await read("a logo", put(["texts.welcome", "Hi"], ["texts.consent", "Yes?"], ["texts.contact", "me"], ["texts.direction", "rtl"], ["windows.grace", 17],
    ["questions.0.asked.description", "More."], ["questions.2.asked.unit", "km"], ["promise.composed", false], ["promise.honest", "0.5"]));
  const document = JSON.parse(baseOf("a logo")), { public: key } = document.analyzer;
  assert.deepEqual(found.texts, { title: "A test", language: "en", direction: "rtl", welcome: "Hi", consent: "Yes?", contact: "me", logo: document.texts.logo });
  assert.deepEqual([found.title, found.version, found.checked, found.url, found.tokens, found.slots, found.messageSize, toHex(found.analyzerKey)],
    ["A test", 2, false, "http://127.0.0.1:8000", false, 3, 1, key]);
  assert.deepEqual(found.windows, { start: 1000, seconds: 100, count: 2, grace: 17 });
  assert.deepEqual(found.promise, {
    epsilon: 4, delta: 0.01, honest: 0.5, minBatch: 20, localEpsilon: 3, trustTheShuffler: false, noise: "devices", reportsPerDevice: 1,
    composed: false, oneQuestion: false,
  });
  const keys = document.shufflers[0].keys;
  assert.deepEqual(found.shufflerKeys.map((each) => ({ ...each, public: toHex(each.public) })), keys);
  const [way, home, minutes] = found.questions;
  assert.deepEqual([way.name, way.text, way.task, way.protocol, way.range, way.noise, way.parts], ["way", "How do you come to work?", "histogram", "krr", null, null, 1]);
  assert.deepEqual(way.labels, ["car", "bicycle", "bus", "prefer not to say"]);
  assert.deepEqual(way.asked, { kind: "choice", description: "More.", unit: null, skip: true, ends: null, partOf: null });
  assert.deepEqual([home.asked.kind, home.asked.skip, minutes.asked.kind, minutes.asked.unit], ["yes_no", false, "number", "km"]);
  const old = await read("format 1");
  assert.deepEqual(old.texts, { title: JSON.parse(report.document).title, language: "en", direction: "ltr", welcome: null, consent: null, contact: null, logo: null });
  assert.deepEqual(old.questions.map((each) => [each.asked.kind, each.asked.skip]),
    [["choice", false], ["yes_no", false], ["number", false], ["number", false], ["number", false], ["text", false]]);
  assert.deepEqual([old.version, old.promise.noise, old.promise.trustTheShuffler], [1, "devices", false]);
});

test("the floor of a device and the best guess of everybody else are those of all its reports", async () => {
  const twice = await read(PLAIN, put(["promise.reports_per_device", 2]));
  assert.equal(twice.floor, 6);
  assert.ok(Math.abs(twice.guess - 1 / (1 + Math.exp(-6))) < 1e-14 && twice.guess >= 1 / (1 + Math.exp(-6)));
  const none = await read(SERVERS);
  assert.deepEqual([none.floor, none.guess], [Infinity, 1]);
  assert.equal(none.checked, true);
  assert.equal(none.dummies, JSON.parse(baseOf(SERVERS)).questions.reduce((/** @type {number} */ sum, /** @type {any} */ { noise }) => sum + noise.bins * noise.most, 0));
  assert.equal((await read(PLAIN)).dummies, 0);
  const hashed = JSON.parse(baseOf(HASHED)).questions;
  assert.equal((await read(HASHED)).checked, false); // two laws of different kinds take the accountant
  assert.equal((await read(HASHED)).dummies, hashed[0].noise.messages + hashed[1].noise.bins * hashed[1].noise.most);
});

test("answers that are none are told by name, with what they must be", async () => {
  const { questions: [way, home, minutes, cost, distance, brand] } = await read("format 1");
  /** @type {[import("../src/document.js").Question, unknown, string][]} */
  const wrong = [
    [way, "rocket", "way='rocket' must be one of car, bicycle, bus"],
    [way, "yes", "way='yes' must be one of car, bicycle, bus"],
    [home, "maybe", "home='maybe' must be one of no, yes"],
    [minutes, "", "minutes='' must be a number"],
    [minutes, " ", "minutes=' ' must be a number"],
    [minutes, "x", "minutes='x' must be a number"],
    [minutes, undefined, "minutes='undefined' must be a number"],
    [minutes, null, "minutes='null' must be a number"],
    [minutes, [], "minutes='' must be a number"],
    [minutes, [7], "minutes='7' must be a number"],
    [minutes, "0x10", "minutes='0x10' must be a number"],
    [minutes, "1_0", "minutes='1_0' must be a number"],
    [minutes, "\u0663", "minutes='\u0663' must be a number"],
    [minutes, "Infinity", "minutes='Infinity' must be a number"],
    [minutes, Infinity, "Infinity is outside [0, 240]"],
    [minutes, 240.5, "240.5 is outside [0, 240]"],
    [minutes, -1, "-1 is outside [0, 240]"],
    [cost, "train: 1", "cost='train: 1' must be GROUP: NUMBER, with one of the groups car, car: old"],
    [cost, "car", "cost='car' must be GROUP: NUMBER, with one of the groups car, car: old"],
    [cost, "car: much", "cost=' much' must be a number"],
    [cost, "car: 11", "11 is outside [-1.5, 10]"],
    [distance, 9, "9 is outside [0.5, 8.5]"],
    [brand, " ", "brand=' ' is empty"],
    [brand, null, "brand='null' is empty"],
    [brand, undefined, "brand='undefined' is empty"],
    [brand, "a b", "brand='a b' has a character outside the alphabet word"],
    [brand, "abcde", "brand='abcde' is longer than 4 bytes"],
  ];
  for (const [question, answer, said] of wrong) assert.throws(() => findPlace(question, answer), { message: `answers: ${said}` });
  for (const seven of [7, "7", " 7 ", "+7", "7.", "7.0", "70e-1", "0.7E+1", 7n]) assert.equal(findPlace(minutes, seven), findPlace(minutes, 7), String(seven));
  const many = { ...way, labels: Array.from({ length: 30 }, (_, place) => `l${place}`) };
  const twenty = many.labels.slice(0, 20).join(", ");
  assert.throws(() => findPlace(many, "x"), { message: `answers: way='x' must be one of ${twenty}` });
  assert.throws(() => findPlace({ ...cost, labels: many.labels }, "x"), { message: `answers: cost='x' must be GROUP: NUMBER, with one of the groups ${twenty}` });
  const broken = { ...brand, randomizer: { ...brand.randomizer, codeOf: () => { throw new TypeError("a fault of ours"); } } };
  assert.throws(() => findPlace(broken, "x"), TypeError);
  const whole = /** @type {any} */ ({ ...distance, randomizer: { ...distance.randomizer, cells: { lower: -2, upper: 3, cells: null } } });
  assert.deepEqual(findEnds(whole), { lower: -2, upper: 3, whole: true });
  assert.throws(() => findPlace(whole, 0.5), { message: "answers: 0.5 is outside [-2, 3]" });
  assert.deepEqual([findPlace(whole, -2), findPlace(whole, "3")], [0, 5]);
});

test("who leaves out a question that may be skipped has chosen its last category, and no other may be left out", async () => {
  const collection = await read(PLAIN), words = Array.from({ length: 20 }, () => (1n << 64n) - 1n); // so large that nothing is changed
  const encode = (/** @type {object} */ answers) => encodeAnswers(collection, /** @type {any} */ (answers), listedWords(words)).map((plain) => [...plain]);
  const said = (/** @type {string} */ message) => ({ message: `answers: ${message}` });
  assert.deepEqual(encode({ home: "ja", minutes: 0 })[0], [0, 3]);
  assert.deepEqual(encode({ way: "bus", home: "ja", minutes: 0 })[0], [0, 2]);
  assert.deepEqual(encode({ home: "ja", minutes: 0 }).map(([kind]) => kind), [0, 1, 2]);
  assert.throws(() => encode({ way: "bus", minutes: 0 }), said("there is no answer to home"));
  assert.throws(() => encode({ home: "ja", minutes: 0, more: 1 }), said("there is no question 'more'"));
});

/** @param {string} type @param {(law: any) => boolean} fits */
const lawOf = (type, fits = () => true) => messages.find((/** @type {any} */ each) => each.law.type === type && fits(each.law)).law;
const REALS = { type: "Reals", lower: "0.0", upper: "1.0", steps: "2" };
const SMALL = { word_bits: "8", epsilon0: "5" };
const MIXED = {
  type: "Hybrid", ...SMALL, domain: REALS, threshold: "100",
  piecewise: { type: "Piecewise", ...SMALL, domain: REALS, stride: "1", window: "2", low: "10", extra: "108" }, duchi: { type: "Duchi", ...SMALL, domain: REALS, slope: "50" },
};
const RR = { type: "RR", ...SMALL, threshold: "50" }, KRR = { type: "KRR", ...SMALL, k: "4", share: "20" };
const UNARY = { type: "Unary", ...SMALL, k: "3", one: "200", zero: "50" };
const HASHING = { type: "LocalHashing", word_bits: "4", epsilon0: "5", k: "4", g: "2", response: { type: "KRR", word_bits: "4", epsilon0: "5", k: "2", share: "3" } };
const SUBSET = { type: "SubsetSelection", ...SMALL, k: "4", w: "2", threshold: "200" };
const HADAMARD = { type: "HadamardResponse", ...SMALL, k: "3", blocks: "1", block_length: "4", low: "20" };
const TREE = { type: "LocalTree", ...SMALL, domain: { type: "Integers", lower: "0", upper: "7" }, shape: ["2", "4"], sign: RR };
const BIN = { type: "OneBin", word_bits: "8", domain: { type: "Categories", k: "4" }, response: null };
const FAMILY = { type: "HashedBin", word_bits: "8", k: "16", r: "4", s: "2", width: "2", blanket: "0", floor: null };
const PIECEWISE = MIXED.piecewise, DUCHI = MIXED.duchi;
/** @type {[any, object, string][]} a law, what is changed, and the sentence */
const LAWS = [
  [RR, { threshold: "0" }, "threshold=0 must be >= 1"], [RR, { threshold: "05" }, "threshold must be a whole number"], [RR, { threshold: 5 }, "threshold must be a whole number"],
  [RR, { threshold: "1".repeat(22) }, "threshold must be a whole number"], [RR, { threshold: "128" }, "threshold leaves nothing of the value"],
  [RR, { word_bits: "65" }, "word_bits=65 must be <= 64"], [RR, { word_bits: "0" }, "word_bits=0 must be >= 1"],
  [RR, { epsilon0: "1,0" }, "epsilon0 must be a decimal in a string"], [RR, { epsilon0: 1 }, "epsilon0 must be a decimal in a string"], [RR, { epsilon0: "1e999" }, "epsilon0 must be a decimal in a string"],
  [RR, { epsilon0: "1.4" }, "the likelihood ratio 206/50 is above e^1.4"], [RR, { epsilon0: "-1" }, "the likelihood ratio 206/50 is above e^-1"],
  [KRR, { k: "1" }, "k=1 must be >= 2"], [KRR, { k: "2147483649" }, "k=2147483649 must be <= 2^31"], [KRR, { share: "0" }, "share=0 must be >= 1"],
  [KRR, { share: "64" }, "share leaves nothing of the value"], [KRR, { epsilon0: "2.2" }, "the likelihood ratio 196/20 is above e^2.2"],
  [UNARY, { k: "1" }, "k=1 must be >= 2"], [UNARY, { zero: "0" }, "zero=0 must be >= 1"], [UNARY, { one: "0" }, "one=0 must be >= 1"], [UNARY, { zero: "200" }, "thresholds must be 0 < zero < one < 2^word_bits"],
  [UNARY, { one: "256" }, "thresholds must be 0 < zero < one < 2^word_bits"], [UNARY, { epsilon0: "2.6" }, "the likelihood ratio 41200/2800 is above e^2.6"],
  [HASHING, { k: "1" }, "k=1 must be >= 2"], [SUBSET, { k: "1" }, "k=1 must be >= 2"], [SUBSET, { threshold: "0" }, "threshold=0 must be >= 1"], [HADAMARD, { k: "1" }, "k=1 must be >= 2"],
  [HADAMARD, { blocks: "0" }, "blocks=0 must be >= 1"], [HADAMARD, { low: "0" }, "low=0 must be >= 1"], [BIN, { domain: { type: "Categories", k: "1" } }, "k=1 must be >= 2"], [FAMILY, { k: "1" }, "k=1 must be >= 2"],
  [MIXED, { threshold: "-1" }, "threshold must be a whole number"], [FAMILY, { blanket: "-1" }, "blanket must be a whole number"], [FAMILY, { r: "17", word_bits: "64" }, "r must be 2, 3, ..., 16 or 32, and s at most r"],
  [FAMILY, { s: "5", word_bits: "64" }, "r must be 2, 3, ..., 16 or 32, and s at most r"], [FAMILY, { width: "4", word_bits: "64" }, "k must be <= 2^r, width < 2^s and blanket < 2^word_bits"],
  [HASHING, { word_bits: "5" }, "word_bits must be 4, 6, 8, ..., 32 or 64"], [HASHING, { word_bits: "34" }, "word_bits must be 4, 6, 8, ..., 32 or 64"],
  [HASHING, { k: "5" }, "k must be <= 2^r and g <= 2^(r-1)"], [HASHING, { g: "3" }, "k must be <= 2^r and g <= 2^(r-1)"], [HASHING, { g: "1" }, "g=1 must be >= 2"],
  [HASHING, { response: RR }, "the response must be k-ary randomized response"], [HASHING, { response: undefined }, "the response must be k-ary randomized response"],
  [HASHING, { response: { ...HASHING.response, k: "3" } }, "the response must be that of the g buckets"], [HASHING, { response: { ...HASHING.response, word_bits: "5" } }, "the response must be that of the g buckets"],
  [SUBSET, { w: "4" }, "threshold leaves nothing of the value"], [SUBSET, { w: "0" }, "w=0 must be >= 1"], [SUBSET, { threshold: "256" }, "threshold leaves nothing of the value"],
  [SUBSET, { threshold: "128" }, "threshold leaves nothing of the value"], [SUBSET, { epsilon0: "1.2" }, "the likelihood ratio 400/112 is above e^1.2"],
  [HADAMARD, { blocks: "3" }, "blocks and block_length must be powers of two that leave something of the value"], [HADAMARD, { block_length: "3" }, "blocks and block_length must be powers of two that leave something of the value"],
  [HADAMARD, { low: "64" }, "blocks and block_length must be powers of two that leave something of the value"], [HADAMARD, { block_length: "1" }, "block_length=1 must be >= 2"],
  [HADAMARD, { k: "4" }, "the blocks must hold all k categories"], [HADAMARD, { epsilon0: "1.6" }, "the likelihood ratio 108/20 is above e^1.6"],
  [HADAMARD, { word_bits: "64", blocks: "65536", block_length: "131072" }, "blocks and block_length must be powers of two that leave something of the value"],
  [TREE, { sign: KRR }, "the sign must be flipped by randomized response"], [TREE, { sign: null }, "the sign must be flipped by randomized response"], [TREE, { sign: { ...RR, word_bits: "9" } }, "the sign must have words of the same size"],
  [TREE, { shape: [] }, "shape must be a list"], [TREE, { shape: "24" }, "shape must be a list"], [TREE, { shape: new Array(41).fill("2") }, "shape must be a list"], [TREE, { shape: ["2", "1"] }, "1=1 must be >= 2"],
  [TREE, { shape: ["2", "2"] }, "the tree must have a leaf for every cell"], [TREE, { shape: ["1073741824", "2"] }, "the tree must have at most 2^30 leaves"],
  [TREE, { word_bits: "2", sign: { ...RR, word_bits: "2", threshold: "1" } }, "word_bits must be enough for the columns"],
  [TREE, { domain: { ...TREE.domain, upper: "8" } }, "the tree must have a leaf for every cell"], [TREE, { domain: { ...TREE.domain, lower: "7" } }, "the domain must have lower < upper"],
  [TREE, { domain: { ...TREE.domain, lower: "0.5" } }, "the domain must have lower < upper"], [TREE, { domain: { ...TREE.domain, upper: "6.5" } }, "the domain must have lower < upper"],
  [TREE, { domain: REALS }, "the domain must be integers or cells"], [TREE, { domain: null }, "the domain must be integers or cells"],
  [TREE, { domain: { type: "Cells", lower: "0", upper: "1", cells: "1" } }, "cells=1 must be >= 2"],
  [DUCHI, { slope: "0" }, "slope=0 must be >= 1"], [DUCHI, { slope: "128" }, "slope is too steep"], [DUCHI, { slope: "51", domain: { ...REALS, steps: "1" } }, "slope is too steep"],
  [DUCHI, { domain: { ...REALS, steps: "0" } }, "steps=0 must be >= 1"], [DUCHI, { domain: { ...REALS, lower: "1" } }, "the grid must have lower < upper and at most 2^32 steps"],
  [DUCHI, { domain: { ...REALS, steps: "4294967297" } }, "the grid must have lower < upper and at most 2^32 steps"], [DUCHI, { domain: { ...REALS, lower: "-1e308", upper: "1e308" } }, "the grid must have lower < upper and at most 2^32 steps"],
  [DUCHI, { domain: TREE.domain }, "the domain must be a grid of real numbers"],
  [DUCHI, { domain: undefined }, "the domain must be a grid of real numbers"], [DUCHI, { domain: { ...REALS, lower: "x" } }, "lower must be a decimal in a string"],
  [DUCHI, { epsilon0: "0.8" }, "the likelihood ratio 178/78 is above e^0.8"],
  [PIECEWISE, { extra: "109" }, "the shares must fill 2^word_bits words"], [PIECEWISE, { extra: "105" }, "the shares must fill 2^word_bits words"], [PIECEWISE, { window: "0" }, "window=0 must be >= 1"],
  [PIECEWISE, { stride: "0" }, "stride=0 must be >= 1"], [PIECEWISE, { low: "0" }, "low=0 must be >= 1"], [PIECEWISE, { extra: "0" }, "extra=0 must be >= 1"], [PIECEWISE, { epsilon0: "2.4" }, "the likelihood ratio 118/10 is above e^2.4"],
  [MIXED, { piecewise: DUCHI }, "the parts must be piecewise and duchi"], [MIXED, { duchi: null }, "the parts must be piecewise and duchi"], [MIXED, { threshold: "257" }, "the parts must have one grid"],
  [MIXED, { duchi: { ...DUCHI, domain: { ...REALS, steps: "4" }, slope: "20" } }, "the parts must have one grid"], [MIXED, { duchi: { ...DUCHI, word_bits: "9" } }, "the parts must have one grid"],
  [MIXED, { epsilon0: "2.4" }, "the likelihood ratio 118/10 is above e^2.4"],
  [BIN, { domain: { type: "Keys", bits: "8" } }, "the domain must have bins"], [BIN, { domain: null }, "the domain must have bins"], [BIN, { domain: { type: "Categories", k: "65537" } }, "there must be at most 2^16 bins"],
  [BIN, { response: RR }, "the response must be k-ary randomized response, or none"], [BIN, { response: undefined }, "the response must be k-ary randomized response, or none"],
  [BIN, { response: { ...KRR, k: "5" } }, "the response must be that of the bins"], [BIN, { response: { ...KRR, word_bits: "9" } }, "the response must be that of the bins"],
  [FAMILY, { r: "17" }, "r must be 2, 3, ..., 16 or 32, and s at most r"], [FAMILY, { s: "5" }, "r must be 2, 3, ..., 16 or 32, and s at most r"], [FAMILY, { word_bits: "5" }, "r must be 2, 3, ..., 16 or 32, and s at most r"],
  [FAMILY, { k: "17" }, "k must be <= 2^r, width < 2^s and blanket < 2^word_bits"], [FAMILY, { width: "4" }, "k must be <= 2^r, width < 2^s and blanket < 2^word_bits"],
  [FAMILY, { blanket: "256", floor: "5" }, "k must be <= 2^r, width < 2^s and blanket < 2^word_bits"], [FAMILY, { width: "0" }, "width=0 must be >= 1"], [FAMILY, { s: "0" }, "s=0 must be >= 1"], [FAMILY, { r: "1" }, "r=1 must be >= 2"],
  [FAMILY, { blanket: "7" }, "the blanket is that of a floor, and only of it"], [FAMILY, { floor: "5" }, "the blanket is that of a floor, and only of it"], [FAMILY, { floor: "x", blanket: "7" }, "floor must be a decimal in a string"],
  [RR, { type: "Other" }, "this client has no randomizer Other"], [RR, { type: "toString" }, "this client has no randomizer toString"], [RR, { type: 7 }, "this client has no randomizer 7"],
];

test("a law that is refused is told by the one rule that it breaks", () => {
  for (const [law, change, said] of LAWS) {
    buildRandomizer(law);
    assert.throws(() => buildRandomizer({ ...law, ...change }), { name: "WireError", reason: "law", message: `law: ${said}` }, `${law.type} ${JSON.stringify(change)}`);
  }
  assert.throws(() => buildRandomizer(/** @type {any} */ (null)), { message: "law: this client has no randomizer undefined" });
});

test("a law just within its rules is taken, with the sizes and the floor that follow", () => {
  /** @type {[any, object, object][]} a law, what is changed, and what follows */
  const fine = [
    [RR, { threshold: "127" }, { size: 2, ratio: [129n, 127n], wordsPerInput: 1, wordBits: 8, epsilon0: 5, odds: { own: 129 / 256 } }],
    [KRR, { share: "63" }, { size: 4, ratio: [67n, 63n], odds: { own: 67 / 256 } }],
    [KRR, { word_bits: "64", k: "2147483648", share: "1", epsilon0: "45" }, { size: 2 ** 31, code: { sizes: [1n << 31n] } }],
    [UNARY, { one: "201", zero: "200" }, { size: 3, wordsPerInput: 3, ratio: [201n * 56n, 200n * 55n], code: { bits: 3 }, odds: { marked: 201 / 256, unmarked: 200 / 256 } }],
    [HASHING, {}, { size: 4, wordsPerInput: 2, ratio: [13n, 3n], code: { sizes: [4n, 4n, 2n] } }],
    [SUBSET, { threshold: "129" }, { size: 4, wordsPerInput: 3, ratio: [258n, 254n], code: { bits: 4 }, odds: { marked: 129 / 256, unmarked: (2 - 129 / 256) / 3 } }],
    [SUBSET, { threshold: "255", epsilon0: "6" }, { ratio: [510n, 2n] }],
    [SUBSET, { w: "3", threshold: "193" }, { wordsPerInput: 4, ratio: [193n, 189n] }],
    [HADAMARD, { low: "63" }, { size: 3, ratio: [65n, 63n], code: { sizes: [4n] }, wordsPerInput: 1 }],
    [HADAMARD, { word_bits: "64", blocks: "65536", block_length: "65536", low: "1073741824", epsilon0: "14" }, { code: { sizes: [1n << 32n] } }],
    [TREE, { word_bits: "3", sign: { ...RR, word_bits: "3", threshold: "1" } }, { size: 8, wordsPerInput: 3, ratio: [7n, 1n], code: { sizes: [20n] } }],
    [TREE, { shape: ["1073741824"], word_bits: "30", sign: { ...RR, word_bits: "30", threshold: "536000000" } }, { code: { sizes: [1n << 31n] } }],
    [TREE, { shape: new Array(30).fill("2"), word_bits: "30", sign: { ...RR, word_bits: "30", threshold: "536000000" } }, { size: 8 }],
    [DUCHI, { slope: "127", epsilon0: "6" }, { size: 3, wordsPerInput: 1, ratio: [255n, 1n], grid: { lower: 0, upper: 1, steps: 2n }, code: { sizes: [2n] }, odds: { coin: 1 / 256 }, epsilon0: 6 }],
    [DUCHI, { word_bits: "64", slope: "2", domain: { ...REALS, steps: "4294967296" } }, { size: 2 ** 32 + 1 }],
    [PIECEWISE, {}, { size: 3, code: { sizes: [4n] }, ratio: [118n, 10n], wordsPerInput: 1 }],
    [PIECEWISE, { extra: "106" }, { ratio: [116n, 10n] }],
    [MIXED, { threshold: "256" }, { size: 3, wordsPerInput: 2, code: { sizes: [6n] } }],
    [BIN, {}, { size: 4, wordsPerInput: 0, ratio: [1n, 0n], epsilon0: Infinity, code: { sizes: [4n] }, odds: { own: 1 } }],
    [BIN, { response: KRR }, { size: 4, wordsPerInput: 1, ratio: [196n, 20n], epsilon0: 5, odds: { own: 196 / 256 } }],
    [FAMILY, {}, { size: 16, wordsPerInput: 2, ratio: [1n, 0n], epsilon0: Infinity, code: { sizes: [16n, 4n] }, hashed: { r: 4, s: 2, width: 2, support: 0.5, p: 1, q: 0 } }],
    [FAMILY, { blanket: "255", floor: "5" }, { wordsPerInput: 3, epsilon0: 5 }],
    [FAMILY, { s: "4", width: "15" }, { code: { sizes: [16n, 16n] } }],
  ];
  for (const [law, change, wanted] of fine) {
    const made = /** @type {any} */ (buildRandomizer({ ...law, ...change }));
    for (const [name, value] of Object.entries(wanted)) assert.deepEqual(made[name], value, `${law.type} ${JSON.stringify(change)}: ${name}`);
  }
});

/** The smallest irreducible polynomial of a degree, with its highest term; that of degree 32 is too far to search. @param {number} r */
function findPolynomial(r) {
  if (r === 32) return 2 ** 32 + 0x8d;
  const degree = (/** @type {number} */ value) => 31 - Math.clz32(value);
  const divides = (/** @type {number} */ by, /** @type {number} */ value) => {
    while (degree(value) >= degree(by)) value ^= by << (degree(value) - degree(by));
    return value === 0;
  };
  const divisors = Array.from({ length: 2 ** (Math.floor(r / 2) + 1) - 2 }, (_, place) => place + 2);
  let found = 2 ** r + 1;
  while (divisors.some((each) => divides(each, found))) found += 2;
  return found;
}

/** @param {bigint} a @param {bigint} x @param {number} r @param {bigint} polynomial */
function multiply(a, x, r, polynomial) {
  let product = 0n;
  for (let place = 0n; place < BigInt(r); place++) if ((x >> place) & 1n) product ^= a << place;
  for (let place = BigInt(2 * r); place >= BigInt(r); place--) if ((product >> place) & 1n) product ^= polynomial << (place - BigInt(r));
  return product;
}

test("hash functions multiply in the field of the smallest irreducible polynomial, of every degree", () => {
  for (const r of [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 32]) {
    // With words of zeros it tells its own value: the high bits of a x, as many as s says.
    const k = Math.min(2 ** r, 2 ** 31), top = (1n << BigInt(r)) - 1n, polynomial = BigInt(findPolynomial(r));
    const family = (/** @type {number} */ s) => buildRandomizer({ ...FAMILY, word_bits: "64", r: String(r), s: String(s), k: String(k), width: "1" });
    const whole = family(r), half = family(Math.max(1, r >> 1));
    for (const a of [1n, 2n, 3n, top, (top >> 1n) + 1n, top / 3n]) {
      for (const x of [0, 1, 2, k - 1, k / 2, Math.floor(k / 3)]) {
        const product = multiply(a, BigInt(x), r, polynomial);
        assert.deepEqual(whole.encode(x, [a, 0n]), [a, product], `r=${r}: ${a} ${x}`);
        assert.deepEqual(half.encode(x, [a, 0n]), [a, product >> BigInt(r - Math.max(1, r >> 1))]);
      }
    }
  }
});

test("the laws of words: which rule is broken", () => {
  const law = lawOf("LocalPrefixes"), bits = law.stir.length, [first, ...rest] = law.coefficients;
  const column = "the functions must look at all bits of a word", powers = "rows and buckets must be powers of two";
  /** @type {[object, string][]} */
  const wrong = [
    [{ domain: { type: "Other" } }, "the domain must be words"], [{ domain: null }, "the domain must be words"], [{ domain: { type: "Texts", alphabet: 7, max_length: "3" } }, "the domain must be words"],
    [{ domain: { type: "Keys", bits: "65" } }, "bits must be a whole number from 1 to 64"], [{ domain: { type: "Texts", alphabet: "word", max_length: "0" } }, "max_length must be a whole number from 1 to 64"],
    [{ domain: { type: "Texts", alphabet: "word", max_length: "13" } }, "words must have codes of at most 64 bits"],
    [{ response: lawOf("RR") }, "the response must be k-ary randomized response"], [{ response: null }, "the response must be k-ary randomized response"],
    [{ buckets: "2" }, "the response must be that of the buckets"], [{ word_bits: "63" }, "the response must be that of the buckets"],
    [{ lengths: [] }, "lengths must be a list of 1 to 64 numbers"], [{ lengths: "6" }, "lengths must be a list of 1 to 64 numbers"], [{ lengths: new Array(65).fill("1") }, "lengths must be a list of 1 to 64 numbers"],
    [{ lengths: ["0"] }, "0=0 must be >= 1"], [{ lengths: [String(bits + 1)] }, `lengths must be at most ${bits}`], [{ rows: ["0"] }, "0=0 must be >= 1"], [{ rows: ["65537"] }, "rows must be at most 65536"],
    [{ rows: ["16383"] }, powers], [{ lengths: [...law.lengths, "1"] }, powers], [{ rows: ["65536", "65536"] }, powers],
    [{ stir: [String(1n << BigInt(bits)), ...law.stir.slice(1)] }, `stir must be at most ${(1n << BigInt(bits)) - 1n}`], [{ stir: law.stir.slice(1) }, column],
    [{ coefficients: rest }, "there must be four coefficients"], [{ coefficients: "none" }, "there must be four coefficients"], [{ coefficients: [first.slice(1), ...rest] }, column],
    [{ coefficients: [["65536", ...first.slice(1)], ...rest] }, "coefficients must be at most 65535"],
  ];
  buildRandomizer(law);
  for (const rows of [["1"], ["2"], ["65536"]]) buildRandomizer({ ...law, rows, lengths: law.lengths.slice(0, 1) });
  buildRandomizer({ ...law, rows: ["1", "1", "2"], lengths: ["1", "2", String(bits)] });
  for (const [change, said] of wrong) assert.throws(() => buildRandomizer({ ...law, ...change }), { message: `law: ${said}` }, JSON.stringify(change).slice(0, 200));
});

test("words that are none", () => {
  const letters = readSpelling({ type: "Texts", alphabet: "letters", max_length: "2" }), keys = readSpelling({ type: "Keys", bits: "8" });
  const said = (/** @type {any} */ spelling, /** @type {unknown} */ answer) => {
    try {
      return codeOf(spelling, answer);
    } catch (error) {
      return error instanceof RangeError ? error.message : error;
    }
  };
  assert.deepEqual(["", " \t", "a1", "abc", "ab"].map((word) => said(letters, word)), ["is empty", "is empty", "has a character outside the alphabet letters", "is longer than 2 bytes", 29n]);
  assert.deepEqual(["", " ", "x", "1.5", "-1", "256", "0", " 255\n", 7, "1".repeat(41), "-0"].map((key) => said(keys, key)), [
    "is missing", "is missing", "is not an integer", "is not an integer", "is outside the domain 0 .. 255", "is outside the domain 0 .. 255", 0n, 255n, 7n, "is not an integer", 0n,
  ]);
  assert.equal(said(readSpelling({ type: "Texts", alphabet: "utf-8", max_length: "4" }), "\ud800"), "has a character outside the alphabet utf-8");
});

test("JSON that is refused is told by the rule that it breaks", () => {
  /** @type {[string, string][]} */
  const wrong = [
    ["", "it is not JSON"], ["{", "it is not JSON"], ['{"a"}', "it is not JSON"], ['{"a":1,}', "it is not JSON"], ['{"a":[1,]}', "it is not JSON"], ['{"a":[1 2]}', "it is not JSON"], ['{"a":tru}', "it is not JSON"],
    ['{"a":nul}', "it is not JSON"], ['{"a":fals}', "it is not JSON"], ['{"a":01}', "it is not JSON"], ['{"a":-}', "it is not JSON"], ['{"a":1}x', "it is not JSON"], ['{"a":"', "it is not JSON"], ['{"a":"\t"}', "it is not JSON"],
    ['{"a":"\\x41"}', "it is not JSON"], ['{"a":"\\u12g4"}', "it is not JSON"], ['{"a":"\\u12"}', "it is not JSON"], ['{"a":"\\', "it is not JSON"], ["{a:1}", "it is not JSON"],
    ["[1]", "it is not an object"], ["null", "it is not an object"], ["7", "it is not an object"], ['"a"', "it is not an object"], ["true", "it is not an object"],
    ['{"a":1,"a":1}', "the key 'a' is there twice"], ['{"a":1.5}', "the number 1.5 is not a whole one"], ['{"a":1e2}', "the number 1e2 is not a whole one"],
    [`{"a":1.${"5".repeat(50)}}`, `the number 1.${"5".repeat(38)} is not a whole one`], ['{"a":9007199254740992}', "the number 9007199254740992 is not below 2^53"],
    ['{"a":-9007199254740992}', "the number -9007199254740992 is not below 2^53"], [`{"a":${"9".repeat(50)}}`, `the number ${"9".repeat(40)} is not below 2^53`],
    [`{"a":${"[".repeat(9)}${"]".repeat(9)}}`, "it is nested too deeply"], ['{"a":"\\ud800"}', "a text has half a character"], ['{"a":"\\udc00\\ud800"}', "a text has half a character"],
    ['{"a":"\u200b"}', "a text has a control or invisible character"], ['{"a":"\\u0000"}', "a text has a control or invisible character"], ['{"\u00ad":1}', "a text has a control or invisible character"],
  ];
  for (const [text, said] of wrong) assert.throws(() => readJson(utf8(text)), { message: `document: ${said}` }, text.slice(0, 80));
  assert.throws(() => readJson(Uint8Array.of(0xff)), { message: "document: it is not UTF-8" });
  assert.throws(() => readJson(new Uint8Array((1 << 20) + 1).fill(32)), { message: "document: it has more than 1048576 bytes" });
  const found = readJson(utf8('\t{"a" : "\\"\\\\\\/\\u00e9\\ud83d\\ude00" }\n'));
  assert.equal(found.a, '"\\/é😀');
  const spaced = readJson(utf8(' { "a" : { } , "b" : [ ] , "c" : [ 1 , { "d" : null } ] } '));
  assert.deepEqual(JSON.parse(JSON.stringify(spaced)), { a: {}, b: [], c: [1, { d: null }] });
  const edges = readJson(utf8('{"a":-9007199254740991,"b":-0,"c":[],"d":{},"e":[0,[{"f":null}]],"toString":true,"":false}'));
  assert.deepEqual({ ...edges, d: { ...edges.d }, e: [0, [{ ...edges.e[1][0] }]] }, { a: -Number.MAX_SAFE_INTEGER, b: 0, c: [], d: {}, e: [0, [{ f: null }]], toString: true, "": false });
  assert.ok(Object.is(edges.b, 0));
});

test("errors have a reason for programs and a name", () => {
  const error = new WireError("law", "it is none");
  assert.deepEqual([error.name, error.reason, error.message, error instanceof Error], ["WireError", "law", "law: it is none", true]);
});

test("bytes that are none, and a reply up to its limit", async () => {
  assert.throws(() => fromHex("0g"), { name: "TypeError", message: "0g is not hexadecimal" });
  assert.throws(() => bigEndian(65536, 2), { name: "RangeError", message: "65536 does not fit into 2 bytes" });
  assert.deepEqual([...bigEndian(65535, 2)], [255, 255]);
  assert.deepEqual([fromHex("").length, bigEndian(0, 0).length], [0, 0]);
  const body = (/** @type {number} */ size) => new Response(new Uint8Array(size).fill(7));
  assert.equal((await readAtMost(body(1000), 1000)).length, 1000);
  await assert.rejects(readAtMost(body(1001), 1000), { message: "unreachable: the server sends more than 1000 bytes" });
  assert.equal((await readAtMost(new Response(null), 0)).length, 0);
});

test("a token that does not fit is told by what the collection wants", async () => {
  const plain = await read(PLAIN), guarded = await read(PLAIN, put(["tokens", true]));
  const inners = new Uint8Array(3 * plain.innerSize);
  await assert.rejects(sealReport(plain, 0, inners, new Uint8Array(32)), { message: "token: this collection takes no token" });
  await assert.rejects(sealReport(guarded, 0, inners), { message: "token: this collection needs a token" });
  await assert.rejects(sealReport(plain, 2, inners), { message: "document: there is no window 2" });
});

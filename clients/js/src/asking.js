// What a participant reads: the language and texts of a survey, and how each question is asked. None of it changes what is sent.

import { WireError } from "./errors.js";
import { Fields } from "./strict.js";

const LONGEST = 4000, STEPS = 11, LONGEST_LOGO = 10706;
/** A PNG or JPEG: pictures without scripts. Browsers read what is in them; nothing else does. */
const LOGO = /^data:image\/(png;base64,iVBORw0KGgo|jpeg;base64,\/9j\/)[A-Za-z0-9+/]+={0,2}$/;

/**
 * @typedef {{ title: string, language: string, direction: string, welcome: string | null, consent: string | null, contact: string | null, logo: string | null }} Texts
 * @typedef {object} Asking
 * @property {string} kind yes_no, choice, scale, several, number or text
 * @property {string | null} description
 * @property {string | null} unit of a number
 * @property {boolean} skip whether the last label is for those who prefer not to say
 * @property {string[] | null} ends what the first and the last step of a scale mean
 * @property {{ name: string, text: string } | null} partOf the question of which this is one of several choices
 */

/** @param {string} task */
const kindsOf = (task) =>
  task === "count" ? ["yes_no", "several"] : task === "histogram" ? ["choice", "scale"] : task === "words" ? ["text"] : ["number"];

/** @param {string} sentence */
const bad = (sentence) => new WireError("document", sentence);

/** How questions of a task are asked in format 1. @param {string} task @returns {Asking} */
export function suggestAsking(task) {
  return { kind: kindsOf(task)[0], description: null, unit: null, skip: false, ends: null, partOf: null };
}

/** @param {any} content @param {string} name @param {string} task @param {string[] | null} labels @returns {Asking} */
export function readAsking(content, name, task, labels) {
  const found = new Fields("asked", content), kind = found.text("kind", 20);
  if (!kindsOf(task).includes(kind)) throw bad(`the ${task} '${name}' is asked as ${kindsOf(task).join(" or ")}, not '${kind}'`);
  const ends = found.take("ends"), part = found.take("part_of");
  const asking = {
    kind, description: found.optionalText("description", LONGEST), unit: found.optionalText("unit", 40), skip: found.flag("skip"),
    ends: ends === null ? null : readEnds(ends), partOf: part === null ? null : readPart(new Fields("part_of", part)),
  };
  found.done();
  if (asking.unit !== null && kind !== "number") throw bad(`'${name}' has a unit, but is not a number`);
  if (asking.skip && (task !== "histogram" || !labels || labels.length < 3)) {
    throw bad(`'${name}' cannot be skipped: that is one of three or more categories`);
  }
  if ((ends !== null) !== (kind === "scale")) throw bad(`'${name}' has ends if it is a scale, and only then`);
  if ((part !== null) !== (kind === "several")) throw bad(`'${name}' is part of another question if several are chosen, and only then`);
  if (kind === "scale") {
    const steps = (labels ?? []).slice(0, asking.skip ? -1 : undefined);
    if (steps.length > STEPS || steps.some((each, place) => each !== String(1 + place))) {
      throw bad(`the labels of the scale '${name}' must be 1, 2, ... up to ${STEPS}`);
    }
  }
  return asking;
}

/** @param {any} content @returns {string[]} */
function readEnds(content) {
  if (!Array.isArray(content) || content.length !== 2) throw bad("ends must be two texts");
  return content.map((text) => new Fields("ends", { text }).text("text", 200));
}

/** @param {Fields} found */
function readPart(found) {
  const part = { name: found.name("name"), text: found.text("text") };
  found.done();
  return part;
}

/** Refuse choices of one question that are not neighbours, are alone, or say different things of it. @param {Asking[]} asked */
export function checkParts(asked) {
  const parts = asked.map((each) => each.partOf);
  for (const name of new Set(parts.flatMap((each) => (each ? [each.name] : [])))) {
    const places = [...parts.keys()].filter((place) => parts[place]?.name === name), [first] = places;
    const alike = places.every((place) => parts[place]?.text === parts[first]?.text);
    if (places.length < 2 || places[places.length - 1] - first + 1 !== places.length || !alike) {
      throw bad(`the choices of '${name}' must be two or more, neighbours, with one text`);
    }
  }
}

/** @param {Fields} found @returns {Texts} */
export function readTexts(found) {
  const texts = {
    title: found.text("title"), language: found.text("language", 20), direction: found.text("direction", 3),
    welcome: found.optionalText("welcome", LONGEST), consent: found.optionalText("consent", LONGEST), contact: found.optionalText("contact"),
    logo: found.has("logo") ? found.text("logo", LONGEST_LOGO) : null,
  };
  found.done();
  if (!/^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?$/.test(texts.language)) {
    throw bad(`the language '${texts.language}' must be a tag such as en, pt-BR or sr-Latn`);
  }
  if (!["ltr", "rtl"].includes(texts.direction)) throw bad(`the direction '${texts.direction}' must be ltr or rtl`);
  if (texts.logo !== null && !LOGO.test(texts.logo)) throw bad("its logo is not valid: it must be a PNG or JPEG");
  return texts;
}

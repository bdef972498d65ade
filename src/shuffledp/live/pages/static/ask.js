// Asking the program that serves the desk, with the token of the link.

import { say } from "./strings.js";

const token = location.hash.slice(1);

/** An error of the desk, and the field that it is about. */
export class Refusal extends Error {
  /** @param {string} sentence @param {number} status @param {string | null} field */
  constructor(sentence, status, field) {
    super(sentence);
    this.status = status;
    this.field = field;
  }
}

/** @param {string} path @param {object=} body */
export async function ask(path, body) {
  const reply = await fetch(path, {
    method: body ? "POST" : "GET", body: body && JSON.stringify(body), credentials: "omit",
    headers: { authorization: `Bearer ${token}`, ...(body ? { "content-type": "application/json" } : {}) },
  }).catch(() => {
    throw new Refusal(say("desk.gone"), 0, null);
  });
  const content = await reply.json();
  if (!reply.ok) throw new Refusal(content.detail, reply.status, content.field ?? null);
  return content;
}

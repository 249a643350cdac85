// Requests to the page's backend and to the public API, and the line that shows what went wrong.

import { isTransient, waitOf } from "./stream.js";

const PATIENCE_MS = 15_000;
const trouble = document.getElementById("trouble");

/** An error response, with the wait (s) that it asks for. */
export class Refused extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    Object.assign(this, { status, retryAfter });
  }
}

/** Returns a response that is no error. Throws `Refused`. */
export async function respond(path, options = {}) {
  const answer = await fetch(path, options);
  if (answer.ok) return answer;
  const { detail } = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, detail ?? `The service responded with status ${answer.status}.`, Number(answer.headers.get("Retry-After")) || 0);
}

/** Returns the JSON of a response, true without one. Throws `Refused`, and other errors without an answer. */
export async function request(method, path, body, patienceMs = PATIENCE_MS) {
  const options = { method, signal: AbortSignal.timeout(patienceMs) };
  if (body) Object.assign(options, { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const answer = await respond(path, options);
  return answer.status === 204 ? true : answer.json();
}

/** Like `request`, but shows what went wrong, and returns null then. */
export async function ask(path, method = "GET", patienceMs = PATIENCE_MS) {
  try {
    const body = await request(method, path, undefined, patienceMs);
    hideTrouble(method !== "GET");
    return body;
  } catch (error) {
    showTrouble(error, method !== "GET");
    return null;
  }
}

/** Like `ask`, but asks again, with pauses, while there is no answer. */
export async function askUntilAnswered(path) {
  for (let failures = 1; ; failures += 1) {
    try {
      const body = await request("GET", path);
      hideTrouble(false);
      return body;
    } catch (error) {
      showTrouble(error, false);
      if (error.status && !isTransient(error.status)) return null;
      await new Promise((resolve) => setTimeout(resolve, waitOf(failures, 1_000, { first: 1_000, longest: 5_000 })));
    }
  }
}

/** Shows what went wrong; of a write until the next one, although the page reads on. */
export function showTrouble(error, isWrite) {
  const unreachable = `The service cannot be reached. ${isWrite ? "Try again." : "This page keeps trying."}`;
  trouble.textContent = error instanceof Refused ? error.message : unreachable;
  trouble.dataset.write = isWrite ? "yes" : "";
  trouble.hidden = false;
}

export function hideTrouble(isWrite) {
  if (isWrite || !trouble.dataset.write) trouble.hidden = true;
}

/** A random id; `crypto.randomUUID` is missing on pages over plain HTTP. */
export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function make(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

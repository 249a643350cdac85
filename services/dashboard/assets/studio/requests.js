// Writes to the API, each shown as the `curl` line that does the same.

import { element } from "../page-elements.js";
import { open, Refused } from "../session.js";
import { t } from "../texts.js";

const MOST_LINES = 100;
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const unanswered = new Map(); // a POST's path and body -> its key, until it is answered
let ahead = -Infinity; // how far the service's clock is ahead of this one, in ms; a second too little at most

/**
 * Returns the JSON of a write's response; null without one. Throws `Refused`.
 *
 * A POST that is repeated because no answer came has the same key, and so takes effect once.
 */
export async function write(method, path, body, given = {}) {
  const isForm = body instanceof FormData;
  const content = isForm || method !== "POST" ? "" : `${path} ${JSON.stringify(body)}`;
  if (content && !unanswered.has(content)) unanswered.set(content, newId());
  const headers = content ? { "Idempotency-Key": unanswered.get(content), ...given } : given;
  const options = { method, headers: isForm || body === undefined ? headers : { "Content-Type": "application/json", ...headers } };
  if (body !== undefined) options.body = isForm ? body : JSON.stringify(body);
  note(method, path, body, headers);
  const answer = await open(path, options);
  unanswered.delete(content);
  hear(answer);
  return answer.status === 204 ? null : answer.json();
}

/** Returns the JSON of a read, and its entity tag. */
export async function read(path) {
  const answer = await open(path);
  hear(answer);
  return { body: await answer.json(), etag: answer.headers.get("ETag") };
}

/** Returns the service's time, which decides when a contest opens; that of this device before the first answer. */
export const serviceTime = () => Date.now() + (ahead === -Infinity ? 0 : ahead);

export const said = (error) => {
  if (error instanceof Refused) return error.message;
  if (error instanceof TypeError) return t("The service cannot be reached. Try again.");
  throw error;
};

function hear(answer) {
  const date = Date.parse(answer.headers.get("Date") ?? "");
  if (date) ahead = Math.max(ahead, date - Date.now()); // answers name whole seconds, so each is too little
}

/** A random id; `crypto.randomUUID` is missing on pages over plain HTTP. */
function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function note(method, path, body, headers) {
  const parts = [`curl -X ${method} ${quoted(location.origin + path)} -H "Authorization: Bearer $TALLY_API_KEY"`];
  for (const [name, value] of Object.entries(headers)) parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (body instanceof FormData)
    for (const [name, value] of body) parts.push(`-F ${quoted(value instanceof File ? `${name}=@${value.name}` : `${name}=${value}`)}`);
  else if (body !== undefined) parts.push(`-H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))}`);
  const lines = [...element("sent").textContent.split("\n").filter(Boolean), parts.join(" ")];
  element("sent").textContent = lines.slice(-MOST_LINES).join("\n");
}

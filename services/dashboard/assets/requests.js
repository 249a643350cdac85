// Reads and writes of the API.

import { open, Refused } from "./session.js";
import { t } from "./texts.js";

const unanswered = new Map(); // a POST's path and body -> its key, until it is answered
/** @type {(method: string, path: string, body: any, headers: Record<string, string>) => void} */
let listener = () => {};

/** Calls `noted(method, path, body, headers)` before each write. */
export const noteWrites = (noted) => (listener = noted);

/**
 * Returns the JSON of a write's response, null without one, and its entity tag. Throws `Refused`.
 *
 * A POST that is repeated because no answer came has the same key, and so takes effect once.
 */
export async function write(method, path, body, given = {}) {
  const isForm = body instanceof FormData;
  const content = isForm || method !== "POST" ? "" : `${path} ${JSON.stringify(body)}`;
  if (content && !unanswered.has(content)) unanswered.set(content, newId());
  const headers = content ? { "Idempotency-Key": unanswered.get(content), ...given } : given;
  const options = {
    method,
    headers:
      isForm || body === undefined ? headers : { "Content-Type": "application/json", ...headers },
  };
  if (body !== undefined) options.body = isForm ? body : JSON.stringify(body);
  listener(method, path, body, headers);
  const answer = await open(path, options);
  unanswered.delete(content);
  return {
    body: answer.status === 204 ? null : await answer.json(),
    etag: answer.headers.get("ETag"),
  };
}

/** Returns the JSON of a read, and its entity tag. */
export async function read(path) {
  const answer = await open(path, { cache: "no-store" });
  return { body: await answer.json(), etag: answer.headers.get("ETag") };
}

/** The reads and writes of one record, for `record-form.js`. */
export const recordAt = (path) => ({
  read: () => read(path),
  patch: (body, etag) => write("PATCH", path, body, { "If-Match": etag }),
});

/** Says what went wrong; throws an error that is no request's. */
export const said = (error) => {
  if (error instanceof Refused) return error.message;
  if (error instanceof TypeError) return t("The service cannot be reached. Try again.");
  throw error;
};

/** A random id; `crypto.randomUUID` is missing on pages over plain HTTP. */
function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
}

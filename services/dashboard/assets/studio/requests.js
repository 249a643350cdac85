// Writes to the API, each shown as the `curl` line that does the same.

import { element } from "../page-elements.js";
import { open, Refused } from "../session.js";
import { t } from "../texts.js";

const MOST_LINES = 100;
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
let ahead = 0; // how far the service's clock is ahead of this one, in ms, at second precision

/** Returns the JSON of a write's response; null without one. Throws `Refused`. */
export async function write(method, path, body, headers = {}) {
  const isForm = body instanceof FormData;
  const options = { method, headers: isForm || body === undefined ? headers : { "Content-Type": "application/json", ...headers } };
  if (body !== undefined) options.body = isForm ? body : JSON.stringify(body);
  note(method, path, body, headers);
  const answer = await open(path, options);
  hear(answer);
  return answer.status === 204 ? null : answer.json();
}

/** Returns the JSON of a read, and its entity tag. */
export async function read(path) {
  const answer = await open(path);
  hear(answer);
  return { body: await answer.json(), etag: answer.headers.get("ETag") };
}

/** Returns the service's time, which decides when a contest opens. */
export const serviceTime = () => Date.now() + ahead;

export const said = (error) => {
  if (error instanceof Refused) return error.message;
  if (error instanceof TypeError) return t("The service cannot be reached. Try again.");
  throw error;
};

function hear(answer) {
  const date = Date.parse(answer.headers.get("Date") ?? "");
  if (date && Math.abs(date - Date.now()) > 2000) ahead = date - Date.now();
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

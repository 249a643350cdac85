// The `curl` lines that do the same as the page's writes.

import { element } from "../page-elements.js";

const MOST_LINES = 100;
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** Adds the line of a write to those that the page shows. */
export function showLine(method, path, body, headers) {
  const parts = [
    `curl -X ${method} ${quoted(location.origin + path)} -H "Authorization: Bearer $TALLY_API_KEY"`,
  ];
  for (const [name, value] of Object.entries(headers))
    parts.push(`-H ${quoted(`${name}: ${value}`)}`);
  if (body instanceof FormData)
    for (const [name, value] of body)
      parts.push(
        `-F ${quoted(value instanceof File ? `${name}=@${value.name}` : `${name}=${value}`)}`,
      );
  else if (body !== undefined)
    parts.push(`-H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))}`);
  const lines = [...element("sent").textContent.split("\n").filter(Boolean), parts.join(" ")];
  element("sent").textContent = lines.slice(-MOST_LINES).join("\n");
}

// Requests to the page's backend and to the public API, and the line that shows what went wrong.

const trouble = document.getElementById("trouble");

/** Returns the JSON of a response, true without one; null after a refusal, which it shows. */
export async function ask(path, options = {}) {
  try {
    const answer = await fetch(path, options);
    const body = answer.status === 204 ? true : await answer.json().catch(() => ({}));
    if (answer.ok) {
      // a refused vote stays shown while the page reads on
      if (options.method || !trouble.dataset.write) trouble.hidden = true;
      return body;
    }
    trouble.textContent = body.detail ?? `The service responded with status ${answer.status}.`;
  } catch {
    trouble.textContent = "The service cannot be reached. Try again.";
  }
  trouble.dataset.write = options.method ?? "";
  trouble.hidden = false;
  return null;
}

export function send(method, path, body) {
  const options = { method };
  if (body) Object.assign(options, { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  return ask(path, options);
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

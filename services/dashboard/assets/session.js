// API requests with the browser's session, and log-in if there is none.

import { element } from "./page-elements.js";
import { clock } from "./service-clock.js";
import { isTransient } from "./stream.js";
import { t } from "./texts.js";

const SESSION = "/dashboard/session";

/**
 * An error response; `problem` is its body (RFC 9457), if any, and `retryAfter` the wait (s) that
 * it asks for.
 */
export class Refused extends Error {
  constructor(status, problem, retryAfter = 0) {
    super(problem.detail ?? `The service responded with status ${status}.`);
    this.status = status;
    this.code = problem.code ?? "";
    this.retryAfter = retryAfter;
  }
}

/** @type {Promise<void> | null} */
let asking = null;
/** @type {string | null} */
let ticket = null;
let hadSession = false;

/** Returns the JSON of a GET; without a session, shows the log-in first. Throws `Refused`. */
export async function get(path) {
  return (await open(path)).json();
}

/** Like `get`, but returns the Response. */
export async function open(path, options = {}) {
  for (;;) {
    const sent = Date.now();
    const answer = await fetch(path, options);
    clock.hear(answer.headers.get("Date"), sent);
    if (answer.ok) return answer;
    if (answer.status !== 401) throw await refused(answer);
    await logIn((await refused(answer)).message);
  }
}

/** Returns the session: `{account, key_id, permissions}`. */
export async function session() {
  ticket ??= ticketOfAddress();
  if (ticket !== null) {
    try {
      return await begin({ ticket });
    } catch (error) {
      if (!(error instanceof Refused) || isTransient(error.status)) throw error;
      ticket = null;
      if (!(await fetch(SESSION)).ok) await logIn(error.message);
    }
  }
  const found = await get(SESSION);
  hadSession = true;
  return found;
}

/** Logs out. */
export async function end() {
  await fetch(SESSION, { method: "DELETE" });
}

/**
 * Shows the log-in until a session has begun, with the reason why one is needed; concurrent calls
 * share it.
 */
export function logIn(reason = "") {
  asking ??= new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
    const dialog = element("log-in");
    const form = dialog.querySelector("form");
    const error = element("log-in-error");
    // an expired cookie, which browsers do not send, is the same to the service as none at all
    const isExpired = hadSession && reason.startsWith("Send the API key");
    error.textContent = isExpired
      ? t("Your session has ended. Log in again.")
      : reason.startsWith("Send the API key")
        ? ""
        : reason;
    const submitted = async (event) => {
      event.preventDefault();
      error.textContent = "";
      try {
        await begin({ api_key: form.elements.api_key.value.trim() });
      } catch (failure) {
        error.textContent =
          failure instanceof Refused
            ? failure.message
            : t("The service does not answer. Try again.");
        form.elements.api_key.select();
        return;
      }
      form.removeEventListener("submit", submitted);
      form.reset();
      dialog.close();
      asking = null;
      resolve();
    };
    form.addEventListener("submit", submitted);
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    if (!dialog.open) dialog.showModal();
  });
  return asking;
}

async function begin(body) {
  const answer = await fetch(SESSION, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw await refused(answer);
  hadSession = true;
  document.dispatchEvent(new Event("session"));
  return answer.json();
}

/** Returns the error of a response. */
export async function refused(answer) {
  const retryAfter = Number(answer.headers.get("Retry-After")) || 0;
  return new Refused(answer.status, await answer.json().catch(() => ({})), retryAfter);
}

/** Returns the ticket after the address's #, and removes it from the address and the history. */
function ticketOfAddress() {
  const ticket = new URLSearchParams(location.hash.slice(1)).get("ticket");
  if (ticket !== null) history.replaceState(null, "", location.pathname + location.search);
  return ticket;
}

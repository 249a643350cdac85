// Asking the API as the browser's session, and logging in where there is none (any more).

const SESSION = "/dashboard/session";

/** An answer that is no success; `problem` is its body (RFC 9457), as far as it has one. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail ?? `The service answered ${status}.`);
    this.status = status;
    this.code = problem.code ?? "";
  }
}

let asking = null;

/** The answer to a GET as JSON; whoever has no session is asked to log in first. Throws `Refused`. */
export async function get(path) {
  return (await open(path)).json();
}

/** The same as a Response, for what is no JSON. */
export async function open(path, options = {}) {
  for (;;) {
    const answer = await fetch(path, options);
    if (answer.ok) return answer;
    if (answer.status !== 401) throw await refused(answer);
    await logIn();
  }
}

/** Who is logged in: `{account, key_id, permissions}`. */
export async function session() {
  const ticket = ticketOfAddress();
  if (ticket !== null) {
    try {
      return await begin({ ticket });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
    }
  }
  return get(SESSION);
}

/** Log out. */
export async function end() {
  await fetch(SESSION, { method: "DELETE" });
}

/** Ask for an API key until a session has begun; those who ask meanwhile wait for the same. */
export function logIn() {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("log-in");
    const form = dialog.querySelector("form");
    const error = document.getElementById("log-in-error");
    const submitted = async (event) => {
      event.preventDefault();
      error.textContent = "";
      try {
        await begin({ api_key: form.elements.api_key.value.trim() });
      } catch (failure) {
        error.textContent = failure instanceof Refused ? failure.message : "The service does not answer. Try again.";
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
  return answer.json();
}

async function refused(answer) {
  return new Refused(answer.status, await answer.json().catch(() => ({})));
}

/** The ticket behind the address's #, which goes out of sight and out of the history. */
function ticketOfAddress() {
  const ticket = new URLSearchParams(location.hash.slice(1)).get("ticket");
  if (ticket !== null) history.replaceState(null, "", location.pathname + location.search);
  return ticket;
}

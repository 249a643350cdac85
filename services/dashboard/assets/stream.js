// Server-sent events over fetch: unlike EventSource it distinguishes a lost session from a lost connection, and detects
// dead connections by missing pings.

import { Refused } from "./session.js";
import { t } from "./texts.js";

const SILENCE_MS = 22_000; // pings come every 15 s
const LONGEST_WAIT_MS = 5_000;

/**
 * Reads events until the stream ends with `gone`; `open(options)` requests it.
 *
 * Calls `received(event, data)` for each event with parsed data, `alive()` for each event or ping, `connected()` after
 * connecting, and `lost(why)` after losing the connection. Reconnects by itself, with the version received last.
 */
export async function listen(open, { received, alive, connected, lost }) {
  let version = null;
  let retry = 2_000;
  for (let failures = 0; ; failures += 1) {
    const attempt = new AbortController();
    const cut = () => attempt.abort();
    addEventListener("offline", cut);
    try {
      const headers = version === null ? {} : { "Last-Event-ID": version };
      const answer = await open({ headers, signal: attempt.signal, cache: "no-store" });
      connected();
      for await (const event of events(answer.body, cut)) {
        failures = 0;
        if (event.retry) retry = event.retry;
        if (event.id) version = event.id;
        alive();
        if (event.name === "gone") return received("gone", null);
        const data = event.data ? JSON.parse(event.data) : null;
        if (data?.hidden) version = null; // the counts are discarded, so all must be sent again
        if (data) received(event.name, data);
      }
      lost(t("The service has ended the connection."));
    } catch (error) {
      if (error instanceof Refused && error.status < 500 && error.status !== 429) throw error;
      lost(navigator.onLine ? t("The service cannot be reached.") : t("This device is offline."));
    } finally {
      removeEventListener("offline", cut);
      attempt.abort();
    }
    const wait = failures === 0 ? 200 : Math.min(retry * 2 ** (failures - 1), LONGEST_WAIT_MS);
    await online(wait * (0.75 + Math.random() / 2));
  }
}

/** Yields the events of a body; calls `cut` if nothing, not even a ping, is received for `SILENCE_MS`. */
async function* events(body, cut) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let watch = setTimeout(cut, SILENCE_MS);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watch);
      watch = setTimeout(cut, SILENCE_MS);
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const block of blocks) yield event(block);
    }
  } finally {
    clearTimeout(watch);
    reader.cancel().catch(() => {});
  }
}

function event(block) {
  const found = { name: "message", data: "", id: "", retry: 0 };
  for (const line of block.split(/\r?\n/)) {
    const [, field, value] = /^([a-z]+): ?(.*)$/s.exec(line) ?? [];
    if (field === "event") found.name = value;
    else if (field === "data") found.data += found.data ? `\n${value}` : value;
    else if (field === "id") found.id = value;
    else if (field === "retry") found.retry = Number(value);
  }
  return found;
}

/** Waits `ms`, less if the device comes online again. */
function online(ms) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    addEventListener("online", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

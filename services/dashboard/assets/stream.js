// Server-sent events over fetch. An EventSource closes for good at the first response that is an
// error, cannot tell a lost session from a lost connection, and does not notice a dead one, which
// sends no pings.

const SILENCE_MS = 22_000; // pings come every 15 s
const STEADY_MS = 5_000; // a stream that lasted so long was no failure

/**
 * Reads events until the stream ends with `gone`; `open(options)` requests it and returns the
 * response.
 *
 * Calls `received(event, data)` for each event with parsed data, `alive()` for each event or ping,
 * `connected()` after connecting, and `lost(why)` after losing the connection: "ended",
 * "unreachable" or "offline". Connects again by itself, with the version received last, after
 * pauses from `first` to `longest` ms. Throws what `open` throws with a `status` that trying again
 * does not help; an error's `retryAfter` (s) makes a pause longer. Returns when `signal` is
 * aborted.
 *
 * @param {(options: RequestInit) => Promise<Response>} open
 * @param {{
 *   received: (event: string, data: any) => void,
 *   alive?: () => void,
 *   connected?: () => void,
 *   lost?: (why: "ended" | "unreachable" | "offline") => void,
 * }} listener
 * @param {{first?: number, longest?: number, signal?: AbortSignal}} pauses
 */
export async function listen(
  open,
  { received, alive = () => {}, connected = () => {}, lost = () => {} },
  { first = 200, longest = 5_000, signal } = {},
) {
  /** @type {string | null} */
  let version = null;
  let retry = 2_000;
  let failures = 0;
  while (!signal?.aborted) {
    const attempt = new AbortController();
    const cut = () => attempt.abort();
    globalThis.addEventListener?.("offline", cut);
    signal?.addEventListener("abort", cut);
    const began = performance.now();
    let least = 0;
    try {
      /** @type {Record<string, string>} */
      const headers = version === null ? {} : { "Last-Event-ID": version };
      const response = await open({ headers, signal: attempt.signal, cache: "no-store" });
      connected();
      for await (const event of events(response.body, cut)) {
        if (event.retry) retry = event.retry;
        if (event.id) version = event.id;
        alive();
        if (event.name === "gone") return handed(received, "gone", null);
        const data = event.data ? JSON.parse(event.data) : null;
        if (data?.hidden) version = null; // the counts are discarded, so all must be sent again
        if (data) handed(received, event.name, data);
      }
      if (!signal?.aborted) lost("ended");
    } catch (error) {
      if (signal?.aborted) return;
      if (error.status && !isTransient(error.status)) throw error;
      least = (error.retryAfter ?? 0) * 1_000;
      lost(globalThis.navigator?.onLine === false ? "offline" : "unreachable");
    } finally {
      globalThis.removeEventListener?.("offline", cut);
      signal?.removeEventListener("abort", cut);
      attempt.abort();
    }
    failures = performance.now() - began >= STEADY_MS ? 0 : failures + 1;
    await pause(Math.max(least, waitOf(failures, retry, { first, longest })), signal);
  }
}

/**
 * Hands an event to the page; an error of the page's own is reported, and does not end the stream.
 */
function handed(received, name, data) {
  try {
    received(name, data);
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}

/** Returns whether a request with this response's status may succeed later without any change. */
export const isTransient = (status) => status >= 500 || [408, 425, 429].includes(status);

/**
 * Returns the pause (ms) after so many failures in a row: longer each time, and another one for
 * each page.
 */
export function waitOf(failures, retry, { first, longest }, random = Math.random) {
  const most = failures === 0 ? first : Math.min(retry * 2 ** (failures - 1), longest);
  return most * (0.5 + random() / 2);
}

/** Waits `ms`, less if the device comes online again or `signal` is aborted. */
function pause(ms, signal) {
  return new Promise((/** @type {(value?: undefined) => void} */ resolve) => {
    const done = () => {
      clearTimeout(timer);
      globalThis.removeEventListener?.("online", done);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    globalThis.addEventListener?.("online", done);
    signal?.addEventListener("abort", done);
  });
}

/**
 * Yields the events of a body; calls `cut` if nothing, not even a ping, is received for
 * `SILENCE_MS`.
 */
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
      rest = blocks.pop() ?? "";
      for (const block of blocks) yield event(block);
      const [pings = ""] = /^(:.*\n)*/.exec(rest) ?? [];
      rest = rest.slice(pings.length);
      if (pings) yield event("");
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

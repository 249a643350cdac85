import assert from "node:assert/strict";
import test from "node:test";

import { listen, waitOf } from "../../../../services/dashboard/assets/stream.js";

const QUICK = { first: 1, longest: 2 };
const gone = "event: gone\ndata: null\n\n";

function body(...chunks) {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(new TextEncoder().encode(chunk));
      controller.close();
    },
  });
}

function refused(status, retryAfter) {
  return Object.assign(new Error(`${status}`), { status, retryAfter });
}

/**
 * Listens to these attempts, each the chunks of a body or an error; returns what was received and
 * lost.
 */
async function heard(...attempts) {
  const [received, lost, versions] = [[], [], []];
  const open = async ({ headers }) => {
    versions.push(headers["Last-Event-ID"] ?? null);
    const next = attempts.shift();
    if (next instanceof Error) throw next;
    return { body: body(...next) };
  };
  await listen(
    open,
    { received: (...event) => received.push(event), lost: (why) => lost.push(why) },
    QUICK,
  );
  return { received, lost, versions };
}

test("it asks again after errors and ends, with the latest version", async () => {
  const { received, lost, versions } = await heard(
    refused(503),
    ["retry: 1\nevent: counts\nid: v1\nda", 'ta: {"count": 1}\n\n: ping\n'],
    new TypeError("network"),
    refused(429, 0.001),
    ['event: phase\ndata: {"hidden": true}\n\n'],
    [gone],
  );
  assert.deepEqual(received, [
    ["counts", { count: 1 }],
    ["phase", { hidden: true }],
    ["gone", null],
  ]);
  assert.deepEqual(lost, ["unreachable", "ended", "unreachable", "unreachable", "ended"]);
  assert.deepEqual(versions, [null, null, "v1", "v1", "v1", null]);
});

test("it ends where trying again does not help, and when it is told to", async () => {
  await assert.rejects(heard(refused(403)), { status: 403 });
  const stop = new AbortController();
  const open = async () => {
    stop.abort();
    throw new TypeError("aborted");
  };
  await listen(open, { received: assert.fail, lost: assert.fail }, { signal: stop.signal });
});

test("pauses grow to a bound and differ between pages", () => {
  const pauses = { first: 200, longest: 5_000 };
  for (let failures = 0; failures < 2_000; failures += 1) {
    const [least, most] = [0, 1].map((random) => waitOf(failures, 2_000, pauses, () => random));
    assert.ok(least >= 100 && most <= 5_000 && most === 2 * least, `${failures}: ${least} ${most}`);
  }
  assert.equal(
    waitOf(9, 2_000, pauses, () => 1),
    5_000,
  );
});

// The client for browsers and node, on a simulated clock and network: what holds on every network, and mutations that break it.

import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { after } from "node:test";

import * as shipped from "../../../libs/client/tallykeeper.js";
import { GONE, LIMIT, World } from "./simulated-service.js";

const FOR = { participant_key: "p" };
const ANNA = { ...FOR, voter_id: "anna" };
const COUNTS = 'event: counts\nid: v1\ndata: {"count": 1, "title": "a\u2028b"}\n\n';
const SEEDS = Array.from({ length: 25 }, (_, seed) => seed + 1);

/** Returns a client of a world. */
function client(
  world,
  {
    module = shipped,
    store = module.memoryStore(),
    random = () => 0.5,
    key = "tk",
    ...options
  } = {},
) {
  world.stored = () => store.all();
  return new module.Client("http://api", {
    key,
    store,
    world: { ...world.outside, random },
    ...options,
  });
}

async function collected(updates) {
  const found = [];
  for await (const update of updates) found.push(update);
  return found;
}

/** Random numbers of a seed (mulberry32). */
function randomOf(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

test("a vote is sent with one id until it is answered", async () => {
  const world = new World({ faults: ["before", 503, "after", 429, "page", 500] });
  const store = shipped.memoryStore();
  const retried = [];
  const outcome = await world.until(
    client(world, {
      store,
      retried: (problem, vote) => retried.push([problem?.status, vote.body.vote_id]),
    }).vote("c", ANNA),
  );
  assert.equal(outcome.kind, "accepted");
  assert.deepEqual(
    [outcome.answer.receipt, outcome.position],
    [`r ${outcome.vote.body.vote_id}`, "p"],
  );
  assert.equal(world.attempts.length, 7);
  assert.equal(world.counted.size, 1);
  const statuses = [undefined, 503, undefined, 429, undefined, 500];
  assert.deepEqual(
    retried,
    statuses.map((status) => [status, outcome.vote.body.vote_id]),
  );
  assert.deepEqual(store.all(), []);
});

test("a refusal is data, and forgotten", async () => {
  const world = new World();
  const voter = client(world);
  for (let at = 0; at < LIMIT; at += 1)
    assert.equal((await world.until(voter.vote("c", ANNA))).kind, "accepted");
  const refused = await world.until(voter.vote("c", ANNA));
  assert.deepEqual(
    [refused.kind, refused.problem.code, refused.problem.data.limit],
    ["refused", "participant_limit_reached", LIMIT],
  );
  assert.deepEqual(await voter.pending(), []);
});

test("an outage leaves a vote undecided, and it goes on after a reload", async () => {
  const items = new Map();
  globalThis.localStorage = {
    getItem: (name) => items.get(name) ?? null,
    setItem: (name, text) => items.set(name, text),
  };
  const world = new World({ faults: Array(50).fill("after") });
  const undecided = await world.until(
    client(world, { store: shipped.localStore("votes") }).vote("c", ANNA),
  );
  assert.equal(undecided.kind, "undecided");
  assert.ok(world.attempts.length < 10);
  world.faults = [];
  const reloaded = client(world, { store: shipped.localStore("votes") });
  const [vote] = await reloaded.pending();
  assert.deepEqual(vote, undecided.vote);
  assert.equal((await world.until(reloaded.resume(vote))).kind, "accepted");
  assert.equal(world.counted.size, 1);
  globalThis.localStorage.setItem = () => {
    throw new Error("full");
  };
  const store = shipped.localStore("votes");
  store.add([vote]);
  assert.deepEqual(store.all(), [vote]);
});

test("a wrong key decides nothing about the vote", async () => {
  for (const status of [401, 403]) {
    const world = new World({ faults: ["after", status] });
    const voter = client(world);
    const outcome = await world.until(voter.vote("c", ANNA));
    assert.deepEqual([outcome.kind, outcome.problem.status], ["undecided", status]);
    assert.equal(world.attempts.length, 2);
    assert.equal((await voter.pending()).length, 1);
  }
});

test("a voter who presses again has one vote", async () => {
  const world = new World({ faults: Array(6).fill("before") });
  const voter = client(world);
  const presses = [
    voter.vote("c", { ...ANNA, ip: "192.0.2.1" }),
    voter.vote("c", { ip: "192.0.2.2", ...ANNA }),
    voter.vote("c", { ...ANNA, vote_id: "own" }),
  ];
  const [one, again, own] = await world.until(Promise.all(presses));
  assert.equal(one.vote.body.vote_id, again.vote.body.vote_id);
  assert.equal(own.vote.body.vote_id, "own");
  assert.equal(world.counted.size, 2);
  const another = await world.until(voter.vote("c", ANNA)); // as the first is answered
  assert.notEqual(another.vote.body.vote_id, one.vote.body.vote_id);
});

test("a store is bounded", () => {
  const store = shipped.memoryStore(1);
  const [one, other] = ["a", "b"].map((action) => ({
    contest: "c",
    body: { vote_id: action },
    action,
  }));
  store.add([one]);
  assert.throws(() => store.add([other]), RangeError);
  assert.deepEqual(store.add([{ ...one, body: { vote_id: "second" } }]), [one]);
});

test("a batch is split, and only what is undecided is sent again", async () => {
  Object.assign(shipped.LIMITS, { items: 3 });
  try {
    const world = new World({ faults: [503, undefined, "after"] });
    const votes = [..."aaaab"].map((voter) => ({ ...FOR, voter_id: voter }));
    const outcomes = await world.until(client(world).voteBatch("c", [...votes, { voter_id: "c" }]));
    assert.deepEqual(
      outcomes.map(({ kind }) => kind),
      ["accepted", "accepted", "accepted", "refused", "accepted", "refused"],
    );
    assert.equal(world.requests.length, 4);
    assert.equal(world.counted.size, 4);
    Object.assign(shipped.LIMITS, { bytes: 150 });
    const small = new World();
    assert.equal((await small.until(client(small).voteBatch("c", votes))).length, 5);
    assert.ok(small.requests.every(({ body }) => body.length <= 150));
  } finally {
    Object.assign(shipped.LIMITS, { items: 10_000, bytes: 8 * 1024 * 1024 });
  }
});

test("other calls are repeated, and throw what is refused", async () => {
  const world = new World({ faults: ["after", 503, "page"] });
  const caller = client(world);
  const asked = async (call) => (await world.until(call)).asked;
  assert.equal(
    await asked(caller.counts("a/b", { minPosition: ["p1", "p2"] })),
    "http://api/contests/a%2Fb/vote_updates?min_position=p1&min_position=p2",
  );
  assert.equal(
    await asked(caller.allowance("c", { voter_id: "a" })),
    "http://api/contests/c/allowance?voter_id=a",
  );
  assert.equal(
    await asked(caller.recordedVote("c", "v", { voter_id: "a" })),
    "http://api/contests/c/votes/v?voter_id=a",
  );
  assert.equal(
    await asked(caller.get("/contests", { phase: "running" })),
    "http://api/contests?phase=running",
  );
  assert.equal(await asked(caller.votes("c")), "http://api/contests/c/votes");
  assert.equal(await asked(caller.contest("c")), "http://api/public/contests/c");
  assert.equal(
    await asked(caller.report("c", "sms", { report_id: "r" })),
    "http://api/contests/c/vote_sources/sms/counts",
  );
  await world.until(caller.remove("c", "v", { voter_id: "a" }));
  assert.equal(world.requests.at(-1).method, "DELETE");
  world.faults = [401];
  await assert.rejects(world.until(caller.votes("c")), ({ problem }) => problem.status === 401);
  world.faults = Array(50).fill("before");
  await assert.rejects(world.until(caller.votes("c")), ({ problem }) => problem === null);
});

test("a page's votes go to its backend, without a key", async () => {
  const world = new World();
  const page = client(world, { key: null, backend: "http://page/" });
  await world.until(page.vote("c", ANNA));
  await world.until(page.contest("c"));
  assert.deepEqual(
    world.requests.map(({ url }) => url),
    ["http://page/contests/c/votes", "http://api/public/contests/c"],
  );
  assert.ok(world.requests.every(({ headers }) => !("Authorization" in headers)));
});

test("a stream is opened again after any end", async () => {
  const world = new World();
  world.streams = [
    [503],
    ["retry: 2000\n", "phase", COUNTS.slice(0, 30), COUNTS.slice(30), ": ping\n\n", "wait"],
    ["unreachable"],
    ["phase", 'event: counts\ndata: {"co', "break"],
    ["phase", 'event: stale\ndata: {"since": "2026"}\n\n', ": ping\n\n", "silence"],
    ["page"],
    ["phase", "event: counts\ndata: {oops\n\n"],
    ["phase", world.phase({ hidden: true })],
    ["phase", COUNTS, GONE, COUNTS],
  ];
  const updates = await world.until(collected(client(world).follow("c")));
  const [one, none] = [1, null];
  assert.deepEqual(
    updates.map(({ results, isStale }) => [results?.count ?? null, isStale]),
    [
      [none, true],
      [none, false],
      [one, false],
      [one, true],
      [one, false],
      [one, true],
      [one, false],
      [one, true],
      [one, false],
      [one, true],
      [one, false],
      [none, false],
      [none, true],
      [none, false],
      [one, false],
    ],
  );
  assert.equal(updates.at(-1).results.title, "a\u2028b");
  const resumed = world.requests.map(({ headers }) => headers["Last-Event-ID"] ?? null);
  assert.deepEqual(resumed, [null, null, "v1", "v1", "v1", "v1", "v1", "v1", null]);
});

test("who takes long with an event misses nothing", async () => {
  const counts = [1, 2, 3, 4, 5].map((count) => `event: counts\ndata: {"count": ${count}}\n\n`);
  const world = new World({ streams: [["phase", ...counts, GONE]] });
  const seen = [];
  const slow = async () => {
    for await (const { results } of client(world).follow("c")) {
      await new Promise((resolve) => world.outside.setTimeout(resolve, 60_000));
      seen.push(results?.count ?? null);
    }
  };
  await world.until(slow());
  assert.deepEqual([seen, world.opened.length], [[null, 1, 2, 3, 4, 5], 1]);
});

test("a stream ends where connecting again does not help, and when it is told to", async () => {
  const world = new World({ streams: [[503], [401]] });
  await assert.rejects(world.until(collected(client(world).follow("c"))), shipped.ApiError);
  const stop = new AbortController();
  const other = new World({ streams: [["phase", "silence"]] });
  const updates = client(other, { key: null }).follow("c", { receipt: "r r", signal: stop.signal });
  await other.until(updates.next());
  const end = updates.next();
  stop.abort();
  assert.deepEqual(await other.until(end), { value: undefined, done: true });
  assert.equal(other.requests[0].url, "http://api/public/contests/c/results/stream?receipt=r+r");
});

/** Voters press again and reload; each action has one id, is counted once, and none is lost. */
async function votesInAnOutage(module, random) {
  const choice = (items) => items[Math.floor(random() * items.length)];
  const world = new World({ retryAfter: choice([0, 0, 2, 7]) });
  const kinds = ["before", "after", 503, 503, 503, 429, "page", undefined];
  world.faults = Array.from({ length: Math.floor(random() * 60) }, () => choice(kinds));
  const store = module.memoryStore();
  const ids = new Map();
  const ends = new Map();
  for (const voter of "abcdef") {
    for (let press = 0; press < 3 && ends.get(voter)?.kind !== "accepted"; press += 1) {
      world.time += 10_000;
      const page = client(world, { module, store, random, patience: choice([0, 5_000, 60_000]) });
      ends.set(voter, await world.until(page.vote("c", { ...FOR, voter_id: voter })));
      ids.set(voter, (ids.get(voter) ?? new Set()).add(ends.get(voter).vote.body.vote_id));
    }
  }
  world.faults = [];
  world.time += 10_000;
  const page = client(world, { module, store });
  for (const vote of await page.pending())
    ends.set(vote.body.voter_id, await world.until(page.resume(vote)));
  for (const voter of "abcdef") {
    assert.equal(ids.get(voter).size, 1, "a second id for one action");
    assert.equal(ends.get(voter).kind, "accepted", "a vote was lost");
    assert.equal(
      [...world.counted.values()].filter((vote) => vote.voter_id === voter).length,
      1,
      "counted not once",
    );
  }
  for (const id of world.attempts.map((attempt) => attempt.id)) {
    const attempts = world.attempts.filter((attempt) => attempt.id === id);
    for (let at = 1; at < attempts.length; at += 1)
      assert.ok(
        attempts[at].at - attempts[at - 1].at >= attempts[at - 1].least,
        "came before Retry-After",
      );
    assert.ok(attempts.length <= 10 || attempts[9].at - attempts[0].at > 20_000, "no backoff");
  }
}

/** However streams end, the last counts are shown, and nothing hammers the service. */
async function followsToTheEnd(module, random) {
  const ends = [
    [503],
    [429],
    ["unreachable"],
    ["page"],
    [],
    ["phase"],
    ["phase", "break"],
    ["phase", "silence"],
    ["phase", "wait"],
    ["silence"],
  ];
  const world = new World({ retryAfter: 3 });
  world.streams = Array.from({ length: 1 + Math.floor(random() * 25) }, () => [
    ...ends[Math.floor(random() * ends.length)],
  ]);
  world.streams.push(["phase", 'event: counts\nid: 9\ndata: {"count": 9}\n\n', GONE]);
  const updates = await world.until(collected(client(world, { module, random }).follow("c")));
  assert.deepEqual(
    [updates.at(-1)?.results, updates.at(-1)?.isStale],
    [{ count: 9 }, false],
    "the stream was not opened again",
  );
  for (let at = 1; at < world.opened.length; at += 1)
    assert.ok(world.opened[at] - world.opened[at - 1] >= 500, "no pause between streams");
  assert.ok(
    updates.some(({ isStale }) => isStale),
    "stale numbers were shown as new",
  );
}

/** The device's clock is hours off; the time shown is the service's, never ahead of it. */
async function tellsTheServiceTime(module, random) {
  const world = new World();
  const page = client(world, { module });
  assert.equal(page.serviceTime(), null);
  for (let at = 0; at < 3; at += 1) {
    await world.until(page.votes("c"));
    world.time += random() * 1_000_000;
    const behind = world.serviceTime - page.serviceTime();
    assert.ok(behind >= 0 && behind <= 1_100, "the device's clock");
  }
  world.streams = [["phase", GONE]];
  await world.until(collected(page.follow("c")));
  assert.ok(Math.abs(world.serviceTime - page.serviceTime()) < 50, "the device's clock");
}

/** After an error that all receive at once, phones do not come back at once. */
async function phonesComeBackApart(module, random) {
  const [votes, streams] = [new Set(), new Set()];
  for (let phone = 0; phone < 20; phone += 1) {
    const world = new World({ faults: [503], streams: [[503], [GONE]], retryAfter: 2 });
    const page = client(world, { module, random });
    await world.until(page.vote("c", ANNA));
    await world.until(collected(page.follow("c")));
    votes.add(Math.round(world.attempts.at(-1).at / 10));
    streams.add(Math.round((world.opened[1] - world.opened[0]) / 100));
  }
  assert.ok(votes.size > 8 && streams.size > 3, "no jitter");
}

const PROPERTIES = [votesInAnOutage, followsToTheEnd, tellsTheServiceTime, phonesComeBackApart];
for (const check of PROPERTIES)
  test(`holds on every network: ${check.name}`, async () => {
    for (const seed of SEEDS) await check(shipped, randomOf(seed));
  });

const MUTATIONS = {
  "a second id": ["return votes.map((vote) => stored.get(vote.action) ?? vote);", "return votes;"],
  "sent before it is stored": [
    "return this.resume(await this.keep(contest, body));",
    "return this.resume(pendingVote(contest, body));",
  ],
  "forgotten when patience ends": [
    'outcomes.filter(({ kind }) => kind !== "undecided")',
    "outcomes",
  ],
  "no backoff": ["first * 2 ** Math.min(failures, 30)", "first"],
  "Retry-After ignored": ["problem.retryAfter * 1_000", "0"],
  "no jitter": ["(0.5 + random / 2)", "1"],
  "the device's clock": ["this.#now() + this.#ahead", "Date.now()"],
  "the stream not opened again": ["if (signal?.aborted) return;", "return;"],
  "a dead stream waited for": ["watch.restart(SILENCE_MS);", "watch.end();"],
  "no pause between streams": ["await this.#pause(least + growing(retry", "void (growing(retry"],
  "stale numbers shown as new": ["if (!latest.isStale) yield", "if (false) yield"],
};
const source = await readFile(
  new URL("../../../libs/client/tallykeeper.js", import.meta.url),
  "utf8",
);
const folder = await mkdtemp(join(tmpdir(), "tallykeeper-"));
after(() => rm(folder, { recursive: true }));
for (const [name, [found, mutated]] of Object.entries(MUTATIONS))
  test(`a mutation is noticed: ${name}`, async () => {
    assert.ok(source.includes(found), "nothing to mutate");
    const file = join(folder, `${name.replaceAll(/\W/g, "-")}.mjs`);
    await writeFile(file, source.replaceAll(found, mutated));
    const module = await import(file);
    for (const seed of SEEDS)
      for (const check of PROPERTIES) {
        try {
          await check(module, randomOf(seed));
        } catch (error) {
          assert.ok(error instanceof assert.AssertionError, error);
          return;
        }
      }
    assert.fail("nobody noticed");
  });

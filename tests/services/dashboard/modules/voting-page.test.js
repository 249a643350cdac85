import assert from "node:assert/strict";
import test from "node:test";

import { PendingVotes } from "../../../../services/cli/voting_page/page/pending-votes.js";
import { arranged, sharedText } from "../../../../services/cli/voting_page/page/presentation.js";
import { Renewal } from "../../../../services/cli/voting_page/page/renewal.js";

const CHOICE = { participant_key: "a" };

class Refused extends Error {
  constructor(status) {
    super(`${status}`);
    this.status = status;
  }
}

/**
 * A browser's storage and a service that counts each vote id once; `faults` are those of the next
 * requests.
 */
class Phone {
  constructor(faults = [], items = new Map()) {
    Object.assign(this, {
      faults,
      items,
      counted: new Set(),
      answered: [],
      stored: [],
      waits: 0,
      ids: 0,
    });
  }

  open() {
    const store = {
      getItem: (name) => this.items.get(name) ?? null,
      setItem: (name, value) => this.items.set(name, value),
    };
    const wait = async () => (this.waits += 1);
    const answered = (vote, answer, refusal) =>
      this.answered.push([vote.choice, answer ?? refusal.status]);
    const newId = () => `id ${(this.ids += 1)}`;
    return (this.votes = new PendingVotes("c", {
      store,
      send: (vote) => this.send(vote),
      answered,
      newId,
      wait,
    }));
  }

  async send(vote) {
    this.stored.push(this.votes.all.some((each) => each.vote_id === vote.vote_id));
    const fault = this.faults.shift();
    // the page is closed before an answer comes
    if (fault === "closed") return new Promise(() => {});
    if (fault !== "refused") this.counted.add(vote.vote_id);
    if (fault === "lost") throw new TypeError("no answer");
    if (fault) throw new Refused(fault === "refused" ? 409 : fault);
    return "accepted";
  }
}

test("a vote whose answer is lost is sent with the same id until it is answered", async () => {
  const phone = new Phone(["lost", 503, 429, "lost"]);
  await phone.open().cast(CHOICE);
  assert.deepEqual([...phone.counted], ["id 1"]);
  assert.deepEqual(phone.answered, [[CHOICE, "accepted"]]);
  assert.ok(phone.stored.every(Boolean)); // before it was sent
  assert.equal(phone.waits, 4);
  assert.deepEqual(phone.votes.all, []);
});

test("pressed again while the answer is awaited, it is one vote", async () => {
  const phone = new Phone(["lost"]);
  const votes = phone.open();
  await Promise.all([votes.cast(CHOICE), votes.cast(CHOICE), votes.cast({ participant_key: "b" })]);
  assert.deepEqual([...phone.counted], ["id 1", "id 2"]);
  await votes.cast(CHOICE);
  assert.equal(phone.counted.size, 3); // another action
});

test("after the page was closed the vote is sent again with its id", async () => {
  const closed = new Phone(["closed"]);
  closed.open().cast(CHOICE);
  const phone = new Phone([], closed.items);
  assert.deepEqual(phone.open().all, [{ vote_id: "id 1", choice: CHOICE, failures: 0 }]);
  await phone.votes.resume();
  assert.deepEqual([...phone.counted], ["id 1"]);
});

test("a refusal is the answer", async () => {
  const phone = new Phone(["refused"]);
  await phone.open().cast(CHOICE);
  assert.deepEqual(phone.answered, [[CHOICE, 409]]);
  assert.deepEqual(phone.votes.all, []);
});

test("an allowance is read again once it has renewed, by the service's time", () => {
  const renewal = new Renewal();
  let reads = 0;
  for (let now = 0; now <= 70_000; now += 1_000)
    reads += renewal.isDue(60_000, now) && now >= 60_000;
  assert.ok(reads >= 1 && reads <= 4, `${reads}`);
});

test("an allowance that stays in the past is read with growing pauses", () => {
  for (const renewsAt of [(now) => now - 7_200_000, (now) => now - 1]) {
    const renewal = new Renewal();
    let reads = 0;
    for (let now = 10_000_000; now < 13_600_000; now += 1_000)
      reads += renewal.isDue(renewsAt(now), now);
    assert.ok(reads < 130, `${reads} in an hour`);
  }
});

const people = ["a", "b", "c", "d", "e", "f"].map((key) => ({ participant_key: key }));
const keys = (list) => list.map(({ participant_key: key }) => key).join("");

test("participants are shown in the order of the results, those without a place last", () => {
  const results = { participants: [{ participant_key: "c" }, { participant_key: "a" }] };
  assert.equal(keys(arranged(people, results)), "cabdef");
  assert.equal(keys(arranged(people, null)), "abcdef");
});

test("shuffled participants keep their order for a voter, and each is first as often", () => {
  const first = new Map();
  for (let seed = 0; seed < 6_000; seed += 1) {
    const order = keys(arranged(people, null, `seed ${seed}`));
    assert.equal(
      keys(arranged([...people].reverse(), { participants: people }, `seed ${seed}`)),
      order,
    );
    first.set(order[0], (first.get(order[0]) ?? 0) + 1);
  }
  for (const [key, times] of first) assert.ok(times > 850 && times < 1_150, `${key}: ${times}`);
});

test("the best are shared, as many as the contest wants, and none while counts are hidden", () => {
  const results = {
    count: 3,
    participants: [
      { participant_key: "a", rank: 2 },
      { participant_key: "b", rank: 1 },
      { participant_key: "c", rank: 3 },
    ],
  };
  const shared = (top, of = results) =>
    sharedText({
      title: "Song",
      results: of,
      top,
      nameOf: (key) => key.toUpperCase(),
      address: "https://v",
    });
  assert.equal(shared(2), "Song\n1. B\n2. A\nhttps://v");
  assert.equal(shared(-1), "Song\n1. B\n2. A\n3. C\nhttps://v");
  assert.equal(shared(0), "Song\nhttps://v");
  assert.equal(shared(2, { ...results, count: null }), "Song\nhttps://v");
});

import assert from "node:assert/strict";
import test from "node:test";

import { arranged, sharedText } from "../../../../services/cli/voting_page/page/presentation.js";
import { Renewal } from "../../../../services/cli/voting_page/page/renewal.js";

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

test("participants of a result that is over are shown by their place, also shuffled ones", () => {
  const participants = people.map((each, at) => ({ ...each, rank: people.length - at }));
  const over = { seed: "seed", isOver: true };
  assert.equal(keys(arranged(people, { count: 9, participants }, over)), "fedcba");
  assert.notEqual(keys(arranged(people, { count: null, participants }, over)), "fedcba"); // hidden
});

test("shuffled participants keep their order for a voter, and each is first as often", () => {
  const first = new Map();
  for (let seed = 0; seed < 6_000; seed += 1) {
    const order = keys(arranged(people, null, { seed: `seed ${seed}` }));
    assert.equal(
      keys(arranged([...people].reverse(), { participants: people }, { seed: `seed ${seed}` })),
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

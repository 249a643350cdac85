import assert from "node:assert/strict";
import test from "node:test";

import {
  figuresOf,
  openedLast,
  renamed,
  rowsOf,
} from "../../../../services/dashboard/assets/wall/board-rows.js";
import { Movement } from "../../../../services/dashboard/assets/participant-ranks.js";
import { Participants } from "../../../../services/dashboard/assets/participants.js";

const people = new Participants();
people.update({
  title: "Final",
  running_order: ["a", "b", "c"],
  participants: {
    a: { title: "Ada", running_number: 1, number_string: "1" },
    b: { title: "Bob", running_number: 2, number_string: "7b" },
    c: { title: null, running_number: 3, number_string: "3" },
  },
});
const place = (key, rank, count) => ({ participant_key: key, rank, count });
const board = (members) => ({
  contest_type: "voteonly",
  held_at: null,
  final: false,
  count: 12,
  unique_voter_count: 5,
  anonymous_voter_count: 0,
  covered: 0,
  participants: [place("b", 1, 7), place("a", 2, 5), place("c", 3, 0)],
  ...members,
});
const standing = (phase, state = "live") => ({ phase, show: { state } });
const rate = { perSecond: 2, perMinute: null };
const figures = (phase, members, isCurrent = true) =>
  figuresOf(board(members), standing(phase), isCurrent, rate, people);

test("rows have the acts' own numbers, and a name at least by them", () => {
  const rows = rowsOf(board(), people, new Movement());
  assert.deepEqual(
    rows.map(({ rank, name, label, count }) => [rank, name, label, count]),
    [
      [1, "Bob", "7b", 7],
      [2, "Ada", "1", 5],
      [3, "No. 3", "3", 0],
    ],
  );
});

test("covered places have their ranks alone, and nobody has won before all are open", () => {
  const [last] = board().participants.slice(-1);
  const held = { held_at: "2027-05-01T18:00:00Z", final: true, count: null };
  const rows = rowsOf(board({ ...held, covered: 2, participants: [last] }), people, new Movement());
  assert.deepEqual(rows.slice(0, 2).map(Object.keys), Array(2).fill(["key", "rank", "isCovered"]));
  assert.ok(!rows.some((row) => row.isWinner));
  const [first] = rowsOf(board({ ...held, count: 12 }), people, new Movement());
  assert.ok(first.isWinner);
});

test("the place that was opened last follows from the places that are covered", () => {
  assert.equal(openedLast(standing("finished", "reveal"), board({ covered: 2 })), 2);
  assert.equal(openedLast(standing("finished", "result"), board()), null);
  assert.equal(openedLast(standing("running", "reveal"), null), null);
});

test("figures that say nothing are left out", () => {
  const shown = (found) => Object.keys(found).filter((name) => found[name] !== null);
  assert.deepEqual(shown(figures("running")), ["count", "rate", "lead", "unique"]);
  assert.deepEqual(shown(figures("finished")), ["count", "lead", "unique"]);
  assert.deepEqual(shown(figures("finished", { participants: [], anonymous_voter_count: 2 })), [
    "count",
    "unique",
    "anonymous",
  ]);
  assert.ok(!shown(figures("running", { held_at: "2027-05-01T18:00:00Z" })).includes("rate"));
});

test("the speed is a dash while the counts are not current", () => {
  assert.equal(figures("running").rate.value, "2.0");
  assert.equal(figures("running", {}, false).rate.value, "–");
});

test("an audience is told of changed titles alone", () => {
  const change = (participant_key, member, before, after) => ({
    participant_key,
    member,
    before,
    after,
  });
  const found = renamed(
    [
      change(null, "title", "Final", "The Final"),
      change("b", "title", "Bob", "Bob B."),
      change("a", "status", "approved", "rejected"),
    ],
    people,
  );
  assert.deepEqual(found, ["Final is now called The Final", "Bob is now called Bob B."]);
});

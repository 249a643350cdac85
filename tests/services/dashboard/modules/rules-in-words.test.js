import assert from "node:assert/strict";
import test from "node:test";

import {
  proposedVisibility,
  sentencesOf,
} from "../../../../services/dashboard/assets/studio/rules-in-words.js";

const RULES = {
  contest_type: "voteonly",
  max_participant: "1",
  max_contest: "3",
  address: "",
  is_vote_removal_allowed: true,
  vote_visibility: "shown",
  result_release: "at_end",
};
const KNOWN = "Everybody knows the result before you release it: its counts are public until then.";
const KNOWN_TO_VOTERS = "Those who voted know the result before you release it.";

test("the rules of each kind of vote are sentences", () => {
  assert.deepEqual(sentencesOf(RULES), [
    "A voter has 1 vote for each participant.",
    "A voter has 3 votes in the whole contest.",
    "One address has no limit: a hall can vote.",
    "Voters may take votes back until the end.",
    "The public sees the counts while people vote.",
  ]);
  const first = (rules) => sentencesOf({ ...RULES, ...rules })[0];
  assert.equal(
    first({ contest_type: "rating", max_rating: "5" }),
    "A voter rates participants from 0 to 5.",
  );
  assert.equal(first({ contest_type: "ordering", points: "3 1" }), "A ballot gives 3, 1 points.");
});

test("a release by hand of counts that are known before is said to be none", () => {
  const of = (rules) => sentencesOf({ ...RULES, result_release: "by_hand", ...rules });
  assert.ok(of({ vote_visibility: "shown" }).includes(KNOWN));
  assert.ok(of({ vote_visibility: "hidden_until_vote" }).includes(KNOWN_TO_VOTERS));
  for (const vote_visibility of ["hidden_until_end", "hidden"]) {
    const found = of({ vote_visibility });
    assert.ok(!found.includes(KNOWN) && !found.includes(KNOWN_TO_VOTERS), vote_visibility);
  }
  assert.ok(!sentencesOf(RULES).includes(KNOWN));
});

test("choosing the release by hand proposes to hide the counts until the end, once", () => {
  const byHand = { ...RULES, result_release: "by_hand" };
  assert.equal(proposedVisibility(RULES, byHand), "hidden_until_end");
  const hidden = { ...byHand, vote_visibility: "hidden" };
  assert.equal(proposedVisibility(RULES, hidden), "hidden");
  assert.equal(proposedVisibility(byHand, byHand), "shown"); // chosen by the user afterwards
  assert.equal(proposedVisibility(byHand, RULES), "shown");
});

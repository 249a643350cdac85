import assert from "node:assert/strict";
import test from "node:test";

import { secretUntil } from "../../../../services/dashboard/assets/contest/headline.js";

const standing = (members) => ({
  phase: "running",
  visibility: "hidden_until_end",
  result_release: "at_end",
  is_public: false,
  end: null,
  show: { is_released: false },
  ...members,
});

test("the badge of hidden counts names the end, or the release by hand, at all times", () => {
  const by_hand = { result_release: "by_hand" };
  const released = "Hidden from the public until the result is released";
  assert.equal(secretUntil(standing()), "Hidden from the public until the contest's end");
  assert.equal(secretUntil(standing(by_hand)), released);
  assert.equal(secretUntil(standing({ ...by_hand, phase: "announced" })), released);
  assert.equal(secretUntil(standing({ ...by_hand, phase: "finished" })), released);
  assert.equal(
    secretUntil(standing({ ...by_hand, visibility: "hidden_until_vote" })),
    `${released}, except from who has voted`,
  );
  assert.equal(
    secretUntil(standing({ ...by_hand, visibility: "hidden" })),
    "Hidden from the public until they are set to shown",
  );
});

import assert from "node:assert/strict";
import test from "node:test";

import {
  proposedAddress,
  rememberAddress,
} from "../../../../services/dashboard/assets/contest/call-address.js";

test("the address of the last call is proposed, with the key of the present contest", () => {
  assert.equal(proposedAddress("b2"), ""); // without storage
  const items = new Map();
  globalThis.localStorage = {
    getItem: (name) => items.get(name) ?? null,
    setItem: (name, value) => items.set(name, value),
  };
  assert.equal(proposedAddress("b2"), "");
  rememberAddress("https://vote.example/?contest=a1", "a1");
  assert.equal(proposedAddress("b2"), "https://vote.example/?contest=b2");
  rememberAddress("", "b2");
  assert.equal(proposedAddress("a1"), "https://vote.example/?contest=a1");
});

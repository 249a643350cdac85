import assert from "node:assert/strict";
import test from "node:test";

import {
  localText,
  momentsOf,
  offsetText,
} from "../../../../services/dashboard/assets/local-time.js";

process.env.TZ = "Europe/Berlin";
const utc = (moments) => moments.map((moment) => new Date(moment).toISOString());

test("a time has the moments at which local clocks show it", () => {
  assert.deepEqual(utc(momentsOf("2027-07-01T20:00")), ["2027-07-01T18:00:00.000Z"]);
  assert.deepEqual(utc(momentsOf("2027-10-31T02:30")), [
    "2027-10-31T00:30:00.000Z",
    "2027-10-31T01:30:00.000Z",
  ]);
  assert.deepEqual(momentsOf("2027-03-28T02:30"), []);
  assert.deepEqual(momentsOf(""), []);
});

test("each moment is among those of its own local time", () => {
  for (
    let moment = Date.UTC(2027, 0, 1, 0, 7);
    moment < Date.UTC(2028, 0, 1);
    moment += 29 * 60_000
  )
    assert.ok(momentsOf(localText(moment)).includes(moment), new Date(moment).toISOString());
});

test("the two moments of a time have other distances from UTC", () => {
  assert.deepEqual(momentsOf("2027-10-31T02:30").map(offsetText), ["UTC+2", "UTC+1"]);
});

test("a time is shown to the second", () => {
  assert.equal(localText(Date.parse("2027-10-31T01:30:59.999999Z")), "2027-10-31T02:30:59");
});

import assert from "node:assert/strict";
import test from "node:test";

import { ServiceClock } from "../../../../services/dashboard/assets/service-clock.js";

const TRUE = Date.parse("2027-05-01T18:00:00.400Z");
const HOURS = 2 * 3_600_000;
const dateOf = (time) => new Date(Math.floor(time / 1_000) * 1_000).toUTCString();

test("it is the service's time, however wrong the device's clock is", () => {
  for (const off of [-HOURS, 0, HOURS]) {
    let now = TRUE;
    const clock = new ServiceClock(() => now + off);
    assert.equal(clock.now(), TRUE + off);
    for (let answer = 0; answer < 5; answer += 1) {
      const sent = now + off;
      now += 130;
      clock.hear(dateOf(now), sent);
      assert.ok(clock.now() <= now && now - clock.now() < 1_000, `${now - clock.now()}`);
      now += 170;
    }
    clock.set(new Date(now).toISOString());
    assert.equal(clock.now(), now);
    clock.hear(dateOf(now), now + off);
    assert.equal(clock.now(), now);
  }
});

test("it follows a device's clock that is set while the page is open", () => {
  for (const jump of [-HOURS, HOURS]) {
    let off = 0;
    const clock = new ServiceClock(() => TRUE + off);
    clock.hear(dateOf(TRUE), TRUE);
    off = jump;
    clock.hear(dateOf(TRUE), TRUE + off);
    assert.ok(Math.abs(clock.now() - TRUE) <= 1_000);
  }
});

test("an answer without a time changes nothing", () => {
  const clock = new ServiceClock(() => TRUE);
  clock.hear(null, TRUE);
  assert.equal(clock.now(), TRUE);
});

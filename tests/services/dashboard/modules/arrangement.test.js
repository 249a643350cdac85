import assert from "node:assert/strict";
import test from "node:test";

import { arrange, firstShown } from "../../../../services/dashboard/assets/wall/arrangement.js";
import { RANKING } from "../../../../services/dashboard/assets/wall/screen-rows.js";

const SCREENS = { landscape: { width: 83, height: 31 }, portrait: { width: 44, height: 66 } };

test("up to 20 rows are on one page, in either orientation", () => {
  for (const [name, room] of Object.entries(SCREENS))
    for (let count = 1; count <= 20; count += 1) {
      const { size, columns, rows } = arrange(count, room, RANKING.cell, RANKING);
      assert.equal(size, count, `${count} rows, ${name}`);
      assert.ok(columns * rows >= count && columns * (rows - 1) < count, `${columns} x ${rows}`);
    }
});

test("rows fill the screen and never leave it", () => {
  for (const room of Object.values(SCREENS))
    for (let count = 1; count <= 100; count += 1) {
      const { cell, least, largest } = RANKING;
      const { columns, rows, scale } = arrange(count, room, cell, RANKING);
      assert.ok(scale >= least && scale <= largest, `${scale}`);
      assert.ok(columns * cell.width * scale <= room.width + 1e-9, `${count}: too wide`);
      assert.ok(rows * cell.height * scale <= room.height + 1e-9, `${count}: too high`);
    }
});

test("pages are of about the same size, and all rows are on one of them", () => {
  const { size } = arrange(60, SCREENS.landscape, RANKING.cell, RANKING);
  assert.equal(size, 30);
  const seen = new Set();
  for (let turn = 0; turn < 2; turn += 1) {
    const first = firstShown(60, size, { now: turn * 10_000 });
    for (let at = first; at < first + size; at += 1) seen.add(at);
  }
  assert.equal(seen.size, 60);
});

test("in a reveal the place that was opened last is shown, at any time", () => {
  for (let size = 2; size <= 40; size += 1)
    for (let opened = 0; opened <= 40; opened += 1)
      for (const now of [0, 10_000, 25_000]) {
        const first = firstShown(40, size, { now, opened });
        assert.ok(first >= 0 && first + size <= 40, "the screen is full");
        if (opened < 40)
          assert.ok(first <= opened && opened < first + size, `${opened} of ${size}`);
        if (opened > 0) assert.ok(first <= opened - 1, "what comes next is covered before it");
      }
});

// How many rows a screen shows at once, in how many columns, and how large; and which of them.

const TURN_MS = 10_000;
const MOST_COLUMNS = 8;

/**
 * Arranges `count` rows in `room` (`{width, height}` in em), of which one of usual size needs `cell`.
 *
 * Returns `{columns, rows, scale, size}` with the largest letters, at most `largest` times the usual
 * ones; `size` rows are shown at once. All are, unless their letters would be smaller than `least`:
 * then as few pages as possible, of about the same size. With `mostRows` columns are no higher; a
 * cell without a height is as high as the room.
 */
export function arrange(count, room, cell, { least, largest, mostRows = Infinity }) {
  for (let pages = 1; ; pages += 1) {
    const size = Math.max(1, Math.ceil(count / pages));
    const found = ofSize(size, room, cell, mostRows);
    if (found.scale >= least || size === 1)
      return { ...found, scale: Math.max(least, Math.min(largest, found.scale)), size };
  }
}

/** Returns the columns with the largest letters. */
function ofSize(size, { width, height }, cell, mostRows) {
  let best = { columns: 1, rows: size, scale: 0 };
  const fewest = Math.ceil(size / mostRows);
  for (let columns = fewest; columns <= Math.max(fewest, MOST_COLUMNS); columns += 1) {
    const rows = Math.ceil(size / columns);
    const scale = Math.min(
      width / (columns * cell.width),
      cell.height === undefined ? Infinity : height / (rows * cell.height),
    );
    if (scale > best.scale) best = { columns, rows, scale };
  }
  return best;
}

/**
 * Returns where the rows begin that are shown at `now` (ms), of `count` rows `size` at once.
 *
 * Pages turn by themselves. In a reveal they do not: the place that was opened last, at `opened`, is
 * shown, with one that is still covered before it.
 */
export function firstShown(count, size, { now, opened = null }) {
  if (opened !== null) return Math.max(0, Math.min(opened - 1, count - size));
  const pages = Math.max(1, Math.ceil(count / size));
  return (Math.floor(now / TURN_MS) % pages) * size;
}

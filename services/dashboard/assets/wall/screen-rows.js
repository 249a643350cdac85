// The rows that a screen shows at once: all, or those of a page, as large as they fit.

import { t } from "../texts.js";
import { arrange, firstShown } from "./arrangement.js";

/** Sizes in em of one entry of a layout, and the smallest and largest letters that it may have. */
export const RANKING = { cell: { width: 30, height: 4.6 }, least: 0.65, largest: 2 };
export const BARS = { cell: { width: 8 }, least: 0.45, largest: 1, mostRows: 1 };
export const LOWER_THIRD = { cell: { width: 22 }, least: 0.8, largest: 1, mostRows: 1 };

/**
 * Returns those of `rows` that an element shows now, and sets its variables `--columns`, `--rows` and
 * `--scale`; `opened` is the place of the row that a reveal has opened last.
 */
export function rowsOnScreen(place, rows, layout, opened) {
  const style = getComputedStyle(place);
  const em = Number.parseFloat(style.fontSize);
  const isFlat = style.getPropertyValue("--is-flat").trim() === "1"; // all rows, in a page to scroll
  const room = { width: place.clientWidth / em, height: place.clientHeight / em };
  const {
    columns,
    rows: height,
    scale,
    size,
  } = isFlat
    ? { columns: 1, rows: rows.length, scale: 1, size: rows.length }
    : arrange(rows.length, room, layout.cell, layout);
  for (const [name, value] of Object.entries({ columns, rows: height, scale: scale.toFixed(3) }))
    place.style.setProperty(`--${name}`, value);
  const first = firstShown(rows.length, size, { now: performance.now(), opened });
  const pages = Math.ceil(rows.length / size);
  const isTurning = pages > 1 && opened === null;
  return {
    shown: rows.slice(first, first + size),
    page: isTurning ? t("{page} of {pages}", { page: Math.floor(first / size) + 1, pages }) : "",
  };
}

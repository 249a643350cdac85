// The rows that fit on a screen, in columns and in pages that turn by themselves.

import { t } from "../texts.js";

const TURN_MS = 10_000;
const ROW_EM = 4.6; // least height of a row
const COLUMN_EM = 34; // least width of a column
const MOST_ROWS = 10;
const LARGEST = 2; // of a row, compared with the page's letters
const NATURAL_EM = { height: 5.2, width: 26 };

/** The pages of a list element. */
export class Pages {
  #list;
  #pages = 1;
  #at = 0;

  constructor(list) {
    this.#list = list;
  }

  /** Returns the rows of the current page. */
  of(rows) {
    const list = this.#list;
    list.classList.remove("dense");
    let { fit, most } = capacity(list);
    if (rows.length > fit * most) {
      list.classList.add("dense");
      ({ fit, most } = capacity(list));
    }
    const columns = Math.max(1, Math.min(most, Math.ceil(rows.length / fit)));
    list.style.setProperty("--columns", columns);
    const height = Math.max(1, Math.min(fit, Math.ceil(rows.length / columns)));
    list.style.setProperty("--rows", height);
    list.style.setProperty("--scale", scale(list, columns, height));
    const whole = columns * height;
    this.#pages = Math.max(1, Math.ceil(rows.length / whole));
    this.#at = page(this.#pages);
    return rows.slice(this.#at * whole, (this.#at + 1) * whole);
  }

  /** "2 of 3", empty with one page. */
  get text() {
    return this.#pages > 1
      ? t("{page} of {pages}", { page: this.#at + 1, pages: this.#pages })
      : "";
  }
}

/** Returns the page of `rows` that is shown now, of `size` rows each. */
export function turned(rows, size) {
  const at = page(Math.max(1, Math.ceil(rows.length / size)));
  return rows.slice(at * size, (at + 1) * size);
}

const page = (pages) => Math.floor(performance.now() / TURN_MS) % pages;

/** Returns by how much rows are larger than usual, so that few of them fill the screen. */
function scale(list, columns, rows) {
  const size = parseFloat(getComputedStyle(list).fontSize);
  const [height, width] = [list.clientHeight / rows / size, list.clientWidth / columns / size];
  return Math.max(
    1,
    Math.min(LARGEST, height / NATURAL_EM.height, width / NATURAL_EM.width),
  ).toFixed(2);
}

/**
 * Returns how many rows fit into a column of the list, and how many columns; all rows where the
 * page scrolls.
 */
function capacity(list) {
  const style = getComputedStyle(list);
  if (style.getPropertyValue("--is-flat").trim() === "1") return { fit: Infinity, most: 1 };
  const size = parseFloat(style.fontSize);
  const fit = Math.floor(list.clientHeight / (ROW_EM * size));
  return {
    fit: Math.max(3, Math.min(MOST_ROWS, fit)),
    most: Math.max(1, Math.floor(list.clientWidth / (COLUMN_EM * size))),
  };
}

// The rows that fit on a screen, in columns and in pages that turn by themselves.

import { t } from "../texts.js";

const TURN_MS = 10_000;
const ROW_EM = 4; // least height of a row
const COLUMN_EM = 34; // least width of a column
const MOST_ROWS = 10;

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
    const whole = columns * height;
    this.#pages = Math.max(1, Math.ceil(rows.length / whole));
    this.#at = Math.floor(performance.now() / TURN_MS) % this.#pages;
    return rows.slice(this.#at * whole, (this.#at + 1) * whole);
  }

  /** "2 of 3", empty with one page. */
  get text() {
    return this.#pages > 1 ? t("{page} of {pages}", { page: this.#at + 1, pages: this.#pages }) : "";
  }
}

/** Returns how many rows fit into a column of the list, and how many columns; all rows where the page scrolls. */
function capacity(list) {
  const style = getComputedStyle(list);
  if (style.getPropertyValue("--is-flat").trim() === "1") return { fit: Infinity, most: 1 };
  const size = parseFloat(style.fontSize);
  const fit = Math.floor(list.clientHeight / (ROW_EM * size));
  return { fit: Math.max(3, Math.min(MOST_ROWS, fit)), most: Math.max(1, Math.floor(list.clientWidth / (COLUMN_EM * size))) };
}

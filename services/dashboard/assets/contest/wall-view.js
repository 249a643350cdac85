// Wall view: the page on one screen, larger, without controls; by `?view=wall`, the key f or a button.

import { element, parameter, setParameter } from "../page-elements.js";
import { t } from "../texts.js";

const TURN_MS = 10_000;
const ROW_EM = 4; // least height of a row
const COLUMN_EM = 24; // least width of a column
const MOST_ROWS = 10;
const root = document.documentElement;

export class Wall {
  #options;
  #hasConsent = false;
  #asking = null;
  #pages = 1;
  #at = 0;

  /**
   * `options.askFirst()` returns why the counts must not be shown without a confirmation, if so; `changed()` is called
   * after each switch.
   */
  constructor(button, options) {
    this.#options = options;
    if (parameter("view") === "wall") root.dataset.view = "wall";
    button.addEventListener("click", () => this.#change());
    addEventListener("keydown", (event) => {
      if (isCommand(event, "f")) this.#change();
      if (event.key === "Escape" && this.isOn && !document.fullscreenElement) this.#show(false);
    });
    document.addEventListener("fullscreenchange", () => document.fullscreenElement || !this.isOn || this.#show(false));
    addEventListener("resize", () => this.#options.changed());
  }

  get isOn() {
    return root.dataset.view === "wall";
  }

  /** Asks once if the wall is on and the counts are hidden from the public; without consent the wall ends. */
  async check() {
    if (this.isOn && !(await this.#ask())) this.#show(false);
  }

  /** Returns the rows of the current page. */
  page(rows) {
    const list = element("ranking");
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
  get pageText() {
    return this.#pages > 1 ? t("{page} of {pages}", { page: this.#at + 1, pages: this.#pages }) : "";
  }

  async #change() {
    const isOn = !this.isOn;
    if (isOn && !(await this.#ask())) return;
    this.#show(isOn);
    if (isOn) root.requestFullscreen?.().catch(() => {}); // without full screen the view is the same
    else if (document.fullscreenElement) document.exitFullscreen();
  }

  /** Returns whether the counts may be shown; calls during a question wait for its answer. */
  #ask() {
    const why = this.#options.askFirst();
    if (!why || this.#hasConsent) return true;
    this.#asking ??= this.#confirm(why).finally(() => (this.#asking = null));
    return this.#asking;
  }

  async #confirm(why) {
    const dialog = element("ask-wall");
    element("ask-wall-why").textContent = why;
    root.dataset.asking = "";
    dialog.returnValue = "no";
    dialog.showModal();
    await new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
    delete root.dataset.asking;
    this.#hasConsent = dialog.returnValue === "yes";
    return this.#hasConsent;
  }

  #show(isOn) {
    if (isOn) root.dataset.view = "wall";
    else delete root.dataset.view;
    setParameter("view", isOn ? "wall" : "");
    this.#options.changed();
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

/** Returns whether a key press is this command: not typed into a field, and without modifiers. */
export function isCommand(event, key) {
  const isTyping = event.target.closest?.("input, select, textarea, dialog");
  return event.key.toLowerCase() === key && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey;
}

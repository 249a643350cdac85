// A field of a local time, whose hour may occur twice or never in the night in which clocks are
// set.

import { make } from "./keyed-elements.js";
import { localText, momentsOf, offsetText } from "./local-time.js";
import { t } from "./texts.js";

/** A `datetime-local` input with the choice of the moment beside it, where there are two. */
export class TimeField {
  #input;
  #choice = make("select", { hidden: true, ariaLabel: t("Before or after clocks are set back") });

  constructor(input) {
    this.#input = input;
    input.after(this.#choice);
    input.addEventListener("input", () => this.#offer());
  }

  /** The moment in UTC, as an ISO text; "" without one. */
  get moment() {
    const moments = momentsOf(this.#input.value);
    return moments.length === 0
      ? ""
      : new Date(moments[this.#choice.selectedIndex] ?? moments[0]).toISOString();
  }

  set moment(text) {
    this.#input.value = text ? localText(Date.parse(text)) : "";
    this.#offer(Date.parse(text));
  }

  /** Offers both moments of a time that occurs twice, and refuses one that does not occur. */
  #offer(chosen) {
    const moments = momentsOf(this.#input.value);
    const never = this.#input.value && moments.length === 0;
    this.#input.setCustomValidity(
      never ? t("There is no such time: clocks are set forward then.") : "",
    );
    const isOpen = moments.length > 1;
    const at = Math.max(
      0,
      moments.includes(chosen) ? moments.indexOf(chosen) : this.#choice.selectedIndex,
    );
    this.#choice.hidden = !isOpen;
    this.#choice.replaceChildren(
      ...(isOpen ? moments.map((moment) => new Option(offsetText(moment))) : []),
    );
    if (isOpen) this.#choice.selectedIndex = at;
  }
}

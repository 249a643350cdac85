// The chart beside the ranking: the leaders or the picked participants, in total or per step.

import { Chart } from "./chart.js";
import { element, write } from "../page-elements.js";
import { colourOf } from "../palette.js";
import { mark, t } from "../texts.js";
import * as words from "../formatting.js";

const LEADERS = 5;
const MOST = 8;
const MINUTES = { one: mark("{n} minute"), many: mark("{n} minutes") };
const HOURS = { one: mark("{n} hour"), many: mark("{n} hours") };

export class ChartPanel {
  #past;
  #people;
  #options;
  #chart = new Chart(element("chart"), element("legend"), element("chart-table"));
  #picks = new Set();
  #shown = [];
  #followsLeaders = true;
  #mode = "total";

  /**
   * `options` has `counts()`, `now()`, and `changed()`, called after another choice of
   * participants.
   */
  #details = /** @type {HTMLDetailsElement} */ (element("chart-table").closest("details"));

  constructor(past, people, options) {
    this.#past = past;
    this.#people = people;
    this.#options = options;
    for (const button of document.querySelectorAll("[data-mode]"))
      button.addEventListener("click", () => this.#setMode(button));
    for (const button of document.querySelectorAll("[data-zoom]"))
      button.addEventListener("click", () => this.#chart.zoom(button.dataset.zoom));
    element("leaders").addEventListener("click", () => this.#followLeaders());
    this.#details.addEventListener("toggle", () => this.draw());
    document.documentElement.addEventListener("theme", () => this.redraw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  shows(key) {
    return this.#shown.includes(key);
  }

  /** Takes over the participants in order: the leaders may be others. */
  follow(places) {
    this.#shown = this.#followsLeaders
      ? places.slice(0, LEADERS).map((place) => place.key)
      : [...this.#picks];
    this.#past.want(this.#shown);
  }

  /** Adds a participant to the chart, or removes it. */
  pick(key) {
    if (this.#followsLeaders) for (const leader of this.#shown) this.#picks.add(leader);
    this.#followsLeaders = false;
    if (!this.#picks.delete(key)) {
      if (this.#picks.size === MOST) this.#picks.delete(this.#picks.values().next().value);
      this.#picks.add(key);
    }
    element("leaders").setAttribute("aria-pressed", "false");
    this.#options.changed();
  }

  /** Discards the shown counts, since they are hidden now. */
  forget() {
    this.#shown = [];
    this.#chart.clear();
    write("chart-says", "");
  }

  redraw() {
    this.#chart.repaint();
    this.draw();
  }

  draw() {
    const counts = this.#options.counts();
    const count = (key) => (key ? counts.participants[key]?.count : counts.count);
    const series =
      counts &&
      this.#past.series(
        count,
        (key) => counts.participants[key]?.rating.average ?? null,
        this.#options.now(),
      );
    if (!series) return;
    const isStepped = this.#mode === "step";
    const values = isStepped ? series.step : series.total;
    const lines = this.#shown
      .filter((key) => values.has(key))
      .map((key) => ({
        key,
        name: this.#people.of(key).name,
        colour: colourOf(this.#people.of(key)),
        values: values.get(key),
      }));
    if (lines.length === 0 && counts.count > 0) return;
    const isAverage = counts.contest_type === "rating" && !isStepped;
    this.#chart.draw(series.times, lines, isStepped, isAverage ? words.precise : words.number);
    const minutes = series.interval / 60;
    const step = minutes < 60 ? words.plural(minutes, MINUTES) : words.plural(minutes / 60, HOURS);
    const names = lines.map((line) => line.name).join(", ") || t("nobody");
    const says = isStepped
      ? t(
          "Votes of {names} in steps of {step}, the last one unfinished; the same as a table below.",
          { names, step },
        )
      : isAverage
        ? t("Average ratings of {names} over time; the same as a table below.", { names })
        : t("Votes of {names} over time; the same as a table below.", { names });
    write("chart-says", says);
    write(
      "chart-zone",
      isStepped
        ? t("Steps of {step}, the last one (dashed) unfinished. Times in {zone}.", {
            step,
            zone: words.zone(),
          })
        : t("Times in {zone}.", { zone: words.zone() }),
    );
    if (this.#details.open) this.#chart.fillTable(isStepped);
  }

  #setMode(button) {
    this.#mode = button.dataset.mode;
    for (const each of document.querySelectorAll("[data-mode]"))
      each.setAttribute("aria-pressed", String(each === button));
    this.draw();
  }

  #followLeaders() {
    this.#followsLeaders = true;
    this.#picks.clear();
    element("leaders").setAttribute("aria-pressed", "true");
    this.#options.changed();
  }
}

// Time series chart, drawn by uPlot (a global of its script), with the same data as an accessible
// table.

import { language, t } from "../texts.js";
import { compact, date, number, time } from "../formatting.js";

const ROWS_OF_TABLE = 30;

/** A chart in `place`, with its legend in `legend` and its table in `table`. */
export class Chart {
  #place;
  #legend;
  #table;
  /** @type {any} */
  #plot = null;
  #shown = "";
  #lines = [];
  #times = [];
  #format = number;
  /**
   * seconds since 1970, while zoomed; `isLive` if it ends with the latest
   *
   * @type {{min: number, max: number, isLive: boolean} | null}
   */
  #window = null;

  constructor(place, legend, table) {
    this.#place = place;
    this.#legend = legend;
    this.#table = table;
    new ResizeObserver(() => this.#fit()).observe(place);
  }

  /**
   * Draws `lines` (`{key, name, colour, values}`) over `times`, of the same length; `isStepped` for
   * votes per step, of which the last one is unfinished, and dashed. Lines that share a colour
   * differ in their dashes. `format` writes a value.
   */
  draw(times, lines, isStepped, format = number) {
    this.#format = (value) => (value === null ? "–" : format(value));
    this.#times = times;
    this.#lines = lines;
    const shape = JSON.stringify([
      isStepped,
      lines.map((line) => [line.key, line.name, line.colour]),
    ]);
    if (shape !== this.#shown) {
      this.#shown = shape;
      this.#make(isStepped);
    }
    const window = this.#window;
    if (window?.isLive) {
      const ahead = times.at(-1) - window.max;
      window.min += ahead;
      window.max += ahead;
    }
    this.#plot.setData([times, ...this.#columns(isStepped)], window === null);
    if (window !== null) this.#plot.setScale("x", window);
    this.#showCursor();
  }

  /** Removes the chart, the legend and the table. */
  clear() {
    this.#plot?.destroy();
    this.#plot = null;
    this.#shown = "";
    this.#legend.replaceChildren();
    this.#table.replaceChildren();
  }

  /** Makes the next `draw` create the plot again, after a change of colours or theme. */
  repaint() {
    this.#shown = "";
  }

  /** Zooms or pans: "in", "out", "back", "on", or "all". */
  zoom(how) {
    if (this.#plot === null || this.#times.length < 2) return;
    const [first, last] = [this.#times[0], this.#times.at(-1)];
    const { min, max } = this.#window ?? { min: first, max: last };
    const width = max - min;
    let [from, to] = {
      in: [min + width / 4, max - width / 4],
      out: [min - width / 2, max + width / 2],
      back: [min - width / 2, max - width / 2],
      on: [min + width / 2, max + width / 2],
      all: [first, last],
    }[how];
    if (from < first) [from, to] = [first, Math.min(last, to + first - from)];
    if (to > last) [from, to] = [Math.max(first, from - to + last), last];
    this.#zoomTo(from, to);
  }

  /** Fills the table; called only while it is open. */
  fillTable(isStepped) {
    const head = document.createElement("thead");
    const names = head.insertRow();
    const heading = t("Time");
    for (const text of [heading, ...this.#lines.map((line) => line.name)]) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = text;
      if (text !== heading) cell.className = "number";
      names.append(cell);
    }
    const body = document.createElement("tbody");
    const every = Math.ceil(this.#times.length / ROWS_OF_TABLE);
    for (let at = this.#times.length - 1; at >= (isStepped ? 1 : 0); at -= every) {
      const row = body.insertRow();
      const when = document.createElement("th");
      when.scope = "row";
      when.textContent = date(this.#times[at] * 1000);
      row.append(when);
      for (const line of this.#lines) {
        const cell = row.insertCell();
        cell.className = "number";
        cell.textContent = this.#format(
          isStepped ? sum(line.values, at - every + 1, at) : line.values[at],
        );
      }
    }
    this.#table.replaceChildren(head, body);
  }

  /**
   * Returns the values to plot; of steps the finished ones, then the unfinished one with that
   * before it.
   */
  #columns(isStepped) {
    if (!isStepped) return this.#lines.map((line) => line.values);
    const last = this.#times.length - 1;
    return this.#lines.flatMap(({ values }) => [
      values.map((value, at) => (at < last ? value : null)),
      values.map((value, at) => (at >= last - 1 ? value : null)),
    ]);
  }

  #zoomTo(from, to) {
    const [first, last] = [this.#times[0], this.#times.at(-1)];
    const isAll = from <= first && to >= last;
    this.#window = isAll ? null : { min: from, max: Math.max(to, from + 1), isLive: to >= last };
    this.#plot.setScale("x", this.#window ?? { min: first, max: last });
  }

  /** Creates the plot again, with the former cursor position. */
  #make(isStepped) {
    const { left = -10, top = -10 } = this.#plot?.cursor ?? {};
    this.#plot?.destroy();
    const style = getComputedStyle(this.#place);
    const [ink, line] = [
      colour(this.#place, "var(--ink-soft)"),
      colour(this.#place, "var(--line)"),
    ];
    const size = parseFloat(style.fontSize);
    const font = `${0.8 * size}px ${style.fontFamily}`;
    const axis = {
      stroke: ink,
      font,
      grid: { stroke: line, width: 1 },
      ticks: { stroke: line, width: 1, size: 4 },
    };
    const width = Math.max(1.5, size / 8);
    this.#plot = new uPlot(
      {
        ...this.#size(),
        legend: { show: false },
        padding: [size / 2, 1.5 * size, 0, 0],
        cursor: {
          drag: { x: true, y: false, setScale: false },
          points: { size: size / 2 },
          bind: { dblclick: () => () => this.zoom("all") },
        },
        scales: {
          x: { time: true },
          y: { range: (_, low, high) => [Math.min(0, low), Math.max(high * 1.05, 1)] },
        },
        axes: [
          { ...axis, space: 5.5 * size, size: 2.2 * size, gap: size / 2, values: clockTicks },
          {
            ...axis,
            size: 4 * size,
            space: 2.5 * size,
            gap: size / 3,
            values: (_, ticks) => wholeTicks(ticks),
          },
        ],
        series: [
          {},
          ...this.#lines.flatMap((each, at) => {
            const twins = this.#lines
              .slice(0, at)
              .filter((other) => other.colour === each.colour).length;
            const line = {
              label: each.name,
              stroke: colour(this.#place, each.colour),
              width,
              points: { show: this.#times.length < 4 },
              paths: isStepped ? uPlot.paths.stepped({ align: -1 }) : undefined,
              dash: twins ? [4 * width, 2 * width * twins] : undefined,
            };
            return isStepped
              ? [line, { ...line, dash: [width, 2 * width], points: { show: false } }]
              : [line];
          }),
        ],
        hooks: {
          setCursor: [() => this.#showCursor()],
          setSelect: [
            (plot) => {
              const { left, width: wide } = plot.select;
              if (wide < 4) return;
              this.#zoomTo(plot.posToVal(left, "x"), plot.posToVal(left + wide, "x"));
              plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            },
          ],
        },
      },
      [this.#times, ...this.#columns(isStepped)],
      this.#place,
    );
    if (left >= 0) this.#plot.setCursor({ left, top });
  }

  /** Shows the values at the cursor, or the latest ones. */
  #showCursor() {
    const at = this.#plot?.cursor.idx ?? null;
    const index = at ?? this.#times.length - 1;
    const ordered = this.#lines.toSorted((a, b) => (b.values[index] ?? 0) - (a.values[index] ?? 0));
    const rows = ordered.map((line) => {
      const item = document.createElement("li");
      item.style.setProperty("--colour", line.colour);
      const [name, value] = [document.createElement("span"), document.createElement("b")];
      name.textContent = line.name;
      value.textContent = this.#format(line.values[index] ?? null);
      item.append(name, " ", value);
      return item;
    });
    if (at !== null) {
      const when = document.createElement("li");
      when.className = "when";
      when.textContent = time(this.#times[index] * 1000);
      rows.unshift(when);
    }
    this.#legend.replaceChildren(...rows);
  }

  #size() {
    return {
      width: Math.max(200, this.#place.clientWidth),
      height: Math.max(140, this.#place.clientHeight),
    };
  }

  #fit() {
    this.#plot?.setSize(this.#size());
  }
}

/** Formats whole numbers only. */
function wholeTicks(ticks) {
  const texts = compact(ticks.filter(Number.isInteger));
  return ticks.map((tick) => (Number.isInteger(tick) ? texts.shift() : ""));
}

/**
 * Formats times of day, with the date at the start of a day; a label equal to the one before is
 * left out.
 */
function clockTicks(_, ticks) {
  let before = "";
  const labels = ticks.map((tick) => {
    const at = new Date(tick * 1000);
    const day = at.toLocaleDateString(language, { month: "short", day: "numeric" });
    const isNew = before !== "" && before !== day;
    before = day;
    const clock = at.toLocaleTimeString(language, {
      hour: "2-digit",
      minute: "2-digit",
      hourCycle: "h23",
    });
    return isNew || ticks.at(-1) - ticks[0] > 3 * 86400 ? day : at.getSeconds() ? time(at) : clock;
  });
  return labels.map((label, at) => (label === labels[at - 1] ? "" : label));
}

/** Returns the current value of a colour in a style sheet's words. */
function colour(place, words) {
  const probe = document.createElement("span");
  probe.style.color = words;
  place.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function sum(values, from, to) {
  let found = 0;
  for (let at = Math.max(1, from); at <= to; at += 1) found += values[at] ?? 0;
  return found;
}

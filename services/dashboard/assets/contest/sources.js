// Votes by source, of all participants or of one.

import { mark, t } from "../texts.js";
import { number, share } from "../formatting.js";

const INTERNAL = { "c-free": mark("Free votes"), "c-paid": mark("Paid votes") };

/**
 * A table with `body`, and `of`, the selection of a participant; `nameOf(key)` returns a
 * participant's name.
 */
export class Sources {
  #body;
  #of;
  #nameOf;
  #names = "";

  constructor(body, of, nameOf) {
    this.#body = body;
    this.#of = of;
    this.#nameOf = nameOf;
  }

  /** Shows the sources of a vote count record, or none without one. */
  show(counts) {
    if (!counts) return this.#body.replaceChildren();
    this.#choices(counts.participants);
    const one = this.#of.value ? counts.participants[this.#of.value].vote_sources : null;
    const rows = counts.total_vote_sources.map((source) => {
      const parts = one ? one.filter((part) => part.source === source.source) : [source];
      const sum = (name) => parts.reduce((all, part) => all + part[name], 0);
      const [count, unique, anonymous] = [
        "count",
        "unique_voter_count",
        "anonymous_voter_count",
      ].map(sum);
      return { ...source, count, unique, anonymous };
    });
    const total = rows.reduce((all, row) => all + (row.is_in_total ? row.count : 0), 0);
    return this.#body.replaceChildren(
      ...rows.flatMap((row) => [line(row, total), ...heldLines(row)]),
    );
  }

  #choices(participants) {
    const names = Object.keys(participants)
      .map((key) => [this.#nameOf(key), key])
      .sort();
    if (JSON.stringify(names) === this.#names) return;
    this.#names = JSON.stringify(names);
    const chosen = this.#of.value;
    const all = this.#of.firstElementChild;
    this.#of.replaceChildren(all, ...names.map(([name, key]) => new Option(name, key)));
    this.#of.value = chosen in participants ? chosen : "";
  }
}

function line(row, total) {
  const made = document.createElement("tr");
  const name = document.createElement("th");
  name.scope = "row";
  const kind = document.createElement("span");
  kind.className = "chip";
  kind.textContent = row.is_internal ? t("internal") : t("external");
  name.append(INTERNAL[row.source] ? t(INTERNAL[row.source]) : row.title || row.source, " ", kind);
  made.append(name);
  const part = row.is_in_total ? share(row.count, total) : "–";
  const figures = [
    row.is_in_total ? t("yes") : t("no"),
    number(row.count),
    part,
    number(row.unique),
    number(row.anonymous),
  ];
  for (const [at, text] of figures.entries()) {
    const cell = made.insertCell();
    cell.textContent = text;
    if (at > 0) cell.className = "number";
  }
  return made;
}

/** Returns a line for counts of an external source that were reported and do not count. */
function heldLines({ held = [] }) {
  if (held.length === 0) return [];
  const made = document.createElement("tr");
  const cell = made.insertCell();
  cell.colSpan = 6;
  cell.className = "held";
  const reasons = { unmapped: t("no participant has this id"), decrease: t("lower than before") };
  const list = held.map(
    (each) => `${each.mapped_id}: ${number(each.count)} (${reasons[each.reason] ?? each.reason})`,
  );
  cell.textContent = t("Held, not counted: {list}", { list: list.join(", ") });
  return [made];
}

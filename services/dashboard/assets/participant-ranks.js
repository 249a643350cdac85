// Places of a contest's participants: their order, ranks and numbers, and recent changes of rank.

import * as words from "./formatting.js";

const SHOWN_MS = 30_000;

/**
 * Sorts `counts` (`[{key, count, average}]`) and adds ranks: by average where there is one (-1: no
 * ratings), then by count; equal ones share a rank, in the order of `order(key)`.
 */
export function ranked(counts, order) {
  const sorted = counts.toSorted(
    (a, b) => b.average - a.average || b.count - a.count || order(a.key) - order(b.key),
  );
  let rank = 0;
  let before = null;
  return sorted.map((row, at) => {
    if (row.count !== before?.count || row.average !== before.average) rank = at + 1;
    before = row;
    return { ...row, rank };
  });
}

/** Returns the counted participants of a vote count record in order, with ranks. */
export function placesOf(counts, order) {
  const entries = Object.entries(counts.participants).map(
    ([key, { count, rating, unique_voter_count: voters }]) => ({
      key,
      count,
      voters,
      values: rating?.distribution,
      average: rating ? (rating.average ?? -1) : 0,
    }),
  );
  return ranked(entries, order);
}

/**
 * Returns a place's values in a row: the main number, the one below it, and its part of a full bar.
 */
export function figures(place, best, counts) {
  const unit = words.units(counts.contest_type);
  const part = (value, of) => (of > 0 ? Math.max(value, 0) / of : 0);
  if (counts.contest_type === "rating")
    return {
      figure: place.average < 0 ? "–" : words.precise(place.average),
      note: words.plural(place.count, unit),
      part: part(place.average, best.average),
    };
  // a reveal shows no sums
  const share = counts.count === null ? "" : words.share(place.count, counts.count);
  if (counts.contest_type === "ordering")
    return {
      figure: words.plural(place.count, unit),
      note: [words.ballots(place.voters), share].filter(Boolean).join(" · "),
      part: part(place.count, best.count),
    };
  return { figure: words.number(place.count), note: share, part: part(place.count, best.count) };
}

/**
 * Returns by how much the first place is ahead of the second: a difference of averages, or of
 * counts.
 */
export function ahead(first, second, counts) {
  if (counts.contest_type === "rating")
    return words.precise(first.average - Math.max(second.average, 0));
  return words.number(first.count - second.count);
}

/** Remembers ranks, and by how many places a participant rose (above 0) or fell lately. */
export class Movement {
  #ranks = new Map();
  #changes = new Map(); // key -> [places, until]

  /** Takes over the ranks of `places`. */
  update(places) {
    const now = performance.now();
    for (const { key, rank } of places) {
      const before = this.#ranks.get(key) ?? rank;
      if (before !== rank) this.#changes.set(key, [before - rank, now + SHOWN_MS]);
      this.#ranks.set(key, rank);
    }
  }

  of(key) {
    const [places, until] = this.#changes.get(key) ?? [0, 0];
    return performance.now() < until ? places : 0;
  }

  /** Discards the ranks, which have become hidden. */
  forget() {
    this.#ranks.clear();
    this.#changes.clear();
  }
}

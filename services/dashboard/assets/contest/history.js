// The counts over time, from the timeline, with the present count as the last point.

import { get, Refused } from "../session.js";

const REFRESH_MS = 10_000;

/**
 * Series of some participants ("" is the whole contest) over time. Calls `changed()` after each
 * update.
 */
export class History {
  #path;
  #changed;
  /** @type {string[]} */
  #wanted = [];
  /** @type {any} */
  #found = null;
  /** @type {Promise<void> | null} */
  #asking = null;
  #again = false;

  constructor(contest, changed) {
    this.#path = `/contests/${encodeURIComponent(contest)}/timeline`;
    this.#changed = changed;
  }

  start() {
    setInterval(() => document.hidden || this.refresh(), REFRESH_MS);
  }

  /** Sets the participants whose series are needed. */
  want(keys) {
    if (keys.length === this.#wanted.length && keys.every((key) => this.#wanted.includes(key)))
      return;
    this.#wanted = keys;
    this.refresh();
  }

  /** Discards the series, which are outdated or hidden. */
  forget() {
    this.#found = null;
  }

  /** Reads the latest series; calls during a request cause one more request after it. */
  refresh() {
    this.#again = true;
    this.#asking ??= this.#refresh().finally(() => (this.#asking = null));
  }

  /**
   * Returns `{interval, times, total, step}`: seconds since 1970, and by key the votes, or the
   * average of the ratings, up to each time, and the votes in the step that ends there; up to `now`
   * (ms), for which `counts` returns the count of a key, and `average` that of its ratings. Null
   * before the first response.
   */
  series(counts, average, now) {
    const found = this.#found;
    if (found === null) return null;
    const { interval, from, changes, ratings } = found;
    const length = Math.max(0, ...[...changes.values()].map((column) => column.length));
    const times = Array.from({ length: length + 1 }, (_, at) => from + at * interval);
    const last = Math.min(times[length], Math.max(now / 1000, times[length] - interval));
    times[length] = Math.max(last, (times[length - 1] ?? 0) + 1);
    const total = new Map();
    const step = new Map();
    for (const [key, column] of changes) {
      const sums = [0];
      for (const change of column) sums.push(sums[sums.length - 1] + change);
      const present = counts(key);
      const late = present === undefined ? 0 : present - sums[sums.length - 1];
      sums[length] += late;
      total.set(key, ratings.has(key) ? [...averages(ratings.get(key)), average(key)] : sums);
      step.set(key, [null, ...column.slice(0, -1), (column.at(-1) ?? 0) + late]);
    }
    return { interval, times, total, step };
  }

  async #refresh() {
    while (this.#again) {
      this.#again = false;
      const query = new URLSearchParams(this.#wanted.map((key) => ["participant", key]));
      if (this.#wanted.length === 0) query.set("participant", "");
      try {
        const answer = await get(`${this.#path}?${query}`);
        this.#found = {
          interval: answer.interval,
          from: Date.parse(answer.from) / 1000,
          ratings: new Map(
            answer.participants
              .filter((row) => row.rating)
              .map((row) => [row.participant_key, row.rating]),
          ),
          changes: new Map([
            ["", answer.count],
            ...answer.participants.map((row) => [row.participant_key, row.count]),
          ]),
        };
        this.#changed();
      } catch (error) {
        // hidden by now, or unavailable: the chart stays until the stream's next event
        if (!(error instanceof Refused || error instanceof TypeError)) throw error;
      }
    }
  }
}

/** Returns the averages before each step of a timeline's changes; null before the first rating. */
function averages({ count, sum }) {
  let [ratings, total] = [0, 0];
  return count.map((change, at) => {
    const before = ratings ? total / ratings : null;
    ratings += change;
    total += sum[at];
    return before;
  });
}

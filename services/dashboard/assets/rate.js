// Votes per second over the last ten seconds, and per minute over the last minute.

const SECOND = { window: 10_000, least: 1_500, unit: 1_000 };
const MINUTE = { window: 60_000, least: 20_000, unit: 60_000 };

export class Rate {
  #samples = []; // [ms, votes]

  /** Adds a sample: the total of votes now. */
  add(votes) {
    const at = performance.now();
    this.#samples.push([at, votes]);
    while (this.#samples.length > 2 && this.#samples[1][0] < at - MINUTE.window)
      this.#samples.shift();
  }

  /** Discards the samples. */
  forget() {
    this.#samples = [];
  }

  /** The rates; null without enough samples. */
  get perSecond() {
    return this.#over(SECOND);
  }

  get perMinute() {
    return this.#over(MINUTE);
  }

  #over({ window, least, unit }) {
    const now = performance.now();
    const first = this.#samples.findLast(([at]) => at < now - window) ?? this.#samples[0];
    if (first === undefined || now - first[0] < least) return null;
    return Math.max(0, (unit * (this.#samples.at(-1)[1] - first[1])) / (now - first[0]));
  }
}

// Votes per second over the last ten seconds.

const WINDOW_MS = 10_000;
const LEAST_MS = 1_500;

export class Rate {
  #samples = []; // [ms, votes]

  /** Adds a sample: the total of votes now. */
  add(votes) {
    const at = performance.now();
    this.#samples.push([at, votes]);
    while (this.#samples.length > 2 && this.#samples[1][0] < at - WINDOW_MS) this.#samples.shift();
  }

  /** Discards the samples. */
  forget() {
    this.#samples = [];
  }

  /** The rate; null without enough samples. */
  get value() {
    const [first, last] = [this.#samples[0], this.#samples.at(-1)];
    if (first === undefined || performance.now() - first[0] < LEAST_MS) return null;
    return Math.max(0, (1000 * (last[1] - first[1])) / (performance.now() - first[0]));
  }
}

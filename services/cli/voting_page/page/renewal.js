// When the voter's allowance is read again. The service's time decides, never the device's.

const SPREAD_MS = 3_000; // within it phones read
const SHORTEST_MS = 2_000;
const LONGEST_MS = 60_000;

export class Renewal {
  #random;
  #next = 0;
  #reads = 0;

  constructor(random = Math.random) {
    this.#random = random;
  }

  /** Returns whether to read now (ms): some time after `renewsAt`, and with growing pauses while nothing is renewed. */
  isDue(renewsAt, now) {
    if (renewsAt > now) {
      this.#next = renewsAt + this.#random() * SPREAD_MS;
      this.#reads = 0;
    }
    if (now < this.#next) return false;
    const pause = Math.min(SHORTEST_MS * 2 ** this.#reads, LONGEST_MS);
    this.#next = now + pause * (0.5 + this.#random() / 2);
    this.#reads += 1;
    return true;
  }
}

// The counts shown to an audience: live, held while votes go on, or revealed place by place from the last.

/** The state of the board. Calls `changed()` after each change. */
export class Board {
  #changed;
  #latest = null;
  #held = null; // the counts shown instead of the latest
  #heldAt = 0;
  #open = null; // in a reveal: places open, counted from the last
  #awaited = null; // the state to follow once there are counts

  constructor(changed) {
    this.#changed = changed;
  }

  /** The counts to show. */
  get counts() {
    return this.#held ?? this.#latest;
  }

  /** Time (ms) since which the board is held; 0 while it is live. */
  get heldAt() {
    return this.#held ? this.#heldAt : 0;
  }

  get isReveal() {
    return this.#open !== null;
  }

  /** Takes over counts; null if there are none to show any more. */
  update(counts) {
    this.#latest = counts;
    if (counts === null) this.#release();
    else if (this.#awaited) this.follow(this.#awaited);
  }

  /** The state for windows that follow this one. */
  get state() {
    return { held: this.#held, heldAt: this.#heldAt, open: this.#open };
  }

  /** Takes over another window's state; while there are no counts here, later. */
  follow(state) {
    this.#awaited = this.#latest ? null : state;
    if (this.#awaited) return;
    [this.#held, this.#heldAt, this.#open] = [state.held, state.heldAt, state.open];
    this.#changed();
  }

  /** Holds the board, or makes it live again. */
  hold(now) {
    if (this.#held) this.#release();
    else if (this.#latest) [this.#held, this.#heldAt] = [this.#latest, now];
    this.#changed();
  }

  /** Covers all places of the latest counts. */
  reveal(now) {
    if (!this.#latest) return;
    [this.#held, this.#heldAt, this.#open] = [this.#latest, now, 0];
    this.#changed();
  }

  /** Opens the last covered place, with all that share it, or all places. */
  open(places, all = false) {
    if (this.#open === null) return;
    const next = places.at(-1 - this.#open)?.rank;
    const opened = places.filter((place) => place.rank >= next).length;
    this.#open = all ? places.length : opened;
    if (this.#open >= places.length) this.#open = null;
    this.#changed();
  }

  /** Returns whether the place at this index of all places is covered. */
  isCovered(at, length) {
    return this.#open !== null && at < length - this.#open;
  }

  #release() {
    this.#held = this.#open = this.#awaited = null;
  }
}

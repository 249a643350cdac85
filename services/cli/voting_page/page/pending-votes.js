// Votes that are not answered yet. Each gets its id before it is sent, is stored with it, and is sent with the same id
// until it is answered, also after the page was closed: so it counts once, whatever was lost on the way.

import { isTransient } from "./stream.js";

const MOST = 100;
const SHORTEST_MS = 1_000;
const LONGEST_MS = 15_000;

export class PendingVotes {
  #name;
  #io;
  #isSending = false;

  /**
   * `name` is the contest's. `store` has `getItem` and `setItem`; `send(vote)` returns the answer, or throws an error with
   * the `status` of a refusal, or any other if there was no answer; `answered(vote, answer, error)` is called once for
   * each vote, and `changed()` whenever votes are added, have failed or were answered.
   */
  constructor(name, { store, send, answered, changed = () => {}, newId, wait = pause, random = Math.random }) {
    this.#name = `votes:${name}`;
    this.#io = { store, send, answered, changed, newId, wait, random };
  }

  /** The votes `{vote_id, choice, failures}`, oldest first. */
  get all() {
    try {
      return JSON.parse(this.#io.store.getItem(this.#name) ?? "[]");
    } catch {
      return [];
    }
  }

  /** Casts a vote for a choice; nothing more while the same is on its way. Returns when all are answered. */
  async cast(choice) {
    const isSame = (vote) => JSON.stringify(vote.choice) === JSON.stringify(choice);
    if (!this.all.some(isSame) && this.all.length < MOST)
      this.#put([...this.all, { vote_id: this.#io.newId(), choice, failures: 0 }]);
    await this.resume();
  }

  /** Sends all votes that are not answered yet, one after the other. */
  async resume() {
    if (this.#isSending) return;
    this.#isSending = true;
    try {
      for (let [vote] = this.all; vote; [vote] = this.all) await this.#attempt(vote);
    } finally {
      this.#isSending = false;
    }
  }

  async #attempt(vote) {
    let answer = null;
    let refusal = null;
    try {
      answer = await this.#io.send(vote);
    } catch (error) {
      if (!error.status || isTransient(error.status)) return this.#postpone(vote, error.retryAfter ?? 0);
      refusal = error;
    }
    this.#put(this.all.filter((each) => each.vote_id !== vote.vote_id));
    this.#io.answered(vote, answer, refusal);
  }

  /** Waits before the next attempt: longer each time, and differently on each phone. */
  async #postpone({ vote_id: id, failures }, retryAfter) {
    this.#put(this.all.map((vote) => (vote.vote_id === id ? { ...vote, failures: failures + 1 } : vote)));
    const most = Math.min(SHORTEST_MS * 2 ** failures, LONGEST_MS);
    await this.#io.wait(Math.max(retryAfter * 1_000, most * (0.5 + this.#io.random() / 2)));
  }

  #put(votes) {
    this.#io.store.setItem(this.#name, JSON.stringify(votes));
    this.#io.changed();
  }
}

/** Waits `ms`, less if the device comes online again. */
function pause(ms) {
  return new Promise((resolve) => {
    const done = () => (clearTimeout(timer), removeEventListener("online", done), resolve());
    const timer = setTimeout(done, ms);
    addEventListener("online", done);
  });
}

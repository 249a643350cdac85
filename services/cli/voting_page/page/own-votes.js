// The voter's votes on their way: each is kept, sent until it is answered, and said by act.

const AGAIN_MS = 30_000;

/** The act of a vote's members, or "" of a ballot. */
export const actOf = ({ participant_key: act }) => act ?? "";

export class OwnVotes {
  #tally;
  #contest;
  #page;
  #sending = Promise.resolve();
  #failed = new Set(); // ids of votes that had no answer yet
  #accepted = new Map(); // ids of votes that were accepted here -> their act
  #refused = new Map(); // acts -> why their last vote was refused
  #waiting = [];

  /**
   * `page` has `changed()`, called when what `noteOf` says may be another; `accepted(answer)`; `refused()`; and
   * `stopped(text)`, called when nobody can say what became of a vote, such as without a log-in.
   */
  constructor(tally, contest, page) {
    [this.#tally, this.#contest, this.#page] = [tally, contest, page];
  }

  /** Casts a vote, its participant, rating or positions; nothing more while the same is on its way. */
  async cast(choice) {
    this.#refused.delete(actOf(choice));
    await this.#tally.keep(this.#contest, choice);
    await this.#changed();
    this.send();
  }

  /** Sends all votes that are not answered yet, one after the other, also those of before a reload. */
  send() {
    const sendAll = () => this.#sendAll();
    this.#sending = this.#sending.then(sendAll, sendAll);
    return this.#sending;
  }

  /** Takes over that a vote had no answer. */
  failed(vote) {
    this.#failed.add(vote.body.vote_id);
    this.#page.changed();
  }

  /** Says of an act, or of the ballot, what became of its last vote; `votes` are those that were read. */
  noteOf(act, votes) {
    const waiting = this.#waiting.find(({ body }) => actOf(body) === act);
    if (waiting && this.#failed.has(waiting.body.vote_id))
      return "Not sent yet. It is sent again by itself.";
    if (waiting) return "Sending …";
    if (this.#refused.has(act)) return this.#refused.get(act);
    const known = new Set(votes.map((vote) => vote.vote_id));
    const isNew = [...this.#accepted].some(([id, its]) => its === act && !known.has(id));
    return isNew || votes.some((vote) => vote.status === "counted" && isOf(vote, act))
      ? "Voted ✓"
      : "";
  }

  async #sendAll() {
    for (let vote; (vote = (await this.#changed())[0]);) {
      const outcome = await this.#tally.resume(vote);
      if (outcome.kind === "undecided") {
        this.#page.stopped(outcome.problem?.detail ?? "");
        setTimeout(() => this.send(), AGAIN_MS);
        return;
      }
      this.#failed.delete(vote.body.vote_id);
      if (outcome.kind === "accepted") this.#accepted.set(vote.body.vote_id, actOf(vote.body));
      else this.#refused.set(actOf(vote.body), outcome.problem.detail);
      await this.#changed();
      if (outcome.kind === "accepted") this.#page.accepted(outcome.answer);
      else this.#page.refused();
    }
  }

  /** Reads what is on its way, and returns it. */
  async #changed() {
    this.#waiting = (await this.#tally.pending()).filter((vote) => vote.contest === this.#contest);
    this.#page.changed();
    return this.#waiting;
  }
}

function isOf(vote, act) {
  return act === ""
    ? Boolean(vote.positions)
    : vote.choices?.some((choice) => choice.participant_key === act);
}

// A service in simulated time, behind a network that loses answers and cuts streams: that of simulated_service.py, for the
// client of browsers. Its timers fire in their order as soon as everybody waits.

import { AssertionError } from "node:assert";

const BEGIN = Date.parse("2026-09-01T18:00:00.250Z");
const PROXY_PAGE = "<h1>Log in to the hotel's network</h1>";
export const LIMIT = 3;
export const GONE = "event: gone\ndata: {}\n\n";

export class World {
  time = 1_000_000;
  timers = [];
  counted = new Map();
  attempts = [];
  requests = [];
  opened = [];
  stored = () => [];

  /** `faults` are "before", "after", "page" or a status of the next requests; `streams` the pieces of the next streams. */
  constructor({ faults = [], streams = [], retryAfter = 0 } = {}) {
    Object.assign(this, { faults, streams, retryAfter });
  }

  /** What a client is given in place of the real world. */
  get outside() {
    return {
      now: () => this.time,
      fetch: (url, options) => this.answer(new URL(url), options),
      setTimeout: (done, ms) => {
        const timer = { at: this.time + ms, done };
        this.timers.push(timer);
        return timer;
      },
      clearTimeout: (timer) => (this.timers = this.timers.filter((each) => each !== timer)),
    };
  }

  get serviceTime() {
    return BEGIN + this.time;
  }

  /** Lets time pass until a promise is settled, and returns its value. */
  async until(promise) {
    let isSettled = false;
    const settled = () => (isSettled = true);
    promise.then(settled, settled);
    for (let turns = 0; !isSettled; turns += 1) {
      if (turns > 100_000) throw new AssertionError({ message: "waits for ever" });
      await new Promise(setImmediate);
      if (isSettled) break;
      this.timers.sort((one, other) => one.at - other.at);
      const next = this.timers.shift();
      if (next === undefined) throw new AssertionError({ message: "waits for ever" });
      this.time = Math.max(this.time, next.at);
      next.done();
    }
    return promise;
  }

  async answer(url, { method = "GET", body, headers, signal }) {
    this.time += 10;
    this.requests.push({ url: url.href, method, headers, body });
    if (url.pathname.endsWith("/stream")) return this.#stream(signal);
    const isVote = method === "POST" && url.pathname.includes("/votes");
    const votes = isVote ? body.split("\n").map((line) => JSON.parse(line)) : [];
    const fault = this.faults.shift();
    const known = this.stored().map((vote) => vote.body.vote_id);
    for (const vote of votes) {
      if (!known.includes(vote.vote_id)) throw new Error("sent, and not stored");
      this.attempts.push({
        at: this.time,
        id: vote.vote_id,
        least: typeof fault === "number" ? this.retryAfter * 1_000 : 0,
      });
    }
    if (fault === "before") throw new TypeError("no way");
    if (fault === "page") return new Response(PROXY_PAGE);
    if (typeof fault === "number") return this.#refuse(fault);
    const answer = this.#served(url, votes);
    return fault === "after" ? silence(signal) : answer;
  }

  #served(url, votes) {
    if (votes.length === 0) return this.#respond(200, { asked: url.href });
    const answers = votes.map((vote) => this.#cast(vote));
    const [[status, body]] = answers;
    if (!url.pathname.endsWith("/batch"))
      return this.#respond(status, body, { "Tally-Position": "p" });
    return this.#respond(
      200,
      { results: answers.map(([each, its]) => ({ ...its, status: each })) },
      { "Tally-Position": "batch" },
    );
  }

  #cast(vote) {
    const name = `${vote.voter_id} ${vote.vote_id}`;
    const accepted = { vote_id: vote.vote_id, status: "accepted", receipt: `r ${vote.vote_id}` };
    if (this.counted.has(name)) return [200, accepted];
    if (!vote.participant_key)
      return [422, { code: "validation_failed", detail: "Whom?", vote_id: vote.vote_id }];
    if (
      [...this.counted.values()].filter((each) => each.voter_id === vote.voter_id).length >= LIMIT
    )
      return [
        409,
        {
          code: "participant_limit_reached",
          detail: "That was the last one.",
          limit: LIMIT,
          vote_id: vote.vote_id,
        },
      ];
    this.counted.set(name, vote);
    return [201, accepted];
  }

  #refuse(status) {
    const code = { 401: "unauthorized", 403: "forbidden" }[status] ?? "overloaded";
    return this.#respond(status, { code }, { "Retry-After": String(this.retryAfter) });
  }

  #respond(status, body, headers = {}) {
    const date = new Date(Math.floor(this.serviceTime / 1_000) * 1_000).toUTCString();
    return new Response(JSON.stringify(body), { status, headers: { Date: date, ...headers } });
  }

  #stream(signal) {
    this.opened.push(this.time);
    const pieces = this.streams.shift();
    if (typeof pieces[0] === "number") return this.#refuse(pieces[0]);
    if (pieces[0] === "unreachable") throw new TypeError("no way");
    if (pieces[0] === "page") return new Response(PROXY_PAGE);
    const cut = new DOMException("aborted", "AbortError");
    const body = new ReadableStream(
      {
        start: (controller) => signal.addEventListener("abort", () => controller.error(cut)),
        pull: (controller) => this.#next(controller, pieces, signal),
      },
      { highWaterMark: 0 },
    );
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  }

  async #next(controller, pieces, signal) {
    while (pieces[0] === "wait") {
      this.time += 10_000;
      pieces.shift();
    }
    const piece = pieces.shift();
    if (piece === undefined) controller.close();
    else if (piece === "break") controller.error(new TypeError("cut"));
    else if (piece === "silence") await silence(signal);
    else controller.enqueue(new TextEncoder().encode(piece === "phase" ? this.phase() : piece));
  }

  phase(members = {}) {
    const data = {
      phase: "running",
      hidden: false,
      server_time: new Date(this.serviceTime).toISOString(),
      ...members,
    };
    return `event: phase\ndata: ${JSON.stringify(data)}\n\n`;
  }
}

/** Answers nothing, until the client gives up. */
function silence(signal) {
  return new Promise((_, reject) =>
    signal.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError"))),
  );
}

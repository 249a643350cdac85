// A client of Tallykeeper's public API for browsers and node, without dependencies: votes that count once, streams that
// come back, the service's time. README.md begins with ten lines that vote.

const SHORTEST_MS = 500; // bounds of the pause that grows
const LONGEST_MS = 15_000;
const TIMEOUT_MS = 10_000;
const BATCH_TIMEOUT_MS = 30_000;
const SILENCE_MS = 22_000; // pings come every 15 s
const STEADY_MS = 5_000; // a stream that lasted so long was no failure
const MOST_STORED = 100_000;
const MOST_LINE = 16 * 1024 * 1024;
const NOT_OF_ACTION = ["ip", "platform"]; // may differ when a voter tries again; the service leaves them out, too

/** The largest batch. */
export const LIMITS = { items: 10_000, bytes: 8 * 1024 * 1024 };

/**
 * A vote with its id: the handle to go on with. `action` identifies what the voter did.
 * @typedef {{ contest: string, body: Record<string, unknown> & { vote_id: string }, action: string }} PendingVote
 *
 * Members of a vote as in the API.
 * @typedef {{ vote_id?: string, participant_key?: string, voter_id?: string, anonymous_id?: string, source?: string,
 *   count?: number, platform?: string, ip?: string | null, positions?: Record<string, string>,
 *   rating?: { value: number, sub_ratings?: Record<string, number> } }} Vote
 *
 * An error of the service (RFC 9457); `code` is "" if somebody else answered, such as a proxy.
 * @typedef {{ status: number, code: string, detail: string, data: Record<string, any>, retryAfter: number }} Problem
 *
 * What became of a vote; replayed: it was recorded before. Undecided: nobody knows yet whether it is recorded, it stays
 * stored, `resume` goes on with it.
 * @typedef {{ kind: "accepted", vote: PendingVote, answer: Record<string, any>, position: string | null,
 *     isReplayed: boolean }
 *   | { kind: "refused", vote: PendingVote, problem: Problem }
 *   | { kind: "undecided", vote: PendingVote, problem: Problem | null }} Outcome
 *
 * The newest state of a contest: the last `phase` event, the last counts (null while they are hidden), and whether they
 * may be old.
 * @typedef {{ phase: Record<string, any> | null, results: Record<string, any> | null, isStale: boolean }} Update
 *
 * Keeps pending votes: `add` stores all or none and returns what is stored, of the same action the earlier one.
 * @typedef {{ add(votes: PendingVote[]): PendingVote[] | Promise<PendingVote[]>,
 *   remove(votes: PendingVote[]): void | Promise<void>, all(): PendingVote[] | Promise<PendingVote[]> }} VoteStore
 *
 * The outside world; tests replace it. `now` is in ms, and runs evenly.
 * @typedef {{ fetch: (url: string, options: RequestInit) => Promise<Response>, now: () => number, random: () => number,
 *   setTimeout: (done: () => void, ms: number) => unknown, clearTimeout: (timer: any) => void }} World
 *
 * @typedef {{ method?: string, params?: Record<string, unknown>, body?: string, type?: string, timeout?: number,
 *   base?: string }} Ask
 */

/** @type {World} */
const WORLD = {
  fetch: (url, options) => globalThis.fetch(url, options),
  now: () => performance.now(),
  random: Math.random,
  setTimeout: (done, ms) => setTimeout(done, ms),
  clearTimeout: (timer) => clearTimeout(timer),
};

/** A request other than a vote was refused; `problem` is null if no final answer came. */
export class ApiError extends Error {
  /** @param {Problem | null} problem */
  constructor(problem) {
    super(problem?.detail ?? "The service cannot be reached.");
    this.problem = problem;
  }
}

/** The service's time. Clocks of devices are hours off, so none of them decides anything. */
export class ServiceClock {
  /** @type {number | null} */
  #ahead = null;
  #now;

  /** @param {() => number} now */
  constructor(now) {
    this.#now = now;
  }

  /** The service's time in ms since 1970, never ahead of it; null before the first answer. */
  now() {
    return this.#ahead === null ? null : this.#now() + this.#ahead;
  }

  /** Takes over the `server_time` of an event that has just come. @param {string} time */
  set(time) {
    this.#ahead = Date.parse(time) - this.#now();
  }

  /** Takes over the header `Date`, in whole seconds, of an answer. @param {string | null} date @param {number} sent */
  hear(date, sent) {
    const time = Date.parse(date ?? "");
    if (Number.isNaN(time)) return;
    const [least, most] = [time - this.#now(), time + 1_000 - sent];
    this.#ahead = Math.min(Math.max(this.#ahead ?? least, least), most);
  }
}

/** Pending votes of this page or process, lost with it. @param {number} most @returns {VoteStore} */
export function memoryStore(most = MOST_STORED) {
  let text = "[]";
  return textStore(
    () => text,
    (changed) => (text = changed),
    most,
  );
}

/**
 * Pending votes in the browser's storage; in memory where it is full or not allowed.
 * @param {string} name @param {number} most @returns {VoteStore}
 */
export function localStore(name, most = 100) {
  /** @type {string | null} */
  let unsaved = null;
  const read = () => {
    try {
      return unsaved ?? localStorage.getItem(name) ?? "[]";
    } catch {
      return "[]";
    }
  };
  return textStore(
    read,
    (text) => {
      try {
        localStorage.setItem(name, text);
        unsaved = null;
      } catch {
        unsaved = text;
      }
    },
    most,
  );
}

/** @param {() => string} read @param {(text: string) => void} write @param {number} most @returns {VoteStore} */
function textStore(read, write, most) {
  /** @returns {PendingVote[]} */
  const all = () => {
    try {
      return JSON.parse(read());
    } catch {
      return [];
    }
  };
  return {
    all,
    add(votes) {
      const stored = new Map(all().map((vote) => [vote.action, vote]));
      for (const vote of votes) if (!stored.has(vote.action)) stored.set(vote.action, vote);
      if (stored.size > most) throw new RangeError(`${most} votes wait for their answers.`);
      write(JSON.stringify([...stored.values()]));
      return votes.map((vote) => stored.get(vote.action) ?? vote);
    },
    remove(votes) {
      const answered = new Set(votes.map(({ action }) => action));
      write(JSON.stringify(all().filter(({ action }) => !answered.has(action))));
    },
  };
}

/** A random id; `crypto.randomUUID` is missing on pages over plain HTTP. */
export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
}

/** Returns whether the same request may succeed later. @param {number} status */
export const isTransient = (status) => status >= 500 || [408, 425, 429].includes(status);

/** Returns whether the service has judged the vote itself. @param {Problem} problem */
const decides = ({ status, code }) =>
  code !== "" && !["unauthorized", "forbidden"].includes(code) && !isTransient(status);

/**
 * Returns the shortest pause (ms) before asking again, null if that does not help; no answer is no problem.
 * @param {Problem | null} problem
 */
function pauseOf(problem) {
  if (problem === null) return 0;
  return isTransient(problem.status) ? problem.retryAfter * 1_000 : null;
}

/**
 * Returns the pause (ms) after so many failures: longer each time, and another one for each client.
 * @param {number} first @param {number} failures @param {number} random
 */
function growing(first, failures, random) {
  return Math.min(first * 2 ** Math.min(failures, 30), LONGEST_MS) * (0.5 + random / 2);
}

/** A client. `resume`, `follow` and the others may be called any number of times, also at once. */
export class Client {
  #url;
  #backend;
  /** @type {Record<string, string>} */
  #headers;
  /** @type {VoteStore} */
  #store;
  /** @type {number} */
  #patience;
  /** @type {(problem: Problem | null, vote?: PendingVote) => void} */
  #retried;
  /** @type {World} */
  #world;
  #clock;

  /**
   * `url` is the API's origin. In a program `key` is its API key; a page has none, and its votes go to `backend`, which
   * names the voter. `store` keeps votes that are not answered yet. `patience` (ms, also Infinity) bounds each call but
   * `follow`; `retried` is called after each attempt of a call without a final answer, with the vote if it is one.
   * @param {string} url
   * @param {{ key?: string | null, backend?: string, store?: VoteStore, patience?: number,
   *   retried?: (problem: Problem | null, vote?: PendingVote) => void, world?: Partial<World> }} options
   */
  constructor(
    url,
    {
      key = null,
      backend = url,
      store = memoryStore(),
      patience = 60_000,
      retried = () => {},
      world = {},
    } = {},
  ) {
    this.#url = url.replace(/\/+$/, "");
    this.#backend = backend.replace(/\/+$/, "");
    this.#headers = key === null ? {} : { Authorization: `Bearer ${key}` };
    [this.#store, this.#patience, this.#retried, this.#world] = [
      store,
      patience,
      retried,
      { ...WORLD, ...world },
    ];
    this.#clock = new ServiceClock(this.#world.now);
  }

  /** The service's time in ms since 1970 by its latest answer, null before the first; count down by no other clock. */
  serviceTime() {
    return this.#clock.now();
  }

  /**
   * Stores a vote for `resume`. Without a `vote_id` one that equals another which is still undecided is that one.
   * @param {string} contest @param {Vote} body @returns {Promise<PendingVote>}
   */
  async keep(contest, body) {
    const [vote] = await this.#store.add([pendingVote(contest, body)]);
    return /** @type {PendingVote} */ (vote);
  }

  /** Returns the votes that are not answered yet, oldest first. @returns {Promise<PendingVote[]>} */
  async pending() {
    return this.#store.all();
  }

  /**
   * Casts a vote, a rating or a ballot; it is stored first, and counts once.
   * @param {string} contest @param {Vote} body @returns {Promise<Outcome>}
   */
  async vote(contest, body) {
    return this.resume(await this.keep(contest, body));
  }

  /** Sends a stored vote until it is answered. @param {PendingVote} vote @returns {Promise<Outcome>} */
  async resume(vote) {
    /** @type {Outcome} */
    let outcome = { kind: "undecided", vote, problem: null };
    const ask = { method: "POST", body: JSON.stringify(vote.body), base: this.#backend };
    await this.#repeat(async () => {
      const reply = await this.#ask(pathOf(vote.contest, "votes"), ask);
      outcome =
        reply === null
          ? { kind: "undecided", vote, problem: null }
          : outcomeOf(vote, reply.status, reply.body, problemOf(reply), reply.position);
      if (outcome.kind !== "undecided") return null;
      this.#retried(outcome.problem, vote);
      return pauseOf(outcome.problem);
    });
    await this.#forget([outcome]);
    return outcome;
  }

  /**
   * Casts any number of votes in batches; equal ones are several votes. Outcomes are in their order.
   * @param {string} contest @param {Iterable<Vote>} bodies @returns {Promise<Outcome[]>}
   */
  async voteBatch(contest, bodies) {
    /** @type {Outcome[]} */
    const outcomes = [];
    for (const part of partsOf(bodies, contest)) {
      await this.#store.add(part);
      outcomes.push(...(await this.#sendPart(part)));
    }
    return outcomes;
  }

  /** Sends votes as one batch, and again what is not decided. @param {PendingVote[]} votes @returns {Promise<Outcome[]>} */
  async #sendPart(votes) {
    /** @type {Outcome[]} */
    const outcomes = votes.map((vote) => ({ kind: "undecided", vote, problem: null }));
    await this.#repeat(async () => {
      const left = [...votes.keys()].filter((at) => outcomes[at]?.kind === "undecided");
      const sent = left.map((at) => /** @type {PendingVote} */ (votes[at]));
      const body = sent.map((vote) => JSON.stringify(vote.body)).join("\n");
      const options = {
        method: "POST",
        body,
        type: "application/x-ndjson",
        timeout: BATCH_TIMEOUT_MS,
        base: this.#backend,
      };
      const found = batchOutcomes(
        sent,
        await this.#ask(
          pathOf(/** @type {PendingVote} */ (sent[0]).contest, "votes", "batch"),
          options,
        ),
      );
      left.forEach((at, place) => (outcomes[at] = /** @type {Outcome} */ (found[place])));
      await this.#forget(found);
      const pauses = found
        .map((each) => (each.kind === "undecided" ? pauseOf(each.problem) : null))
        .filter((pause) => pause !== null);
      return pauses.length > 0 ? Math.max(...pauses) : null;
    });
    return outcomes;
  }

  /**
   * Returns the JSON of any read of the API.
   * @param {string} path @param {Record<string, unknown>} params @returns {Promise<any>}
   */
  get(path, params = {}) {
    return this.#answered(path, { params });
  }

  /** Returns a published contest, without a key. @param {string} contest @returns {Promise<any>} */
  contest(contest) {
    return this.#answered(`/public/contests/${encodeURIComponent(contest)}`);
  }

  /**
   * Returns what a voter has used and has left.
   * @param {string} contest @param {Record<string, string>} voter @returns {Promise<any>}
   */
  allowance(contest, voter = {}) {
    return this.#answered(pathOf(contest, "allowance"), { params: voter, base: this.#backend });
  }

  /**
   * Returns a page of a voter's votes, newest first, with their status and receipts.
   * @param {string} contest @param {Record<string, string>} voter @returns {Promise<any>}
   */
  votes(contest, voter = {}) {
    return this.#answered(pathOf(contest, "votes"), { params: voter, base: this.#backend });
  }

  /**
   * Returns a recorded vote with its status and receipt; `not_found` means that it is not recorded.
   * @param {string} contest @param {string} id @param {Record<string, string>} voter @returns {Promise<any>}
   */
  recordedVote(contest, id, voter = {}) {
    return this.#answered(pathOf(contest, "votes", id), { params: voter, base: this.#backend });
  }

  /**
   * Removes a free vote.
   * @param {string} contest @param {string} id @param {Record<string, string>} voter @returns {Promise<any>}
   */
  remove(contest, id, voter = {}) {
    return this.#answered(pathOf(contest, "votes", id), {
      method: "DELETE",
      params: voter,
      base: this.#backend,
    });
  }

  /**
   * Returns the vote count record, which includes what has the given positions.
   * @param {string} contest @param {{ sources?: boolean, minPosition?: string[] }} options @returns {Promise<any>}
   */
  counts(contest, { sources = false, minPosition = [] } = {}) {
    return this.#answered(pathOf(contest, "vote_updates"), {
      params: { ...(sources && { sources }), min_position: minPosition },
    });
  }

  /**
   * Reports counts of an external source, with a `report_id` that you have stored.
   * @param {string} contest @param {string} source @param {object} report @returns {Promise<any>}
   */
  report(contest, source, report) {
    return this.#answered(pathOf(contest, "vote_sources", source, "counts"), {
      method: "POST",
      body: JSON.stringify(report),
    });
  }

  /**
   * Yields each new state of a contest for as long as it exists; opens the stream again after any end of it. With a key
   * the counts of the API, without one the public results; a vote's `receipt` shows those that are hidden until then.
   * Ends when `signal` is aborted. Throws `ApiError` where connecting again does not help.
   * @param {string} contest @param {{ receipt?: string | null, signal?: AbortSignal }} options
   * @returns {AsyncGenerator<Update, void, void>}
   */
  async *follow(contest, { receipt = null, signal } = {}) {
    const isKeyed = "Authorization" in this.#headers;
    const path = isKeyed
      ? pathOf(contest, "vote_updates", "stream")
      : `/public/contests/${encodeURIComponent(contest)}/results/stream`;
    const url = this.#url + path + queryOf(receipt === null ? {} : { receipt });
    /** @type {Update} */
    let latest = { phase: null, results: null, isStale: false };
    /** @type {string | null} */
    let version = null;
    let [retry, failures] = [1_000, 0];
    while (!signal?.aborted) {
      const attempt = new AbortController();
      const cut = () => attempt.abort();
      signal?.addEventListener("abort", cut);
      globalThis.addEventListener?.("offline", cut);
      const opened = this.#world.now();
      let least = 0;
      try {
        for await (const event of this.#events(url, version, attempt)) {
          if (event.name === "gone") return;
          if (event.problem) {
            const pause = pauseOf(event.problem);
            if (pause === null && event.problem.code) throw new ApiError(event.problem);
            least = pause ?? 0;
            break;
          }
          if (event.retry) retry = Math.min(event.retry, LONGEST_MS);
          const { name, data } = event;
          if (name === "phase") {
            this.#clock.set(data.server_time);
            latest = { ...latest, phase: data, isStale: false };
            // hidden counts must be sent again once they may be seen
            if (data.hidden) [version, latest] = [null, { ...latest, results: null }];
          } else if (name === "counts" || name === "results") {
            version = event.id || version;
            latest = { ...latest, results: data, isStale: false };
          } else if (name === "stale") latest = { ...latest, isStale: true };
          else continue;
          yield latest;
        }
      } catch (error) {
        if (error instanceof ApiError) throw error;
      } finally {
        signal?.removeEventListener("abort", cut);
        globalThis.removeEventListener?.("offline", cut);
        attempt.abort();
      }
      if (signal?.aborted) return;
      failures = this.#world.now() - opened >= STEADY_MS ? 0 : failures + 1;
      if (!latest.isStale) yield (latest = { ...latest, isStale: true });
      await this.#pause(least + growing(retry, failures, this.#world.random()), signal);
    }
  }

  /**
   * Yields the events of one stream, or its problem; throws if it breaks, or is silent for too long.
   * @param {string} url @param {string | null} version @param {AbortController} attempt
   * @returns {AsyncGenerator<{ name: string, data: any, id: string, retry: number, problem?: Problem }, void, void>}
   */
  async *#events(url, version, attempt) {
    const watch = new Watch(this.#world, attempt);
    try {
      watch.restart(TIMEOUT_MS);
      /** @type {Record<string, string>} */
      const headers = { Accept: "text/event-stream", ...this.#headers };
      if (version !== null) headers["Last-Event-ID"] = version;
      const response = await this.#world.fetch(url, {
        headers,
        cache: "no-store",
        signal: attempt.signal,
      });
      if (response.status >= 400) {
        const reply = {
          status: response.status,
          body: await jsonOf(response),
          position: null,
          retryAfter: response.headers.get("Retry-After"),
        };
        yield { ...NO_EVENT, problem: problemOf(reply) ?? undefined };
        return;
      }
      if (
        response.body === null ||
        !(response.headers.get("Content-Type") ?? "").startsWith("text/event-stream")
      )
        return;
      const reader = response.body
        .pipeThrough(/** @type {ReadableWritablePair<string, any>} */ (new TextDecoderStream()))
        .getReader();
      try {
        for (let [rest, lines] = ["", /** @type {string[]} */ ([])]; ;) {
          watch.restart(SILENCE_MS);
          const { done, value } = await reader.read();
          watch.end(); // whoever reads the events may take its time
          if (done) return;
          const found = (rest + value).split("\n");
          rest = found.pop() ?? "";
          if (rest.length > MOST_LINE) return;
          for (const line of found.map((each) => each.replace(/\r$/, ""))) {
            if (line !== "") lines.push(line);
            else yield eventOf(lines.splice(0));
          }
        }
      } finally {
        reader.cancel().catch(() => {});
      }
    } finally {
      watch.end();
    }
  }

  /**
   * Sends a request until it has a final answer, and returns its JSON. Throws `ApiError`.
   * @param {string} path @param {Ask} ask @returns {Promise<any>}
   */
  async #answered(path, ask = {}) {
    /** @type {Problem | null} */
    let problem = null;
    /** @type {any} */
    let found;
    const isDone = await this.#repeat(async () => {
      const reply = await this.#ask(path, ask);
      problem = reply && problemOf(reply);
      if (
        reply !== null &&
        reply.status < 300 &&
        (reply.body !== undefined || reply.status === 204)
      ) {
        found = { body: reply.body ?? null };
        return null;
      }
      const pause = pauseOf(problem);
      if (pause !== null) this.#retried(problem);
      return pause;
    });
    if (found && isDone) return found.body;
    throw new ApiError(problem);
  }

  /**
   * Repeats an attempt, which returns the shortest pause (ms) before the next, null when done; false if patience ends.
   * @param {() => Promise<number | null>} attempt @returns {Promise<boolean>}
   */
  async #repeat(attempt) {
    const giveUpAt = this.#world.now() + this.#patience;
    for (let failures = 0; ; failures += 1) {
      const least = await attempt();
      if (least === null) return true;
      const pause = least + growing(SHORTEST_MS, failures, this.#world.random());
      if (this.#world.now() + pause > giveUpAt) return false;
      await this.#pause(pause);
    }
  }

  /**
   * Sends a request once; null if there is no answer.
   * @param {string} path @param {Ask} ask @returns {Promise<Reply | null>}
   */
  async #ask(
    path,
    {
      method = "GET",
      params = {},
      body,
      type = "application/json",
      timeout = TIMEOUT_MS,
      base = this.#url,
    },
  ) {
    const attempt = new AbortController();
    const watch = new Watch(this.#world, attempt);
    watch.restart(timeout);
    const sent = this.#world.now();
    try {
      const headers = { ...this.#headers, ...(body === undefined ? {} : { "Content-Type": type }) };
      const options = {
        method,
        headers,
        cache: /** @type {const} */ ("no-store"),
        signal: attempt.signal,
        ...(body === undefined ? {} : { body }),
      };
      const response = await this.#world.fetch(base + path + queryOf(params), options);
      const found = await jsonOf(response);
      this.#clock.hear(response.headers.get("Date"), sent);
      return {
        status: response.status,
        body: found,
        position: response.headers.get("Tally-Position"),
        retryAfter: response.headers.get("Retry-After"),
      };
    } catch {
      return null;
    } finally {
      watch.end();
    }
  }

  /** Waits; less if the device comes online again, or `signal` is aborted. @param {number} ms @param {AbortSignal} [signal] */
  #pause(ms, signal) {
    return new Promise((/** @type {(value?: unknown) => void} */ resolve) => {
      const done = () => {
        this.#world.clearTimeout(timer);
        globalThis.removeEventListener?.("online", done);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = this.#world.setTimeout(done, ms);
      globalThis.addEventListener?.("online", done);
      signal?.addEventListener("abort", done);
    });
  }

  /** @param {Outcome[]} outcomes */
  async #forget(outcomes) {
    const decided = outcomes.filter(({ kind }) => kind !== "undecided").map(({ vote }) => vote);
    if (decided.length > 0) await this.#store.remove(decided);
  }
}

/** Aborts an attempt that lasts too long. */
class Watch {
  /** @type {World} */
  #world;
  /** @type {AbortController} */
  #attempt;
  /** @type {unknown} */
  #timer = null;

  /** @param {World} world @param {AbortController} attempt */
  constructor(world, attempt) {
    [this.#world, this.#attempt] = [world, attempt];
  }

  /** @param {number} ms */
  restart(ms) {
    this.end();
    this.#timer = this.#world.setTimeout(() => this.#attempt.abort(), ms);
  }

  end() {
    this.#world.clearTimeout(this.#timer);
  }
}

/** @typedef {{ status: number, body: any, position: string | null, retryAfter: string | null }} Reply */

/** Returns the JSON of a response, undefined of others. @param {Response} response @returns {Promise<any>} */
async function jsonOf(response) {
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Returns the error of an answer; null of others, which somebody else gave if they are not as expected.
 * @param {Reply} reply
 */
function problemOf({ status, body, retryAfter }) {
  return status < 400 ? null : problem(status, body, retryAfter);
}

/** @param {number} status @param {any} body @param {string | null} retryAfter @returns {Problem} */
function problem(status, body, retryAfter) {
  const data = body !== null && typeof body === "object" ? body : {};
  const detail = String(data.detail ?? `The answer had the status ${status}.`);
  // a date is none: devices' clocks are hours off
  return {
    status,
    code: String(data.code ?? ""),
    detail,
    data,
    retryAfter: /^\d+$/.test(retryAfter ?? "") ? Number(retryAfter) : 0,
  };
}

/**
 * Returns what an answer says about a vote; somebody else's, such as a hotel's log-in page, says nothing.
 * @param {PendingVote} vote @param {number} status @param {any} body @param {Problem | null} refusal @param {string | null} position
 * @returns {Outcome}
 */
function outcomeOf(vote, status, body, refusal, position) {
  const isOwn = body?.vote_id === vote.body.vote_id && body.receipt !== undefined;
  if ((status === 200 || status === 201) && isOwn)
    return { kind: "accepted", vote, answer: body, position, isReplayed: status === 200 };
  return refusal !== null && decides(refusal)
    ? { kind: "refused", vote, problem: refusal }
    : { kind: "undecided", vote, problem: refusal };
}

/**
 * Returns the outcome of each vote; if the batch was refused as a whole, none is decided.
 * @param {PendingVote[]} votes @param {Reply | null} reply @returns {Outcome[]}
 */
function batchOutcomes(votes, reply) {
  const results = reply?.status === 200 ? reply.body?.results : null;
  if (!Array.isArray(results) || results.length !== votes.length)
    return votes.map((vote) => ({ kind: "undecided", vote, problem: reply && problemOf(reply) }));
  return votes.map((vote, at) =>
    outcomeOf(
      vote,
      results[at].status,
      results[at],
      problem(results[at].status, results[at], null),
      reply?.position ?? null,
    ),
  );
}

/**
 * Gives a vote an id if it has none. Equal votes without one are one action, unless it `isOwnAction`.
 * @param {string} contest @param {Vote} body @param {boolean} isOwnAction @returns {PendingVote}
 */
function pendingVote(contest, body, isOwnAction = false) {
  const named = { ...body, vote_id: body.vote_id ?? newId() };
  const content = Object.entries(isOwnAction ? named : body).filter(
    ([name]) => isOwnAction || !NOT_OF_ACTION.includes(name),
  );
  return {
    contest,
    body: named,
    action: JSON.stringify([contest, content.sort(([one], [other]) => (one < other ? -1 : 1))]),
  };
}

/** Splits votes into the largest batches that are allowed. @param {Iterable<Vote>} bodies @param {string} contest */
function* partsOf(bodies, contest) {
  /** @type {PendingVote[]} */
  let part = [];
  let size = 0;
  for (const body of bodies) {
    const vote = pendingVote(contest, body, true);
    const length = new TextEncoder().encode(JSON.stringify(vote.body)).length + 1;
    if (part.length > 0 && (part.length === LIMITS.items || size + length > LIMITS.bytes)) {
      yield part;
      [part, size] = [[], 0];
    }
    part.push(vote);
    size += length;
  }
  if (part.length > 0) yield part;
}

const NO_EVENT = { name: "", data: null, id: "", retry: 0 };

/** Returns an event of its lines; throws if its data is not JSON. @param {string[]} lines */
function eventOf(lines) {
  const found = { ...NO_EVENT };
  for (const line of lines) {
    const [, field, value = ""] = /^([a-z]+): ?(.*)$/s.exec(line) ?? [];
    if (field === "event") found.name = value;
    else if (field === "data") found.data = JSON.parse(value);
    else if (field === "id") found.id = value;
    else if (field === "retry") found.retry = Number(value) || 0;
  }
  return found;
}

/** @param {string} contest @param {string[]} parts */
function pathOf(contest, ...parts) {
  return ["/contests", ...[contest, ...parts].map(encodeURIComponent)].join("/");
}

/** @param {Record<string, unknown>} params */
function queryOf(params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params))
    for (const each of [value].flat()) query.append(name, String(each));
  return String(query) && `?${query}`;
}

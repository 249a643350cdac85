// Participants' titles and pictures, updated by requests for changed records.

import { get, Refused } from "./session.js";

const REFRESH_MS = 15_000;
const PAGE = 100;

/** The participants of one contest. Calls `changed()` after each update. */
export class Participants {
  #path;
  #changed;
  #people = new Map();
  #since = null;
  #loading = null;
  #missing = new Set();

  constructor(contest, changed) {
    this.#path = `/contests/${encodeURIComponent(contest)}/participants`;
    this.#changed = changed;
  }

  /** `{key, name, image, order, approved}` of all loaded participants. */
  get all() {
    return [...this.#people.values()];
  }

  /** Returns the participant of this key; one not loaded yet is named by the key, and loaded. */
  of(key) {
    const found = this.#people.get(key);
    if (found) return found;
    if (!this.#missing.has(key)) {
      this.#missing.add(key);
      this.load();
    }
    return { key, name: key, image: "", order: Infinity, approved: true };
  }

  /** Loads the participants, and their changes every `REFRESH_MS`. */
  async start() {
    await this.load();
    setInterval(() => this.load(), REFRESH_MS);
  }

  load() {
    this.#loading ??= this.#load().finally(() => (this.#loading = null));
    return this.#loading;
  }

  async #load() {
    const query = new URLSearchParams({ limit: PAGE });
    if (this.#since) query.set("updated_since", this.#since);
    try {
      for (let more = true, changes = false; more; ) {
        const page = await get(`${this.#path}?${query}`);
        for (const record of page.data) {
          changes = true;
          this.#people.set(record.key, shown(record));
          if (!this.#since || record.updated > this.#since) this.#since = record.updated;
        }
        more = page.has_more;
        if (more) query.set("next", page.next);
        if (changes) this.#changed();
      }
    } catch (error) {
      // without content:read, or while the service is unavailable, participants keep their names, or are named by key
      if (!(error instanceof Refused || error instanceof TypeError)) throw error;
    }
  }
}

function shown(record) {
  return {
    key: record.key,
    name: record.title || `No. ${record.running_number}`,
    image: record.image_key ? `/media/image/${encodeURIComponent(record.image_key)}?size=thumb` : "",
    order: record.running_number,
    approved: record.status === "approved",
  };
}

// Who takes part: titles and pictures, kept fresh by asking for what has changed.

import { get, Refused } from "./session.js";

const REFRESH_MS = 15_000;
const PAGE = 100;

/** The participants of one contest. `changed()` is called when there is something new to show. */
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

  /** `{key, name, image, order, approved}` of everybody known. */
  get all() {
    return [...this.#people.values()];
  }

  /** Of this key; whoever is not known yet goes by the key, and is looked for. */
  of(key) {
    const found = this.#people.get(key);
    if (found) return found;
    if (!this.#missing.has(key)) {
      this.#missing.add(key);
      this.load();
    }
    return { key, name: key, image: "", order: Infinity, approved: true };
  }

  /** Begin, and go on for as long as the page is there. */
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
      // without content:read, or while the service is away, participants go by their keys, or by what is known
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

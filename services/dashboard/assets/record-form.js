// A form of a record sends what its user edited and nothing else, unless somebody else has changed
// the same meanwhile.
//
// The form keeps the record that it was filled from. What it cannot show (microseconds, members
// without a field) is never read back from the page, so it stays as it was.

import { isTransient } from "./stream.js";

const MOST_ATTEMPTS = 5;

/** Returns the member at `path`; undefined without one. */
export const memberAt = (record, path) => path.reduce((found, name) => found?.[name], record);

/** Returns whether two JSON values are equal; a missing member is null. */
export function isEqual(one, other) {
  if ((one ?? null) === (other ?? null)) return true;
  if (typeof one !== "object" || typeof other !== "object" || !one || !other) return false;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const names = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...names].every((name) => isEqual(one[name], other[name]));
}

/** Returns the merge patch (RFC 7396) of changes `{path, value}`. */
export function patchOf(changes) {
  const patch = {};
  for (const { path, value } of changes) {
    const parent = path.slice(0, -1).reduce((found, name) => (found[name] ??= {}), patch);
    parent[path.at(-1)] = value;
  }
  return patch;
}

/** Returns changes of a record's members, from `[path, value]`. */
export const changesOf = (record, members) =>
  members.map(([path, value]) => ({ path, value, before: memberAt(record, path) }));

/**
 * Returns the changes `{path, value, before}` of members that somebody else has changed to
 * something else.
 */
export function conflictsIn(record, changes) {
  const now = ({ path }) => memberAt(record, path);
  return changes.filter(
    (change) => !isEqual(now(change), change.before) && !isEqual(now(change), change.value),
  );
}

/**
 * Sends changes `{path, value, before}` to a record, unless a member is no more what it was
 * `before`.
 *
 * `derive(record, etag)` returns the changes to a record that was read. `read()` and `patch(body,
 * etag)` return `{body, etag}`; a `patch` whose record has another version throws an error with
 * status 412: the record is then read, and the changes are sent again. Returns the record as it is
 * now, its entity tag, and the `conflicts`: changes of members that somebody else has changed
 * differently, because of which nothing was sent.
 */
export async function send(derive, { record, etag }, { read, patch }) {
  /** @type {{body: any, etag: string | null}} */
  let seen = { body: record, etag };
  for (let attempt = 1; ; attempt += 1) {
    if (!seen.etag) seen = await read();
    const open = derive(seen.body, seen.etag).filter(
      ({ path, value }) => !isEqual(memberAt(seen.body, path), value),
    );
    const conflicts = conflictsIn(seen.body, open);
    if (open.length === 0 || conflicts.length > 0)
      return { record: seen.body, etag: seen.etag, conflicts };
    try {
      const saved = await patch(patchOf(open), seen.etag);
      return { record: saved.body, etag: saved.etag, conflicts: [] };
    } catch (error) {
      if (error.status !== 412 || attempt === MOST_ATTEMPTS) throw error;
      seen = { body: null, etag: null };
    }
  }
}

/**
 * What a form shows of a record, and what its user made of it.
 *
 * `fields` are by name `{path, text, value, proposal, isUsed}`: `text(member)` is what the field
 * shows of the record's member, `value(text, member)` the member that an edited text means, and
 * `isUsed(texts)` whether the field applies, such as to this kind of vote. `proposal` is what a
 * field shows of a new record, or once it applies, if the record has no such member. Of a new
 * record (null) all fields that apply are sent.
 */
export class RecordForm {
  #fields;
  #before = {}; // the members that the user saw before the edit, by field
  #shown = {}; // their texts; null of a new record
  #texts = {};
  /** @type {{body: object, texts: object} | null} A new record's body, and the texts it was made of. */
  #creation = null;

  /**
   * @param {Record<string, any>} fields
   * @param {any} record
   * @param {string | null} etag
   * @param {Record<string, any>} texts
   */
  constructor(fields, record = null, etag = null, texts = {}) {
    this.#fields = fields;
    this.record = record;
    this.etag = etag;
    for (const name of this.names) {
      this.#settle(name);
      this.#texts[name] = texts[name] ?? this.#texts[name];
    }
  }

  get names() {
    return Object.keys(this.#fields);
  }

  text(name) {
    return this.#texts[name];
  }

  edit(name, text) {
    this.#texts[name] = text;
  }

  /** Takes over how the page shows a text, such as without line breaks; that is no edit. */
  showAs(name, text) {
    if (this.#texts[name] === this.#shown[name]) this.#shown[name] = text;
    this.#texts[name] = text;
  }

  /** The names of the fields that the user has edited. */
  get edited() {
    return this.names.filter(
      (name) => this.#isEdited(name) && (this.#fields[name].isUsed?.(this.#texts) ?? true),
    );
  }

  /** The changes to send. */
  get changes() {
    return this.edited.map((name) => {
      const { path, value } = this.#fields[name];
      return {
        name,
        path,
        value: value(this.#texts[name], memberAt(this.record, path)),
        before: this.#before[name],
      };
    });
  }

  /**
   * The edited members that somebody else has changed to something else: `{name, text, theirs}`.
   */
  get conflicts() {
    const textOf = ({ name, path }) => this.#fields[name].text(memberAt(this.record, path));
    return conflictsIn(this.record, this.changes).map((change) => ({
      name: change.name,
      text: this.#texts[change.name],
      theirs: textOf(change),
    }));
  }

  /**
   * Takes over a record that was read or written elsewhere: edited fields stay. Returns the names
   * of those that changed.
   */
  follow(record, etag) {
    const edited = new Set(this.names.filter((name) => this.#isEdited(name)));
    Object.assign(this, { record, etag });
    return this.names.filter((name) => {
      const { path, value } = this.#fields[name];
      const member = memberAt(record, path);
      if (edited.has(name) && !isEqual(value(this.#texts[name], member), member)) return false;
      const text = this.#texts[name];
      if (!edited.has(name) && isEqual(member, this.#before[name])) return false;
      this.#settle(name);
      return this.#texts[name] !== text;
    });
  }

  /** Ends a conflict: keeps the user's text, or shows the record's. */
  keep(name) {
    const text = this.#texts[name];
    this.#settle(name);
    this.#texts[name] = text;
  }

  take(name) {
    this.#settle(name);
  }

  /** Sends what was edited; returns whether the record has it now, else there are `conflicts`. */
  async save(io) {
    /** @type {{name: string}[]} */
    let changes = [];
    let sent = {};
    const derive = (record, etag) => {
      this.follow(record, etag);
      [changes, sent] = [this.changes, this.texts];
      return changes;
    };
    const { record, etag, conflicts } = await send(derive, this, io);
    if (conflicts.length === 0) this.#sent(changes, sent, record);
    this.follow(record, etag);
    return conflicts.length === 0;
  }

  /**
   * Creates the record by `post(body)`, which returns `{body, etag}`.
   *
   * Until that is answered, all attempts have the same body, whatever is edited meanwhile: so one
   * record is made.
   */
  async create(post) {
    this.#creation ??= { body: patchOf(this.changes), texts: this.texts };
    const creation = this.#creation;
    try {
      const { body, etag } = await post(creation.body);
      this.#sent(
        this.names.map((name) => ({ name })),
        creation.texts,
        body,
      );
      this.follow(body, etag);
    } catch (error) {
      if (error.status && !isTransient(error.status)) this.#creation = null;
      throw error;
    }
  }

  get texts() {
    return { ...this.#texts };
  }

  /** Shows what was sent as the record has it, but for what was edited since. */
  #sent(changes, sent, record) {
    this.record = record;
    for (const { name } of changes) {
      const text = this.#texts[name];
      this.#settle(name);
      if (text !== sent[name]) this.#texts[name] = text;
    }
  }

  #isEdited(name) {
    return this.#texts[name] !== this.#shown[name];
  }

  #settle(name) {
    const { path, text, proposal, isUsed } = this.#fields[name];
    const member = memberAt(this.record, path);
    const isOpen =
      this.record === null ||
      (isUsed !== undefined && !isUsed(this.#shown) && isEqual(member ?? [], []));
    this.#before[name] = member;
    this.#shown[name] = this.record === null ? null : text(member);
    this.#texts[name] = isOpen && proposal !== undefined ? proposal : text(member);
  }
}

import assert from "node:assert/strict";
import test from "node:test";

import {
  RecordForm,
  isEqual,
  memberAt,
  patchOf,
} from "../../../../services/dashboard/assets/record-form.js";
import {
  ACT_FIELDS,
  contestFields,
  pointsOf,
} from "../../../../services/dashboard/assets/studio/fields.js";

const CASES = 2_000;
const FIELDS = contestFields((n) => `Place ${n}`);
const TEXTS = {
  contest_type: ["voteonly", "participation", "rating", "ordering"],
  vote_visibility: ["shown", "hidden_until_vote", "hidden_until_end", "hidden"],
  result_release: ["at_end", "by_hand"],
  start: ["", "2027-10-31T00:30:00.000Z", "2027-10-31T01:30:00.000Z"],
  end: ["", "2027-10-31T00:30:00.000Z", "2027-10-31T01:30:00.000Z"],
  points: ["", "5, 3, 0", "12 10 8 7", "1"],
  is_vote_removal_allowed: [true, false],
  is_contest_time_shown: [true, false],
  max_rating: ["5", "7"],
  title: ["Song", "Song of the Year", "„Żubry“"],
  description: ["", "A text\nof two lines"],
  image: ["one", "other"],
};
const NUMBERS = ["", "0", "1", "20"];

/** A generator of numbers from 0 to 1 (mulberry32), so that a failed case can be repeated. */
function seeded(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const oneOf = (random, list) => list[Math.floor(random() * list.length)];
const textOf = (random, name) => oneOf(random, TEXTS[name] ?? NUMBERS);

/** A contest as the API may have it, with much that the form does not show. */
function contestOf(random) {
  const position = (id, votes) => ({
    id,
    index: Math.floor(random() * 9),
    votes,
    title: id.toUpperCase(),
    style: { ink: "#fff" },
    icon: {},
  });
  const limit = () => oneOf(random, [-1, 0, 1, 7, 5_000_000]);
  const time = () =>
    oneOf(random, [
      null,
      "2027-10-31T00:30:00.123456Z",
      "2027-10-31T01:30:00.654321Z",
      "2036-05-02T20:00:00.000000Z",
    ]);
  return {
    key: "c",
    title: oneOf(random, [null, "Song", " spaces "]),
    description: oneOf(random, [null, "A text\r\nof two lines"]),
    contest_type: oneOf(random, TEXTS.contest_type),
    image: oneOf(random, [{}, { key: "one", style: { edge: 3 } }]),
    running_order: ["a", "b"],
    contest_config: {
      start: time(),
      end: time(),
      free: { is_mobile_only: true, max_contest: limit(), max_participant: limit() },
      rating: {
        max_per_participant: limit(),
        max_rating: 9,
        step_size: "fraction",
        sub_rating_configs: [{ sub_rating_id: "stage" }],
      },
      ordering: oneOf(random, [
        null,
        { skin: "list", positions: [] },
        {
          skin: "list",
          positions: [position("gold", 5), position("silver", 3), position("mention", 0)],
        },
      ]),
      ip_restriction_per_participant: limit(),
      is_vote_removal_allowed: random() < 0.5,
      is_contest_time_shown: random() < 0.5,
      vote_visibility: oneOf(random, TEXTS.vote_visibility),
      result_release: oneOf(random, TEXTS.result_release),
      participant_style: { corner: 4 },
    },
  };
}

/** Applies a merge patch, as the service does. */
function merged(target, patch) {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) return patch;
  const result = { ...(typeof target === "object" && !Array.isArray(target) ? target : {}) };
  for (const [name, value] of Object.entries(patch))
    result[name] = value === null ? null : merged(result[name], value);
  return result;
}

class Refused extends Error {
  status = 412;
}

/** A service with one record; `meanwhile` are writes of others, each before the next request. */
class Service {
  constructor(record, meanwhile = []) {
    Object.assign(this, { record, meanwhile, version: 1, patches: [] });
  }

  write(patch) {
    this.record = merged(this.record, patch);
    this.version += 1;
  }

  get io() {
    return {
      read: async () => ({ body: this.record, etag: `${this.version}` }),
      patch: async (body, etag) => {
        if (this.meanwhile.length) this.write(this.meanwhile.shift());
        if (etag !== `${this.version}`) throw new Refused();
        this.patches.push(body);
        this.write(body);
        return { body: this.record, etag: `${this.version}` };
      },
    };
  }
}

/** Calls `check` with many generators of random cases. */
async function cases(check) {
  for (let seed = 1; seed <= CASES; seed += 1)
    try {
      await check(seeded(seed));
    } catch (error) {
      error.message = `seed ${seed}: ${error.message}`;
      throw error;
    }
}

/** Edits some fields; returns those whose text became another one. */
function edit(form, random) {
  const names = form.names.filter(() => random() < 0.2);
  const before = form.texts;
  for (const name of names) form.edit(name, textOf(random, name));
  return names.filter((name) => form.text(name) !== before[name]);
}

const opened = (record) => new RecordForm(FIELDS, record, "1");

/** The paths of all values in a record. */
function pathsOf(value, path = []) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [path];
  return Object.entries(value).flatMap(([name, member]) => pathsOf(member, [...path, name]));
}

test("of any record and any edit only edited members are sent, else nothing", async () => {
  await cases(async (random) => {
    const record = contestOf(random);
    const service = new Service(record);
    const form = opened(record);
    assert.deepEqual(form.edited, []);
    const edited = edit(form, random);
    const isNew = (name) => FIELDS[name].proposal !== undefined && edited.includes("contest_type");
    for (const name of form.edited) assert.ok(edited.includes(name) || isNew(name), name);
    const { changes } = form;
    assert.ok(await form.save(service.io));
    const isIn = (path, other) => `${path.join(".")}.`.startsWith(`${other.join(".")}.`);
    for (const path of service.patches.flatMap((patch) => pathsOf(patch)))
      assert.ok(
        changes.some((sent) => isIn(path, sent.path)),
        path.join("."),
      );
    for (const path of pathsOf(record))
      if (!changes.some((sent) => isIn(path, sent.path) || isIn(sent.path, path)))
        assert.deepEqual(memberAt(service.record, path), memberAt(record, path));
    assert.deepEqual(form.edited, []);
    assert.deepEqual(form.record, service.record);
  });
});

test("what others change meanwhile stays, or is a conflict", async () => {
  await cases(async (random) => {
    const record = contestOf(random);
    const other = opened(record);
    edit(other, random);
    const service = new Service(record, [patchOf(other.changes)]);
    const form = opened(record);
    edit(form, random);
    const { changes } = form;
    const isSaved = await form.save(service.io);
    const conflicts = form.conflicts.map(({ name }) => name);
    assert.equal(isSaved, conflicts.length === 0);
    if (service.meanwhile.length > 0) return assert.deepEqual(changes, []); // nothing was sent
    for (const { path, value } of isSaved ? other.changes : []) {
      const mine = changes.find((change) => change.path.join() === path.join());
      assert.ok(isEqual(memberAt(service.record, path), mine ? mine.value : value), path.join());
    }
    if (isSaved) return;
    assert.deepEqual(service.patches, []);
    for (const name of conflicts) random() < 0.5 ? form.keep(name) : form.take(name);
    assert.deepEqual(form.conflicts, []);
    assert.ok(await form.save(service.io));
    assert.deepEqual(form.edited, []);
  });
});

test("a result that was hidden elsewhere stays hidden", async () => {
  const record = contestOf(seeded(1));
  record.contest_config.vote_visibility = "shown";
  const hidden = {
    contest_config: { end: "2036-05-02T21:00:00.000000Z", vote_visibility: "hidden_until_end" },
  };
  const service = new Service(record, [hidden]);
  const form = opened(record);
  form.edit("title", "Another");
  assert.ok(await form.save(service.io));
  assert.deepEqual(service.patches, [{ title: "Another" }]);
  assert.equal(form.text("vote_visibility"), "hidden_until_end");
  assert.equal(service.record.contest_config.end, "2036-05-02T21:00:00.000000Z");
});

test("a conflict is shown by member, and ends as its user chooses", async () => {
  const record = { ...contestOf(seeded(2)), title: "Song" };
  for (const [end, title] of [
    ["keep", "Mine"],
    ["take", "Theirs"],
  ]) {
    const service = new Service(record, [{ title: "Theirs" }]);
    const form = opened(record);
    form.edit("title", "Mine");
    assert.equal(await form.save(service.io), false);
    assert.deepEqual(form.conflicts, [{ name: "title", text: "Mine", theirs: "Theirs" }]);
    assert.equal(await form.save(service.io), false); // pressed again without a choice
    form[end]("title");
    assert.ok(await form.save(service.io));
    assert.equal(service.record.title, title);
  }
});

test("a conflict that a read has shown already is no longer overwritten", async () => {
  const record = { ...contestOf(seeded(2)), title: "Song" };
  const service = new Service(record);
  const form = opened(record);
  form.edit("title", "Mine");
  service.write({ title: "Theirs", description: "Theirs" });
  assert.deepEqual(form.follow(service.record, "2"), ["description"]);
  assert.equal(await form.save(service.io), false);
  assert.equal(form.text("description"), "Theirs");
});

test("an edit whose answer was lost is saved once it is sent again", async () => {
  const service = new Service(contestOf(seeded(3)));
  const form = opened(service.record);
  form.edit("title", "Mine");
  service.write({ title: "Mine" });
  assert.ok(await form.save(service.io));
  assert.deepEqual(service.patches, []);
  assert.deepEqual(form.edited, []);
});

test("what is typed while a record is saved is still to be saved", async () => {
  const service = new Service({ ...contestOf(seeded(3)), title: "Song" });
  const form = opened(service.record);
  form.edit("title", "First");
  const { io } = service;
  const patch = (body, etag) => {
    form.edit("title", "Second");
    form.edit("description", "New");
    return io.patch(body, etag);
  };
  assert.ok(await form.save({ ...io, patch }));
  assert.deepEqual(form.edited, ["title", "description"]);
  assert.deepEqual(form.conflicts, []);
  assert.ok(await form.save(io));
  assert.deepEqual(service.patches, [{ title: "First" }, { title: "Second", description: "New" }]);
});

test("a page's own way to show a text is no edit", () => {
  const form = opened({ ...contestOf(seeded(4)), description: "two\r\nlines" });
  form.showAs("description", "two\nlines");
  assert.deepEqual(form.edited, []);
  form.edit("description", "two\nlines!");
  assert.deepEqual(
    form.changes.map(({ value }) => value),
    ["two\nlines!"],
  );
});

test("a ballot's places keep what the form does not show", () => {
  const positions = [
    { id: "gold", index: 3, votes: 5, title: "Gold", style: { ink: "#fff" } },
    { id: "2", index: 7, votes: 3 },
    { id: "mention", index: 1, votes: 0, title: "Mention" },
  ];
  const form = opened({ contest_type: "ordering", contest_config: { ordering: { positions } } });
  assert.equal(form.text("points"), "5, 3, 0");
  form.edit("points", "6, 3, 0, 1");
  const [change] = form.changes;
  assert.deepEqual(change.value, [
    { ...positions[0], votes: 6 },
    positions[1],
    positions[2],
    { id: "4", index: 8, title: "Place 4", votes: 1 },
  ]);
  form.edit("points", "5, 3");
  assert.deepEqual(form.changes[0].value, positions.slice(0, 2));
  assert.deepEqual(
    [pointsOf("5;3 0"), pointsOf("5, x"), pointsOf("-1"), pointsOf("1.5")],
    [[5, 3, 0], null, null, null],
  );
});

test("a new contest has what the form proposes, for its kind of vote only", () => {
  const form = new RecordForm(FIELDS);
  form.edit("title", " Song ");
  const body = patchOf(form.changes);
  assert.deepEqual(body, {
    title: "Song",
    description: null,
    contest_type: "voteonly",
    contest_config: {
      start: null,
      end: null,
      free: { max_participant: 1, max_contest: -1 },
      ip_restriction_per_participant: -1,
      is_vote_removal_allowed: true,
      is_contest_time_shown: true,
      vote_visibility: "shown",
      result_release: "at_end",
    },
  });
  form.edit("contest_type", "ordering");
  const { ordering, free } = patchOf(form.changes).contest_config;
  assert.equal(ordering.positions.length, 10);
  assert.deepEqual(free, { max_contest: -1 });
});

test("a contest that becomes one with ballots gets the places that the form proposes", () => {
  const form = opened({ contest_type: "voteonly", contest_config: { ordering: null } });
  assert.deepEqual(form.edited, []);
  form.edit("contest_type", "ordering");
  assert.deepEqual(form.edited, ["contest_type", "points"]);
});

test("a new record whose answer is lost is created once, and gets later edits", async () => {
  const form = new RecordForm(ACT_FIELDS, null, null, { title: "Ada" });
  const bodies = [];
  const post = async (body) => {
    bodies.push(body);
    if (bodies.length < 3)
      throw bodies.length === 1
        ? new TypeError("no answer")
        : Object.assign(new Error(), { status: 503 });
    return { body: { key: "a", ...body }, etag: "1" };
  };
  await assert.rejects(form.create(post));
  form.edit("story", "Typed meanwhile");
  await assert.rejects(form.create(post));
  await form.create(post);
  assert.deepEqual(bodies, Array(3).fill({ title: "Ada", story: null }));
  assert.deepEqual(patchOf(form.changes), { story: "Typed meanwhile" });
});

test("a new record that is refused is created as it was corrected", async () => {
  const form = new RecordForm(ACT_FIELDS, null, null, { title: "Ada" });
  await assert.rejects(
    form.create(() => Promise.reject(Object.assign(new Error(), { status: 422 }))),
  );
  form.edit("title", "Bob");
  await form.create(async (body) => ({ body: { key: "a", ...body }, etag: "1" }));
  assert.equal(form.record.title, "Bob");
});

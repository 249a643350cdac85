// The acts of a contest: new ones from pictures, a table or by hand; their order; changes;
// disqualification.

import { readDelimited } from "../delimited-text.js";
import { initials } from "../formatting.js";
import { follow, make } from "../keyed-elements.js";
import { element } from "../page-elements.js";
import { changesOf, RecordForm, send } from "../record-form.js";
import { read, recordAt, said, write } from "../requests.js";
import { mark, t } from "../texts.js";
import { isBlank } from "../visible-text.js";
import * as words from "../formatting.js";
import { ACT_FIELDS } from "./fields.js";

const PICTURES = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const EDGE_PX = 60; // so near to the window's edge a drag scrolls
const SCROLL_PX = 16;
const ACTS = { one: mark("{n} act"), many: mark("{n} acts") };
const UNSAVED = {
  one: mark("{n} act is not saved yet."),
  many: mark("{n} acts are not saved yet."),
};

/** An act, in a form that is filled from its record; without one it is new. */
class Act {
  #chosen = ""; // the picture that the user has chosen, as data

  constructor(id, record, { title = "", story = "", file = null, picture = "" } = {}) {
    this.id = id;
    /** @type {File | null} */
    this.file = file;
    this.form = new RecordForm(ACT_FIELDS, record, null, record ? {} : { title, story });
    this.#chosen = picture;
  }

  get record() {
    return this.form.record;
  }

  get title() {
    return this.form.text("title");
  }

  get story() {
    return this.form.text("story");
  }

  /** The address of the picture to show. */
  get picture() {
    const image = this.form.text("image");
    return this.#chosen || (image && `/media/image/${encodeURIComponent(image)}?size=thumb`);
  }

  get isUnsaved() {
    return !this.record || Boolean(this.file) || this.form.edited.length > 0;
  }

  get path() {
    return `/participants/${encodeURIComponent(this.id)}`;
  }

  async choose(file) {
    this.file = file;
    this.#chosen = await dataUrl(file);
  }

  /**
   * Saves what was edited, or the new act, in the contest at `path`; returns whether it is saved,
   * else there are conflicts.
   */
  async save(path) {
    if (this.file) {
      this.form.edit("image", await upload(this.file));
      this.file = null;
    }
    if (!this.record) {
      await this.form.create((body) => write("POST", `${path}/participants`, body));
      this.id = this.record.key;
    }
    return this.form.save(recordAt(this.path));
  }
}

export class Acts {
  /**
   * `contest` has the contest's `record` and its `etag`. `changed` is called after each change,
   * `judged` after that of a status, `ordered` with the contest that has a new order, `conflicted`
   * when acts were changed elsewhere, too; `report` shows what went wrong, or nothing; `retitled` is
   * called after names were saved that the result does not take over.
   */
  constructor(contest, contestKey, { changed, conflicted, judged, ordered, report, retitled }) {
    this.contest = contest;
    this.changed = changed;
    this.conflicted = conflicted;
    this.judged = judged;
    this.ordered = ordered;
    this.report = report;
    this.retitled = retitled;
    /** @type {Act[]} */
    this.items = [];
    this.made = 0;
    /** @type {string[]} */
    this.saved = [];
    this.path = `/contests/${encodeURIComponent(contestKey)}`;
    this.order = contest.record.running_order;
    const drop = /** @type {HTMLElement} */ (element("drop").parentElement);
    drop.addEventListener("dragover", (event) => event.preventDefault());
    drop.addEventListener("drop", (event) => {
      event.preventDefault();
      this.addPictures(event.dataTransfer?.files ?? []);
    });
    element("files").addEventListener("change", () => {
      this.addPictures([...element("files").files]);
      element("files").value = "";
    });
    element("add").addEventListener("click", () => this.add({}, true));
    element("paste").addEventListener("paste", (event) => {
      event.preventDefault();
      this.addTable(event.clipboardData?.getData("text/plain") ?? "");
    });
    element("paste").addEventListener("change", () => {
      this.addTable(element("paste").value);
      element("paste").value = "";
    });
    element("save-acts").addEventListener("click", () => this.save());
  }

  hasBegun() {
    return ["running", "finished"].includes(this.contest.record.phase);
  }

  /** What was edited here and elsewhere. */
  get conflicts() {
    const labels = { title: t("Name"), story: t("Text"), image: t("Picture") };
    return this.items.flatMap(({ form, title }) =>
      form.conflicts.map(({ name, text, theirs }) => ({
        form,
        name,
        label: `${title || "…"}: ${labels[name]}`,
        mine: text,
        theirs,
      })),
    );
  }

  /**
   * Reads all acts of the contest, in its running order; what was edited stays, and so do new ones.
   */
  async load() {
    const found = [];
    let next = "";
    do {
      const { body } = await read(
        `${this.path}/participants?order=running_number&limit=100${next}`,
      );
      found.push(...body.data);
      next = body.has_more ? `&next=${encodeURIComponent(body.next)}` : "";
    } while (next);
    const order = this.contest.record.running_order;
    this.order = order;
    const place = ({ key }) => (order.includes(key) ? order.indexOf(key) : order.length);
    found.sort((one, other) => place(one) - place(other));
    this.saved = found.map(({ key }) => key);
    const known = new Map(this.items.map((item) => [item.id, item]));
    const items = found.map((record) => {
      const item = known.get(record.key) ?? new Act(record.key, record);
      item.form.follow(record, null);
      return item;
    });
    this.items = [...items, ...this.items.filter((item) => !item.record)];
    this.show();
  }

  add(values, isFocused = false) {
    this.made += 1;
    const item = new Act(`new-${this.made}`, null, values);
    this.items.push(item);
    this.show();
    if (isFocused) document.querySelector(`[data-key="${item.id}"] input`).focus();
  }

  /** Adds the acts of a table: a row for each, its name, and the text after a tab. */
  addTable(text) {
    for (const row of readDelimited(text)) {
      const [title, story = ""] = row.map((cell) => cell.trim());
      if (!isBlank(title)) this.add({ title: title.replaceAll(/\s+/g, " "), story });
    }
  }

  async addPictures(files) {
    for (const file of files)
      if (PICTURES.includes(file.type))
        this.add({
          file,
          title: file.name.replace(/\.[^.]+$/, "").replaceAll(/_+/g, " "),
          picture: await dataUrl(file),
        });
  }

  /**
   * Saves the acts in the order shown, which gives new ones their numbers, then their order if it
   * is another one.
   */
  async save() {
    this.report("");
    element("save-acts").disabled = true;
    const isRetitled = this.items.some(
      ({ record, form }) => record?.title && form.edited.includes("title"),
    );
    try {
      for (const item of this.items.filter((each) => each.isUnsaved)) {
        await item.save(this.path);
        if (!this.saved.includes(item.id)) this.saved.push(item.id);
      }
      if (this.isReordered) await this.saveOrder();
      if (isRetitled && this.contest.record.phase === "finished") this.retitled();
    } catch (error) {
      this.report(said(error));
    }
    this.show();
    this.conflicted();
  }

  /** Whether the order shown is another one than that of the contest, where new acts come last. */
  get isReordered() {
    const ids = this.items.map(({ id }) => id);
    const known = new Set(this.saved);
    return [
      ...this.saved.filter((id) => ids.includes(id)),
      ...ids.filter((id) => !known.has(id)),
    ].some((id, at) => id !== ids[at]);
  }

  /**
   * Saves the whole order at once, unless somebody else has changed it meanwhile: then that one is
   * shown.
   */
  async saveOrder() {
    const [change] = changesOf({ running_order: this.order }, [
      [["running_order"], this.items.map(({ id }) => id)],
    ]);
    const sent = await send(() => [change], this.contest, recordAt(this.path));
    await this.ordered(sent);
    if (sent.conflicts.length > 0) {
      await this.load();
      this.report(t("The order has been changed elsewhere. It is shown now; yours is not saved."));
      return;
    }
    this.order = sent.record.running_order;
    this.saved = [...this.order];
  }

  show() {
    follow(
      element("acts"),
      this.items,
      (item) => item.id,
      (item) => this.create(item),
      (child, item) => this.shown(child, item),
    );
    element("acts-count").textContent = words.plural(this.items.length, ACTS);
    this.state();
  }

  state() {
    const unsaved = this.items.filter((item) => item.isUnsaved);
    const { isReordered } = this;
    element("save-acts").disabled =
      (unsaved.length === 0 && !isReordered) ||
      unsaved.some(({ form, title }) => form.edited.includes("title") && isBlank(title));
    const open = [
      unsaved.length ? words.plural(unsaved.length, UNSAVED) : "",
      isReordered ? t("The order is not saved yet.") : "",
    ];
    element("unsaved").textContent = open.filter(Boolean).join(" ");
    this.changed();
  }

  create(item) {
    const face = make("span", { className: "act-face" });
    const title = make("input", { className: "act-title", maxLength: 200, required: true });
    const story = make("textarea", {
      className: "act-story",
      maxLength: 2000,
      rows: 1,
      placeholder: t("Text"),
    });
    title.addEventListener("input", () => {
      item.form.edit("title", title.value);
      this.state();
      name();
    });
    story.addEventListener("input", () => {
      item.form.edit("story", story.value);
      this.state();
    });
    const fill = () =>
      Object.entries({ title, story }).forEach(([field, input]) => {
        if (input.value === item.form.text(field)) return;
        input.value = item.form.text(field);
        item.form.showAs(field, input.value);
      });
    const [place, grip, up, down] = [
      make("span", { className: "act-number" }),
      this.grip(item),
      this.mover(item, "↑", -1),
      this.mover(item, "↓", 2),
    ];
    const name = () => {
      const at = this.items.indexOf(item);
      place.textContent = item.record?.number_string || words.number(at + 1);
      const [upwards, downwards] = [
        t("Move up: {name}", { name: item.title || at + 1 }),
        t("Move down: {name}", { name: item.title || at + 1 }),
      ];
      Object.assign(up, { ariaLabel: upwards, title: upwards });
      Object.assign(down, { ariaLabel: downwards, title: downwards });
      title.ariaLabel = t("Name of act {n}", { n: this.items.indexOf(item) + 1 });
      story.ariaLabel = t("Text of act {n}", { n: this.items.indexOf(item) + 1 });
    };
    const choose = make("input", { type: "file", className: "unseen", accept: PICTURES.join() });
    choose.addEventListener("change", async () => {
      const [file] = choose.files;
      if (!file) return;
      await item.choose(file);
      this.show();
    });
    const picture = make("label", { className: "button" }, make("span", {}, t("Picture")), choose);
    const child = make(
      "li",
      {},
      make("div", { className: "act-place" }, grip, place, up, down),
      face,
      make("div", { className: "act-texts" }, title, story),
      make("span", { className: "chip", hidden: true }),
      make("div", { className: "buttons" }),
      picture,
    );
    const filled = () => {
      fill();
      name();
    };
    Object.assign(child, { filled });
    return child;
  }

  shown(child, item) {
    child.filled();
    const [, face, , chip, buttons] = child.children;
    const image = item.picture
      ? make("img", { src: item.picture, alt: "" })
      : initials(item.title || "?");
    if (face.dataset.of !== item.picture + item.title) face.replaceChildren(image);
    face.dataset.of = item.picture + item.title;
    const status = item.record?.status ?? "approved";
    chip.hidden = status === "approved";
    chip.className = "chip warn";
    chip.textContent = item.record?.waits_for_reopening
      ? t("Disqualified; waits for a reopening")
      : status === "rejected"
        ? t("Disqualified")
        : t("Pending");
    const state = `${status}${item.id}${this.contest.record.phase}`;
    if (buttons.dataset.of === state) return;
    buttons.dataset.of = state;
    buttons.replaceChildren(...(item.record ? this.judging(item, buttons) : [this.dropping(item)]));
  }

  /** Moves an act before the one at `place`, and says where it is. */
  move(item, place) {
    const at = this.items.indexOf(item);
    const to = Math.max(0, Math.min(this.items.length - 1, place > at ? place - 1 : place));
    this.items.splice(at, 1);
    this.items.splice(to, 0, item);
    this.show();
    element("moved").textContent = t("{name}: place {n} of {all}", {
      name: item.title || "…",
      n: to + 1,
      all: this.items.length,
    });
  }

  /** A button that moves an act before the one so many places further. */
  mover(item, text, by) {
    const button = make("button", { type: "button" }, text);
    button.addEventListener("click", () => {
      this.move(item, this.items.indexOf(item) + by);
      button.focus(); // which it has lost if its row was moved
    });
    return button;
  }

  /** The handle by which an act is dragged to another place; the buttons beside it do the same. */
  grip(item) {
    const grip = make(
      "span",
      { className: "grip", ariaHidden: "true", title: t("Drag to another place") },
      "⠿",
    );
    const list = element("acts");
    let to = null; // the act is dropped before the one of this place
    const mark = () =>
      [...list.children].forEach((child, at) => {
        child.classList.toggle("drop-before", at === to);
        child.classList.toggle("drop-after", at + 1 === to && to === list.children.length);
      });
    grip.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      grip.setPointerCapture(event.pointerId);
    });
    grip.addEventListener("pointermove", ({ pointerId, clientY }) => {
      if (!grip.hasPointerCapture(pointerId)) return;
      if (clientY < EDGE_PX || clientY > innerHeight - EDGE_PX)
        scrollBy(0, clientY < EDGE_PX ? -SCROLL_PX : SCROLL_PX);
      const below = [...list.children].findIndex(
        (child) => clientY < child.getBoundingClientRect().top + child.clientHeight / 2,
      );
      to = below < 0 ? list.children.length : below;
      mark();
    });
    grip.addEventListener("pointerup", () => to !== null && this.move(item, to));
    grip.addEventListener("lostpointercapture", () => {
      to = null;
      mark();
    });
    return grip;
  }

  /** The button that drops an act which is not saved. */
  dropping(item) {
    const button = make(
      "button",
      { type: "button", ariaLabel: t("Remove"), title: t("Remove") },
      "×",
    );
    button.addEventListener("click", () => {
      this.items = this.items.filter((each) => each !== item);
      this.show();
      element("add").focus();
    });
    return button;
  }

  /**
   * Buttons of an act that is saved: it is disqualified or admitted, and removed before people can
   * vote for it.
   */
  judging(item, place) {
    const named = (text) => () => t(text, { name: item.title });
    const effect = () => this.effect(item);
    const admission = () =>
      this.asking(item, place, t("Admit again"), named(mark("Admit {name}")), effect, () =>
        this.judge(item, "approved"),
      );
    const disqualification = () =>
      this.asking(item, place, t("Disqualify"), named(mark("Disqualify {name}")), effect, () =>
        this.judge(item, "rejected"),
      );
    const removal = () => t("It is deleted with its text and picture.");
    const remover = () =>
      this.asking(item, place, t("Remove"), named(mark("Remove {name}")), removal, () =>
        this.remove(item),
      );
    if (item.record.status === "rejected")
      return this.hasBegun() ? [admission()] : [admission(), remover()];
    if (this.contest.record.phase === "setup") return [remover()]; // nobody has seen it yet
    return this.hasBegun() ? [disqualification()] : [disqualification(), remover()];
  }

  /** A button that says what it does, and asks, before it acts. */
  asking(item, place, text, sure, effect, act) {
    const button = make("button", { type: "button" }, text);
    button.addEventListener("click", async () => {
      const yes = make("button", { type: "button", className: "danger" }, sure());
      const no = make("button", { type: "button" }, t("Cancel"));
      yes.addEventListener("click", act);
      no.addEventListener("click", () => {
        place.replaceChildren(...this.judging(item, place));
        place.firstChild.focus();
      });
      place.replaceChildren(make("span", { role: "status" }, await effect()), yes, no);
      no.focus();
    });
    return button;
  }

  async remove(item) {
    this.report("");
    try {
      await write("DELETE", item.path);
      this.items = this.items.filter((each) => each !== item);
    } catch (error) {
      this.report(said(error));
    }
    this.show();
    element("add").focus();
  }

  /** Says what a disqualification changes, or its end. */
  async effect(item) {
    if (item.record.status === "rejected") return t("Its votes count again.");
    const after =
      this.contest.record.phase === "finished"
        ? t("The contest is over: it takes effect with a reopening.")
        : "";
    try {
      const { body } = await read(`${this.path}/vote_updates`);
      const count = body.participants[item.id]?.count ?? 0;
      const [votes, left] = [count, body.count - count].map((number) =>
        words.plural(number, words.units(body.contest_type)),
      );
      return `${t("{votes} no longer count: the total becomes {left}.", { votes, left })} ${after}`;
    } catch (error) {
      said(error);
      return `${t("Its votes no longer count.")} ${after}`;
    }
  }

  async judge(item, status) {
    this.report("");
    try {
      const changes = changesOf(item.record, [[["status"], status]]);
      const { record, etag, conflicts } = await send(() => changes, item.form, recordAt(item.path));
      item.form.follow(record, etag);
      if (conflicts.length > 0)
        this.report(
          t("Somebody else has changed this, too. It is shown now; press again if it shall be."),
        );
      this.judged();
    } catch (error) {
      this.report(said(error));
    }
    this.show();
  }
}

/** Stores a picture, and returns its key. */
export async function upload(file) {
  const form = new FormData();
  form.append("file", file);
  return (await write("POST", "/images", form)).body.key;
}

/** Reads a picture; the security policy admits no addresses of files. */
export function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

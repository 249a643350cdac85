// The acts of a contest: new ones from pictures, a table or by hand; their order; changes; disqualification.

import { initials } from "../formatting.js";
import { follow, make } from "../keyed-elements.js";
import { element } from "../page-elements.js";
import { mark, t } from "../texts.js";
import { isBlank } from "../visible-text.js";
import * as words from "../formatting.js";
import { read, said, write } from "./requests.js";

const PICTURES = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const EDGE_PX = 60; // so near to the window's edge a drag scrolls
const SCROLL_PX = 16;
const ACTS = { one: mark("{n} act"), many: mark("{n} acts") };
const UNSAVED = { one: mark("{n} act is not saved yet."), many: mark("{n} acts are not saved yet.") };

export class Acts {
  /**
   * `changed` is called after each change, `judged` after that of a status, `ordered` with the contest that has a new
   * order; `report` shows what went wrong, or nothing.
   */
  constructor(contestKey, { changed, judged, ordered, report, hasBegun, isOver }) {
    Object.assign(this, { changed, judged, ordered, report, hasBegun, isOver, items: [], made: 0, saved: [] });
    this.path = `/contests/${encodeURIComponent(contestKey)}`;
    const drop = element("drop").parentElement;
    drop.addEventListener("dragover", (event) => event.preventDefault());
    drop.addEventListener("drop", (event) => (event.preventDefault(), this.addPictures(event.dataTransfer.files)));
    element("files").addEventListener("change", ({ target }) => (this.addPictures([...target.files]), (target.value = "")));
    element("add").addEventListener("click", () => this.add({}, true));
    element("paste").addEventListener("paste", (event) => (event.preventDefault(), this.addTable(event.clipboardData.getData("text/plain"))));
    element("paste").addEventListener("change", ({ target }) => (this.addTable(target.value), (target.value = "")));
    element("save-acts").addEventListener("click", () => this.save());
  }

  /** Reads all acts of the contest, in its running order. */
  async load({ running_order: order }) {
    const found = [];
    let next = "";
    do {
      const { body } = await read(`${this.path}/participants?order=running_number&limit=100${next}`);
      found.push(...body.data);
      next = body.has_more ? `&next=${encodeURIComponent(body.next)}` : "";
    } while (next);
    this.order = order;
    const place = ({ key }) => (order.includes(key) ? order.indexOf(key) : order.length);
    found.sort((one, other) => place(one) - place(other));
    this.saved = found.map(({ key }) => key);
    const added = this.items.filter((item) => !item.record);
    for (const child of [...element("acts").children]) if (added.every(({ id }) => id !== child.dataset.key)) child.remove();
    const items = found.map((record) => ({ id: record.key, record, title: record.title ?? "", story: record.story ?? "", picture: record.image_key ? `/media/image/${encodeURIComponent(record.image_key)}?size=thumb` : "" }));
    this.items = [...items, ...added]; // those that were added while these were read, too
    this.show();
  }

  add(values, isFocused = false) {
    const item = { id: `new-${(this.made += 1)}`, title: "", story: "", picture: "", ...values };
    this.items.push(item);
    this.show();
    if (isFocused) document.querySelector(`[data-key="${item.id}"] input`).focus();
  }

  addTable(text) {
    for (const line of text.split(/\r?\n/)) {
      const [title, story = ""] = line.split("\t").map((part) => part.trim());
      if (!isBlank(title)) this.add({ title, story });
    }
  }

  async addPictures(files) {
    for (const file of files)
      if (PICTURES.includes(file.type)) this.add({ file, title: file.name.replace(/\.[^.]+$/, "").replaceAll(/[_-]+/g, " "), picture: await dataUrl(file) });
  }

  /** Saves the acts in the order shown, which gives new ones their numbers, then their order if it is another one. */
  async save() {
    this.report("");
    element("save-acts").disabled = true;
    try {
      for (const item of this.items.filter((each) => isUnsaved(each))) {
        [item.title, item.story] = [item.title.trim(), item.story.trim()];
        const body = { title: item.title, story: item.story || null };
        if (item.file) {
          body.image_key = await upload(item.file);
          delete item.file;
          item.image = body.image_key;
        } else if (item.image) body.image_key = item.image;
        const path = item.record ? `/participants/${encodeURIComponent(item.id)}` : `${this.path}/participants`;
        item.record = await write(item.record ? "PATCH" : "POST", path, body);
        if (!this.saved.includes(item.record.key)) this.saved.push(item.record.key);
        item.id = item.record.key;
        delete item.image;
      }
      if (this.isReordered) await this.saveOrder();
    } catch (error) {
      this.report(said(error));
    }
    this.show();
  }

  /** Whether the order shown is another one than that of the contest, where new acts come last. */
  get isReordered() {
    const ids = this.items.map(({ id }) => id);
    const known = new Set(this.saved);
    return [...this.saved.filter((id) => ids.includes(id)), ...ids.filter((id) => !known.has(id))].some((id, at) => id !== ids[at]);
  }

  /** Saves the whole order at once, unless somebody else has changed it meanwhile: then that one is shown. */
  async saveOrder() {
    const { body: contest, etag } = await read(this.path);
    if (contest.running_order.join() !== this.order.join()) {
      await this.load(contest);
      this.report(t("The order has been changed elsewhere. It is shown now; yours is not saved."));
      return;
    }
    const saved = await write("PATCH", this.path, { running_order: this.items.map(({ id }) => id) }, { "If-Match": etag });
    this.order = saved.running_order;
    this.saved = [...this.order];
    await this.ordered(saved);
  }

  show() {
    follow(element("acts"), this.items, (item) => item.id, (item) => this.create(item), (child, item) => this.shown(child, item));
    element("acts-count").textContent = words.plural(this.items.length, ACTS);
    this.state();
  }

  state() {
    const unsaved = this.items.filter(isUnsaved);
    const { isReordered } = this;
    element("save-acts").disabled = (unsaved.length === 0 && !isReordered) || unsaved.some((item) => isBlank(item.title));
    const open = [unsaved.length ? words.plural(unsaved.length, UNSAVED) : "", isReordered ? t("The order is not saved yet.") : ""];
    element("unsaved").textContent = open.filter(Boolean).join(" ");
    this.changed();
  }

  create(item) {
    const face = make("span", { className: "act-face" });
    const title = make("input", { className: "act-title", maxLength: 200, required: true, value: item.title });
    const story = make("input", { className: "act-story", maxLength: 2000, placeholder: t("Text"), value: item.story });
    title.addEventListener("input", () => ((item.title = title.value), this.state(), name()));
    story.addEventListener("input", () => ((item.story = story.value), this.state()));
    const [place, grip, up, down] = [make("span", { className: "act-number" }), this.grip(item), this.mover(item, "↑", -1), this.mover(item, "↓", 2)];
    const name = () => {
      const at = this.items.indexOf(item);
      place.textContent = words.number(at + 1);
      const [upwards, downwards] = [t("Move up: {name}", { name: item.title || at + 1 }), t("Move down: {name}", { name: item.title || at + 1 })];
      Object.assign(up, { ariaLabel: upwards, title: upwards });
      Object.assign(down, { ariaLabel: downwards, title: downwards });
      title.ariaLabel = t("Name of act {n}", { n: this.items.indexOf(item) + 1 });
      story.ariaLabel = t("Text of act {n}", { n: this.items.indexOf(item) + 1 });
    };
    const choose = make("input", { type: "file", className: "unseen", accept: PICTURES.join() });
    choose.addEventListener("change", async () => {
      const [file] = choose.files;
      if (!file) return;
      Object.assign(item, { file, picture: await dataUrl(file) });
      this.show();
    });
    const picture = make("label", { className: "button" }, make("span", {}, t("Picture")), choose);
    const child = make("li", {}, make("div", { className: "act-place" }, grip, place, up, down), face, make("div", { className: "act-texts" }, title, story), make("span", { className: "chip", hidden: true }), make("div", { className: "buttons" }), picture);
    Object.assign(child, { named: name });
    return child;
  }

  shown(child, item) {
    child.named();
    const [, face, , chip, buttons] = child.children;
    const image = item.picture ? make("img", { src: item.picture, alt: "" }) : initials(item.title || "?");
    if (face.dataset.of !== item.picture + item.title) face.replaceChildren(image);
    face.dataset.of = item.picture + item.title;
    const status = item.record?.status ?? "approved";
    chip.hidden = status === "approved";
    chip.className = "chip warn";
    chip.textContent = item.record?.waits_for_reopening ? t("Disqualified; waits for a reopening") : status === "rejected" ? t("Disqualified") : t("Pending");
    const state = `${status}${item.id}${this.hasBegun()}`;
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
    element("moved").textContent = t("{name}: place {n} of {all}", { name: item.title || "…", n: to + 1, all: this.items.length });
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
    const grip = make("span", { className: "grip", ariaHidden: "true", title: t("Drag to another place") }, "⠿");
    const list = element("acts");
    let to = null; // the act is dropped before the one of this place
    const mark = () => [...list.children].forEach((child, at) => {
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
      if (clientY < EDGE_PX || clientY > innerHeight - EDGE_PX) scrollBy(0, clientY < EDGE_PX ? -SCROLL_PX : SCROLL_PX);
      const below = [...list.children].findIndex((child) => clientY < child.getBoundingClientRect().top + child.clientHeight / 2);
      to = below < 0 ? list.children.length : below;
      mark();
    });
    grip.addEventListener("pointerup", () => to !== null && this.move(item, to));
    grip.addEventListener("lostpointercapture", () => ((to = null), mark()));
    return grip;
  }

  /** The button that drops an act which is not saved. */
  dropping(item) {
    const button = make("button", { type: "button", ariaLabel: t("Remove"), title: t("Remove") }, "×");
    button.addEventListener("click", () => ((this.items = this.items.filter((each) => each !== item)), this.show(), element("add").focus()));
    return button;
  }

  /** Buttons of an act that is saved: it is disqualified or admitted, and removed before people can vote for it. */
  judging(item, place) {
    const isOut = item.record.status === "rejected";
    const name = item.title;
    const judge = isOut
      ? this.asking(item, place, t("Admit again"), t("Admit {name}", { name }), () => this.effect(item, isOut), () => this.judge(item, "approved"))
      : this.asking(item, place, t("Disqualify"), t("Disqualify {name}", { name }), () => this.effect(item, isOut), () => this.judge(item, "rejected"));
    const removal = () => t("It is deleted with its text and picture.");
    return this.hasBegun() ? [judge] : [judge, this.asking(item, place, t("Remove"), t("Remove {name}", { name }), removal, () => this.remove(item))];
  }

  /** A button that says what it does, and asks, before it acts. */
  asking(item, place, text, sure, effect, act) {
    const button = make("button", { type: "button" }, text);
    button.addEventListener("click", async () => {
      const yes = make("button", { type: "button", className: "danger" }, sure);
      const no = make("button", { type: "button" }, t("Cancel"));
      yes.addEventListener("click", act);
      no.addEventListener("click", () => (place.replaceChildren(...this.judging(item, place)), place.firstChild.focus()));
      place.replaceChildren(make("span", { role: "status" }, await effect()), yes, no);
      no.focus();
    });
    return button;
  }

  async remove(item) {
    this.report("");
    try {
      await write("DELETE", `/participants/${encodeURIComponent(item.id)}`);
      this.items = this.items.filter((each) => each !== item);
    } catch (error) {
      this.report(said(error));
    }
    this.show();
    element("add").focus();
  }

  /** Says what a disqualification changes. */
  async effect(item, isOut) {
    if (isOut) return t("Its votes count again.");
    const after = this.isOver() ? t("The contest is over: it takes effect with a reopening.") : "";
    try {
      const { body } = await read(`${this.path}/vote_updates`);
      const count = body.participants[item.id]?.count ?? 0;
      const left = words.plural(body.count - count, words.units(body.contest_type));
      return `${t("{votes} no longer count: the total becomes {left}.", { votes: words.plural(count, words.units(body.contest_type)), left })} ${after}`;
    } catch (error) {
      said(error);
      return `${t("Its votes no longer count.")} ${after}`;
    }
  }

  async judge(item, status) {
    this.report("");
    try {
      item.record = await write("PATCH", `/participants/${encodeURIComponent(item.id)}`, { status });
      this.judged();
    } catch (error) {
      this.report(said(error));
    }
    this.show();
  }
}

function isUnsaved({ record, title, story, file, image }) {
  return !record || Boolean(file || image) || title !== (record.title ?? "") || story !== (record.story ?? "");
}

/** Stores a picture, and returns its key. */
export async function upload(file) {
  const form = new FormData();
  form.append("file", file);
  return (await write("POST", "/images", form)).key;
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

// The acts of a contest: new ones from pictures, a table or by hand, ordered until they are saved; changes; disqualification.

import { initials } from "../formatting.js";
import { follow, make } from "../keyed-elements.js";
import { element } from "../page-elements.js";
import { mark, t } from "../texts.js";
import * as words from "../formatting.js";
import { read, said, write } from "./requests.js";

const PICTURES = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const ACTS = { one: mark("{n} act"), many: mark("{n} acts") };
const UNSAVED = { one: mark("{n} act is not saved yet."), many: mark("{n} acts are not saved yet.") };

export class Acts {
  /** `changed` is called after each change, `judged` after that of a status; `report` shows what went wrong, or nothing. */
  constructor(contestKey, { changed, judged, report, hasBegun, isOver }) {
    Object.assign(this, { contestKey, changed, judged, report, hasBegun, isOver, items: [], made: 0 });
    const drop = element("drop").parentElement;
    drop.addEventListener("dragover", (event) => event.preventDefault());
    drop.addEventListener("drop", (event) => (event.preventDefault(), this.addPictures(event.dataTransfer.files)));
    element("files").addEventListener("change", ({ target }) => (this.addPictures([...target.files]), (target.value = "")));
    element("add").addEventListener("click", () => this.add({}, true));
    element("paste").addEventListener("paste", (event) => (event.preventDefault(), this.addTable(event.clipboardData.getData("text/plain"))));
    element("paste").addEventListener("change", ({ target }) => (this.addTable(target.value), (target.value = "")));
    element("save-acts").addEventListener("click", () => this.save());
  }

  /** Reads all acts, in the order of their running numbers. */
  async load() {
    const found = [];
    let next = "";
    do {
      const { body } = await read(`/contests/${encodeURIComponent(this.contestKey)}/participants?order=running_number&limit=100${next}`);
      found.push(...body.data);
      next = body.has_more ? `&next=${encodeURIComponent(body.next)}` : "";
    } while (next);
    this.items = found.map((record) => ({ id: record.key, record, title: record.title ?? "", story: record.story ?? "", picture: record.image_key ? `/media/image/${encodeURIComponent(record.image_key)}?size=thumb` : "" }));
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
      if (title) this.add({ title, story });
    }
  }

  async addPictures(files) {
    for (const file of files)
      if (PICTURES.includes(file.type)) this.add({ file, title: file.name.replace(/\.[^.]+$/, "").replaceAll(/[_-]+/g, " "), picture: await dataUrl(file) });
  }

  /** Saves in the order shown, which gives new acts their numbers. */
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
        const path = item.record ? `/participants/${encodeURIComponent(item.id)}` : `/contests/${encodeURIComponent(this.contestKey)}/participants`;
        item.record = await write(item.record ? "PATCH" : "POST", path, body);
        item.id = item.record.key;
        delete item.image;
      }
    } catch (error) {
      this.report(said(error));
    }
    this.show();
  }

  show() {
    follow(element("acts"), this.items, (item) => item.id, (item) => this.create(item), (child, item) => this.shown(child, item));
    element("acts-count").textContent = words.plural(this.items.length, ACTS);
    this.state();
  }

  state() {
    const unsaved = this.items.filter(isUnsaved);
    element("save-acts").disabled = unsaved.length === 0 || unsaved.some((item) => !item.title.trim());
    element("unsaved").textContent = unsaved.length ? words.plural(unsaved.length, UNSAVED) : "";
    this.changed();
  }

  create(item) {
    const face = make("span", { className: "act-face" });
    const title = make("input", { className: "act-title", maxLength: 200, required: true, value: item.title });
    const story = make("input", { className: "act-story", maxLength: 2000, placeholder: t("Text"), value: item.story });
    title.addEventListener("input", () => ((item.title = title.value), this.state(), name()));
    story.addEventListener("input", () => ((item.story = story.value), this.state()));
    const name = () => {
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
    const child = make("li", {}, face, make("div", { className: "act-texts" }, title, story), make("span", { className: "chip", hidden: true }), make("div", { className: "buttons" }), picture);
    Object.assign(child, { named: name });
    return child;
  }

  shown(child, item) {
    child.named();
    const [face, , chip, buttons] = child.children;
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
    buttons.replaceChildren(...(item.record ? this.judging(item, buttons) : this.ordering(item)));
  }

  /** Buttons of an act that is not saved: its place, which gives it its number. */
  ordering(item) {
    const move = (by) => {
      const at = this.items.indexOf(item);
      const to = at + by;
      if (to < 0 || to >= this.items.length || this.items[to].record) return;
      [this.items[at], this.items[to]] = [this.items[to], this.items[at]];
      this.show();
      element("acts").children[to].querySelectorAll(".buttons button")[by < 0 ? 0 : 1].focus();
    };
    const drop = () => ((this.items = this.items.filter((each) => each !== item)), this.show(), element("add").focus());
    return [["↑", t("Move up"), () => move(-1)], ["↓", t("Move down"), () => move(1)], ["×", t("Remove"), drop]].map(([text, ariaLabel, press]) => {
      const button = make("button", { type: "button", ariaLabel, title: ariaLabel }, text);
      button.addEventListener("click", press);
      return button;
    });
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
      const { body } = await read(`/contests/${encodeURIComponent(this.contestKey)}/vote_updates`);
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

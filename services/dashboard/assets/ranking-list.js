// The ranking: an ordered list whose rows move to their new places.

import { NO_COLOUR } from "./palette.js";
import { t } from "./texts.js";
import { initials, number } from "./formatting.js";

const MOVE_MS = 600;
const still = matchMedia("(prefers-reduced-motion: reduce)");

/** A list element with one item per participant. Calls `picked(key)` when a user picks one. */
export class Ranking {
  #list;
  #items = new Map();

  constructor(list, picked) {
    this.#list = list;
    list.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) picked(button.parentElement.dataset.key);
    });
    list.addEventListener("keydown", (event) => this.#walk(event));
  }

  /**
   * Shows `rows`: `{key, name, image, rank, count, figure, note, part, colour, isPicked, isWinner,
   * moved}` each; without ranks and counts while these are hidden, and with `rank` and `isCovered`
   * alone while a reveal covers the place. `figure` is the main number, `note` stands below it,
   * `part` is that of a full bar; with `values` (a distribution) each rated row shows them.
   */
  show(rows) {
    const before = this.#tops();
    const focused = /** @type {HTMLElement | null} */ (document.activeElement);
    const keys = new Set(rows.map((row) => row.key));
    for (const [key, item] of this.#items)
      if (!keys.has(key)) {
        item.remove();
        this.#items.delete(key);
      }
    let place = this.#list.firstElementChild;
    for (const row of rows) {
      const item = this.#items.get(row.key) ?? this.#made(row.key);
      fill(item, row);
      if (item === place) place = place.nextElementSibling;
      else this.#list.insertBefore(item, place);
    }
    if (focused && focused !== document.activeElement && this.#list.contains(focused))
      focused.focus({ preventScroll: true });
    if (!still.matches) this.#move(before);
  }

  #made(key) {
    const item = document.createElement("li");
    item.dataset.key = key;
    const button = part("button", "place");
    button.type = "button";
    const who = part("span", "who");
    const track = part("span", "track");
    track.append(part("span", "fill"));
    who.append(part("span", "name"), track, part("span", "values"));
    const votes = part("span", "votes");
    votes.append(part("span", "count"), part("span", "share"));
    const place = part("span", "rank");
    place.append(part("span", "at"), part("span", "moved"));
    button.append(place, part("span", "face"), who, votes);
    item.append(button);
    this.#items.set(key, item);
    return item;
  }

  #tops() {
    const tops = new Map();
    if (!still.matches) for (const [key, item] of this.#items) tops.set(key, item.offsetTop);
    return tops;
  }

  /** Animates rows from their former to their new places. */
  #move(before) {
    for (const [key, top] of before) {
      const item = this.#items.get(key);
      const way = item ? top - item.offsetTop : 0;
      if (way !== 0)
        item.animate([{ transform: `translateY(${way}px)` }, { transform: "none" }], {
          duration: MOVE_MS,
          easing: "cubic-bezier(0.2, 0.8, 0.2, 1)",
          composite: "add",
        });
    }
  }

  #walk(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const buttons = [...this.#list.querySelectorAll("button")];
    buttons[buttons.indexOf(document.activeElement) + step]?.focus();
    event.preventDefault();
  }
}

function fill(item, row) {
  const [button] = item.children;
  const [rank, face, who, votes] = button.children;
  const isCounted = row.count !== undefined;
  write(rank.firstChild, (isCounted && row.rank !== null) || row.isCovered ? String(row.rank) : "");
  showMoved(rank.lastChild, row.moved ?? 0);
  write(who.firstChild, row.isCovered ? "?" : row.name);
  write(votes.firstChild, isCounted ? row.figure : "");
  write(votes.lastChild, isCounted ? row.note : "");
  showValues(who.lastChild, row.values);
  item.style.setProperty("--part", isCounted ? row.part : 0);
  item.style.setProperty("--colour", row.colour ?? NO_COLOUR);
  item.classList.toggle("first", row.rank === 1 && row.count > 0);
  item.classList.toggle("winner", Boolean(row.isWinner));
  item.classList.toggle("hidden-count", !isCounted);
  item.classList.toggle("covered", Boolean(row.isCovered));
  button.setAttribute("aria-pressed", Boolean(row.isPicked));
  button.disabled = !isCounted;
  showFace(face, row.isCovered ? { name: "?", image: "" } : row);
}

/** Shows by how many places a row rose or fell lately. */
function showMoved(place, moved) {
  const text = moved === 0 ? "" : `${moved > 0 ? "▲" : "▼"}${Math.abs(moved)}`;
  if (place.textContent === text) return;
  place.textContent = text;
  place.className = moved > 0 ? "moved up" : "moved down";
  place.title = moved === 0 ? "" : t(moved > 0 ? "Up {n}" : "Down {n}", { n: Math.abs(moved) });
}

/** Shows a distribution of ratings as small bars, with its numbers as a text. */
function showValues(place, values) {
  const shown = values ? JSON.stringify(values) : "";
  if (place.dataset.values === shown) return;
  place.dataset.values = shown;
  const most = Math.max(1, ...Object.values(values ?? {}));
  const last = Math.max(5, ...Object.keys(values ?? {}).map(Number));
  const bars = Array.from({ length: values ? last + 1 : 0 }, (_, value) => {
    const bar = part("span", "value");
    bar.style.setProperty("--part", (values[value] ?? 0) / most);
    return bar;
  });
  place.replaceChildren(...bars);
  place.title = values
    ? Object.entries(values)
        .map(([value, count]) => `${value}: ${number(count)}`)
        .join(", ")
    : "";
  if (values)
    place.setAttribute("aria-label", t("Ratings by value: {list}", { list: place.title }));
  else place.removeAttribute("aria-label");
  place.role = values ? "img" : null;
}

/** Shows a picture; without one, or if it cannot be loaded, initials. The `label` is an act's number. */
export function showFace(face, { name, image, label }) {
  if (label) face.dataset.number = label;
  else delete face.dataset.number;
  if (face.dataset.image === image && face.dataset.name === name) return;
  face.dataset.image = image;
  face.dataset.name = name;
  face.textContent = initials(name);
  face.setAttribute("aria-hidden", "true");
  if (!image) return;
  const picture = part("img", "");
  picture.alt = "";
  picture.loading = "lazy";
  picture.addEventListener("error", () => picture.remove());
  picture.src = image;
  face.append(picture);
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function part(name, kind) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  return made;
}

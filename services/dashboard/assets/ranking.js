// The ranking: an ordered list whose rows move to their new places.

import { initials } from "./words.js";

const MOVE_MS = 600;
const still = matchMedia("(prefers-reduced-motion: reduce)");

/**
 * Sorts `counts` (`[{key, count, average}]`) and adds ranks: by average where there is one (-1: no ratings), then by
 * count; equal ones share a rank, in the order of `order(key)`.
 */
export function ranked(counts, order) {
  const sorted = counts.toSorted((a, b) => b.average - a.average || b.count - a.count || order(a.key) - order(b.key));
  let rank = 0;
  let before = null;
  return sorted.map((row, at) => {
    if (row.count !== before?.count || row.average !== before.average) rank = at + 1;
    before = row;
    return { ...row, rank };
  });
}

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
   * Shows `rows`: `{key, name, image, rank, count, figure, note, part, colour, isPicked}` each; without ranks and
   * counts while these are hidden. `figure` is the main number, `note` stands below it, `part` is that of a full bar.
   */
  show(rows) {
    const before = this.#tops();
    const focused = document.activeElement;
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
    if (focused !== document.activeElement && this.#list.contains(focused)) focused.focus({ preventScroll: true });
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
    who.append(part("span", "name"), track);
    const votes = part("span", "votes");
    votes.append(part("span", "count"), part("span", "share"));
    button.append(part("span", "rank"), part("span", "face"), who, votes);
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
  write(rank, isCounted ? String(row.rank) : "");
  write(who.firstChild, row.name);
  write(votes.firstChild, isCounted ? row.figure : "");
  write(votes.lastChild, isCounted ? row.note : "");
  item.style.setProperty("--part", isCounted ? row.part : 0);
  item.style.setProperty("--colour", `var(${row.colour})`);
  item.classList.toggle("first", row.rank === 1 && row.count > 0);
  item.classList.toggle("hidden-count", !isCounted);
  button.setAttribute("aria-pressed", row.isPicked);
  button.disabled = !isCounted;
  if (face.dataset.image === row.image && face.dataset.name === row.name) return;
  face.dataset.image = row.image;
  face.dataset.name = row.name;
  face.textContent = initials(row.name);
  face.setAttribute("aria-hidden", "true");
  if (row.image) {
    const image = part("img", "");
    image.alt = "";
    image.loading = "lazy";
    image.addEventListener("error", () => image.remove());
    image.src = row.image;
    face.append(image);
  }
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function part(name, kind) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  return made;
}

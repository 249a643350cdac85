// Elements, texts of this browser, and the line that shows what went wrong.

const trouble = document.getElementById("trouble");
const memory = new Map(); // what this browser does not store

/** Texts that this browser keeps, in memory if it does not. */
export const store = {
  getItem(name) {
    try {
      return memory.get(name) ?? localStorage.getItem(name);
    } catch {
      return null;
    }
  },
  setItem(name, value) {
    try {
      localStorage.setItem(name, value);
    } catch {
      memory.set(name, value);
    }
  },
};

/** Shows what went wrong; of a write until the next one, although the page reads on. */
export function showTrouble(text, isWrite = false) {
  trouble.textContent = text;
  trouble.dataset.write = isWrite ? "yes" : "";
  trouble.hidden = false;
}

export function hideTrouble(isWrite = false) {
  if (isWrite || !trouble.dataset.write) trouble.hidden = true;
}

export function setText(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

export function make(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// Elements that follow data, and stay the same ones: what has the focus keeps it.

/** A new element; the rest are its children: elements or texts. */
export function make(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** Sets a text, where it is another one. */
export function tell(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Makes the children of `parent` those of `items`, by their `key`: `made(item)` once, `shown(child, item)` each time. */
export function follow(parent, items, key, made, shown) {
  const before = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  items.forEach((item, at) => {
    const name = String(key(item));
    let child = before.get(name);
    before.delete(name);
    if (!child) {
      child = made(item);
      child.dataset.key = name;
    }
    shown(child, item);
    if (parent.children[at] !== child) parent.insertBefore(child, parent.children[at] ?? null);
  });
  for (const gone of before.values()) gone.remove();
}

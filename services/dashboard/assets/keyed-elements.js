// Keyed updates of elements from data: existing elements are reused and keep the focus.

/** Creates an element with `children`: elements or texts. */
export function make(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** Sets an element's text if it differs. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Updates the children of `parent` to `items` by `key`: `made(item)` creates, `shown(child, item)`
 * updates each.
 */
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

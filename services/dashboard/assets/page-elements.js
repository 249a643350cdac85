// Elements of the page.

/**
 * Returns the element with this id, which the page has: its own HTML is tested with it.
 *
 * @param {string} id
 * @returns {PageElement}
 */
export const element = (id) => /** @type {PageElement} */ (document.getElementById(id));

/** Sets the text of the element with this id if it differs. */
export function write(id, text) {
  const found = element(id);
  if (found.textContent !== text) found.textContent = text;
}

/** Returns whether a key press is this command: not typed into a field, and without modifiers. */
export function isCommand(event, key) {
  const isTyping = event.target.closest?.("input, select, textarea, dialog");
  return (
    event.key.toLowerCase() === key &&
    !isTyping &&
    !event.ctrlKey &&
    !event.metaKey &&
    !event.altKey
  );
}

/** Downloads `blob` as a file. */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Returns and sets a parameter of the page's address, so that a link shows the same view. */
export const parameter = (name) => new URLSearchParams(location.search).get(name) ?? "";

export function setParameter(name, value) {
  const address = new URL(location.href);
  if (value) address.searchParams.set(name, value);
  else address.searchParams.delete(name);
  history.replaceState(null, "", address);
}

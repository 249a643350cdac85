// Texts in the chosen language. Pages and modules are written in English; `german.js` has the
// German texts.

import { GERMAN } from "./german.js";
import { GERMAN_STUDIO } from "./german-studio.js";

const TEXTS = { en: {}, de: { ...GERMAN, ...GERMAN_STUDIO } };
export const LANGUAGES = { en: "English", de: "Deutsch" };

const ATTRIBUTES = ["aria-label", "placeholder", "title"];

/**
 * The chosen language: of the address, of this browser, of the deployment, or the browser's own.
 */
export const language =
  [
    new URLSearchParams(globalThis.location?.search).get("lang"),
    stored(),
    globalThis.document?.documentElement.dataset.language,
    ...(globalThis.navigator?.languages ?? []).map((each) => each.split("-")[0]),
  ].find((each) => each && each in TEXTS) ?? "en";

/** Returns a text in the chosen language, with `values` in place of the names in braces. */
export function t(text, values = {}) {
  return (TEXTS[language][text] ?? text).replace(
    /\{(\w+)\}/g,
    (whole, name) => values[name] ?? whole,
  );
}

/** Marks a text that `t` translates later. */
export const mark = (text) => text;

/** Chooses another language. */
export function choose(name) {
  try {
    localStorage.setItem("language", name);
  } catch {
    // without storage the address alone carries it
  }
  const address = new URL(location.href);
  if (address.searchParams.has("lang")) address.searchParams.set("lang", name);
  location.assign(address);
}

/** Translates the texts of the page as it was served. */
export function translate() {
  document.documentElement.lang = language;
  if (language === "en") return;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = /** @type {Text} */ (texts.currentNode);
    const text = node.data.trim();
    if (text) node.data = node.data.replace(text, () => t(text));
  }
  for (const name of ATTRIBUTES)
    for (const element of document.querySelectorAll(`[${name}]`))
      element.setAttribute(name, t(element.getAttribute(name)));
}

function stored() {
  try {
    return localStorage.getItem("language");
  } catch {
    return null;
  }
}

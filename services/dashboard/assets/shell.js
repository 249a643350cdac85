// The common frame of all pages: account, theme and navigation. Each page imports it first.

import { end, session } from "./session.js";

const THEMES = ["auto", "light", "dark"];
const root = document.documentElement;

/** Returns the element with this id. */
export const element = (id) => document.getElementById(id);

/** Shows the logged-in account, after a log-in if there is no session. */
export async function start() {
  for (const link of document.querySelectorAll("nav a"))
    if (link.dataset.for === root.dataset.page) link.setAttribute("aria-current", "page");
  const who = await session();
  element("account").textContent = who.account;
  element("log-out").hidden = false;
  for (const part of document.querySelectorAll("[data-needs]"))
    part.hidden = !who.permissions.includes(part.dataset.needs);
  return who;
}

function showTheme() {
  element("theme").textContent = `Theme: ${root.dataset.theme ?? "auto"}`;
}

element("theme").addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "auto") + 1) % THEMES.length];
  if (next === "auto") delete root.dataset.theme;
  else root.dataset.theme = next;
  try {
    if (next === "auto") localStorage.removeItem("theme");
    else localStorage.setItem("theme", next);
  } catch {
    // without storage it applies to this page only
  }
  showTheme();
  root.dispatchEvent(new Event("theme"));
});
element("log-out").addEventListener("click", async () => {
  await end();
  location.assign("/dashboard");
});
showTheme();

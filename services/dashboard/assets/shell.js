// The common frame of all pages: account, theme and navigation. Each page imports it first.

import { showBrand } from "./brand.js";
import { keepPage } from "./kept-page.js";
import { element } from "./page-elements.js";
import { clock } from "./service-clock.js";
import { end, get, logIn, session } from "./session.js";
import { isTransient } from "./stream.js";
import { choose, language, LANGUAGES, mark, t, translate } from "./texts.js";
import { time } from "./formatting.js";

export { element };

const THEMES = [mark("auto"), mark("light"), mark("dark")];
const WARN_MS = 10 * 60_000;
const CHECK_MS = 30_000;
const AGAIN_MS = 2_000;
const root = document.documentElement;
let expires = 0;

/** Shows the logged-in account, after a log-in if there is no session. */
export async function start() {
  for (const link of document.querySelectorAll("nav a"))
    if (link.dataset.for === root.dataset.page) link.setAttribute("aria-current", "page");
  const who = await reached(session);
  element("account").textContent = who.account;
  element("log-out").hidden = false;
  for (const part of document.querySelectorAll("[data-needs]"))
    part.hidden = !who.permissions.includes(part.dataset.needs);
  expires = Date.parse(who.expires ?? "") || 0;
  setInterval(warn, CHECK_MS);
  showBrand();
  warn();
  return who;
}

/** Returns what `ask` does, once the service can be reached: a kept page is shown before. */
async function reached(ask) {
  for (;;) {
    try {
      const found = await ask();
      element("away").hidden = true;
      return found;
    } catch (error) {
      if (!(error instanceof TypeError || isTransient(error.status))) throw error;
      element("away").hidden = false;
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }
}

/** Warns before the session ends. */
function warn() {
  const isNear = expires > 0 && expires - clock.now() < WARN_MS;
  element("session-ends").hidden = !isNear;
  if (isNear)
    element("session-time").textContent = t("Your session ends at {time}.", {
      time: time(expires),
    });
}

async function renew() {
  await logIn();
  expires = Date.parse((await get("/dashboard/session")).expires ?? "") || 0;
  warn();
}

function showTheme() {
  element("theme").textContent = t("Theme: {name}", { name: t(root.dataset.theme ?? "auto") });
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
element("renew").addEventListener("click", renew);
for (const [value, name] of Object.entries(LANGUAGES))
  element("language").append(new Option(name, value, false, value === language));
element("language").addEventListener("change", () => choose(element("language").value));
translate();
keepPage();
showTheme();

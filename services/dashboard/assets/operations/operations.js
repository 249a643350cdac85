// The operator's page: reads the status every two seconds while the page is visible.

import { setText } from "../keyed-elements.js";
import { duration, show } from "./status-tables.js";
import { Refused, open } from "../session.js";
import { element, start } from "../shell.js";
import { t } from "../texts.js";

const EVERY_MS = 2_000;
const PATIENCE_MS = 8_000;
const OLD_S = 10;

let latest = null;
let received = 0;
let everything = false;
let trouble = "";
let timer = 0;
let asking = false;

/**
 * Returns the age of the status in seconds: by the server's clock, and since its receipt by the
 * browser's.
 */
const age = () =>
  (Date.parse(latest.now) - Date.parse(latest.at) + performance.now() - received) / 1_000;

async function ask() {
  if (asking || document.hidden) return;
  asking = true;
  clearTimeout(timer);
  try {
    const answer = await open("/operations/status", { signal: AbortSignal.timeout(PATIENCE_MS) });
    latest = await answer.json();
    received = performance.now();
    trouble = "";
  } catch (error) {
    trouble =
      error instanceof Refused
        ? error.message
        : t("The service does not respond; this page keeps trying.");
    if (error.status === 403) trouble += ` ${t("Log in with another key.")}`;
  }
  asking = false;
  draw();
  timer = setTimeout(ask, EVERY_MS);
}

function draw() {
  if (latest) show(latest, everything);
  element("shown").hidden = !latest;
  setText(element("trouble"), trouble);
  element("trouble").hidden = !trouble;
  drawAge();
}

function drawAge() {
  const chip = element("freshness");
  const old = Boolean(trouble) || (latest?.at && age() > OLD_S);
  chip.className = `chip ${old ? "bad" : latest?.at ? "good" : ""}`;
  if (latest?.at) {
    const span = duration(Math.floor(Math.max(0, age())));
    setText(
      chip,
      old ? t("Not up to date: read {span} ago", { span }) : t("Read {span} ago", { span }),
    );
  } else setText(chip, latest || trouble ? t("No status read yet") : t("Loading …"));
  element("shown").classList.toggle("old", Boolean(old));
}

element("everything").addEventListener("click", () => {
  everything = !everything;
  element("everything").setAttribute("aria-pressed", String(everything));
  draw();
});
document.addEventListener("visibilitychange", ask);
await start();
setInterval(drawAge, 1_000);
await ask();

// The account's contests, newest first, with their totals.

import { get, Refused } from "./session.js";
import { element, start } from "./shell.js";
import * as words from "./words.js";

const REFRESH_MS = 10_000;
const shown = new Map(); // key -> list item
let next = null;

const who = await start();
element("more").addEventListener("click", more);
await more();
setInterval(() => document.hidden || refresh(), REFRESH_MS);

async function more() {
  const note = element("contests-note");
  if (!who.permissions.includes("content:read")) {
    note.textContent = "This API key cannot list contests (content:read). Open one at /dashboard/contests/<its key>.";
    return;
  }
  try {
    const page = await get(`/contests?limit=20${next ? `&next=${encodeURIComponent(next)}` : ""}`);
    next = page.next;
    element("more").hidden = !page.has_more;
    for (const contest of page.data) if (!shown.has(contest.key)) add(contest);
    note.textContent = shown.size ? "" : "There are no contests yet.";
  } catch (error) {
    note.textContent = error instanceof Refused ? error.message : "The service cannot be reached. Reload to try again.";
  }
}

function add(contest) {
  const item = document.createElement("li");
  item.className = "panel";
  const link = document.createElement("a");
  link.href = `/dashboard/contests/${encodeURIComponent(contest.key)}`;
  link.textContent = contest.title || contest.key;
  const phase = document.createElement("span");
  const now = phaseOf(contest, Date.now());
  phase.className = now === "running" ? "chip good" : "chip";
  phase.textContent = words.PHASES[now];
  const votes = document.createElement("span");
  votes.className = "votes";
  votes.textContent = "…";
  const when = document.createElement("span");
  when.className = "soft";
  when.textContent = times(contest.contest_config);
  item.append(link, phase, when, votes);
  element("contests").append(item);
  shown.set(contest.key, votes);
  count(contest.key);
}

function refresh() {
  for (const key of shown.keys()) count(key);
}

async function count(key) {
  try {
    const counts = await get(`/contests/${encodeURIComponent(key)}/vote_updates`);
    shown.get(key).textContent = words.plural(counts.count, "vote", "votes");
  } catch (error) {
    if (error instanceof Refused && error.code === "results_hidden") shown.get(key).textContent = "hidden";
    else if (error instanceof Refused && error.status < 500) shown.get(key).textContent = "";
  }
}

/** Returns the phase by the browser's clock; the contest's own page uses the service's. */
function phaseOf(contest, now) {
  const { start, end } = contest.contest_config;
  if (!contest.publish || Date.parse(contest.publish) > now) return "setup";
  if (!start || Date.parse(start) > now) return "announced";
  return end && Date.parse(end) <= now ? "finished" : "running";
}

function times({ start, end }) {
  if (!start) return "no start set";
  return `${words.date(Date.parse(start))} – ${end ? words.date(Date.parse(end)) : "open end"}`;
}

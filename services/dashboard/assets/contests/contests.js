// The account's contests, newest first, with their totals; searched and filtered in this page.

import { element } from "../page-elements.js";
import { clock } from "../service-clock.js";
import { get, open, Refused } from "../session.js";
import { start } from "../shell.js";
import { t } from "../texts.js";
import * as words from "../formatting.js";

const REFRESH_MS = 10_000;
const TYPES = {
  voteonly: "Vote only",
  participation: "Participation",
  rating: "Rating",
  ordering: "Ordering",
};
const known = new Map(); // key -> {contest, item, votes, mark, chip, state}
let next = null;
let isAll = false;

const who = await start();
for (const [id, event] of [
  ["search", "input"],
  ["phase", "change"],
  ["type", "change"],
])
  element(id).addEventListener(event, filter);
element("more").addEventListener("click", more);
await more();
setInterval(() => document.hidden || refresh(), REFRESH_MS);

async function more() {
  if (!who.permissions.includes("content:read"))
    return say(
      t(
        "This API key cannot list contests (content:read). Open one at /dashboard/contests/<its key>.",
      ),
    );
  try {
    const page = await get(`/contests?limit=20${next ? `&next=${encodeURIComponent(next)}` : ""}`);
    [next, isAll] = [page.next, !page.has_more];
    for (const contest of page.data) if (!known.has(contest.key)) add(contest);
    show();
  } catch (error) {
    say(
      error instanceof Refused
        ? error.message
        : t("The service cannot be reached. Reload to try again."),
    );
  }
}

/** Shows the contests that fit; a search covers all of them, not only those listed so far. */
async function filter() {
  show();
  while (isFiltered() && !isAll) {
    const before = next;
    await more();
    if (next === before) return;
  }
}

function isFiltered() {
  return ["search", "phase", "type"].some((id) => element(id).value.trim());
}

function show() {
  const search = element("search").value.trim().toLocaleLowerCase();
  const [phase, type] = [element("phase").value, element("type").value];
  let shown = 0;
  for (const { contest, item, chip } of known.values()) {
    const now = phaseOf(contest, clock.now());
    chip.className = now === "running" ? "chip good" : "chip";
    chip.textContent = t(words.PHASES[now]);
    const fits =
      (contest.title || contest.key).toLocaleLowerCase().includes(search) &&
      (!phase || now === phase) &&
      (!type || contest.contest_type === type);
    item.hidden = !fits;
    shown += fits;
  }
  element("more").hidden = isAll;
  say(shown ? "" : known.size ? t("No contest matches.") : t("There are no contests yet."));
}

function add(contest) {
  const item = part("li", "panel");
  const link = part("a", "", contest.title || contest.key);
  link.href = `/dashboard/contests/${encodeURIComponent(contest.key)}`;
  const mark = part("span", "chip good");
  mark.hidden = true;
  const chip = part("span", "chip");
  const marks = part("span", "marks");
  marks.append(mark, chip);
  const type = t(TYPES[contest.contest_type] ?? contest.contest_type);
  const when = part("span", "soft", `${type} · ${times(contest.contest_config)}`);
  const votes = part("span", "votes", "…");
  const edit = part("a", "edit", t("Edit"));
  edit.href = `/dashboard/contests/${encodeURIComponent(contest.key)}/edit`;
  edit.ariaLabel = t("Edit {name}", { name: contest.title || contest.key });
  edit.hidden = !who.permissions.includes("content:write");
  item.append(link, marks, when, votes, edit);
  element("contests").append(item);
  known.set(contest.key, { contest, item, votes, mark, chip, state: "" });
  count(contest.key);
}

function refresh() {
  show(); // voting begins and ends
  for (const [key, { item, state }] of known) if (!item.hidden && state !== "sealed") count(key);
}

/** Reads a contest's total, and whether it is final; of a final one, whether it is sealed. */
async function count(key) {
  const entry = known.get(key);
  const path = `/contests/${encodeURIComponent(key)}/vote_updates`;
  try {
    const answer = await open(path);
    const counts = await answer.json();
    entry.votes.textContent = words.plural(counts.count, words.units(counts.contest_type));
    const isFinal = answer.headers.get("Tally-Final") === "final";
    entry.state = !isFinal ? "" : (await get(`${path}?details=true`)).seal ? "sealed" : "final";
    entry.mark.hidden = !entry.state;
    entry.mark.textContent = entry.state === "sealed" ? t("Sealed") : t("Final");
  } catch (error) {
    if (error instanceof Refused && error.code === "results_hidden")
      entry.votes.textContent = t("Hidden");
    else if (error instanceof Refused && error.status < 500) entry.votes.textContent = "";
  }
}

/** Returns the phase at a time, as the service computes it. */
function phaseOf(contest, now) {
  const { start, end } = contest.contest_config;
  if (!contest.publish || Date.parse(contest.publish) > now) return "setup";
  if (!start || Date.parse(start) > now) return "announced";
  return end && Date.parse(end) <= now ? "finished" : "running";
}

function times({ start, end }) {
  if (!start) return t("no start set");
  const until = end ? words.dateShort(Date.parse(end)) : t("open end");
  return `${words.dateShort(Date.parse(start))} – ${until}`;
}

function part(name, kind, text = "") {
  return Object.assign(document.createElement(name), { className: kind, textContent: text });
}

function say(text) {
  element("contests-note").textContent = text;
}

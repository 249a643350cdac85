// The voting page. The contest and its live results come from the public API, without a key; all that concerns the
// voter goes through the page's own backend, which holds the key.

import { arrangeBallot, fillBallot, ratingForm, showRating } from "./forms.js";
import { ask, make, newId, send } from "./requests.js";

const api = document.documentElement.dataset.api;
const key = new URLSearchParams(location.search).get("contest");
const element = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
const hour = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short", hourCycle: "h23" });
const WORDS = { rating: ["rating", "ratings"], ordering: ["point", "points"] };
const plural = (count, [one, many] = ["vote", "votes"]) => `${number.format(count)} ${count === 1 ? one : many}`;
const PHASES = { announced: "Not open yet", running: "Open", finished: "Closed" };

const RENEW_MS = 3_000; // within it phones read the contest again

let contest = null;
let latest = null; // the last results
let allowance = null;
let votes = [];
let ahead = 0; // how far the service's clock is ahead of this one, in ms
let showBallot = null;
const shown = new Map(); // participant key -> its elements

element("plain").hidden = isSecureContext;
if (key) await open();
else await choose();

async function choose() {
  const found = await ask("/contests");
  element("choose").hidden = false;
  element("none").hidden = found?.data.length !== 0;
  element("sample").addEventListener("click", async () => {
    const sample = await send("POST", "/sample");
    if (sample) location.assign(`/?contest=${encodeURIComponent(sample.key)}`);
  });
  for (const each of found?.data ?? []) {
    const link = make("a", { href: `/?contest=${encodeURIComponent(each.key)}` }, each.title || each.key);
    element("contests").append(make("li", {}, link));
  }
}

async function open() {
  contest = await ask(`${api}/public/contests/${encodeURIComponent(key)}`);
  if (!contest) return;
  showContest();
  if (contest.positions) {
    showBallot = fillBallot(element("ballot"), contest.positions, contest.participants, (positions) => vote({ positions }));
    element("ballot").hidden = false;
  }
  element("voting").hidden = false;
  showPhase(contest.phase);
  follow();
  await refresh();
  setInterval(tick, 1000);
}

/** Shows title, texts, pictures and participants; what a voter has filled in stays. */
function showContest() {
  document.title = element("title").textContent = contest.title || contest.contest_key;
  element("about").textContent = contest.description ?? "";
  if (contest.image) Object.assign(element("image"), { src: picture(contest.image), hidden: false });
  const focused = document.activeElement;
  const items = contest.participants.map((each) => {
    const before = shown.get(each.participant_key);
    return before?.of === JSON.stringify(each) ? before.item : participant(each);
  });
  element("participants").replaceChildren(...items);
  if (focused?.isConnected) focused.focus();
}

/** Reads the contest again, some time after a change, so that not all phones ask at once, until it has the change. */
async function renew(updated) {
  for (let attempt = 0; attempt < 5 && contest.updated < updated; attempt += 1) {
    await new Promise((resolve) => setTimeout(resolve, Math.random() * RENEW_MS));
    const found = await ask(`${api}/public/contests/${encodeURIComponent(key)}`);
    if (!found) return;
    contest = { ...found, phase: contest.phase, start: contest.start, end: contest.end };
    showContest();
    if (contest.positions) arrangeBallot(element("ballot"), contest.participants);
    if (latest) showResults(latest);
    showOwn();
    showLeft();
  }
}

function participant(each) {
  const title = each.title || each.participant_key;
  const counts = make("span", { className: "soft" });
  const name = make("span", { className: "name" }, make("strong", {}, title), counts);
  const share = make("progress", { max: 1, value: 0, ariaLabel: `Share of ${title}` });
  const image = each.image ? [make("img", { src: picture(each.image), alt: "", width: 64, height: 64 })] : [];
  const its = { counts, share, title, of: JSON.stringify(each), ...control(each, title) };
  its.item = make("li", {}, ...image, name, ...[its.form ?? its.button].filter(Boolean), share);
  shown.set(each.participant_key, its);
  return its.item;
}

/** Returns a participant's button, with its form in a rating contest; neither where a ballot is filled in. */
function control(each, title) {
  if (contest.positions) return {};
  if (contest.rating) return ratingForm(each, contest.rating, (rating) => vote({ participant_key: each.participant_key, rating }));
  const button = make("button", { type: "button", ariaLabel: `Vote for ${title}` }, "Vote");
  button.addEventListener("click", () => vote({ participant_key: each.participant_key }));
  return { button };
}

function picture({ url, sizes }) {
  return new URL(sizes.thumb ?? url, api);
}

/** Follows the live results; the browser opens the stream again when it breaks. */
function follow() {
  const stream = new EventSource(`${api}/public/contests/${encodeURIComponent(key)}/results/stream`);
  stream.addEventListener("phase", (event) => {
    const { phase, start, end, updated, server_time: now } = JSON.parse(event.data);
    ahead = Date.parse(now) - Date.now();
    Object.assign(contest, { start, end });
    showPhase(phase);
    renew(updated);
  });
  stream.addEventListener("results", (event) => showResults((latest = JSON.parse(event.data))));
  stream.addEventListener("gone", () => stream.close());
}

function showPhase(phase) {
  contest.phase = phase;
  element("phase").textContent = PHASES[phase] ?? phase;
  showCountdown();
  showLeft();
}

function tick() {
  showCountdown();
  showLeft();
}

/** Shows when voting opens, and the time that remains if the contest says so, else when it ends. */
function showCountdown() {
  const until = Date.parse((contest.phase === "announced" ? contest.start : contest.end) ?? "");
  const left = until - Date.now() - ahead;
  let text = "";
  if (contest.phase === "announced" && left > 0) text = `Opens in ${span(left)}`;
  else if (contest.phase === "running" && contest.is_contest_time_shown && left > 0) text = `Closes in ${span(left)}`;
  else if (contest.phase === "running" && left > 0) text = `until ${hour.format(until)}`;
  if (element("countdown").textContent !== text) element("countdown").textContent = text;
}

function showResults(results) {
  element("total").textContent = results.count === null ? "The counts are hidden for now." : `${plural(results.count, WORDS[contest.contest_type])} in all`;
  for (const each of results.participants) {
    const its = shown.get(each.participant_key);
    if (!its) continue;
    const average = each.average == null ? "" : `${number.format(each.average)} from `;
    const place = results.count ? ` · place ${each.rank}` : ""; // before the first vote nobody is first
    its.counts.textContent = each.count === null ? "" : `${average}${plural(each.count, WORDS[contest.contest_type])}${place}`;
    its.share.value = each.share ?? 0;
  }
}

/** Casts a vote, `choice` being its participant, rating or positions. */
async function vote(choice) {
  const cast = await send("POST", own("votes"), { ...choice, vote_id: newId() });
  if (cast) await refresh((found) => found.some((each) => each.vote_id === cast.vote_id));
  else await refresh();
}

async function takeBack(voteId) {
  if (await send("DELETE", own(`votes/${encodeURIComponent(voteId)}`)))
    await refresh((found) => found.every((each) => each.vote_id !== voteId || each.status !== "counted"));
}

/** Reads the voter's votes and allowance, again for a second until the votes are as awaited. */
async function refresh(awaited = () => true) {
  for (let attempt = 0; attempt < 10; attempt += 1) {
    const page = await ask(own("votes"));
    if (!page) return;
    votes = page.data;
    if (awaited(votes)) break;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  allowance = (await ask(own("allowance"))) ?? allowance;
  showOwn();
  showLeft();
}

function showOwn() {
  element("no-votes").hidden = votes.length > 0;
  element("own").replaceChildren(...votes.map(ownVote));
  const current = votes.filter((each) => each.status === "counted");
  for (const each of [...current].reverse()) {
    const form = each.rating && shown.get(each.choices[0]?.participant_key)?.form;
    if (form) showRating(form, each.rating);
  }
  const ballot = current.find((each) => each.positions);
  if (ballot) showBallot?.(ballot.positions);
}

function ownVote(each) {
  const names = (each.choices ?? []).map((choice) => shown.get(choice.participant_key)?.title ?? choice.participant_key);
  const rating = each.rating ? `: ${number.format(each.rating.value)}` : "";
  const title = (names.join(", ") || "A vote") + rating;
  const state = each.counts ? "counts" : (each.reason ?? each.status);
  const about = make(
    "span",
    { className: "name" },
    title,
    make("br"),
    make("span", { className: "soft" }, `${clock.format(Date.parse(each.accepted_at))} · ${state}`),
  );
  const item = make("li", {}, about);
  if (each.status === "counted" && each.source === "c-free" && contest.is_vote_removal_allowed) {
    const button = make("button", { type: "button", ariaLabel: `Take back your vote for ${title}` }, "Take back");
    button.addEventListener("click", () => takeBack(each.vote_id));
    item.append(button);
  }
  return item;
}

/** Shows what the voter has left, and when it renews; then reads it again. */
function showLeft() {
  const free = allowance?.sources.find((source) => source.source === "c-free");
  const runs = contest.phase === "running";
  const inContest = free?.contest.remaining ?? null;
  for (const each of free?.participants ?? []) {
    const button = shown.get(each.participant_key)?.button;
    if (button) button.disabled = !runs || (!replaces() && (each.remaining === 0 || inContest === 0));
  }
  element("ballot").querySelector("button").disabled = !runs;
  const text = runs && free ? rule(free, inContest) : "";
  const renews = allowance?.next_free_vote_at ? Date.parse(allowance.next_free_vote_at) - Date.now() : null;
  element("renews").textContent = runs && renews > 0 ? `All renew in ${span(renews)}.` : "";
  if (element("left").textContent !== text) element("left").textContent = text;
  if (renews !== null && renews <= 0) {
    allowance.next_free_vote_at = null;
    refresh();
  }
}

/** Says how often the voter may vote; a limit on an address is not known here. */
function rule(free, inContest) {
  if (contest.positions) return "A new ballot replaces your earlier one.";
  const most = Math.max(0, ...free.participants.map((each) => each.limit ?? Infinity));
  if (contest.rating && most === 1) return "A new rating replaces your earlier one.";
  if (inContest !== null) return `You have ${plural(inContest)} left.`;
  if (most === Infinity) return "Vote as often as you like.";
  return most > 0 ? `You have ${plural(most)} for each.` : "";
}

/** Returns whether a new rating replaces an earlier one, which needs no allowance. */
function replaces() {
  const free = allowance?.sources.find(({ source }) => source === "c-free");
  return Boolean(contest.rating) && Boolean(free?.participants.every((each) => each.limit === 1));
}

function span(ms) {
  const seconds = Math.ceil(ms / 1000);
  const two = (value) => String(value).padStart(2, "0");
  const minutes = `${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return seconds < 3600 ? minutes : `${Math.floor(seconds / 3600)}:${minutes}`;
}

function own(path) {
  return `/contests/${encodeURIComponent(key)}/${path}`;
}

// The voting page. The contest and its live results come from the public API, without a key; all that concerns the
// voter goes through the page's own backend, which holds the key.

import { arrangeBallot, fillBallot, ratingForm, showRating } from "./forms.js";
import { PendingVotes } from "./pending-votes.js";
import { arranged, sharedText } from "./presentation.js";
import { Renewal } from "./renewal.js";
import { ask, askUntilAnswered, hideTrouble, make, newId, Refused, request, respond, showTrouble } from "./requests.js";
import { clock } from "./service-clock.js";
import { listen } from "./stream.js";

const api = document.documentElement.dataset.api;
const key = new URLSearchParams(location.search).get("contest");
const element = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const moment = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
const hour = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short", hourCycle: "h23" });
const WORDS = { rating: ["rating", "ratings"], ordering: ["point", "points"] };
const plural = (count, [one, many] = ["vote", "votes"]) => `${number.format(count)} ${count === 1 ? one : many}`;
const HIDDEN = { hidden_until_vote: "The counts are shown to those who have voted." };
const PHASES = { announced: "Not open yet", running: "Open", finished: "Closed" };

const RENEW_MS = 3_000; // within it phones read the contest again
const SAMPLE_MS = 120_000;
const STREAM_PAUSES = { first: 2_000, longest: 5_000 };

let contest = null;
let latest = null; // the last results
let allowance = null;
let votes = [];
let isRenewing = false;
let receiptSent = null; // the receipt with which the stream is followed
let standing = null; // the last `phase` event
let showBallot = null;
let stream = new AbortController(); // ends the stream that is followed
const shown = new Map(); // participant key -> its elements
const renewal = new Renewal();
const memory = new Map(); // what this browser does not store
const store = {
  getItem(name) {
    try {
      return memory.get(name) ?? localStorage.getItem(name);
    } catch {
      return null;
    }
  },
  setItem(name, value) {
    try {
      localStorage.setItem(name, value);
    } catch {
      memory.set(name, value);
    }
  },
};
const pending = new PendingVotes(key, { store, send: sendVote, answered, changed: showPending, newId });

element("plain").hidden = isSecureContext;
if (key) await open();
else await choose();

async function choose() {
  const found = await askUntilAnswered("/contests");
  element("choose").hidden = false;
  element("none").hidden = found?.data.length !== 0;
  element("sample").addEventListener("click", async () => {
    const sample = await ask("/sample", "POST", SAMPLE_MS);
    if (sample) location.assign(`/?contest=${encodeURIComponent(sample.key)}`);
  });
  for (const each of found?.data ?? []) {
    const link = make("a", { href: `/?contest=${encodeURIComponent(each.key)}` }, each.title || each.key);
    element("contests").append(make("li", {}, link));
  }
}

async function open() {
  contest = await askUntilAnswered(`${api}/public/contests/${encodeURIComponent(key)}`);
  if (!contest) return;
  element("participants").hidden = contest.is_grid_hidden;
  showContest();
  if (contest.positions) {
    showBallot = fillBallot(element("ballot"), contest.positions, contest.participants, (positions) => vote({ positions }));
    element("ballot").hidden = false;
  }
  element("voting").hidden = false;
  showPhase(contest.phase);
  showPending();
  follow();
  pending.resume();
  await refresh();
  setInterval(tick, 1000);
}

/** Shows title, texts, pictures and participants; what a voter has filled in stays. */
function showContest() {
  document.title = element("title").textContent = contest.title || contest.contest_key;
  element("about").textContent = contest.description ?? "";
  if (contest.image) Object.assign(element("image"), { src: picture(contest.image), hidden: false });
  const focused = document.activeElement;
  const items = arranged(contest.participants, latest, contest.is_randomize ? seed() : null).map((each) => {
    const before = shown.get(each.participant_key);
    return before?.of === JSON.stringify(each) ? before.item : participant(each);
  });
  element("participants").replaceChildren(...items);
  if (focused?.isConnected) focused.focus();
}

/** The number that shuffles the participants, the same for this browser. */
function seed() {
  const name = `seed:${key}`;
  if (!store.getItem(name)) store.setItem(name, newId());
  return store.getItem(name);
}

/** Reads the contest again, some time after a change, so that not all phones ask at once, until it has the change. */
async function renew() {
  if (isRenewing) return;
  isRenewing = true;
  try {
    for (let attempt = 0; attempt < 5 && contest.updated < standing.updated; attempt += 1) await readAgain(attempt);
  } finally {
    isRenewing = false;
  }
}

async function readAgain(attempt) {
  await new Promise((resolve) => setTimeout(resolve, RENEW_MS * (attempt + Math.random())));
  const found = await ask(`${api}/public/contests/${encodeURIComponent(key)}`);
  if (!found) return;
  contest = { ...found, phase: contest.phase, start: contest.start, end: contest.end };
  showContest();
  if (contest.positions) arrangeBallot(element("ballot"), contest.participants);
  if (latest) showResults(latest);
  showOwn();
  showLeft();
}

function participant(each) {
  const title = each.title || each.participant_key;
  const counts = make("span", { className: "soft" });
  const note = make("span", { className: "note", role: "status" });
  const name = make("span", { className: "name" }, make("strong", {}, title), counts, note);
  const share = make("progress", { max: 1, value: 0, ariaLabel: `Share of ${title}` });
  const image = each.image ? [make("img", { src: picture(each.image), alt: "", width: 64, height: 64 })] : [];
  const its = { counts, share, title, note, of: JSON.stringify(each), ...control(each, title) };
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

/** Follows the live results, with the receipt of a vote if there is one; a stream that is followed already ends. */
async function follow() {
  stream.abort();
  stream = new AbortController();
  receiptSent = store.getItem(`receipt:${key}`);
  const query = receiptSent ? `?receipt=${encodeURIComponent(receiptSent)}` : "";
  const address = `${api}/public/contests/${encodeURIComponent(key)}/results/stream${query}`;
  let isLost = false;
  const connected = () => {
    if (isLost) refresh();
    isLost = false;
  };
  const lost = () => {
    isLost = true;
    element("stale").hidden = false;
  };
  try {
    await listen((options) => respond(address, options), { received, connected, lost }, { ...STREAM_PAUSES, signal: stream.signal });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    showTrouble(error, false);
  }
}

function received(event, data) {
  element("stale").hidden = event !== "stale";
  if (event === "phase") {
    clock.set(data.server_time);
    standing = data;
    Object.assign(contest, { start: data.start, end: data.end });
    showPhase(data.phase);
    renew();
  } else if (event === "results") {
    const before = order();
    latest = data;
    // not under a finger
    if (order() !== before && !element("participants").matches(":active")) showContest();
    showResults(data);
    useReceipt();
  }
}

function order() {
  return latest?.participants.map(({ participant_key: of }) => of).join();
}

/** Keeps a vote's receipt, which shows counts that only those who have voted may see. */
function keepReceipt(receipt) {
  const name = `receipt:${key}`;
  if (receipt && !store.getItem(name)) store.setItem(name, receipt);
  useReceipt();
}

function useReceipt() {
  if (latest?.count === null && store.getItem(`receipt:${key}`) !== receiptSent) follow();
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
  const left = standing === null ? NaN : until - clock.now();
  let text = "";
  if (contest.phase === "announced" && left > 0) text = `Opens in ${span(left)}`;
  else if (contest.phase === "running" && contest.is_contest_time_shown && left > 0) text = `Closes in ${span(left)}`;
  else if (contest.phase === "running" && left > 0) text = `until ${hour.format(until)}`;
  if (element("countdown").textContent !== text) element("countdown").textContent = text;
}

function showResults(results) {
  showShare();
  element("total").textContent = results.count === null ? (HIDDEN[standing?.visibility] ?? "The counts are hidden for now.") : `${plural(results.count, WORDS[contest.contest_type])} in all`;
  for (const each of results.participants) {
    const its = shown.get(each.participant_key);
    if (!its) continue;
    const average = each.average == null ? "" : `${number.format(each.average)} from `;
    const place = results.count ? ` · place ${each.rank}` : ""; // before the first vote nobody is first
    its.counts.textContent = each.count === null ? "" : `${average}${plural(each.count, WORDS[contest.contest_type])}${place}`;
    its.share.value = each.share ?? 0;
  }
}

/** Shows what to share: the best participants, as many as the contest wants, if their counts are seen. */
function showShare() {
  const nameOf = (of) => shown.get(of)?.title ?? of;
  element("share-text").value = sharedText({ title: element("title").textContent, results: latest, top: contest.share_top_x, nameOf, address: location.href });
}

/** Casts a vote, `choice` being its participant, rating or positions. */
function vote(choice) {
  hideTrouble(true);
  pending.cast(choice);
}

function sendVote({ vote_id: id, choice }) {
  return request("POST", own("votes"), { ...choice, vote_id: id });
}

/** Takes over the answer to a vote: it counts, or is refused. */
async function answered({ vote_id: id }, accepted, refusal) {
  if (refusal) {
    showTrouble(refusal, true);
    await refresh();
    return;
  }
  hideTrouble(true);
  keepReceipt(accepted.receipt);
  await refresh((found) => found.some((each) => each.vote_id === id));
}

/** Says at each participant, and at the ballot, whether the voter's vote is on its way, or recorded. */
function showPending() {
  const onTheirWay = pending.all;
  const textOf = (isOf) => {
    const found = onTheirWay.find(({ choice }) => isOf(choice));
    if (found) return found.failures ? "Not sent yet. It is sent again by itself." : "Sending …";
    return votes.some((each) => each.status === "counted" && isOf(each)) ? "Voted ✓" : "";
  };
  const isFor = (of) => (choice) => choice.participant_key === of || choice.choices?.some((each) => each.participant_key === of);
  for (const [of, { note }] of shown) setText(note, contest.positions ? "" : textOf(isFor(of)));
  if (contest?.positions) setText(element("ballot-note"), textOf((choice) => Boolean(choice.positions)));
}

function setText(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

async function takeBack(voteId) {
  if (await ask(own(`votes/${encodeURIComponent(voteId)}`), "DELETE"))
    await refresh((found) => found.every((each) => each.vote_id !== voteId || each.status !== "counted"));
}

/** Reads the voter's votes and allowance, again for some seconds until the votes are as awaited. */
async function refresh(awaited = () => true) {
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const page = await ask(own("votes"));
    if (!page) return;
    votes = page.data;
    if (awaited(votes)) break;
    await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** attempt * (1 + Math.random())));
  }
  keepReceipt(votes.find((each) => each.receipt)?.receipt);
  allowance = (await ask(own("allowance"))) ?? allowance;
  showOwn();
  showLeft();
}

function showOwn() {
  showPending();
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
    make("span", { className: "soft" }, `${moment.format(Date.parse(each.accepted_at))} · ${state}`),
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
  setText(element("left"), text);
  if (standing === null) return; // the service's time is not known yet
  const renewsAt = Date.parse(allowance?.next_free_vote_at ?? "");
  setText(element("renews"), runs && renewsAt > clock.now() ? `All renew in ${span(renewsAt - clock.now())}.` : "");
  if (runs && !Number.isNaN(renewsAt) && renewal.isDue(renewsAt, clock.now())) refresh();
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

// The voting page, over the official client: the contest and its live results come from the public API, without a key; all
// that concerns the voter goes through the page's own backend, which holds the key.

import { hideTrouble, make, setText, showTrouble, store } from "./elements.js";
import { arrangeBallot, fillBallot, ratingForm, showRating } from "./forms.js";
import { OwnVotes } from "./own-votes.js";
import { arranged, countdown, number, plural, rule, sharedText, span } from "./presentation.js";
import { Renewal } from "./renewal.js";
import { ApiError, Client, localStore, newId } from "./tallykeeper.js";

const api = document.documentElement.dataset.api;
const key = new URLSearchParams(location.search).get("contest");
const element = (id) => document.getElementById(id);
const moment = new Intl.DateTimeFormat("en", {
  dateStyle: "medium",
  timeStyle: "medium",
  hourCycle: "h23",
});
const WORDS = { rating: ["rating", "ratings"], ordering: ["point", "points"] };
const HIDDEN = { hidden_until_vote: "The counts are shown to those who have voted." };
const PHASES = { announced: "Not open yet", running: "Open", finished: "Closed" };

const RENEW_MS = 3_000; // within it phones read the contest again
const SAMPLE_MS = 120_000;
const UNREACHABLE = "The service cannot be reached. This page keeps trying.";

let contest = null;
let latest = null; // the last results
let allowance = null;
let votes = [];
let isRenewing = false;
let isReading = false;
let isReadingWanted = false;
const awaited = new Set(); // what the votes that are read should show by now
let receiptSent = null; // the receipt with which the stream is followed
let standing = null; // the last `phase` event
let showBallot = null;
let stream = new AbortController(); // ends the stream that is followed
const shown = new Map(); // participant key -> its elements
const renewal = new Renewal();
const tally = new Client(api, {
  backend: location.origin,
  store: localStore("pending votes"),
  patience: Infinity,
  retried: (_, vote) => (vote ? ownVotes.failed(vote) : showTrouble(UNREACHABLE)),
});
const ownVotes = new OwnVotes(tally, key, {
  changed: showNotes,
  accepted({ vote_id: id, receipt }) {
    hideTrouble(true);
    keepReceipt(receipt);
    refresh((found) => found.some((each) => each.vote_id === id));
  },
  refused: () => refresh(),
  stopped: (text) => showTrouble(text, true),
});

element("plain").hidden = isSecureContext;
if (key) await open();
else await choose();

/** Returns what a call answers, null if it is refused. */
async function asked(call, isWrite = false) {
  try {
    const found = await call;
    hideTrouble(isWrite);
    return found;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    showTrouble(error.message, isWrite);
    return null;
  }
}

async function choose() {
  const retried = () => showTrouble(UNREACHABLE);
  const page = new Client(location.origin, { patience: Infinity, retried });
  const found = await asked(page.get("/contests"));
  element("choose").hidden = false;
  element("none").hidden = found?.data.length !== 0;
  element("sample").addEventListener("click", createSample);
  for (const each of found?.data ?? []) {
    const address = `/?contest=${encodeURIComponent(each.key)}`;
    element("contests").append(
      make("li", {}, make("a", { href: address }, each.title || each.key)),
    );
  }
}

async function createSample() {
  try {
    const signal = AbortSignal.timeout(SAMPLE_MS);
    const answer = await fetch("/sample", { method: "POST", signal });
    const sample = await answer.json();
    if (answer.ok) location.assign(`/?contest=${encodeURIComponent(sample.key)}`);
    else showTrouble(sample.detail, true);
  } catch {
    showTrouble("The service cannot be reached. Try again.", true);
  }
}

async function open() {
  contest = await asked(tally.contest(key));
  if (!contest) return;
  element("participants").hidden = contest.is_grid_hidden;
  showContest();
  if (contest.positions) {
    const cast = (positions) => vote({ positions });
    showBallot = fillBallot(element("ballot"), contest.positions, contest.participants, cast);
  }
  element("voting").hidden = false;
  showPhase(contest.phase);
  follow();
  ownVotes.send();
  await refresh();
  setInterval(tick, 1000);
}

/** Shows title, texts, pictures and participants; what a voter has filled in stays. */
function showContest() {
  document.title = element("title").textContent = contest.title || contest.contest_key;
  element("about").textContent = contest.description ?? "";
  if (contest.image)
    Object.assign(element("image"), { src: picture(contest.image), hidden: false });
  const focused = document.activeElement;
  const how = { seed: contest.is_randomize ? seed() : null, isOver: isOver() };
  const items = arranged(contest.participants, latest, how).map((each) => {
    const before = shown.get(each.participant_key);
    if (before?.of !== madeOf(each)) return participant(each);
    before.place.textContent = numberOf(each);
    return before.item;
  });
  element("participants").replaceChildren(...items);
  if (focused?.isConnected) focused.focus();
}

/** What a participant's element is made of: its number changes with the order of all, and is set in place. */
function madeOf({ number_string: _number, running_number: _running, ...rest }) {
  return JSON.stringify(rest);
}

function numberOf(each) {
  return each.number_string ?? `${each.running_number}`;
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
    for (let attempt = 0; attempt < 5 && contest.updated < standing.updated; attempt += 1)
      await readAgain(attempt);
  } finally {
    isRenewing = false;
  }
}

async function readAgain(attempt) {
  await new Promise((resolve) => setTimeout(resolve, RENEW_MS * (attempt + Math.random())));
  const found = await asked(tally.contest(key));
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
  const place = make("span", { className: "number" }, numberOf(each));
  const name = make("span", { className: "name" }, make("strong", {}, title), counts, note);
  const share = make("progress", { max: 1, value: 0, ariaLabel: `Share of ${title}` });
  const image = each.image
    ? [make("img", { src: picture(each.image), alt: "", width: 64, height: 64 })]
    : [];
  const its = { counts, share, title, note, place, of: madeOf(each), ...control(each, title) };
  its.item = make(
    "li",
    {},
    place,
    ...image,
    name,
    ...[its.form ?? its.button].filter(Boolean),
    share,
  );
  shown.set(each.participant_key, its);
  return its.item;
}

/** Returns a participant's button, with its form in a rating contest; neither where a ballot is filled in. */
function control(each, title) {
  if (contest.positions) return {};
  if (contest.rating)
    return ratingForm(each, contest.rating, (rating) =>
      vote({ participant_key: each.participant_key, rating }),
    );
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
  const { signal } = stream;
  try {
    for await (const update of tally.follow(key, { receipt: receiptSent, signal }))
      received(update);
    if (!signal.aborted) showTrouble("This contest is no longer shown.");
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    showTrouble(error.message);
  }
}

function received({ phase, results, isStale }) {
  const wasStale = !element("stale").hidden;
  element("stale").hidden = !isStale;
  if (wasStale && !isStale) refresh();
  if (phase && phase !== standing) {
    standing = phase;
    Object.assign(contest, { start: phase.start, end: phase.end });
    showPhase(phase.phase);
    renew();
  }
  if (!results || results === latest) return;
  const before = order();
  latest = results;
  // not under a finger
  const isFree = !element("participants").matches(":active");
  if (isFree && (isOver() || order() !== before)) showContest();
  showResults(results);
  useReceipt();
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
  const wasOver = isOver();
  contest.phase = phase;
  if (isOver() !== wasOver) showContest();
  element("phase").textContent = PHASES[phase] ?? phase;
  element("ballot").hidden = !contest.positions || isOver();
  showCountdown();
  showLeft();
}

function isOver() {
  return contest.phase === "finished";
}

function tick() {
  showCountdown();
  showLeft();
}

function showCountdown() {
  setText(element("countdown"), countdown(contest, tally.serviceTime()));
}

function showResults(results) {
  showShare();
  element("total").textContent =
    results.count === null
      ? (HIDDEN[standing?.visibility] ?? "The counts are hidden for now.")
      : `${plural(results.count, WORDS[contest.contest_type])} in all`;
  for (const each of results.participants) {
    const its = shown.get(each.participant_key);
    if (!its) continue;
    const average = each.average == null ? "" : `${number.format(each.average)} from `;
    const place = results.count ? ` · place ${each.rank}` : ""; // before the first vote nobody is first
    its.counts.textContent =
      each.count === null
        ? ""
        : `${average}${plural(each.count, WORDS[contest.contest_type])}${place}`;
    its.share.value = each.share ?? 0;
  }
}

/** Shows what to share: the best participants, as many as the contest wants, if their counts are seen. */
function showShare() {
  const nameOf = (of) => shown.get(of)?.title ?? of;
  element("share-text").value = sharedText({
    title: element("title").textContent,
    results: latest,
    top: contest.share_top_x,
    nameOf,
    address: location.href,
  });
}

/** Casts a vote, `choice` being its participant, rating or positions. */
async function vote(choice) {
  hideTrouble(true);
  try {
    await ownVotes.cast(choice);
  } catch (error) {
    showTrouble(
      error instanceof RangeError ? "Too many votes wait to be sent." : error.message,
      true,
    );
  }
}

/** Says at each participant, and at the ballot, what became of the voter's vote. */
function showNotes() {
  if (contest.positions) setText(element("ballot-note"), ownVotes.noteOf("", votes));
  else for (const [act, { note }] of shown) setText(note, ownVotes.noteOf(act, votes));
}

async function takeBack(voteId) {
  const isGone = (found) =>
    found.every((each) => each.vote_id !== voteId || each.status !== "counted");
  const isRemoved = await asked(
    tally.remove(key, voteId).then(() => true),
    true,
  );
  if (isRemoved) refresh(isGone);
}

/** Reads the voter's votes and allowance, again for some seconds until the votes are as awaited; once at a time. */
async function refresh(...conditions) {
  for (const condition of conditions) awaited.add(condition);
  isReadingWanted = true;
  if (isReading) return;
  isReading = true;
  try {
    while (isReadingWanted) {
      isReadingWanted = false;
      await readVoter();
    }
  } finally {
    isReading = false;
  }
}

async function readVoter() {
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const page = await asked(tally.votes(key));
    if (!page) return;
    votes = page.data;
    for (const condition of awaited) if (condition(votes)) awaited.delete(condition);
    if (awaited.size === 0) break;
    await new Promise((resolve) => setTimeout(resolve, 100 * 2 ** attempt * (1 + Math.random())));
  }
  awaited.clear();
  keepReceipt(votes.find((each) => each.receipt)?.receipt);
  allowance = (await asked(tally.allowance(key))) ?? allowance;
  showOwn();
  showLeft();
}

function showOwn() {
  showNotes();
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
  const names = (each.choices ?? []).map(
    (choice) => shown.get(choice.participant_key)?.title ?? choice.participant_key,
  );
  const rating = each.rating ? `: ${number.format(each.rating.value)}` : "";
  const title = (names.join(", ") || "A vote") + rating;
  const state = each.counts ? "counts" : (each.reason ?? each.status);
  const about = make(
    "span",
    { className: "name" },
    title,
    make("br"),
    make(
      "span",
      { className: "soft" },
      `${moment.format(Date.parse(each.accepted_at))} · ${state}`,
    ),
  );
  const item = make("li", {}, about);
  const isRemovable = contest.phase === "running" && contest.is_vote_removal_allowed;
  if (isRemovable && each.status === "counted" && each.source === "c-free") {
    const button = make(
      "button",
      { type: "button", ariaLabel: `Take back your vote for ${title}` },
      "Take back",
    );
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
  for (const { button, form } of shown.values())
    if (form ?? button) (form ?? button).hidden = isOver();
  for (const each of free?.participants ?? []) {
    const button = shown.get(each.participant_key)?.button;
    if (button)
      button.disabled = !runs || (!replaces() && (each.remaining === 0 || inContest === 0));
  }
  element("ballot").querySelector("button").disabled = !runs;
  const text = runs && free ? rule(contest, free) : "";
  setText(element("left"), text);
  const now = tally.serviceTime();
  if (now === null) return;
  const renewsAt = Date.parse(allowance?.next_free_vote_at ?? "");
  const isAhead = runs && renewsAt > now;
  setText(element("renews"), isAhead ? `All renew in ${span(renewsAt - now)}.` : "");
  if (runs && !Number.isNaN(renewsAt) && renewal.isDue(renewsAt, now)) refresh();
}

/** Returns whether a new rating replaces an earlier one, which needs no allowance. */
function replaces() {
  const free = allowance?.sources.find(({ source }) => source === "c-free");
  return Boolean(contest.rating) && Boolean(free?.participants.every((each) => each.limit === 1));
}

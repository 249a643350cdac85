// The voting page. The contest and its live results come from the public API, without a key; all that concerns the
// voter goes through the page's own backend, which holds the key.

const api = document.documentElement.dataset.api;
const key = new URLSearchParams(location.search).get("contest");
const element = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
const plural = (count) => `${number.format(count)} ${count === 1 ? "vote" : "votes"}`;
const PHASES = { announced: "Not open yet", running: "Open", finished: "Closed" };

let contest = null;
let allowance = null;
let votes = [];
const shown = new Map(); // participant key -> its elements

if (key) await open();
else await choose();

async function choose() {
  const found = await ask("/contests");
  element("choose").hidden = false;
  element("none").hidden = found?.data.length !== 0;
  element("sample").addEventListener("click", async () => {
    const sample = await ask("/sample", { method: "POST" });
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
  document.title = element("title").textContent = contest.title || contest.contest_key;
  element("about").textContent = contest.description ?? "";
  element("participants").append(...contest.participants.map(participant));
  element("voting").hidden = false;
  showPhase(contest.phase);
  follow();
  await refresh();
  setInterval(showLeft, 1000);
}

function participant(each) {
  const name = make("span", { className: "name" }, make("strong", {}, each.title || each.participant_key));
  const counts = make("span", { className: "soft" });
  name.append(counts);
  const share = make("progress", { max: 1, value: 0, ariaLabel: `Share of ${each.title}` });
  const button = make("button", { type: "button", ariaLabel: `Vote for ${each.title}` }, "Vote");
  button.addEventListener("click", () => vote(each.participant_key));
  const picture = each.image ? [make("img", { src: new URL(each.image.sizes.thumb ?? each.image.url, api), alt: "" })] : [];
  shown.set(each.participant_key, { counts, share, button, title: each.title || each.participant_key });
  return make("li", {}, ...picture, name, button, share);
}

/** Follows the live results; the browser opens the stream again when it breaks. */
function follow() {
  const stream = new EventSource(`${api}/public/contests/${encodeURIComponent(key)}/results/stream`);
  stream.addEventListener("phase", (event) => showPhase(JSON.parse(event.data).phase));
  stream.addEventListener("results", (event) => showResults(JSON.parse(event.data)));
  stream.addEventListener("gone", () => stream.close());
}

function showPhase(phase) {
  contest.phase = phase;
  element("phase").textContent = PHASES[phase] ?? phase;
  showLeft();
}

function showResults(results) {
  element("total").textContent = results.count === null ? "The counts are hidden for now." : `${plural(results.count)} in all`;
  for (const each of results.participants) {
    const its = shown.get(each.participant_key);
    if (!its) continue;
    its.counts.textContent = each.count === null ? "" : `${plural(each.count)} · place ${each.rank}`;
    its.share.value = each.share ?? 0;
  }
}

async function vote(participantKey) {
  // the same id in every attempt: a vote that is sent twice counts once
  const body = { participant_key: participantKey, vote_id: newId() };
  const cast = await send("POST", "votes", body);
  if (cast) await refresh((found) => found.some((each) => each.vote_id === cast.vote_id));
  else await refresh();
}

/** A random id; `crypto.randomUUID` is missing on pages over plain HTTP. */
function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function takeBack(voteId) {
  const path = `votes/${encodeURIComponent(voteId)}`;
  if (await send("DELETE", path))
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
}

function ownVote(each) {
  const names = (each.choices ?? []).map((choice) => shown.get(choice.participant_key)?.title ?? choice.participant_key);
  const title = names.join(", ") || "A vote";
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
    const its = shown.get(each.participant_key);
    if (its) its.button.disabled = !runs || each.remaining === 0 || inContest === 0;
  }
  let text = "";
  if (runs && free && inContest !== null) text = `You have ${plural(inContest)} left.`;
  else if (runs && free?.participants.every((each) => each.remaining === null)) text = "You can vote without a limit.";
  const renews = allowance?.next_free_vote_at ? Date.parse(allowance.next_free_vote_at) - Date.now() : null;
  element("renews").textContent = runs && renews > 0 ? `All renew in ${span(renews)}.` : "";
  if (element("left").textContent !== text) element("left").textContent = text;
  if (renews !== null && renews <= 0) {
    allowance.next_free_vote_at = null;
    refresh();
  }
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

function send(method, path, body) {
  const options = { method };
  if (body) Object.assign(options, { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  return ask(own(path), options);
}

/** Returns the JSON of a response, true without one; null after a refusal, which it shows. */
async function ask(path, options = {}) {
  const trouble = element("trouble");
  try {
    const answer = await fetch(path, options);
    const body = answer.status === 204 ? true : await answer.json().catch(() => ({}));
    if (answer.ok) {
      // a refused vote stays shown while the page reads on
      if (options.method || !trouble.dataset.write) trouble.hidden = true;
      return body;
    }
    trouble.textContent = body.detail ?? `The service responded with status ${answer.status}.`;
  } catch {
    trouble.textContent = "The service cannot be reached. Try again.";
  }
  trouble.dataset.write = options.method ?? "";
  trouble.hidden = false;
  return null;
}

function make(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// The live page of a contest: the stream's events update `state`, and `render` shows it.

import { Chart } from "./chart.js";
import { History } from "./history.js";
import { Participants } from "./participants.js";
import { ranked, Ranking } from "./ranking.js";
import { Rate } from "./rate.js";
import { get, Refused } from "./session.js";
import { element, start } from "./shell.js";
import { Sources } from "./sources.js";
import { listen } from "./stream.js";
import { isWall, startWall } from "./wall.js";
import * as words from "./words.js";

const KEY = decodeURIComponent(location.pathname.split("/")[3]);
const PATH = `/contests/${encodeURIComponent(KEY)}`;
const RENDER_MS = 200;
const SAY_MS = 15_000;
const LEADERS = 5;
const COLOURS = 8;

const root = document.documentElement;
const state = {
  title: KEY,
  image: "",
  standing: null, // the last `phase` event
  counts: null, // the last `counts` event
  link: "connecting", // or "live", "stale", "lost", "gone", "refused"
  why: "",
  seen: 0, // when the data was last up to date, by the service's clock
  ahead: 0, // how far the service's clock is ahead of this one, in ms
};
const rate = new Rate();
const picks = new Set();
const colours = new Map(); // key -> slot
let followsLeaders = true;
let mode = "total";
let pending = 0;
let saidAt = 0;
let said = "";

const people = new Participants(KEY, render);
const past = new History(KEY, drawChart);
const ranking = new Ranking(element("ranking"), pick);
const sources = new Sources(element("sources"), element("sources-of"), (key) => people.of(key).name);
const chart = new Chart(element("chart"), element("legend"), element("chart-table"));

/** Returns the service's time, independent of the device's clock. */
const now = () => Date.now() + state.ahead;

function render() {
  if (pending) return;
  pending = setTimeout(() => {
    pending = 0;
    showTitle();
    showLink();
    showFigures();
    showRanking();
    sources.show(state.counts);
    drawChart();
    say();
  }, RENDER_MS);
}

function received(event, data) {
  if (event === "phase") {
    state.ahead = Date.parse(data.server_time) - Date.now();
    if (data.hidden) forget();
    else if (state.standing?.hidden !== false) past.refresh();
    if (state.standing && !data.lag?.seconds) readContest();
    if (data.lag?.seconds) rate.forget();
    state.standing = data;
  } else if (event === "counts") {
    state.counts = data;
    rate.add(data.count);
  } else if (event === "gone") state.link = "gone";
  if (event === "stale") Object.assign(state, { link: "stale", seen: Date.parse(data.since) });
  else if (event !== "gone") state.link = "live";
  if (state.link === "live") state.seen = now();
  render();
}

/** Discards counts that have become hidden. */
function forget() {
  state.counts = null;
  rate.forget();
  past.forget();
  colours.clear();
  said = "";
  write("said", said);
  write("chart-says", "");
}

function showTitle() {
  const { standing } = state;
  element("contest-title").textContent = state.title;
  document.title = `${state.title} · Tallykeeper`;
  const image = element("contest-image");
  image.hidden = !state.image;
  if (state.image && image.getAttribute("src") !== state.image) image.src = state.image;
  if (standing === null) return;
  chip("phase", words.PHASES[standing.phase] ?? standing.phase, standing.phase === "running" ? "good" : "");
  const [text, kind] = standing.sealed ? ["Sealed", "good"] : standing.final ? ["Final", "good"] : ["Provisional", "warn"];
  chip("finality", text, kind);
  element("finality").hidden = standing.phase === "setup" || standing.phase === "announced";
}

function showTime() {
  const { standing, counts, link } = state;
  const text = [];
  if (standing?.phase === "announced" && standing.start) text.push(`starts in ${words.span(Date.parse(standing.start) - now())}`);
  if (standing?.phase === "running" && standing.end) text.push(`ends in ${words.span(Date.parse(standing.end) - now())}`);
  if (standing?.phase === "running" && !standing.end) text.push("no end set");
  if (standing?.phase === "finished") text.push(`ended ${words.date(Date.parse(standing.end))}`);
  element("countdown").textContent = text.join("");
  if (link !== "live" && state.seen) element("age").textContent = `As of ${words.time(state.seen)}, ${words.ago(now() - state.seen)}`;
  else if (counts) element("age").textContent = `Last change ${words.ago(now() - Date.parse(counts.updated))}`;
  else element("age").textContent = "";
  const votes = link === "live" && !isLate() ? rate.value : null;
  write("rate", votes === null ? "–" : words.decimal(votes));
}

/** Returns whether votes wait to be counted for longer than usual. */
const isLate = () => state.link === "live" && state.standing?.lag?.seconds > 0;

function showLink() {
  const [text, kind] = isLate() ? [`Counting is ${words.plural(state.standing.lag.records, "vote", "votes")} behind`, "warn"] : {
    connecting: ["Connecting …", ""],
    live: ["Live", "good"],
    stale: ["Paused", "warn"],
    lost: ["Reconnecting …", "bad"],
    gone: ["Deleted", "bad"],
    refused: ["No access", "bad"],
  }[state.link];
  chip("live", text, kind);
  const trouble = {
    stale: "The counts are temporarily unavailable. This page shows the latest ones and continues by itself.",
    lost: `${state.why} This page shows the latest counts and continues by itself.`,
    gone: "This contest has been deleted. This page shows its latest counts.",
    refused: state.why,
  }[state.link];
  const hidden = state.standing?.hidden
    ? "The counts of this contest are hidden, and your API key may not see them (results:read_hidden)."
    : undefined;
  write("trouble", trouble ?? hidden ?? "");
  element("trouble").hidden = !(trouble ?? hidden);
  element("trouble").classList.toggle("bad", trouble !== undefined && state.link !== "stale");
  document.body.classList.toggle("lost", trouble !== undefined);
  document.body.classList.toggle("empty", state.link === "refused" && state.standing === null);
  document.body.classList.toggle("counts-hidden", Boolean(state.standing?.hidden));
}

function showFigures() {
  const { counts } = state;
  write("count", counts ? words.number(counts.count) : "–");
  write("unique", counts ? words.number(counts.unique_voter_count) : "–");
  write("anonymous", counts ? words.number(counts.anonymous_voter_count) : "–");
  if (counts) element("anonymous").title = words.share(counts.anonymous_voter_count, counts.unique_voter_count);
  const [first, second] = places();
  write("lead", first && second && first.count > 0 ? ahead(first, second) : "–");
  const units = words.capital(unit()[1]);
  write("count-unit", units);
  write("rate-unit", `${units} per second`);
  showTime();
}

/** Returns the counted participants in order, with ranks. */
function places() {
  if (!state.counts) return [];
  const counted = Object.entries(state.counts.participants).map(([key, { count, rating }]) => ({
    key,
    count,
    average: rating ? (rating.average ?? -1) : 0,
  }));
  return ranked(counted, (key) => people.of(key).order);
}

const isRated = () => state.counts?.contest_type === "rating";
const unit = () => words.units(state.counts?.contest_type);

/** Returns by how much the first place is ahead of the second: a difference of averages, or of counts. */
const ahead = (first, second) =>
  isRated() ? words.precise(first.average - Math.max(second.average, 0)) : words.number(first.count - second.count);

/** Returns what a row of the ranking shows of a place: its main number, the one below it, and its bar. */
function figures(place, best) {
  if (isRated())
    return {
      figure: place.average < 0 ? "–" : words.precise(place.average),
      note: words.plural(place.count, ...unit()),
      part: best.average > 0 ? Math.max(place.average, 0) / best.average : 0,
    };
  return {
    figure: words.number(place.count),
    note: words.share(place.count, state.counts.count),
    part: best.count > 0 ? Math.max(place.count, 0) / best.count : 0,
  };
}

function showRanking() {
  const search = element("search").value.trim().toLocaleLowerCase();
  const most = Number(element("top").value);
  const all = state.counts
    ? places().map((place, _, [best]) => ({ ...people.of(place.key), ...place, ...figures(place, best) }))
    : state.standing?.hidden
      ? people.all.filter((person) => person.approved).toSorted((a, b) => a.order - b.order)
      : [];
  if (state.counts) follow(all);
  const found = search ? all.filter((row) => row.name.toLocaleLowerCase().includes(search)) : all;
  const shown = found.slice(0, isWall() ? 10 : most);
  const rows = shown.map((row) => ({ ...row, colour: colourOf(row.key), isPicked: colours.has(row.key) }));
  ranking.show(rows);
  write("ranking-title", state.standing?.hidden ? "Participants" : "Ranking");
  const rest = found.length - shown.length;
  const note =
    !state.counts && !state.standing?.hidden
      ? "Loading …"
      : all.length === 0 && state.counts
        ? "There are no participants yet."
        : search && found.length === 0
          ? "No participant matches."
          : rest > 0
            ? `and ${words.number(rest)} more`
            : "";
  write("ranking-note", note);
}

/** Updates the participants in the chart: the leaders or the picked ones. Each keeps its colour while in it. */
function follow(rows) {
  const wanted = followsLeaders ? rows.slice(0, LEADERS).map((row) => row.key) : [...picks];
  for (const key of colours.keys()) if (!wanted.includes(key)) colours.delete(key);
  for (const key of wanted)
    if (!colours.has(key)) {
      const taken = new Set(colours.values());
      colours.set(key, Array.from({ length: COLOURS }, (_, at) => at + 1).find((slot) => !taken.has(slot)));
    }
  past.want(wanted);
}

const colourOf = (key) => (colours.has(key) ? `--series-${colours.get(key)}` : "--series-none");

function pick(key) {
  if (followsLeaders) for (const leader of colours.keys()) picks.add(leader);
  followsLeaders = false;
  if (!picks.delete(key)) {
    if (picks.size === COLOURS) picks.delete(picks.values().next().value);
    picks.add(key);
  }
  element("leaders").setAttribute("aria-pressed", "false");
  showRanking();
  drawChart();
}

function drawChart() {
  const { counts } = state;
  const series = counts && past.series((key) => (key ? counts.participants[key]?.count : counts.count), now());
  if (!series) return state.standing?.hidden ? chart.clear() : undefined;
  const isStepped = mode === "step";
  const lines = [...colours.keys()]
    .filter((key) => series.total.has(key))
    .map((key) => ({
      key,
      name: people.of(key).name,
      colour: colourOf(key),
      values: (isStepped ? series.step : series.total).get(key),
    }));
  if (lines.length === 0 && counts.count > 0) return undefined;
  chart.draw(series.times, lines, isStepped);
  const step = series.interval < 3600 ? words.plural(series.interval / 60, "minute", "minutes") : words.plural(series.interval / 3600, "hour", "hours");
  write("chart-says", `Votes of ${lines.map((line) => line.name).join(", ") || "nobody"} ${isStepped ? `in steps of ${step}` : "over time"}; the same as a table below.`);
  element("chart-hint").title = `Steps of ${step}`;
  if (element("chart-table").closest("details").open) chart.fillTable(isStepped);
  return undefined;
}

/** Announces the lead to screen readers, at most every `SAY_MS`. */
function say() {
  const [first, second] = places();
  if (!first || first.count === 0 || performance.now() - saidAt < SAY_MS) return;
  const name = people.of(first.key).name;
  const has = isRated()
    ? `an average of ${words.precise(first.average)} from ${words.plural(first.count, ...unit())}`
    : words.plural(first.count, ...unit());
  const standing =
    second?.rank === 1
      ? `${name} and ${people.of(second.key).name} are level with ${has}.`
      : `${name} leads with ${has}${second ? `, ${ahead(first, second)} ahead of ${people.of(second.key).name}` : ""}.`;
  if (standing === said) return;
  said = standing;
  saidAt = performance.now();
  element("said").textContent = standing;
}

function chip(id, text, kind) {
  write(id, text);
  element(id).className = `chip ${kind}`.trim();
}

function write(id, text) {
  const found = element(id);
  if (found.textContent !== text) found.textContent = text;
}

async function readContest() {
  try {
    const contest = await get(PATH);
    state.title = contest.title || KEY;
    state.image = contest.image?.key ? `/media/image/${encodeURIComponent(contest.image.key)}?size=thumb` : "";
    render();
  } catch (error) {
    if (!(error instanceof Refused || error instanceof TypeError)) throw error; // the key stays its title
  }
}

element("search").addEventListener("input", render);
for (const id of ["top", "sources-of"]) element(id).addEventListener("change", render);
for (const button of document.querySelectorAll("[data-mode]"))
  button.addEventListener("click", () => {
    mode = button.dataset.mode;
    for (const each of document.querySelectorAll("[data-mode]")) each.setAttribute("aria-pressed", each === button);
    drawChart();
  });
for (const button of document.querySelectorAll("[data-zoom]"))
  button.addEventListener("click", () => chart.zoom(button.dataset.zoom));
element("leaders").addEventListener("click", () => {
  followsLeaders = true;
  picks.clear();
  element("leaders").setAttribute("aria-pressed", "true");
  render();
});
element("chart-table").closest("details").addEventListener("toggle", drawChart);
for (const source of [root, matchMedia("(prefers-color-scheme: dark)")])
  source.addEventListener(source === root ? "theme" : "change", () => (chart.repaint(), drawChart()));
setInterval(() => {
  if (state.counts) rate.add(state.counts.count);
  showTime();
}, 500);

startWall(element("wall"), () => (chart.repaint(), render()));
await start();
readContest();
people.start();
past.start();
try {
  await listen(`${PATH}/vote_updates/stream?sources=true`, {
    received,
    alive() {
      if (state.link === "live") state.seen = now();
    },
    connected: () => rate.forget(),
    lost(why) {
      Object.assign(state, { link: "lost", why });
      showLink();
      showTime();
    },
  });
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  Object.assign(state, { link: "refused", why: error.message });
  showLink();
}

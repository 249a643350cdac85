// A screen before an audience: it shows what the show's stream sends, by the browser's session or
// by a link.
//
// It asks nothing and explains nothing: while it does not know the show's state it shows the
// contest's title alone.

import { showCall } from "./call-to-vote.js";
import { LAYOUTS } from "./layouts.js";
import { Pages } from "./pages.js";
import * as words from "../formatting.js";
import { showBrand } from "../brand.js";
import { element, isCommand, parameter, write } from "../page-elements.js";
import { colourOf } from "../palette.js";
import { ahead, figures, Movement } from "../participant-ranks.js";
import { Participants } from "../participants.js";
import { Ranking } from "../ranking-list.js";
import { Rate } from "../rate.js";
import { clock } from "../service-clock.js";
import { Refused, refused } from "../session.js";
import { listen } from "../stream.js";
import { t, translate } from "../texts.js";

const KEY = decodeURIComponent(location.pathname.split("/")[3]);
const PATH = `/contests/${encodeURIComponent(KEY)}`;
const LINK = new URLSearchParams(location.hash.slice(1)).get("link");
const LAYOUT = LAYOUTS[parameter("layout")];
const RENDER_MS = 100;
const AGAIN_MS = 5_000;

const state = {
  standing: null, // the last `phase` event; null while the show's state is not known
  board: null, // the last `board` event
  link: "connecting", // or "live", "stale", "lost"
};
let pending = 0;

const rate = new Rate();
const people = new Participants();
const movement = new Movement();
const pages = new Pages(element("ranking"));
const ranking = new Ranking(element("ranking"), () => {});

const fetched = (path, options = {}) =>
  fetch(path, {
    ...options,
    headers: { ...options.headers, ...(LINK ? { "Tally-Link": LINK } : {}) },
  });

async function open(options) {
  const answer = await fetched(`${PATH}/show/stream`, options);
  if (!answer.ok) throw await refused(answer);
  return answer;
}

function received(event, data) {
  if (event === "gone") return forget();
  if (event === "phase") {
    clock.set(data.server_time);
    if (data.hidden) forgetCounts();
    state.standing = data;
  } else if (event === "details") people.update(data);
  else if (event === "board") {
    if (data.held_at !== state.board?.held_at) rate.forget();
    state.board = data;
    if (data.count !== null) rate.add(data.count);
  }
  state.link = event === "stale" ? "stale" : "live";
  render();
}

function forgetCounts() {
  state.board = null;
  movement.forget();
  rate.forget();
}

/** Discards all but the title: the show's state is not known. */
function forget() {
  forgetCounts();
  state.standing = null;
  render();
}

function render() {
  pending ||= setTimeout(() => {
    pending = 0;
    show();
  }, RENDER_MS);
}

function show() {
  const { standing, board } = state;
  write("contest-title", people.title);
  document.title = people.title || "Tallykeeper";
  document.body.classList.toggle("unknown", standing === null);
  if (standing === null) return document.body.classList.remove("last-minute");
  document.body.classList.toggle("counts-hidden", board === null);
  document.body.classList.toggle("reveal", board !== null && board.count === null);
  showImage();
  showMarks();
  showCall(standing.show.call_to_vote, fetched);
  write("message", standing.show.message ?? "");
  element("message").hidden = !standing.show.message;
  showRows();
  if (!LAYOUT) showFigures();
}

function showRows() {
  const rows = rowsOf();
  if (LAYOUT)
    LAYOUT(element("stage"), {
      rows,
      board: state.board,
      standing: state.standing,
      now: clock.now(),
    });
  else showRanking(rows);
  fitTexts();
}

/** Writes names and figures that would be cut in smaller letters. */
function fitTexts() {
  const isCut = (text) =>
    text.scrollHeight > text.clientHeight + 1 || text.scrollWidth > text.clientWidth + 1;
  for (const text of document.querySelectorAll(".name, .stage .figure")) {
    text.classList.remove("long", "longer");
    for (const smaller of ["long", "longer"]) if (isCut(text)) text.classList.add(smaller);
  }
}

function showRanking(rows) {
  ranking.show(pages.of(rows));
  write("ranking-title", state.board ? t("Ranking") : t("Participants"));
  write("page", pages.text);
}

function showImage() {
  const picture = element("contest-image");
  if (people.image === (picture.getAttribute("src") ?? "")) return;
  picture.hidden = !people.image;
  picture.onerror = () => (picture.hidden = true);
  if (people.image) picture.src = people.image;
  else picture.removeAttribute("src");
}

function showMarks() {
  const { standing, board, link } = state;
  chip(
    "phase",
    t(words.PHASES[standing.phase] ?? standing.phase),
    standing.phase === "running" ? "good" : "",
  );
  const isFinal = board?.final ?? false;
  chip("finality", isFinal ? t("Final") : t("Provisional"), isFinal ? "good" : "warn");
  element("finality").hidden = !board || standing.phase === "announced";
  const isHeld = board !== null && standing.show.state === "held";
  element("held-mark").hidden = !isHeld;
  if (isHeld)
    write("held-mark", t("Held at {time}", { time: words.time(Date.parse(board.held_at)) }));
  const late = standing.lag?.seconds > 0;
  const [text, kind] = {
    live: !standing.is_counting
      ? [t("Counting stands still"), "bad"]
      : late
        ? [t("Counting is behind"), "warn"]
        : [t("Live"), "good"],
    stale: [t("Paused"), "warn"],
    lost: [t("Reconnecting …"), "bad"],
  }[link] ?? ["", ""];
  chip("live", text, kind);
  element("live").hidden = link === "live" && standing.is_counting && Boolean(board?.held_at);
  document.body.classList.toggle("lost", link === "lost" || link === "stale");
  showClock();
}

function showClock() {
  const { standing } = state;
  if (standing === null) return;
  const span = (time) => words.span(Date.parse(time) - clock.now());
  let text = "";
  if (standing.phase === "announced" && standing.start)
    text = t("starts in {span}", { span: span(standing.start) });
  if (standing.phase === "running" && standing.end)
    text = t("ends in {span}", { span: span(standing.end) });
  write("countdown", text);
}

/**
 * Returns all rows: covered places first, participants in running order while there are no counts.
 */
function rowsOf() {
  const { board } = state;
  if (!board) return people.all.map((person) => ({ ...person, colour: colourOf(person) }));
  const places = board.participants.map(
    ({ participant_key: key, rank, count, points, unique_voter_count: voters, rating }) => ({
      key,
      rank,
      count: points ?? count,
      voters,
      values: rating?.distribution,
      average: rating ? (rating.average ?? -1) : 0,
    }),
  );
  const hasPoints = board.participants[0]?.points !== undefined;
  const kind = hasPoints ? { count: null } : board;
  const isLive = board.held_at === null && board.covered === 0;
  const hasVotes = places.some((place) => place.count > 0); // before the first vote nobody is first
  if (isLive) movement.update(places);
  const covered = Array.from({ length: board.covered }, (_, at) => ({
    key: `covered ${at}`,
    rank: at + 1,
    isCovered: true,
  }));
  const shown = places.map((place) => {
    const person = people.of(place.key);
    const isWinner = board.final && board.covered === 0 && place.rank === 1 && place.count > 0;
    const moved = isLive && !isWinner ? movement.of(place.key) : 0;
    const rank = hasVotes || board.covered > 0 ? place.rank : null;
    return {
      ...person,
      ...place,
      rank,
      ...figures(place, places[0], kind),
      colour: colourOf(person),
      isWinner,
      moved,
    };
  });
  return [...covered, ...shown];
}

function showFigures() {
  const { board, link, standing } = state;
  if (!board || board.count === null) return;
  const unit = words.units(board.contest_type);
  write("count", words.number(board.count));
  write("unique", words.number(board.unique_voter_count));
  write("anonymous", words.number(board.anonymous_voter_count));
  const [first, second] = board.participants.map((each) => ({
    key: each.participant_key,
    rank: each.rank,
    count: each.count,
    average: each.rating?.average ?? -1,
  }));
  const leads = first && second && first.count > 0;
  write("lead", leads ? ahead(first, second, board) : "–");
  write("leader", leads ? (second.rank === 1 ? t("level") : people.of(first.key).name) : "");
  write("count-unit", t(unit.name));
  write("rate-unit", t(unit.rate));
  write("unique-unit", board.contest_type === "ordering" ? t("Ballots") : t("Voters"));
  const isCounting =
    link === "live" && standing.is_counting && board.held_at === null && !standing.lag?.seconds;
  const [second_, minute] = isCounting ? [rate.perSecond, rate.perMinute] : [null, null];
  write("rate", second_ === null ? "–" : words.decimal(second_));
  write(
    "per-minute",
    minute === null ? "" : t("{n} a minute", { n: words.number(Math.round(minute)) }),
  );
}

function chip(id, text, kind) {
  write(id, text);
  element(id).className = `chip ${kind}`.trim();
}

/**
 * Shows the title of a published contest: all that a screen may show that receives nothing else.
 */
async function showTitle() {
  try {
    const answer = await fetch(`/public${PATH}`);
    if (answer.ok) people.title ||= (await answer.json()).title ?? "";
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
  render();
}

addEventListener("keydown", (event) => {
  if (!isCommand(event, "f")) return;
  if (document.fullscreenElement) document.exitFullscreen();
  // without full screen the view is the same
  else document.documentElement.requestFullscreen?.().catch(() => {});
});
addEventListener("resize", render);
setInterval(() => {
  if (state.board?.count != null) rate.add(state.board.count);
  if (state.standing === null) return;
  showClock();
  if (!LAYOUT) showFigures();
  else if (element("stage").dataset.ticks !== undefined) showRows();
}, 250);
setInterval(render, 10_000); // pages turn, arrows go

document.documentElement.dataset.layout = LAYOUT ? parameter("layout") : "ranking";
document.documentElement.dataset.ground = parameter("ground");
document.documentElement.dataset.hide = parameter("hide").replaceAll("-", " ");
if (["countdown", "call"].includes(parameter("layout"))) element("stage").dataset.ticks = "";
translate();
showTitle();
showBrand(fetched);
for (;;) {
  try {
    await listen(open, {
      received,
      connected: () => rate.forget(),
      lost() {
        state.link = "lost";
        render();
      },
    });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    forget(); // the session has ended, or the link: until there is another, the title alone
  }
  await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
}

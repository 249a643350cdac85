// A screen before an audience: it shows what the show's stream sends, by the browser's session or
// by a link.
//
// It asks nothing and explains nothing: while it does not know the show's state it shows the
// contest's title alone.

import { showCall } from "./call-to-vote.js";
import { LAYOUTS } from "./layouts.js";
import { figuresOf, openedLast, renamed, rowsOf } from "./board-rows.js";
import { RANKING, rowsOnScreen } from "./screen-rows.js";
import * as words from "../formatting.js";
import { showBrand } from "../brand.js";
import { keepPage } from "../kept-page.js";
import { element, isCommand, parameter, write } from "../page-elements.js";
import { Movement } from "../participant-ranks.js";
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
const LONGEST_PAUSE_MS = 3_000;
/** What does not fit in the smallest letters is cut. */
const SMALLER = ["long", "longer", "cut"];

const state = {
  /** @type {Standing | null} The last `phase` event; null while the show's state is not known. */
  standing: null,
  /** @type {Board | null} The last `board` event. */
  board: null,
  link: "connecting", // or "live", "stale", "lost"
};
let pending = 0;

const rate = new Rate();
const people = new Participants();
const movement = new Movement();
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
  if (pending) return;
  pending = setTimeout(() => {
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
  if (!LAYOUT) showFigures(); // before the rows, which fill the rest
  showRows();
  fitTexts();
}

function showRows() {
  const { board, standing } = state;
  const rows = rowsOf(board, people, movement);
  const opened = openedLast(standing, board);
  const page = LAYOUT
    ? LAYOUT(element("stage"), { rows, opened, standing, now: clock.now() })
    : showRanking(rows, opened);
  write("page", page ?? "");
  element("page").hidden = !page;
}

/** Writes titles, names and figures that would be cut in smaller letters. */
function fitTexts() {
  const isCut = (text) =>
    text.scrollHeight > text.clientHeight + 1 || text.scrollWidth > text.clientWidth + 1;
  for (const text of document.querySelectorAll("h1, .name, .stage .figure")) {
    text.classList.remove(...SMALLER);
    for (const smaller of SMALLER) if (isCut(text)) text.classList.add(smaller);
  }
}

function showRanking(rows, opened) {
  const { shown, page } = rowsOnScreen(element("ranking"), rows, RANKING, opened);
  ranking.show(shown);
  write("ranking-title", state.board ? t("Ranking") : t("Participants"));
  return page;
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
  const { board } = state;
  const standing = /** @type {Standing} */ (state.standing);
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
    write("held-mark", t("Held at {time}", { time: words.time(Date.parse(board.held_at ?? "")) }));
  showLive();
  const corrected = isFinal ? renamed(people.corrections, people).join(" · ") : "";
  write("renamed", corrected);
  element("renamed").hidden = !corrected;
  showClock();
}

/** Shows that the picture is live, else a small mark: an audience is not told what is wrong. */
function showLive() {
  const { board, link } = state;
  const standing = /** @type {Standing} */ (state.standing);
  const trouble =
    { stale: t("Paused"), lost: t("Reconnecting …") }[link] ??
    (!standing.is_counting
      ? t("Counting stands still")
      : (standing.lag?.seconds ?? 0) > 0
        ? t("Counting is behind")
        : "");
  chip("live", trouble ? "" : t("Live"), trouble ? "away" : "good");
  element("live").title = trouble;
  element("live").hidden = !trouble && Boolean(board?.held_at);
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

/** Shows the figures that say something; the others' places are free. */
function showFigures() {
  const { board, link } = state;
  const standing = /** @type {Standing} */ (state.standing);
  if (!board || board.count === null) return;
  const isCurrent = link === "live" && standing.is_counting && !standing.lag?.seconds;
  const figures = figuresOf(board, standing, isCurrent, rate, people);
  for (const [name, figure] of Object.entries(figures)) {
    element(`${name}-panel`).hidden = figure === null;
    if (figure === null) continue;
    write(`${name}-unit`, figure.name);
    write(name, figure.value);
    if (figure.beside !== undefined) write(`beside-${name}`, figure.beside);
  }
  element("figures").dataset.shown = String(Object.values(figures).filter(Boolean).length);
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
keepPage();
showTitle();
for (;;) {
  try {
    await listen(
      open,
      {
        received,
        connected() {
          rate.forget();
          showBrand(fetched); // also of a page that was loaded while the service was away
        },
        lost() {
          state.link = "lost";
          render();
        },
      },
      { longest: LONGEST_PAUSE_MS },
    );
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    forget(); // the session has ended, or the link: until there is another, the title alone
  }
  await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
}

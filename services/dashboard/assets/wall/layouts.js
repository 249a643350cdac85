// Layouts of a wall beside the ranking: each fills the stage with what the show's stream allows.

import { BARS, LOWER_THIRD, rowsOnScreen } from "./screen-rows.js";
import * as words from "../formatting.js";
import { follow, make, setText } from "../keyed-elements.js";
import { showFace } from "../ranking-list.js";
import { NO_COLOUR } from "../palette.js";
import { t } from "../texts.js";

const LAST_MINUTE_MS = 60_000;

/**
 * By name: `layout(stage, view)`, of which `view` has `rows` (as of the ranking), `opened`
 * (as of `rowsOnScreen`), `standing` and `now`. Returns the page that is shown, where there are
 * several.
 */
export const LAYOUTS = { bars, "lower-third": lowerThird, countdown, call: countdown, winner };

/** Vertical bars, best first. */
function bars(stage, { rows, opened }) {
  const { shown, page } = rowsOnScreen(stage, rows, BARS, opened);
  follow(
    stage,
    shown,
    (row) => row.key,
    () => parts("column", "figure", "pillar", "face", "name"),
    (column, row) => {
      const [figure, pillar, face, name] = column.children;
      const isCounted = row.count !== undefined;
      setText(figure, isCounted ? row.figure : "");
      pillar.style.setProperty("--part", isCounted ? row.part : 0);
      column.style.setProperty("--colour", row.colour ?? NO_COLOUR);
      column.classList.toggle("winner", Boolean(row.isWinner));
      column.classList.toggle("covered", Boolean(row.isCovered));
      showFace(face, row.isCovered ? { name: "?", image: "" } : row);
      setText(name, row.isCovered ? "?" : row.name);
    },
  );
  return page;
}

/** A strip for the lower third of a picture. */
function lowerThird(stage, { rows, opened }) {
  const { shown, page } = rowsOnScreen(stage, rows, LOWER_THIRD, opened);
  follow(
    stage,
    shown,
    (row) => row.key,
    () => parts("entry", "rank", "face", "name", "figure"),
    (entry, row) => {
      const [rank, face, name, figure] = entry.children;
      const isCounted = row.count !== undefined;
      setText(rank, isCounted || row.isCovered ? String(row.rank) : "");
      setText(name, row.isCovered ? "?" : row.name);
      setText(figure, isCounted ? row.figure : "");
      entry.style.setProperty("--colour", row.colour ?? NO_COLOUR);
      showFace(face, row.isCovered ? { name: "?", image: "" } : row);
    },
  );
  return page;
}

/** The time that is left; alone on the screen in the last minute. */
function countdown(stage, { standing, now }) {
  const ends = { announced: standing.start, running: standing.end }[standing.phase];
  const left = ends ? Date.parse(ends) - now : null;
  const isLast = standing.phase === "running" && left !== null && left < LAST_MINUTE_MS;
  document.body.classList.toggle("last-minute", isLast);
  const label = {
    announced: left === null ? "" : t("Voting starts in"),
    running: left === null ? t("Voting is open") : t("Voting ends in"),
    finished: t("Voting has ended"),
  }[standing.phase];
  const seconds =
    left === null ? "" : isLast ? String(Math.max(0, Math.ceil(left / 1000))) : words.span(left);
  const lines = [
    ["label", label ?? ""],
    ["time", standing.phase === "finished" ? "" : seconds],
  ].filter(([, text]) => text);
  follow(
    stage,
    lines,
    ([name]) => name,
    ([name]) => make("p", { className: name }),
    (line, [, text]) => setText(line, text),
  );
}

/** Who is first in a final result that is revealed as a whole; until then the title alone. */
function winner(stage, { rows }) {
  follow(
    stage,
    rows.filter((row) => row.isWinner),
    (row) => row.key,
    () => parts("best", "face", "name", "figure"),
    (best, row) => {
      const [face, name, figure] = best.children;
      best.style.setProperty("--colour", row.colour ?? NO_COLOUR);
      showFace(face, row);
      setText(name, row.name);
      setText(figure, row.figure);
    },
  );
}

const parts = (name, ...inner) =>
  make("div", { className: name }, ...inner.map((each) => make("div", { className: each })));

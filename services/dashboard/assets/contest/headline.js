// The top of a contest's page: title, phase, problems, and the age of the data.

import { element, write } from "../page-elements.js";
import { t } from "../texts.js";
import * as words from "../formatting.js";

/** Returns whether votes wait to be counted for longer than usual. */
export const isLate = ({ link, standing }) => link === "live" && standing?.lag?.seconds > 0;

/** Returns whether the public may not see the counts, though this page may. */
export const isSecret = (standing) => standing !== null && !standing.hidden && !standing.is_public;

/** Returns whether the result is hidden until somebody releases it. */
export const awaitsRelease = ({ visibility, phase, is_public: isPublic }) =>
  phase === "finished" && !isPublic && visibility !== "hidden";

/** Returns until when the counts are hidden from the public. */
export function secretUntil(standing) {
  const { visibility, end, result_release: release, show } = standing;
  if (visibility === "hidden") return t("Hidden from the public until they are set to shown");
  const isByHand = release === "by_hand" && !show.is_released;
  const isForVoters = visibility === "hidden_until_vote" && standing.phase !== "finished";
  if (isByHand)
    return isForVoters
      ? t("Hidden from the public until the result is released, except from who has voted")
      : t("Hidden from the public until the result is released");
  const time = end ? words.dateShort(Date.parse(end)) : t("the contest's end");
  if (isForVoters)
    return t("Hidden from the public until {time}, except from who has voted", { time });
  return t("Hidden from the public until {time}", { time });
}

export function showTitle(title, image, standing) {
  write("contest-title", title);
  document.title = `${title} · Tallykeeper`;
  const picture = element("contest-image");
  if (image !== (picture.getAttribute("src") ?? "")) {
    picture.hidden = !image;
    picture.onerror = () => (picture.hidden = true);
    if (image) picture.src = image;
    else picture.removeAttribute("src");
  }
  if (standing === null) return;
  chip(
    "phase",
    t(words.PHASES[standing.phase] ?? standing.phase),
    standing.phase === "running" ? "good" : "",
  );
  const [text, kind] = standing.sealed
    ? [t("Sealed"), "good"]
    : standing.final
      ? [t("Final"), "good"]
      : [t("Provisional"), "warn"];
  chip("finality", text, kind);
  element("finality").hidden = standing.phase === "setup" || standing.phase === "announced";
  element("hidden-mark").hidden = !isSecret(standing);
  if (isSecret(standing)) write("hidden-mark", secretUntil(standing));
}

/** Shows the link to the service: `state` has `link`, `why` and `standing`. */
export function showLink(state) {
  const { link, why, standing } = state;
  const [text, kind] = {
    connecting: [t("Connecting …"), ""],
    live:
      standing?.is_counting === false
        ? [t("Counting stands still"), "bad"]
        : isLate(state)
          ? [
              t(
                standing.lag.records === 1
                  ? "Counting is {n} vote behind"
                  : "Counting is {n} votes behind",
                { n: words.number(standing.lag.records) },
              ),
              "warn",
            ]
          : [t("Live"), "good"],
    stale: [t("Paused"), "warn"],
    lost: [t("Reconnecting …"), "bad"],
    gone: [t("Deleted"), "bad"],
    refused: [t("No access"), "bad"],
  }[link];
  chip("live", text, kind);
  const trouble = {
    stale: t(
      "The counts are temporarily unavailable. This page shows the latest ones and continues by itself.",
    ),
    lost: `${why} ${t("This page shows the latest counts and continues by itself.")}`,
    gone: t("This contest has been deleted. This page shows its latest counts."),
    refused: why,
  }[link];
  const hidden = standing?.hidden
    ? t(
        "The counts of this contest are hidden, and your API key may not see them (results:read_hidden).",
      )
    : undefined;
  write("trouble", trouble ?? hidden ?? "");
  element("trouble").hidden = !(trouble ?? hidden);
  element("trouble").classList.toggle("bad", trouble !== undefined && link !== "stale");
  document.body.classList.toggle("lost", trouble !== undefined);
  document.body.classList.toggle("empty", link === "refused" && standing === null);
  document.body.classList.toggle("counts-hidden", Boolean(standing?.hidden));
}

/** Shows the countdown, and how old the data is at `now`. */
export function showTime({ link, standing, seen }, counts, now) {
  const span = (time) => words.span(Date.parse(time) - now);
  let text = "";
  if (standing?.phase === "announced" && standing.start)
    text = t("starts in {span}", { span: span(standing.start) });
  if (standing?.phase === "running")
    text = standing.end ? t("ends in {span}", { span: span(standing.end) }) : t("no end set");
  if (standing?.phase === "finished")
    text = t("ended {time}", { time: words.dateShort(Date.parse(standing.end)) });
  write("countdown", text);
  if (link !== "live" && seen)
    write("age", t("As of {time}, {ago}", { time: words.time(seen), ago: words.ago(now - seen) }));
  else
    write(
      "age",
      counts ? t("Last change {ago}", { ago: words.ago(now - Date.parse(counts.updated)) }) : "",
    );
}

function chip(id, text, kind) {
  write(id, text);
  element(id).className = `chip ${kind}`.trim();
}

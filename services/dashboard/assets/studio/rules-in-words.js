// What the rules of a form mean, in sentences, and what the form proposes when a rule is chosen.

import { mark, t } from "../texts.js";
import * as words from "../formatting.js";
import { pointsOf } from "./fields.js";

const VISIBILITY = {
  shown: mark("The public sees the counts while people vote."),
  hidden_until_vote: mark("Those who voted see the counts; all do after the end."),
  hidden_until_end: mark("The public sees the counts after the end."),
  hidden: mark("The public never sees the counts."),
};
const KNOWN_BEFORE = {
  shown: mark(
    "Everybody knows the result before you release it: its counts are public until then.",
  ),
  hidden_until_vote: mark("Those who voted know the result before you release it."),
};

/** Returns the sentences of a contest's rules, by the texts of its form's fields. */
export function sentencesOf(texts) {
  const isByHand = texts.result_release === "by_hand";
  return [
    (KINDS[texts.contest_type] ?? KINDS.voteonly)(texts),
    numbered(
      texts.max_contest,
      mark("A voter has {n} vote in the whole contest."),
      mark("A voter has {n} votes in the whole contest."),
      mark("The whole contest has no limit for a voter."),
    ),
    numbered(
      texts.address,
      mark("One address has {n} vote for each participant: the phones of a hall share it."),
      mark("One address has {n} votes for each participant: the phones of a hall share them."),
      mark("One address has no limit: a hall can vote."),
    ),
    texts.is_vote_removal_allowed
      ? t("Voters may take votes back until the end.")
      : t("Votes stay."),
    t(VISIBILITY[texts.vote_visibility] ?? ""),
    isByHand ? t("The result stays hidden after the end until you release it.") : "",
    isByHand ? t(KNOWN_BEFORE[texts.vote_visibility] ?? "") : "",
  ].filter(Boolean);
}

/** Returns the visibility that goes with a result that was chosen to be released by hand. */
export const proposedVisibility = (before, { result_release: release, vote_visibility: now }) =>
  release === "by_hand" && before.result_release !== release && now in KNOWN_BEFORE
    ? "hidden_until_end"
    : now;

const KINDS = {
  voteonly: ({ max_participant: most }) =>
    numbered(
      most,
      mark("A voter has {n} vote for each participant."),
      mark("A voter has {n} votes for each participant."),
      mark("A voter may vote for a participant without a limit."),
    ),
  rating: ({ max_rating: n }) => t("A voter rates participants from 0 to {n}.", { n }),
  ordering: ({ points }) =>
    t("A ballot gives {points} points.", { points: (pointsOf(points) ?? []).join(", ") }),
};

const numbered = (text, one, many, none) =>
  text === "" ? t(none) : words.plural(Number(text), { one, many });

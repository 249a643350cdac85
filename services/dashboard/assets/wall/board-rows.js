// A show's board as rows: covered places first, acts in running order while there are no counts.

import { colourOf } from "../palette.js";
import { ahead, figures } from "../participant-ranks.js";
import { t } from "../texts.js";
import * as words from "../formatting.js";

/** Returns all rows of a `board`, null without counts; `movement` remembers the ranks of live ones. */
export function rowsOf(board, people, movement) {
  if (!board) return people.all.map((person) => ({ ...person, colour: colourOf(person) }));
  const places = board.participants.map(placeOf);
  const hasPoints = board.participants[0]?.points !== undefined;
  const kind = hasPoints ? { count: null } : board;
  const isLive = board.held_at === null && board.covered === 0;
  const hasVotes = places.some((place) => place.count > 0); // before the first vote nobody is first
  if (isLive) movement.update(places);
  const shown = places.map((place) => {
    const person = people.of(place.key);
    const isWinner = board.final && board.covered === 0 && place.rank === 1 && place.count > 0;
    const moved = isLive && !isWinner ? movement.of(place.key) : 0;
    const rank = hasVotes || board.covered > 0 ? place.rank : null;
    const numbers = figures(place, places[0], kind);
    return { ...person, ...place, rank, ...numbers, colour: colourOf(person), isWinner, moved };
  });
  return [...coveredRows(board.covered), ...shown];
}

const placeOf = ({ participant_key: key, rank, count, points, unique_voter_count, rating }) => ({
  key,
  rank,
  count: points ?? count,
  voters: unique_voter_count,
  values: rating?.distribution,
  average: rating ? (rating.average ?? -1) : 0,
});

const coveredRows = (covered) =>
  Array.from({ length: covered }, (_, at) => ({
    key: `covered ${at}`,
    rank: at + 1,
    isCovered: true,
  }));

/** Returns the place of the row that a reveal has opened last; null if there is no reveal. */
export const openedLast = (standing, board) =>
  board && standing.show.state === "reveal" ? board.covered : null;

/**
 * Returns the texts of the figures, null for those that say nothing: the speed where no votes are
 * counted, a lead without votes, and anonymous voters that are none.
 */
export function figuresOf(board, standing, isCurrent, rate, people) {
  const [first, second] = board.participants.map(placeOf);
  const hasLead = first && second && first.count > 0;
  const isVoting = standing.phase === "running" && board.held_at === null;
  const [perSecond, perMinute] = isCurrent ? [rate.perSecond, rate.perMinute] : [null, null];
  const unit = words.units(board.contest_type);
  return {
    count: { name: t(unit.name), value: words.number(board.count) },
    rate: isVoting
      ? {
          name: t(unit.rate),
          value: perSecond === null ? "–" : words.decimal(perSecond),
          beside:
            perMinute === null ? "" : t("{n} a minute", { n: words.number(Math.round(perMinute)) }),
        }
      : null,
    lead: hasLead
      ? {
          name: t("Lead"),
          value: ahead(first, second, board),
          beside: second.rank === 1 ? t("level") : people.of(first.key).name,
        }
      : null,
    unique: {
      name: board.contest_type === "ordering" ? t("Ballots") : t("Voters"),
      value: words.number(board.unique_voter_count),
    },
    anonymous: board.anonymous_voter_count
      ? { name: t("Anonymous voters"), value: words.number(board.anonymous_voter_count) }
      : null,
  };
}

/** Returns how an audience is told of titles that were changed after the end; the result keeps them. */
export function renamed(corrections, people) {
  return corrections
    .filter(({ member, after }) => member === "title" && after)
    .map(({ participant_key: key, before, after }) => {
      const name = key === null ? (before ?? people.title) : people.of(key).name;
      return t("{name} is now called {now}", { name, now: after });
    });
}

// Texts, and the order of the participants.

export const number = new Intl.NumberFormat("en");
export const plural = (count, [one, many] = ["vote", "votes"]) =>
  `${number.format(count)} ${count === 1 ? one : many}`;

const hour = new Intl.DateTimeFormat("en", {
  dateStyle: "medium",
  timeStyle: "short",
  hourCycle: "h23",
});

/**
 * Returns the participants as the contest wants them shown: shuffled by a `seed`, else as the results list them; those of
 * a result that is final by their place.
 */
export function arranged(participants, results, { seed = null, isOver = false } = {}) {
  const listed = results?.participants ?? [];
  const byPlace =
    isOver && results?.count ? [...listed].sort((one, other) => one.rank - other.rank) : listed;
  const places = new Map(byPlace.map(({ participant_key: key }, at) => [key, at]));
  const isShuffled = seed !== null && byPlace === listed;
  const place = ({ participant_key: key }) =>
    isShuffled ? hashed(`${seed} ${key}`) : (places.get(key) ?? places.size);
  return [...participants].sort((one, other) => place(one) - place(other));
}

/** Returns the text to share: the best `top` participants, -1 for all, if the counts are seen; and the page's address. */
export function sharedText({ title, results, top, nameOf, address }) {
  const listed = results?.count
    ? [...results.participants].sort((one, other) => one.rank - other.rank)
    : [];
  const best = top < 0 ? listed : listed.slice(0, top);
  return [
    title,
    ...best.map(({ participant_key: key, rank }) => `${rank}. ${nameOf(key)}`),
    address,
  ].join("\n");
}

/** A number of 32 bits that looks random and is the same for the same text (FNV-1a, mixed as murmur3 does). */
function hashed(text) {
  let state = 0x811c9dc5;
  for (const letter of text) state = Math.imul(state ^ letter.codePointAt(0), 0x01000193);
  state = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
  state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35);
  return (state ^ (state >>> 16)) >>> 0;
}

/** Says when voting opens, and the time that remains if the contest wants it, else when it ends; `now` is the service's. */
export function countdown({ phase, start, end, is_contest_time_shown: isShown }, now) {
  const until = Date.parse((phase === "announced" ? start : end) ?? "");
  const left = until - (now ?? NaN);
  if (!(left > 0)) return "";
  if (phase === "announced") return `Opens in ${span(left)}`;
  if (phase !== "running") return "";
  return isShown ? `Closes in ${span(left)}` : `until ${hour.format(until)}`;
}

/** Returns a time in ms as minutes and seconds, with hours if there are any. */
export function span(ms) {
  const seconds = Math.ceil(ms / 1000);
  const two = (value) => String(value).padStart(2, "0");
  const minutes = `${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return seconds < 3600 ? minutes : `${Math.floor(seconds / 3600)}:${minutes}`;
}

/** Says how often the voter may vote, of whom `free` are the free votes; a limit on an address is not known here. */
export function rule(contest, free) {
  const inContest = free.contest.remaining;
  if (contest.positions) return "A new ballot replaces your earlier one.";
  const most = Math.max(0, ...free.participants.map((each) => each.limit ?? Infinity));
  if (contest.rating && most === 1) return "A new rating replaces your earlier one.";
  if (inContest !== null) return `You have ${plural(inContest)} left.`;
  if (most === Infinity) return "Vote as often as you like.";
  return most > 0 ? `You have ${plural(most)} for each.` : "";
}

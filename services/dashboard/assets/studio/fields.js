// The fields of the studio's forms: which member of a record each shows, and what an edited text
// means (`record-form.js`).

const POINTS = [12, 10, 8, 7, 6, 5, 4, 3, 2, 1];

/** Splits the points of the places; null if one is no whole number from 0 on. */
export function pointsOf(text) {
  const points = text
    .split(/[\s,;]+/)
    .filter(Boolean)
    .map(Number);
  return points.every((votes) => Number.isInteger(votes) && votes >= 0) ? points : null;
}

/**
 * Returns the fields of a contest; `titleOf(n)` is the title of a ballot's n-th place.
 *
 * The proposals are those of a new contest. The service's own default of the address limit would
 * stop a hall.
 */
export function contestFields(titleOf) {
  const config = (...path) => ["contest_config", ...path];
  const isOf =
    (...types) =>
    ({ contest_type: type }) =>
      types.includes(type);
  return {
    title: { path: ["title"], ...text },
    description: { path: ["description"], ...text },
    contest_type: { path: ["contest_type"], ...choice("voteonly") },
    image: { path: ["image", "key"], ...text, isUsed: ({ image }) => image !== "" },
    start: { path: config("start"), ...time },
    end: { path: config("end"), ...time },
    max_participant: {
      path: config("free", "max_participant"),
      ...limit("1"),
      isUsed: isOf("voteonly", "participation"),
    },
    max_per_participant: {
      path: config("rating", "max_per_participant"),
      ...limit("1"),
      isUsed: isOf("rating"),
    },
    max_contest: { path: config("free", "max_contest"), ...limit("") },
    max_rating: { path: config("rating", "max_rating"), ...number("5"), isUsed: isOf("rating") },
    points: {
      path: config("ordering", "positions"),
      ...positions(titleOf),
      isUsed: isOf("ordering"),
    },
    address: { path: config("ip_restriction_per_participant"), ...limit("") },
    is_vote_removal_allowed: { path: config("is_vote_removal_allowed"), ...flag(true) },
    is_contest_time_shown: { path: config("is_contest_time_shown"), ...flag(true) },
    vote_visibility: { path: config("vote_visibility"), ...choice("shown") },
    result_release: { path: config("result_release"), ...choice("at_end") },
  };
}

const text = { text: (member) => member ?? "", value: (given) => given.trim() || null };

/** The fields of an act. */
export const ACT_FIELDS = {
  title: { path: ["title"], ...text },
  story: { path: ["story"], ...text },
  image: { path: ["image_key"], ...text, isUsed: ({ image }) => image !== "" },
};

const choice = (proposal) => ({
  text: (member) => member ?? "",
  value: (given) => given,
  proposal,
});
const flag = (proposal) => ({
  text: (member) => member ?? false,
  value: (given) => given,
  proposal,
});
const number = (proposal) => ({ text: (member) => String(member ?? ""), value: Number, proposal });

/** No limit is -1 in the API, and an empty field. */
const limit = (proposal) => ({
  text: (member) => (member === undefined || member === null || member < 0 ? "" : String(member)),
  value: (given) => (given === "" ? -1 : Number(given)),
  proposal,
});

/**
 * A field of a time has its moment to the second, in UTC; the page shows it as local time
 * (`time-field.js`).
 */
const time = {
  text: (member) =>
    member ? new Date(Math.floor(Date.parse(member) / 1_000) * 1_000).toISOString() : "",
  value: (given) => given || null,
};

/** The points of a ballot's places; the places that stay keep all else that they have. */
const positions = (titleOf) => ({
  text: (member) => (member ?? []).map(({ votes }) => votes).join(", "),
  value: (given, member) => {
    const before = member ?? [];
    const ids = new Set(before.map(({ id }) => id));
    const highest = Math.max(0, ...before.map(({ index }) => index ?? 0));
    return (pointsOf(given) ?? []).map((votes, at) => {
      if (at < before.length) return { ...before[at], votes };
      let id = at + 1;
      while (ids.has(String(id))) id += 1;
      ids.add(String(id));
      return {
        id: String(id),
        index: highest + at - before.length + 1,
        title: titleOf(at + 1),
        votes,
      };
    });
  },
  proposal: POINTS.join(", "),
});

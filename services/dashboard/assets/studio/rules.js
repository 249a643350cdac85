// The form of a contest's rules: from a record and to one, and what the rules mean in words.

import { element } from "../page-elements.js";
import { make } from "../keyed-elements.js";
import { mark, t } from "../texts.js";
import * as words from "../formatting.js";

/** What the form proposes; the service's own defaults differ in the address limit, which would stop a hall. */
const PROPOSED = {
  free: { max_participant: 1, max_contest: -1 },
  rating: { max_rating: 5 },
  ordering: null,
  ip_restriction_per_participant: -1,
  is_vote_removal_allowed: true,
  is_contest_time_shown: true,
  vote_visibility: "shown",
  result_release: "at_end",
};
const POINTS = [12, 10, 8, 7, 6, 5, 4, 3, 2, 1];
const VISIBILITY = {
  shown: mark("The public sees the counts while people vote."),
  hidden_until_vote: mark("Those who voted see the counts; all do after the end."),
  hidden_until_end: mark("The public sees the counts after the end."),
  hidden: mark("The public never sees the counts."),
};

/** Fills the form from a contest, or with what a new one should have. */
export function fill(form, contest) {
  const { title = "", description = "", contest_type: type = "voteonly", contest_config: config = PROPOSED } = contest ?? {};
  const fields = form.elements;
  const values = {
    title: title ?? "",
    description: description ?? "",
    contest_type: type,
    start: local(config.start),
    end: local(config.end),
    max_participant: limit(type === "rating" ? config.rating.max_per_participant ?? 1 : config.free.max_participant),
    max_contest: limit(config.free.max_contest),
    max_rating: config.rating.max_rating,
    points: (config.ordering?.positions ?? POINTS.map((votes) => ({ votes }))).map(({ votes }) => votes).join(", "),
    address: limit(config.ip_restriction_per_participant),
    vote_visibility: config.vote_visibility,
    result_release: config.result_release,
  };
  for (const [name, value] of Object.entries(values)) fields[name].value = value;
  for (const name of ["is_vote_removal_allowed", "is_contest_time_shown"]) fields[name].checked = config[name];
  follow(form);
}

/** Shows the times of a contest that was opened or closed, and leaves what is being edited. */
export function fillTimes(form, { contest_config: config }) {
  for (const name of ["start", "end"]) form.elements[name].value = local(config[name]);
}

/** Returns the contest that the form describes, as the API's body. */
export function bodyOf(form) {
  const { elements: fields } = form;
  const type = fields.contest_type.value;
  const config = {
    start: moment(fields.start.value),
    end: moment(fields.end.value),
    free: { max_contest: number(fields.max_contest) },
    ip_restriction_per_participant: number(fields.address),
    is_vote_removal_allowed: fields.is_vote_removal_allowed.checked,
    is_contest_time_shown: fields.is_contest_time_shown.checked,
    vote_visibility: fields.vote_visibility.value,
    result_release: fields.result_release.value,
  };
  if (type === "rating") config.rating = { max_per_participant: number(fields.max_participant), max_rating: Number(fields.max_rating.value) };
  else config.free.max_participant = number(fields.max_participant);
  if (type === "ordering") config.ordering = { positions: pointsOf(form).map((votes, at) => ({ id: String(at + 1), index: at + 1, title: t("Place {n}", { n: at + 1 }), votes })) };
  return { title: fields.title.value.trim(), description: fields.description.value.trim() || null, contest_type: type, contest_config: config };
}

/** Shows the fields of the chosen kind of vote, and the rules in words. */
export function follow(form) {
  const type = form.elements.contest_type.value;
  for (const [name, own] of [["votes", "ordering"], ["ratings", "rating"], ["ballots", "ordering"]])
    for (const part of form.querySelectorAll(`.of-${name}`)) part.hidden = name === "votes" ? type === own : type !== own;
  element("words").replaceChildren(...sentences(form, type).map((text) => make("li", {}, text)));
}

function sentences(form, type) {
  const { elements: fields } = form;
  const of = (field, one, many, none) => (field.value === "" ? t(none) : words.plural(Number(field.value), { one, many }));
  const kinds = {
    voteonly: () => of(fields.max_participant, mark("A voter has {n} vote for each participant."), mark("A voter has {n} votes for each participant."), mark("A voter may vote for a participant without a limit.")),
    rating: () => t("A voter rates participants from 0 to {n}.", { n: fields.max_rating.value }),
    ordering: () => t("A ballot gives {points} points.", { points: pointsOf(form).join(", ") }),
  };
  return [
    (kinds[type] ?? kinds.voteonly)(),
    of(fields.max_contest, mark("A voter has {n} vote in the whole contest."), mark("A voter has {n} votes in the whole contest."), mark("The whole contest has no limit for a voter.")),
    of(fields.address, mark("One address has {n} vote for each participant: the phones of a hall share it."), mark("One address has {n} votes for each participant: the phones of a hall share them."), mark("One address has no limit: a hall can vote.")),
    fields.is_vote_removal_allowed.checked ? t("Voters may take votes back until the end.") : t("Votes stay."),
    t(VISIBILITY[fields.vote_visibility.value] ?? ""),
    fields.result_release.value === "by_hand" ? t("The result stays hidden after the end until you release it.") : "",
  ].filter(Boolean);
}

const pointsOf = (form) => form.elements.points.value.split(/[\s,;]+/).map(Number).filter((votes) => Number.isInteger(votes) && votes > 0);
const limit = (value) => (value === undefined || value < 0 ? "" : value);
const number = (field) => (field.value === "" ? -1 : Number(field.value));

/** Converts between the API's times and those of the form, which are the browser's local ones. */
export const moment = (text) => (text ? new Date(text).toISOString() : null);
export function local(text) {
  if (!text) return "";
  const time = new Date(text);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

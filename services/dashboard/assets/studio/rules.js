// The form of a contest's rules, and what the rules mean in words.

import { element } from "../page-elements.js";
import { make } from "../keyed-elements.js";
import { mark, t } from "../texts.js";
import { TimeField } from "../time-field.js";
import * as words from "../formatting.js";
import { pointsOf } from "./fields.js";

const VISIBILITY = {
  shown: mark("The public sees the counts while people vote."),
  hidden_until_vote: mark("Those who voted see the counts; all do after the end."),
  hidden_until_end: mark("The public sees the counts after the end."),
  hidden: mark("The public never sees the counts."),
};

/** The fields of the page's form, between it and a `RecordForm`. */
export class RulesForm {
  #form;
  #times;

  constructor(form) {
    this.#form = form;
    this.#times = {
      start: new TimeField(form.elements.start),
      end: new TimeField(form.elements.end),
    };
  }

  /** Shows the texts of some fields. */
  show(record, names) {
    for (const name of names.filter((each) => each in this.#form.elements)) {
      const [field, text] = [this.#form.elements[name], record.text(name)];
      if (name in this.#times) this.#times[name].moment = text;
      else if (field.type === "checkbox") field.checked = text;
      else field.value = text;
      record.showAs(name, this.#text(name));
    }
    follow(this.#form);
  }

  /** Takes over what the user has filled in. */
  read(record) {
    for (const name of record.names.filter((each) => each in this.#form.elements))
      record.edit(name, this.#text(name));
    const { points } = this.#form.elements;
    points.setCustomValidity(
      pointsOf(points.value) ? "" : t("Write whole numbers, such as 12, 10, 8."),
    );
    follow(this.#form);
  }

  /**
   * Returns whether the edited fields can be sent, else shows the first that cannot; other fields
   * stay as they were.
   */
  isValid(record) {
    const isSent = ({ name, validity }) => record.edited.includes(name) || validity.badInput;
    return [...this.#form.elements]
      .filter((field) => field.name && isSent(field))
      .every((field) => field.reportValidity());
  }

  /** The name of a field, as the page shows it. */
  label(name) {
    return (
      this.#form.elements[name]?.closest("label").firstChild.textContent.trim() || t("Picture")
    );
  }

  /** A field's text for people. */
  inWords(name, text) {
    if (name in this.#times) return text && words.date(Date.parse(text));
    if (typeof text === "boolean") return text ? t("yes") : t("no");
    const option = [...(this.#form.elements[name]?.options ?? [])].find(
      ({ value }) => value === text,
    );
    return option?.text ?? text;
  }

  #text(name) {
    const field = this.#form.elements[name];
    if (name in this.#times) return this.#times[name].moment;
    return field.type === "checkbox" ? field.checked : field.value;
  }
}

/** Shows the fields of the chosen kind of vote, and the rules in words. */
function follow(form) {
  const type = form.elements.contest_type.value;
  for (const [kind, types] of Object.entries({
    votes: ["voteonly", "participation"],
    ratings: ["rating"],
    ballots: ["ordering"],
  }))
    for (const part of form.querySelectorAll(`.of-${kind}`)) part.hidden = !types.includes(type);
  element("words").replaceChildren(...sentences(form, type).map((text) => make("li", {}, text)));
}

function sentences(form, type) {
  const { elements: fields } = form;
  const of = (field, one, many, none) =>
    field.value === "" ? t(none) : words.plural(Number(field.value), { one, many });
  const kinds = {
    voteonly: () =>
      of(
        fields.max_participant,
        mark("A voter has {n} vote for each participant."),
        mark("A voter has {n} votes for each participant."),
        mark("A voter may vote for a participant without a limit."),
      ),
    rating: () => t("A voter rates participants from 0 to {n}.", { n: fields.max_rating.value }),
    ordering: () =>
      t("A ballot gives {points} points.", {
        points: (pointsOf(fields.points.value) ?? []).join(", "),
      }),
  };
  return [
    (kinds[type] ?? kinds.voteonly)(),
    of(
      fields.max_contest,
      mark("A voter has {n} vote in the whole contest."),
      mark("A voter has {n} votes in the whole contest."),
      mark("The whole contest has no limit for a voter."),
    ),
    of(
      fields.address,
      mark("One address has {n} vote for each participant: the phones of a hall share it."),
      mark("One address has {n} votes for each participant: the phones of a hall share them."),
      mark("One address has no limit: a hall can vote."),
    ),
    fields.is_vote_removal_allowed.checked
      ? t("Voters may take votes back until the end.")
      : t("Votes stay."),
    t(VISIBILITY[fields.vote_visibility.value] ?? ""),
    fields.result_release.value === "by_hand"
      ? t("The result stays hidden after the end until you release it.")
      : "",
  ].filter(Boolean);
}

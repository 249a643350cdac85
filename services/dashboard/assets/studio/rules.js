// The form of a contest's rules, and what the rules mean in words.

import { element } from "../page-elements.js";
import { make } from "../keyed-elements.js";
import { t } from "../texts.js";
import { TimeField } from "../time-field.js";
import * as words from "../formatting.js";
import { pointsOf } from "./fields.js";
import { proposedVisibility, sentencesOf } from "./rules-in-words.js";

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

  /** Takes over what the user has filled in, and proposes what goes with it. */
  read(record) {
    const before = record.texts;
    for (const name of record.names.filter((each) => each in this.#form.elements))
      record.edit(name, this.#text(name));
    const proposed = proposedVisibility(before, record.texts);
    this.#form.elements.vote_visibility.value = proposed;
    record.edit("vote_visibility", proposed);
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
  const texts = Object.fromEntries(
    [...form.elements]
      .filter(({ name }) => name)
      .map((field) => [field.name, field.type === "checkbox" ? field.checked : field.value]),
  );
  element("words").replaceChildren(...sentencesOf(texts).map((text) => make("li", {}, text)));
}

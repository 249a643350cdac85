// What a voter fills in besides pressing a button: the rating of a participant, and a ballot.

import { make } from "./elements.js";

const MOST_CHOICES = 10;
/** Scales up to this one are shown as a row of choices. */

/** Returns the form that rates a participant; `rate` gets `{value, sub_ratings}`. */
export function ratingForm({ participant_key: key, title }, rating, rate) {
  const fraction = rating.step_size === "fraction";
  const parts = [{ id: "", title: `Rating of ${title || key}`, most: rating.max_rating }];
  for (const part of rating.sub_ratings)
    parts.push({
      id: part.sub_rating_id,
      title: part.title || part.sub_rating_id,
      most: part.max_votes ?? rating.max_rating,
    });
  const button = make("button", { type: "submit", ariaLabel: `Rate ${title || key}` }, "Rate");
  const form = make(
    "form",
    { className: "rating" },
    ...parts.map((part, at) => scale(key, part, at, fraction)),
    button,
  );
  form.addEventListener("change", () => (form.dataset.edited = "yes"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    delete form.dataset.edited;
    const given = new FormData(form);
    const values = parts
      .map(({ id }, at) => [id, given.get(String(at))])
      .filter(([, value]) => value !== null && value !== "");
    const [[, value], ...sub] = values.map(([id, text]) => [id, Number(text)]);
    rate({ value, sub_ratings: Object.fromEntries(sub) });
  });
  return { form, button };
}

/** Shows a rating that was cast, unless the voter fills in another one. */
export function showRating(form, rating) {
  if (form.dataset.edited) return;
  const ids = [...form.querySelectorAll("fieldset")].map((part) => part.dataset.id);
  ids.forEach((id, at) => {
    const value = id ? rating.sub_ratings[id] : rating.value;
    if (value === undefined) return;
    const field = form.elements.namedItem(String(at));
    if (field) field.value = String(value);
  });
}

function scale(key, { id, title, most }, at, fraction) {
  const name = String(at);
  const fields = [];
  if (fraction || most > MOST_CHOICES)
    fields.push(
      make("input", {
        type: "number",
        name,
        min: 0,
        max: most,
        step: fraction ? "any" : 1,
        required: at === 0,
        ariaLabel: title,
        inputMode: "decimal",
      }),
      `of ${most}`,
    );
  else
    for (let value = 0; value <= most; value += 1)
      fields.push(
        make(
          "label",
          {},
          make("input", { type: "radio", name, value, required: at === 0 }),
          make("span", {}, String(value)),
        ),
      );
  const set = make(
    "fieldset",
    {},
    make("legend", { className: at === 0 ? "unseen" : "" }, title),
    ...fields,
  );
  set.dataset.id = id;
  return set;
}

/** Offers the participants at each position, in their order; a choice that was made stays. */
export function arrangeBallot(form, participants) {
  for (const choice of form.querySelectorAll("select")) {
    const chosen = choice.value;
    const before = new Map([...choice.options].map((option) => [option.value, option]));
    const options = participants.map(({ participant_key: key, title }) =>
      Object.assign(before.get(key) ?? new Option("", key), { text: title || key }),
    );
    choice.replaceChildren(before.get(""), ...options);
    choice.value = chosen;
  }
}

/** Fills the ballot: a choice of participants for each position; `cast` gets the positions. */
export function fillBallot(form, positions, participants, cast) {
  const choices = new Map();
  for (const position of [...positions].sort(
    (one, other) => (one.index ?? 0) - (other.index ?? 0),
  )) {
    const choice = make("select", { name: position.id }, new Option("–", ""));
    choices.set(position.id, choice);
    const points = position.votes === 1 ? "1 point" : `${position.votes} points`;
    form
      .querySelector("#positions")
      .append(
        make(
          "label",
          {},
          make(
            "span",
            {},
            position.title || position.id,
            make("span", { className: "soft" }, ` ${points}`),
          ),
          choice,
        ),
      );
  }
  arrangeBallot(form, participants);
  // each participant once
  const follow = () => {
    const taken = [...choices.values()].map((choice) => choice.value);
    for (const choice of choices.values())
      for (const option of choice.options)
        option.disabled =
          option.value !== "" && option.value !== choice.value && taken.includes(option.value);
  };
  form.addEventListener("change", () => {
    form.dataset.edited = "yes";
    follow();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    delete form.dataset.edited;
    cast(
      Object.fromEntries(
        [...choices].map(([id, choice]) => [id, choice.value]).filter(([, key]) => key),
      ),
    );
  });
  return (given) => {
    if (form.dataset.edited) return;
    for (const [id, choice] of choices) choice.value = given[id] ?? "";
    follow();
  };
}

// Members that the user and somebody else have changed: each is shown both ways, and the user
// chooses.

import { make } from "../keyed-elements.js";
import { element } from "../page-elements.js";
import { t } from "../texts.js";

/**
 * Shows the conflicts of forms, none without any.
 *
 * `conflicts` have `{form, name, label, mine, theirs}`, the last two as texts for people; `settled`
 * is called after each choice, with the form and the name of the field.
 */
export function showConflicts(conflicts, settled) {
  const button = (text, label, choose, { form, name }) => {
    const made = make("button", { type: "button", ariaLabel: `${text}: ${label}` }, text);
    made.addEventListener("click", () => {
      choose.call(form, name);
      settled(form, name);
    });
    return made;
  };
  const lines = conflicts.map((conflict) => {
    const { form, label, mine, theirs } = conflict;
    const what = make(
      "span",
      {},
      make("strong", {}, label),
      ` ${t("Yours: {mine}. Theirs: {theirs}.", { mine: mine || "–", theirs: theirs || "–" })}`,
    );
    const buttons = [
      button(t("Keep mine"), label, form.keep, conflict),
      button(t("Take theirs"), label, form.take, conflict),
    ];
    return make("li", {}, what, make("span", { className: "buttons" }, ...buttons));
  });
  element("conflict-list").replaceChildren(...lines);
  element("conflicts").hidden = lines.length === 0;
  if (lines.length > 0) element("conflicts").scrollIntoView({ block: "nearest" });
}

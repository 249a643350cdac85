// Advice with commands that can be copied.

import { make, setText } from "../keyed-elements.js";
import { t } from "../texts.js";

const SAID_MS = 2_000;

const WITHOUT_SERVERS = /^tally serve /;
let commandOptions = "";

/** Sets the options with which commands, as pasted, reach this deployment. */
export function setCommandOptions(options) {
  commandOptions = options;
}

/** Shows a text in which commands, in backticks, have a copy button. */
export function showAdvice(where, text) {
  if (where.dataset.text === text) return;
  where.dataset.text = text;
  where.replaceChildren(...text.split("`").map((part, at) => (at % 2 ? command(part) : part)));
}

function command(given) {
  const complete = given.startsWith("tally ") && commandOptions && !WITHOUT_SERVERS.test(given);
  const text = complete ? `${given} ${commandOptions}` : given;
  const code = make("code", {}, text);
  const button = make("button", { type: "button" }, t("Copy"));
  button.setAttribute("aria-label", t("Copy {name}", { name: text }));
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      setText(button, t("Copied"));
    } catch {
      getSelection()?.selectAllChildren(code);
      setText(button, t("Selected"));
    }
    setTimeout(() => setText(button, t("Copy")), SAID_MS);
  });
  return make("span", { className: "command" }, code, button);
}

// The account's API keys: create, list and revoke.

import { make } from "../keyed-elements.js";
import { read, said, write } from "../requests.js";
import { element, start } from "../shell.js";
import { mark, t } from "../texts.js";
import { TimeField } from "../time-field.js";
import * as words from "../formatting.js";

const MANAGE = "keys:manage";
const RATE = { one: mark("{n} request a second"), many: mark("{n} requests a second") };
let next = null;

const expires = new TimeField(element("new").elements.expires);
const who = await start();
if (who.permissions.includes(MANAGE)) {
  for (const name of who.permissions) element("permissions").append(choice(name));
  element("maker").hidden = false;
  element("new").addEventListener("submit", create);
  element("copy").addEventListener("click", copy);
  element("more").addEventListener("click", more);
  await more();
} else {
  element("keys-note").textContent = t("This page needs an API key with the permission {name}.", {
    name: MANAGE,
  });
}

function choice(name) {
  return make(
    "label",
    {},
    make("input", { type: "checkbox", name: "permission", value: name }),
    name,
  );
}

async function more() {
  const note = element("keys-note");
  try {
    const { body: page } = await read(
      `/keys?limit=20${next ? `&next=${encodeURIComponent(next)}` : ""}`,
    );
    next = page.next;
    element("more").hidden = !page.has_more;
    element("keys").append(...page.data.map(item));
    note.textContent = "";
  } catch (error) {
    note.textContent = said(error);
  }
}

async function create(event) {
  event.preventDefault();
  const form = event.target;
  const given = new FormData(form);
  const body = { name: given.get("name"), permissions: given.getAll("permission") };
  if (expires.moment) body.expires = expires.moment;
  if (given.get("rate")) body.rate = Number(given.get("rate"));
  const networks = String(given.get("networks") ?? "")
    .split(",")
    .map((each) => each.trim())
    .filter(Boolean);
  if (networks.length) body.networks = networks;
  element("refused").textContent = "";
  if (!body.permissions.length) {
    element("refused").textContent = t("Choose at least one permission.");
    return;
  }
  try {
    const { body: key } = await write("POST", "/keys", body);
    element("keys").prepend(item(key));
    if (key.api_key === null) {
      element("refused").textContent = t(
        "The key was created, but its text was lost on the way: revoke it, and create another.",
      );
      return;
    }
    element("text").textContent = key.api_key;
    element("created").hidden = false;
    element("created").focus();
    form.reset();
  } catch (error) {
    element("refused").textContent = said(error);
  }
}

function item(key) {
  const facts = [
    t("made {time}", { time: words.date(Date.parse(key.created)) }),
    key.last_used
      ? t("last used {time}", { time: words.date(Date.parse(key.last_used)) })
      : t("not used yet"),
    key.expires ? t("expires {time}", { time: words.date(Date.parse(key.expires)) }) : "",
    key.networks.length ? t("from {networks}", { networks: key.networks.join(", ") }) : "",
    key.rate === null ? "" : key.rate === 0 ? t("no rate limit") : words.plural(key.rate, RATE),
    key.parent ? t("made with {key}", { key: key.parent }) : "",
  ].filter(Boolean);
  const own = key.key_id === who.key_id;
  const about = make(
    "div",
    { className: "about" },
    make(
      "strong",
      {},
      key.name || t("Without a name"),
      own ? ` (${t("the key of this session")})` : "",
    ),
    make("code", {}, key.key_id),
    make("span", {}, key.permissions.join(", ")),
    make("span", { className: "soft" }, facts.join(" · ")),
  );
  const buttons = make("div", { className: "buttons" });
  const shown = make("li", {}, about, buttons);
  ask(shown, buttons, key);
  return shown;
}

/** Shows the button that revokes a key, and then the question whether to. */
function ask(shown, buttons, key) {
  const name = key.name || key.key_id;
  const revoke = make("button", {
    type: "button",
    textContent: t("Revoke"),
    ariaLabel: t("Revoke {name}", { name }),
  });
  revoke.addEventListener("click", () => {
    const yes = make("button", {
      type: "button",
      className: "danger",
      textContent: t("Revoke for good"),
    });
    const no = make("button", { type: "button", textContent: t("Keep") });
    yes.addEventListener("click", () => remove(shown, buttons, key));
    no.addEventListener("click", () => ask(shown, buttons, key).focus());
    buttons.replaceChildren(t("Keys made with it end, too."), yes, no);
    no.focus();
  });
  buttons.replaceChildren(revoke);
  return revoke;
}

async function remove(shown, buttons, key) {
  const trouble = element("trouble");
  trouble.hidden = true;
  try {
    await write("DELETE", `/keys/${encodeURIComponent(key.key_id)}`);
    element("keys").replaceChildren();
    next = null;
    await more();
    element("keys-note").textContent = t("Revoked {name}.", { name: key.name || key.key_id });
  } catch (error) {
    trouble.textContent = said(error);
    trouble.hidden = false;
    ask(shown, buttons, key);
  }
}

async function copy() {
  try {
    await navigator.clipboard.writeText(element("text").textContent);
    element("copy").textContent = t("Copied");
  } catch {
    getSelection()?.selectAllChildren(element("text"));
  }
}

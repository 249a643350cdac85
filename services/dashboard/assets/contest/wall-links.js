// Links that open a wall without a log-in: creation, list with QR codes, and revocation.

import { follow, make, setText } from "../keyed-elements.js";
import { element, write } from "../page-elements.js";
import { get, open, Refused } from "../session.js";
import { t } from "../texts.js";
import * as words from "../formatting.js";

const DAY_MS = 24 * 3_600_000;

export function startLinks(contest) {
  const path = `${contest}/links`;
  const dialog = element("ask-links");
  let shown = [];

  const guarded = (action) => async (event) => {
    event?.preventDefault();
    write("links-error", "");
    try {
      await action();
      show((await get(path)).data);
    } catch (error) {
      if (!(error instanceof Refused || error instanceof TypeError)) throw error;
      write("links-error", error instanceof Refused ? error.message : t("The service does not answer. Try again."));
    }
  };

  const revoke = (key) => guarded(() => open(`${path}/${key}`, { method: "DELETE" }));

  function show(links) {
    shown = links;
    follow(element("links"), links, (link) => link.key, (link) => row(link, revoke(link.key)), (item, link) => {
      const ended = Date.parse(link.expires) <= Date.now();
      const address = withLook(link.url);
      const [code, field] = [item.querySelector("img"), item.querySelector("input")];
      if (field.value !== address) {
        field.value = address;
        code.src = `/dashboard/code.svg?text=${encodeURIComponent(address)}`;
      }
      setText(item.querySelector(".ends"), t(ended ? "Ended {time}" : "Ends {time}", { time: words.date(Date.parse(link.expires)) }));
    });
  }

  element("wall-look").addEventListener("change", () => show(shown));
  element("links-edit").addEventListener("click", async () => {
    dialog.showModal();
    await guarded(async () => {})();
  });
  element("new-link").addEventListener("submit", guarded(async () => {
    const expires = new Date(Date.now() + Number(element("link-days").value) * DAY_MS).toISOString();
    const body = JSON.stringify({ name: element("link-name").value.trim() || null, expires });
    await open(path, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    element("new-link").reset();
  }));
}

/** Returns the address with the chosen layout, and without the marks that are not wanted. */
function withLook(url) {
  const address = new URL(url);
  const layout = element("wall-layout").value;
  const without = [...element("wall-look").querySelectorAll("input:checked")].map((box) => box.value);
  const hidden = without.filter((name) => name !== "ground");
  if (layout) address.searchParams.set("layout", layout);
  if (without.includes("ground")) address.searchParams.set("ground", "none");
  if (hidden.length) address.searchParams.set("hide", hidden.join("-"));
  return address.href;
}

function row(link, revoke) {
  const code = make("img", { alt: t("QR code of the link"), width: 120, height: 120 });
  const address = make("input", { readOnly: true, ariaLabel: t("Address of the link") });
  address.addEventListener("focus", () => address.select());
  const end = make("button", { type: "button", textContent: t("Revoke") });
  end.addEventListener("click", revoke);
  const about = make("div", {}, make("strong", { textContent: link.name ?? t("Wall") }), make("span", { className: "soft ends" }), address, end);
  return make("li", {}, code, about);
}

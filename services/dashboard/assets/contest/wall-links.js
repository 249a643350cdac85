// Links that open a wall without a log-in: creation, list with QR codes, and revocation.

import { follow, make, setText } from "../keyed-elements.js";
import { element, write } from "../page-elements.js";
import { read, said, write as send } from "../requests.js";
import { clock } from "../service-clock.js";
import { isTransient } from "../stream.js";
import { t } from "../texts.js";
import * as words from "../formatting.js";

const DAY_MS = 24 * 3_600_000;

export function startLinks(contest) {
  const path = `${contest}/links`;
  const dialog = element("ask-links");
  let shown = [];
  let unmade = null; // the new link, from its first request until it is answered

  const guarded = (action) => async (event) => {
    event?.preventDefault();
    write("links-error", "");
    try {
      await action();
      show((await read(path)).body.data);
    } catch (error) {
      write("links-error", said(error));
    }
  };

  const revoke = (key) => guarded(() => send("DELETE", `${path}/${key}`));

  function show(links) {
    shown = links;
    follow(
      element("links"),
      links,
      (link) => link.key,
      (link) => row(link, revoke(link.key)),
      (item, link) => {
        const ended = Date.parse(link.expires) <= clock.now();
        const address = withLook(link.url);
        const [code, field] = [item.querySelector("img"), item.querySelector("input")];
        if (field.value !== address) {
          field.value = address;
          code.src = `/dashboard/code.svg?text=${encodeURIComponent(address)}`;
        }
        setText(
          item.querySelector(".ends"),
          t(ended ? "Ended {time}" : "Ends {time}", { time: words.date(Date.parse(link.expires)) }),
        );
      },
    );
  }

  element("new-link").addEventListener("input", () => (unmade = null));
  element("wall-look").addEventListener("change", () => show(shown));
  element("links-edit").addEventListener("click", async () => {
    dialog.showModal();
    await guarded(async () => {})();
  });
  element("new-link").addEventListener(
    "submit",
    guarded(async () => {
      // the same until it is answered: a link whose answer was lost is made once
      unmade ??= {
        name: element("link-name").value.trim() || null,
        expires: new Date(clock.now() + Number(element("link-days").value) * DAY_MS).toISOString(),
      };
      try {
        await send("POST", path, unmade);
      } catch (error) {
        if (error.status && !isTransient(error.status)) unmade = null;
        throw error;
      }
      unmade = null;
      element("new-link").reset();
    }),
  );
}

/** Returns the address with the chosen layout, and without the marks that are not wanted. */
function withLook(url) {
  const address = new URL(url);
  const layout = element("wall-layout").value;
  const without = [...element("wall-look").querySelectorAll("input:checked")].map(
    (box) => box.value,
  );
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
  const about = make(
    "div",
    {},
    make("strong", { textContent: link.name ?? t("Wall") }),
    make("span", { className: "soft ends" }),
    address,
    end,
  );
  return make("li", {}, code, about);
}

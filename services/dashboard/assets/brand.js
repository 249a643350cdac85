// The account's own name, logo and colour on its pages, from `/account`.

import { get, Refused } from "./session.js";

const COLOUR = /^#?([0-9a-f]{6})$/i;

/** Shows the looks of the account, as far as its settings name any. */
export async function showBrand(who) {
  if (!["content:read", "results:read"].some((each) => who.permissions.includes(each))) return;
  try {
    const { account, brand_name: name, looks } = await get("/account");
    if (name !== account) document.querySelector(".brand span").textContent = name;
    if (looks.logo_key) showLogo(`/media/image/${encodeURIComponent(looks.logo_key)}?size=thumb`);
    const [, colour] = COLOUR.exec(looks.primary_color ?? "") ?? [];
    if (colour) document.documentElement.style.setProperty("--brand", `#${colour}`);
  } catch (error) {
    // the pages have looks of their own
    if (!(error instanceof Refused || error instanceof TypeError)) throw error;
  }
}

/** Shows the logo in the header and, where there is a place for it, before a contest's title. */
function showLogo(address) {
  for (const logo of document.querySelectorAll(".brand img, #logo")) {
    const before = logo.getAttribute("src");
    logo.onerror = () => (before ? (logo.onerror = null, logo.src = before) : (logo.hidden = true));
    logo.hidden = false;
    logo.src = address;
  }
}

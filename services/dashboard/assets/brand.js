// The account's own name, logo and colour on its pages, also on walls that a link opens.

const COLOUR = /^#?([0-9a-f]{6})$/i;

/**
 * Shows the looks of the account, as far as its settings name any; `request` is `fetch` with
 * credentials.
 */
export async function showBrand(request = fetch) {
  try {
    const answer = await request("/dashboard/brand");
    if (!answer.ok) return; // the pages have looks of their own
    const { name, logo_key: logo, primary_color: colour } = await answer.json();
    if (name)
      for (const place of document.querySelectorAll(".brand span")) place.textContent = name;
    if (logo) showLogo(`/media/image/${encodeURIComponent(logo)}?size=thumb`);
    const [, hex] = COLOUR.exec(colour ?? "") ?? [];
    if (hex) document.documentElement.style.setProperty("--brand", `#${hex}`);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
}

/** Shows the logo in the header and, where there is a place for it, before a contest's title. */
function showLogo(address) {
  for (const logo of document.querySelectorAll(".brand img, #logo")) {
    const before = logo.getAttribute("src");
    logo.onerror = () => {
      logo.onerror = null;
      if (before) logo.src = before;
      else logo.hidden = true;
    };
    logo.hidden = false;
    logo.src = address;
  }
}

// The call to vote: a short address or number, and a longer address as a QR code.

import { element, write } from "../page-elements.js";

let shownUrl = null;

/** Shows the show's `call_to_vote`; `fetched(path)` requests the code. */
export function showCall({ is_shown: isShown, text, url }, fetched) {
  element("call").hidden = !isShown || !(text || url);
  write("call-text", text ?? "");
  write("call-address", text ? "" : (url ?? "").replace(/^https?:\/\//, ""));
  if (isShown && url !== shownUrl) showCode(url, fetched);
}

async function showCode(url, fetched) {
  const code = element("call-code");
  shownUrl = url;
  code.hidden = true;
  if (!url) return;
  try {
    const answer = await fetched(`/dashboard/code.svg?text=${encodeURIComponent(url)}`);
    if (!answer.ok) throw new TypeError(`status ${answer.status}`);
    const image = `data:image/svg+xml,${encodeURIComponent(await answer.text())}`;
    if (shownUrl !== url) return;
    code.src = image;
    code.hidden = false;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    shownUrl = null; // the next state of the show tries again
  }
}

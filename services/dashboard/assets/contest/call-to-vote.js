// The call to vote: a text, and an address as a QR code; both are part of the page's address.

import { element, parameter, setParameter, write } from "../page-elements.js";

export function startCall() {
  const [text, address, dialog] = [element("call-new-text"), element("call-new-address"), element("ask-call")];
  element("call-edit").addEventListener("click", () => {
    [text.value, address.value] = [parameter("call"), parameter("vote_at")];
    dialog.returnValue = "no";
    dialog.showModal();
  });
  dialog.addEventListener("close", () => {
    if (dialog.returnValue !== "yes") return;
    setParameter("call", text.value.trim());
    setParameter("vote_at", address.value.trim());
    show();
  });
  show();
}

function show() {
  const [text, address] = [parameter("call"), parameter("vote_at")];
  element("call").hidden = !text && !address;
  write("call-text", text);
  write("call-address", address.replace(/^https?:\/\//, ""));
  const code = element("call-code");
  code.hidden = !address;
  if (address) code.src = `/dashboard/code.svg?text=${encodeURIComponent(address)}`;
}

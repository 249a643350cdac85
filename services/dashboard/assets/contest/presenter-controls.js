// The presenter's controls: hold and reveal, layout, link to this view, and exports; by buttons, keys or a remote control.

import { element, parameter, setParameter } from "../page-elements.js";
import { t } from "../texts.js";
import { isCommand } from "./wall-view.js";

const SAID_MS = 2_000;

/**
 * `actions` has `places()`, `now()`, `csv()`, `png()` and `layoutChanged()`. Walls follow the other windows of this browser
 * that show the same contest; `isWall()` returns whether this window is one. Returns a function to call when it becomes one.
 */
export function startShow(board, isWall, actions) {
  const channel = new BroadcastChannel(`board ${location.pathname}`);
  const lead = (command) => () => {
    command();
    channel.postMessage(board.state);
  };
  const commands = {
    hold: lead(() => board.hold(actions.now())),
    reveal: lead(() => board.reveal(actions.now())),
    "reveal-next": lead(() => board.open(actions.places())),
    "reveal-all": lead(() => board.open(actions.places(), true)),
  };
  channel.addEventListener("message", ({ data }) => {
    if (data === "ask") {
      if (board.heldAt) channel.postMessage(board.state);
    } else if (isWall()) board.follow(data);
  });
  for (const [id, command] of Object.entries(commands)) element(id).addEventListener("click", command);
  addEventListener("keydown", (event) => {
    for (const [id, command] of Object.entries(commands)) if (isCommand(event, element(id).getAttribute("aria-keyshortcuts"))) command();
    if (board.isReveal && ["PageDown", "ArrowRight"].includes(event.key)) {
      event.preventDefault();
      commands["reveal-next"]();
    }
  });
  element("save-csv").addEventListener("click", actions.csv);
  element("save-png").addEventListener("click", actions.png);
  element("copy-link").addEventListener("click", copyLink);
  element("has-chart").addEventListener("click", () => {
    showLayout(parameter("chart") === "no");
    actions.layoutChanged();
  });
  showLayout(parameter("chart") !== "no");
  const ask = () => {
    if (isWall() && !board.heldAt) channel.postMessage("ask");
  };
  ask();
  return ask;
}

function showLayout(hasChart) {
  setParameter("chart", hasChart ? "" : "no");
  element("has-chart").setAttribute("aria-pressed", hasChart);
  document.body.classList.toggle("no-chart", !hasChart);
}

async function copyLink({ target }) {
  const before = t("Copy link");
  try {
    await navigator.clipboard.writeText(location.href);
    target.textContent = t("Copied");
  } catch {
    target.textContent = t("Copy the address from the browser");
  }
  setTimeout(() => (target.textContent = before), SAID_MS);
}

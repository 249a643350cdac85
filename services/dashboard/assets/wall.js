// Wall view: the page on one screen, larger, without controls; by `?view=wall`, the key f or a button.

const root = document.documentElement;

export const isWall = () => root.dataset.view === "wall";

/** Sets up the switch; calls `changed()` after each switch. */
export function startWall(button, changed) {
  function show(on) {
    if (on) root.dataset.view = "wall";
    else delete root.dataset.view;
    const address = new URL(location.href);
    if (on) address.searchParams.set("view", "wall");
    else address.searchParams.delete("view");
    history.replaceState(null, "", address);
    changed();
  }

  function change() {
    const on = !isWall();
    show(on);
    if (on) root.requestFullscreen?.().catch(() => {}); // without full screen the view is the same
    else if (document.fullscreenElement) document.exitFullscreen();
  }

  if (new URLSearchParams(location.search).get("view") === "wall") root.dataset.view = "wall";
  button.addEventListener("click", change);
  addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, select, textarea, dialog");
    if (event.key === "f" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) change();
    if (event.key === "Escape" && isWall() && !document.fullscreenElement) show(false);
  });
  document.addEventListener("fullscreenchange", () => document.fullscreenElement || !isWall() || show(false));
}

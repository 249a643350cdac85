// Light or dark, as the system has it or as this browser was told: before anything is drawn.
"use strict";
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("theme");
  } catch {
    // a browser that keeps nothing has the system's theme
  }
  if (chosen) document.documentElement.dataset.theme = chosen;
}

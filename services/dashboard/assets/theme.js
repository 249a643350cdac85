// Applies the chosen theme before the first paint; the default is the system's.
"use strict";
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("theme");
  } catch {
    // without storage the system's theme applies
  }
  if (chosen) document.documentElement.dataset.theme = chosen;
}

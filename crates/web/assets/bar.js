// The bar of a row: the parts of what it requested.

import { shares } from "./summary.js";

export function readBar(row) {
  const bar = document.createElement("span");
  bar.className = "readbar";
  bar.setAttribute("aria-hidden", "true");
  fillBar(bar, row);
  return bar;
}

// Sets the parts of a bar. One background is far cheaper than an element for each part: there are a hundred rows.
export function fillBar(bar, row) {
  let end = 0;
  const stops = shares(row).map(({ name, width }) => {
    const begin = end;
    end += width / 10;
    return `var(--${name}) ${begin.toFixed(1)}% ${end.toFixed(1)}%`;
  });
  const parts = end > 0 ? `linear-gradient(to right, ${stops.join(", ")})` : "";
  if (bar.dataset.parts === parts) return;
  bar.dataset.parts = parts;
  bar.style.backgroundImage = parts;
}

// The bar of a row: the parts of what it requested.

import { shares } from "./summary.js";

const SVG = "http://www.w3.org/2000/svg";

export function readBar(row) {
  const bar = document.createElementNS(SVG, "svg");
  bar.setAttribute("viewBox", "0 0 1000 10");
  bar.setAttribute("preserveAspectRatio", "none");
  bar.setAttribute("aria-hidden", "true");
  bar.setAttribute("class", "readbar");
  for (const { name } of shares(row)) {
    const part = document.createElementNS(SVG, "rect");
    part.setAttribute("class", name);
    part.setAttribute("height", "10");
    bar.append(part);
  }
  fillBar(bar, row);
  return bar;
}

// Sets the widths of the parts of a bar.
export function fillBar(bar, row) {
  let x = 0;
  shares(row).forEach(({ width }, place) => {
    bar.children[place].setAttribute("x", x.toFixed(1));
    bar.children[place].setAttribute("width", width.toFixed(1));
    x += width;
  });
}

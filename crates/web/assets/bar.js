// The bar of a row: the parts of what it requested.

import { shares } from "./summary.js";

const SVG = "http://www.w3.org/2000/svg";

export function readBar(row) {
  const bar = document.createElementNS(SVG, "svg");
  bar.setAttribute("viewBox", "0 0 1000 10");
  bar.setAttribute("preserveAspectRatio", "none");
  bar.setAttribute("aria-hidden", "true");
  bar.setAttribute("class", "readbar");
  let x = 0;
  for (const { name, width } of shares(row)) {
    const part = document.createElementNS(SVG, "rect");
    for (const [key, value] of Object.entries({ class: name, x, y: 0, width, height: 10 })) part.setAttribute(key, value);
    x += width;
    bar.append(part);
  }
  return bar;
}

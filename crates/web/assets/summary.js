// The summary at the top: headline, picture of reads, figures, and their quality.

import { cell, isRate, percent } from "./format.js";
import { say } from "./say.js";

const FIGURES = {
  reuse_ratio: { unit: "ratio" },
  read_requested_pages: { unit: "pages", rate: true },
  read_missed_pages: { unit: "pages", rate: true },
  direct_read_bytes: { unit: "bytes", rate: true },
  device_read_bytes: { unit: "bytes", rate: true },
  cached_bytes: { unit: "bytes" },
  dirty_bytes: { unit: "bytes" },
  psi_io_some_ratio: { unit: "ratio" },
};
const PARTS = { cached: "read_cached_pages", ahead: "readahead_hit_pages", miss: "read_missed_pages" };

// The widths of the parts of reads in thousandths of what was requested.
export function shares(row) {
  const pages = Object.values(PARTS).map((id) => row[id] ?? 0);
  const whole = pages.reduce((sum, part) => sum + part, 0);
  return Object.keys(PARTS).map((name, place) => ({
    name,
    width: whole > 0 ? (pages[place] * 1000) / whole : 0,
    ratio: whole > 0 && typeof row[PARTS[name]] === "number" ? pages[place] / whole : null,
  }));
}

// Parts of what was requested, and direct I/O beside them.
function reads(point) {
  let x = 0;
  for (const { name, width, ratio } of shares(point)) {
    const bar = document.querySelector(`#reads rect.${name}`);
    bar.setAttribute("x", x);
    bar.setAttribute("width", width);
    x += width;
    document.querySelector(`#reads li.${name} b`).textContent = percent(ratio);
  }
  const how = FIGURES.direct_read_bytes;
  const direct = cell(point, { id: "direct_read_bytes", ...how }).text;
  document.querySelector("#reads li.direct b").textContent = `${direct}${isRate(how) ? "/s" : ""}`;
}

function figures(point) {
  for (const [id, how] of Object.entries(FIGURES)) {
    const place = document.querySelector(`[data-figure="${id}"]`);
    place.textContent = cell(point, { id, ...how }).text;
    if (isRate(how) && point[id] !== null) {
      const per = document.createElement("small");
      per.textContent = "/s";
      place.append(per);
    }
  }
}

// A loss stays on the page: the quality is that of all counts since the start.
function exactness({ exactness: { id, text }, lost }) {
  const badge = document.getElementById("exactness");
  badge.dataset.exactness = id;
  say(badge, text);
  document.getElementById("incomplete").hidden = id !== "incomplete";
  const notes = lost.map(({ id, count, meaning }) => {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = `incomplete, ${id.replaceAll("_", " ")}: ${count.toLocaleString("en-US")} ${meaning}`;
    return note;
  });
  document.getElementById("lost").replaceChildren(...notes);
}

export function summary(tick) {
  say(document.getElementById("headline"), tick.headline);
  reads(tick.point);
  figures(tick.point);
  exactness(tick);
}

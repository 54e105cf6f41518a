// The page comes with its numbers; this keeps them moving.

import { Charts, clock as at } from "./charts.js";
import { bytes, cell, percent, plain } from "./format.js";
import { Table } from "./tables.js";
import { Treemap } from "./treemap.js";

const byId = (id) => document.getElementById(id);
const TABLES = ["processes", "cgroups", "files", "devices"];
const THEMES = ["system", "light", "dark"];
const FIGURES = {
  reuse_ratio: { unit: "ratio" },
  read_requested_pages: { unit: "pages", rate: true },
  read_missed_pages: { unit: "pages", rate: true },
  device_read_bytes: { unit: "bytes", rate: true },
  cached_bytes: { unit: "bytes" },
  dirty_bytes: { unit: "bytes" },
  psi_io_some_ratio: { unit: "ratio" },
};

document.documentElement.classList.add("live");
for (const id of ["charts", "tabs", "filter-label", "pause", "theme"]) byId(id).hidden = false;

const charts = new Charts();
const tables = Object.fromEntries(TABLES.map((id) => [id, new Table(id)]));
new Treemap();

// Theme: the choice is the browser's to keep.
let theme = "system";
try {
  theme = localStorage.getItem("cachewise-theme") ?? "system";
} catch {
  // Storage may be off: then the choice lasts as long as the page.
}
function wear() {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byId("theme").textContent = `Theme: ${theme}`;
  charts.draw();
}
byId("theme").addEventListener("click", () => {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  try {
    localStorage.setItem("cachewise-theme", theme);
  } catch {
    // As above.
  }
  wear();
});
wear();

// Tabs, as a keyboard expects them.
const tabs = TABLES.map((id) => byId(`tab-${id}`));
function choose(tab, focus = false) {
  for (const other of tabs) {
    const chosen = other === tab;
    other.setAttribute("aria-selected", String(chosen));
    other.tabIndex = chosen ? 0 : -1;
    byId(other.getAttribute("aria-controls")).hidden = !chosen;
  }
  if (focus) tab.focus();
}
for (const [place, tab] of tabs.entries()) {
  const panel = byId(tab.getAttribute("aria-controls"));
  panel.setAttribute("role", "tabpanel");
  panel.setAttribute("aria-labelledby", tab.id);
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) choose(tabs[(place + step + tabs.length) % tabs.length], true);
  });
}
choose(tabs[0]);
byId("filter").addEventListener("input", (event) => {
  for (const table of Object.values(tables)) {
    table.filter = event.target.value;
    table.draw();
  }
});

// Pause: numbers go on to be collected, and stand still here.
let paused = false;
let latest = null;
const state = byId("state");
function say(live, text) {
  state.dataset.live = String(live);
  state.textContent = text;
}
byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  byId("pause").textContent = paused ? "Go on" : "Pause";
  if (!paused && latest) show(latest);
  else if (paused) say(false, `paused at ${clock(latest)}`);
});
addEventListener("keydown", (event) => {
  if (event.key === " " && event.target === document.body) {
    event.preventDefault();
    byId("pause").click();
  }
});

const clock = (tick) => (tick ? at(Date.parse(tick.point.time) / 1000) : "the start");

// The subject of a finding with its name: a label before the path, a unit or container behind it.
function subjectOf({ subject, subject_name: name, subject_kind: kind }) {
  if (!subject) return name ? `in ${name}` : "";
  const path = plain(subject);
  if (!name || name === path) return path;
  return kind === "file" ? `${name} (${path})` : `${path} (${name})`;
}

// A link to the page about a finding.
function pageOf(finding) {
  const link = document.createElement("a");
  link.href = finding.page;
  link.rel = "noreferrer";
  link.textContent = finding.id;
  return link;
}

// Shows a list of findings. `list` is null if unknown; `reason` says why, or why only a part of the
// rules applied.
function findings(list, reason) {
  const items = (list ?? []).map((finding) => {
    const item = document.createElement("li");
    item.className = finding.severity;
    const title = document.createElement("h3");
    title.textContent = finding.title;
    item.append(title);
    const text = subjectOf(finding);
    if (text) {
      const subject = document.createElement("code");
      subject.textContent = text;
      item.append(subject);
    }
    const evidence = document.createElement("ul");
    evidence.className = "evidence";
    for (const [name, value] of Object.entries(finding.figures)) {
      if (["reasons", "reason_codes", "estimated", "escaped"].includes(name)) continue;
      const unit = ["pages", "bytes", "seconds", "ratio"].find((unit) => name.endsWith(`_${unit}`)) ?? "count";
      const figure = document.createElement("li");
      const number = document.createElement("b");
      number.textContent = cell(finding.figures, { id: name, unit }).text;
      figure.append(`${name.replace(`_${unit}`, "").replaceAll("_", " ")} `, number);
      evidence.append(figure);
    }
    for (const folded of finding.also ?? []) {
      const line = document.createElement("li");
      line.textContent = folded.subject ? `${folded.cause}: ${plain(folded.subject)}` : folded.cause;
      evidence.append(line);
    }
    const next = document.createElement("p");
    next.textContent = finding.next_step;
    const verify = document.createElement("p");
    verify.textContent = `Verify: ${finding.verify}`;
    const explained = document.createElement("p");
    explained.append("Explained by ", pageOf(finding));
    item.append(evidence, next, verify, explained);
    return item;
  });
  if (items.length === 0 || reason) {
    const none = document.createElement("li");
    none.className = reason ? "unknown" : "none";
    none.textContent = reason ? `Not known: ${reason}.` : "Nothing to find fault with in the last minute.";
    items.push(none);
  }
  byId("findings").replaceChildren(...items);
}

// The flame graph is a picture that the server draws: now and then again.
const FLAME_EVERY_MS = 10_000;
let flameDrawn = performance.now();
function flame() {
  const picture = byId("flame");
  if (!picture || performance.now() - flameDrawn < FLAME_EVERY_MS) return;
  flameDrawn = performance.now();
  picture.src = `/flame.svg?at=${Math.round(flameDrawn)}`;
}

// The picture of reads: parts of what was requested, and direct I/O beside them.
function reads(point) {
  const parts = { cached: "read_cached_pages", ahead: "readahead_hit_pages", miss: "read_missed_pages" };
  const pages = Object.values(parts).map((id) => point[id] ?? 0);
  const whole = pages.reduce((sum, part) => sum + part);
  let x = 0;
  Object.keys(parts).forEach((name, place) => {
    const width = whole > 0 ? (pages[place] * 1000) / whole : 0;
    const bar = document.querySelector(`#reads rect.${name}`);
    bar.setAttribute("x", x);
    bar.setAttribute("width", width);
    x += width;
    const share = whole > 0 && typeof point[parts[name]] === "number" ? pages[place] / whole : null;
    document.querySelector(`#reads li.${name} b`).textContent = percent(share);
  });
  const direct = cell(point, { id: "direct_read_bytes", unit: "bytes", rate: true }).text;
  document.querySelector("#reads li.direct b").textContent = `${direct}/s`;
}

function show(tick) {
  const { point } = tick;
  byId("headline").textContent = tick.headline;
  reads(point);
  for (const [id, how] of Object.entries(FIGURES)) {
    const place = document.querySelector(`[data-figure="${id}"]`);
    const { text } = cell(point, { id, ...how });
    place.textContent = text;
    if (how.rate && point[id] !== null) {
      const per = document.createElement("small");
      per.textContent = "/s";
      place.append(per);
    }
  }
  charts.update();
  for (const id of TABLES) tables[id].set(tick[id], point.elapsed_seconds, tick.reasons[id]);
  findings(tick.findings, tick.reasons.findings);
  exactness(tick);
  flame();
  say(true, `live, ${clock(tick)}`);
}

// A loss stays on the page: the quality is that of all counts since the start.
function exactness(tick) {
  const badge = byId("exactness");
  badge.dataset.exactness = tick.exactness.id;
  badge.textContent = tick.exactness.text;
  const notes = tick.lost.map(({ id, count, meaning }) => {
    const note = document.createElement("p");
    note.className = "note";
    note.textContent = `incomplete, ${id.replaceAll("_", " ")}: ${count.toLocaleString("en-US")} ${meaning}`;
    return note;
  });
  byId("lost").replaceChildren(...notes);
}

function problem(text) {
  byId("problem").hidden = !text;
  byId("problem").textContent = text ?? "";
}

async function past() {
  const response = await fetch("/api/v1/history");
  if (!response.ok) throw new Error((await response.json()).error);
  charts.reset((await response.json()).points);
}

// The browser connects again by itself; what was missed meanwhile is in the history.
const events = new EventSource("/api/v1/events");
events.addEventListener("open", () => past().then(() => problem(null), (error) => problem(error.message)));
events.addEventListener("tick", (event) => {
  latest = JSON.parse(event.data);
  charts.add(latest.point);
  if (!paused) {
    problem(null);
    show(latest);
  }
});
events.addEventListener("problem", (event) => problem(`No numbers: ${JSON.parse(event.data).error}`));
events.addEventListener("error", () => {
  say(false, "not connected, trying again");
  if (events.readyState === EventSource.CLOSED) problem("The server refused the connection. Load the page again.");
});

// For tests, and for who looks closely.
globalThis.cachewise = { charts, tables, bytes };

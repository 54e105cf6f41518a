// The page comes with its numbers; this keeps them moving.

import { Charts } from "./charts.js";
import { findings } from "./findings.js";
import { bytes, clock } from "./format.js";
import { connect } from "./live.js";
import { State } from "./state.js";
import { TablesOver } from "./over.js";
import { SubjectPanel } from "./subject.js";
import { summary } from "./summary.js";
import { Table } from "./tables.js";
import { tabs } from "./tabs.js";
import { theme } from "./theme.js";
import { Treemap } from "./treemap.js";

const byId = (id) => document.getElementById(id);
const TABLES = ["processes", "cgroups", "files", "devices"];

document.documentElement.classList.add("live");
for (const id of ["charts", "tabs", "tools", "filter-label", "pause", "theme"]) byId(id).hidden = false;

const state = new State();
const charts = new Charts(state);
const tables = Object.fromEntries(TABLES.map((id) => [id, new Table(id, state)]));
new Treemap(state);
theme(() => charts.draw());
tabs(TABLES, state);
const panel = new SubjectPanel(state);
const over = new TablesOver(state, tables);

// A card opens its subject beside the page, unless the click is on another link or selects text.
byId("findings").addEventListener("click", (event) => {
  const card = event.target.closest("[data-subject]");
  const isOther = event.target.closest("a:not([data-subject])") || event.ctrlKey || event.metaKey || event.shiftKey;
  if (!card || isOther || String(getSelection())) return;
  event.preventDefault();
  state.set({ subject: card.dataset.subject });
});

const filter = byId("filter");
filter.value = state.get("filter");
filter.addEventListener("input", () => state.set({ filter: filter.value }, true));
state.on(["filter"], ({ filter: wanted }) => {
  if (filter.value !== wanted) filter.value = wanted;
});

// Pause: numbers go on to be collected, and stand still here.
let paused = false;
let latest = null;
const live = byId("state");
function say(isLive, text) {
  live.dataset.live = String(isLive);
  live.textContent = text;
}
const time = (tick) => (tick ? clock(Date.parse(tick.point.time) / 1000) : "the start");
byId("pause").addEventListener("click", () => {
  paused = !paused;
  panel.isPaused = paused;
  over.isPaused = paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  byId("pause").textContent = paused ? "Go on" : "Pause";
  if (!paused && latest) show(latest);
  else if (paused) say(false, `paused at ${time(latest)}`);
});
addEventListener("keydown", (event) => {
  if (event.key === " " && event.target === document.body) {
    event.preventDefault();
    byId("pause").click();
  } else if (event.key === "Escape" && panel.isOpen) panel.close();
  else if (event.key === "Escape" && charts.isZoomed) charts.whole();
});

// The flame graph is a picture that the server draws: now and then again.
const FLAME_EVERY_MS = 10_000;
let flameDrawn = performance.now();
function flame() {
  const picture = byId("flame");
  if (!picture || performance.now() - flameDrawn < FLAME_EVERY_MS) return;
  flameDrawn = performance.now();
  picture.src = `/flame.svg?at=${Math.round(flameDrawn)}`;
}

function show(tick) {
  summary(tick);
  charts.update();
  over.tick(tick);
  findings(tick.findings, tick.reasons.findings, (subject) => state.link({ subject }));
  flame();
  say(true, `live, ${time(tick)}`);
}

function problem(text) {
  byId("problem").hidden = !text;
  byId("problem").textContent = text ?? "";
}

// The past of the time that is shown.
async function past() {
  const response = await fetch(`/api/v1/history?seconds=${charts.length}`);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  charts.store.silent = null;
  byId("refused").hidden = true;
  charts.reset(answer);
}
// The server has a long time in fewer points. Not at each tick: short intervals have many even so.
let isThinned = false;
function thin() {
  if (!charts.store.isMany || isThinned) return;
  isThinned = true;
  setTimeout(() => { isThinned = false; }, 60_000);
  again();
}
const again = () => past().then(() => problem(null), (error) => problem(error.message));
state.on(["window", "from"], () => {
  if (charts.isShort) again();
});

// The history has the ticks of the time without a connection.
connect({
  opened: again,
  tick: (tick) => {
    latest = tick;
    charts.add(tick.point);
    thin();
    if (paused) return;
    problem(null);
    show(tick);
  },
  failed: (error) => problem(`No numbers: ${error}`),
  lost: (status) => {
    say(false, "not connected, trying again");
    charts.store.silent ??= Date.now() / 1000;
    byId("refused").hidden = status !== 401;
  },
});
setInterval(() => {
  if (charts.store.silent !== null && !paused) charts.update();
}, 1000);

// For tests, and for who looks closely.
globalThis.cachewise = { charts, tables, state, panel, bytes };

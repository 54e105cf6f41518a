// The page comes with its numbers; this draws the charts, and keeps a server's numbers moving.

import { Charts } from "./charts.js";
import { findings } from "./findings.js";
import { bytes } from "./format.js";
import { follow } from "./live.js";
import { recorded } from "./source.js";
import { Sight } from "./sight.js";
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
// Controls that ask a server.
const LIVE = ["pause", "full", "over-label"];

document.documentElement.classList.add("live");
for (const id of ["charts", "tabs", "tools", "filter-label", "theme"]) byId(id).hidden = false;
for (const id of LIVE) byId(id).hidden = Boolean(recorded);
byId("tables-of").hidden = !recorded;

const state = new State();
const charts = new Charts(state);
const tables = Object.fromEntries(TABLES.map((id) => [id, new Table(id, state)]));
if (!recorded) new Treemap(state);
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

addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (panel.isOpen) panel.close();
  else if (charts.isZoomed) charts.whole();
});

const seen = { charts: new Sight(byId("charts")), tables: new Sight(byId("tables")) };
function show(tick) {
  summary(tick);
  seen.charts.draw(() => charts.update());
  seen.tables.draw(() => over.tick(tick));
  findings(tick.findings, tick.reasons.findings, (subject) => state.link({ subject }));
}

if (recorded) {
  charts.reset(recorded.history);
  show(recorded.tick);
} else follow({ state, charts, panel, over, show });

// For tests, and for who looks closely.
globalThis.cachewise = { charts, tables, state, panel, bytes };

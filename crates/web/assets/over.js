// The tables over the last interval or a longer time, and their files.

import { saveAs, text } from "./csv.js";
import { ask, recorded } from "./source.js";

const byId = (id) => document.getElementById(id);
const EVERY_MS = 2000;

export class TablesOver {
  constructor(state, tables) {
    this.state = state;
    this.tables = tables;
    this.isPaused = false;
    const choice = byId("over");
    const follow = () => {
      choice.value = state.get("over");
      if (choice.selectedIndex < 0) choice.value = "";
      this.load();
      this.files();
    };
    choice.addEventListener("change", () => state.set({ over: choice.value }));
    state.on(["over"], follow);
    state.on(["tab"], () => this.files());
    byId("save").addEventListener("click", () => {
      const table = this.table;
      saveAs(`${table.id}.csv`, text(table.columns, table.sorted()));
    });
    if (!recorded) setInterval(() => {
      if (!this.isPaused && !document.hidden) this.load();
    }, EVERY_MS);
    follow();
  }

  // The table that is shown.
  get table() {
    return this.tables[this.state.get("tab")] ?? Object.values(this.tables)[0];
  }

  get seconds() {
    return recorded ? "" : byId("over").value;
  }

  // The address of the whole table.
  files() {
    const seconds = this.seconds === "" ? "" : `&seconds=${this.seconds}`;
    byId("full").href = `/api/v1/${this.table.id}?format=csv&limit=5000${seconds}`;
  }

  tick(tick) {
    if (this.seconds === "") this.set(tick, tick.point.elapsed_seconds);
  }

  set(from, elapsed) {
    for (const [id, table] of Object.entries(this.tables)) table.set(from[id], elapsed, from.reasons[id]);
  }

  async load() {
    const { seconds } = this;
    if (seconds === "") return;
    try {
      const { status, answer } = await ask("tables", { seconds });
      if (status === 200 && seconds === this.seconds) this.set(answer, answer.elapsed_seconds);
    } catch {
      // The stream of events says that there is no connection.
    }
  }
}

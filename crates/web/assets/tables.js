// Tables that sort and filter. The columns are those of the table that came with the page; the order is in
// the page's address.

import { fillBar, readBar } from "./bar.js";
import { cell, measure, plain } from "./format.js";
import { say } from "./say.js";
import { recorded } from "./source.js";

// The columns whose cells lead to what is known of the row's subject.
const LINKED = { processes: "command", cgroups: "cgroup", files: "path", devices: "device" };

// Rows of a tick that are drawn until all are wanted. Each costs at each tick, and a few are in sight.
const FIRST = recorded ? Infinity : 50;

export class Table {
  constructor(id, state) {
    this.id = id;
    this.state = state;
    this.table = document.getElementById(id);
    this.body = this.table.tBodies[0];
    this.rows = null;
    this.elapsed = 1;
    this.most = FIRST;
    this.more = document.createElement("button");
    this.more.type = "button";
    this.more.className = "more";
    this.more.hidden = true;
    this.more.addEventListener("click", () => this.whole());
    this.table.after(this.more);
    this.columns = [...this.table.tHead.rows[0].cells].map((head) => ({
      id: head.dataset.id,
      unit: head.dataset.unit,
      rate: head.dataset.rate === "true",
      head,
    }));
    for (const column of this.columns) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...column.head.childNodes);
      button.addEventListener("click", () => this.sort(column));
      column.head.append(button);
    }
    this.body.addEventListener("click", (event) => this.clicked(event));
    state.on(["sort", "filter", "tab"], () => this.draw());
    state.on(["subject"], () => this.select());
    this.mark();
  }

  // The column and direction of the address, or the usual ones.
  get order() {
    const given = this.state.get("sort").split(",").find((one) => one.startsWith(`${this.id}:`));
    const [, sign, id] = given?.match(/:([-+]?)(.*)$/) ?? [];
    const named = this.columns.find((column) => column.id === id);
    const usual = this.columns.find((column) => column.id === this.table.dataset.order) ?? this.columns[0];
    return { column: named ?? usual, down: named ? sign === "-" : true };
  }

  get isShown() {
    const tab = this.state.get("tab");
    return (tab in LINKED ? tab : "processes") === this.id;
  }

  sort(column) {
    const order = this.order;
    const down = order.column === column ? !order.down : column.unit !== "text";
    const others = this.state.get("sort").split(",").filter((one) => one && !one.startsWith(`${this.id}:`));
    this.state.set({ sort: [...others, `${this.id}:${down ? "-" : ""}${column.id}`].join(",") }, true);
  }

  mark() {
    const order = this.order;
    for (const column of this.columns) {
      if (column === order.column) column.head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      else column.head.removeAttribute("aria-sort");
    }
  }

  // Takes rows, or null with the reason where they are unknown.
  set(rows, elapsed, reason) {
    this.rows = rows ?? [];
    this.reason = reason;
    this.elapsed = elapsed;
    this.draw();
  }

  sorted() {
    const wanted = this.state.get("filter").toLowerCase();
    const names = this.columns.filter((column) => column.unit === "text" || column.unit === "id");
    const rows = (this.rows ?? []).filter(
      (row) => !wanted || names.some((column) => String(row[column.id] ?? "").toLowerCase().includes(wanted)),
    );
    const { column, down } = this.order;
    const sign = down ? -1 : 1;
    const key = (row) => (column.unit === "text" ? row[column.id] ?? null : measure(row, { ...column, elapsed: this.elapsed }));
    // Unknown values come last in both directions.
    return rows
      .map((row) => [key(row), row])
      .sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null);
        return sign * (typeof a === "string" ? a.localeCompare(b) : a - b);
      })
      .map(([, row]) => row);
  }

  draw() {
    this.mark();
    // Before the first tick the rows are those that came with the page.
    if (this.rows === null || !this.isShown) return;
    const sorted = this.sorted();
    const rows = sorted.slice(0, this.most);
    this.more.hidden = rows.length === sorted.length;
    say(this.more, `Show all ${sorted.length} rows`);
    if (rows.length === 0) {
      const empty = document.createElement("td");
      empty.className = "empty";
      empty.colSpan = this.columns.length;
      const none = this.state.get("filter") ? "Nothing matches." : "No use of the page cache in this interval.";
      empty.textContent = this.reason ? `Not known: ${this.reason}.` : none;
      const row = document.createElement("tr");
      row.append(empty);
      this.body.replaceChildren(row);
      return;
    }
    // Cells are kept: a reader's selection and place stay where they are.
    while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
    rows.forEach((row, place) => {
      const line = this.body.rows[place] ?? this.body.insertRow();
      while (line.cells.length > this.columns.length) line.deleteCell(-1);
      const subject = row.subject;
      if (line.dataset.subject !== (subject ?? "")) line.dataset.subject = subject ?? "";
      line.classList.toggle("ended", isEnded(row));
      this.columns.forEach((column, at) => this.fill(line.cells[at] ?? line.insertCell(), row, column, subject));
    });
    this.select();
  }

  fill(td, row, column, subject) {
    const shown = cell(row, { ...column, elapsed: this.elapsed });
    const text = column.id === "command" ? nameOf(row) : row.members > 1 && row[column.id] === null ? "-" : numberOf(row, column) ?? shown.text;
    // Only what differs is set: even the same value again would have the browser lay out the row anew.
    if (td.colSpan !== 1) td.colSpan = 1;
    const kind = column.unit === "text" ? "name" : measure(row, column) === 0 ? "number zero" : "number";
    if (td.className !== kind) td.className = kind;
    const hint = shown.title ?? (column.unit === "text" ? text : "");
    if (td.title !== hint) td.title = hint;
    let place = td;
    if (subject && column.id === LINKED[this.id]) {
      place = td.querySelector("a") ?? document.createElement("a");
      const href = this.state.link({ subject });
      if (place.getAttribute("href") !== href) place.href = href;
      if (place.parentNode !== td) td.replaceChildren(place, readBar(row));
      else fillBar(td.lastElementChild, row);
    } else if (td.firstElementChild) td.replaceChildren();
    say(place, text);
  }

  whole() {
    this.most = Infinity;
    this.table.parentElement.focus();
    this.draw();
  }

  clicked(event) {
    const subject = event.target.closest("tr")?.dataset.subject;
    if (!subject || event.ctrlKey || event.metaKey || event.shiftKey || String(getSelection())) return;
    event.preventDefault();
    this.state.set({ subject });
  }

  select() {
    const chosen = this.state.get("subject");
    for (const row of this.body.rows) row.classList.toggle("chosen", chosen !== "" && row.dataset.subject === chosen);
  }
}

export const isEnded = (row) => typeof row.exit_status === "string" && row.exit_status !== "running";

// The number of a file whose path is not known.
function numberOf(row, { id }) {
  const [kind, major, minor, inode] = id === "path" && row.path === null ? (row.subject ?? "").split(":") : [];
  return kind === "inode" ? `? (inode ${inode} on ${major}:${minor})` : null;
}

// The name of a process, or of all of a command that have ended.
export function nameOf(row) {
  const command = row.command === null || row.command === undefined ? "?" : plain(row.command);
  const number = row.members > 1 ? ` x${row.members}` : "";
  return `${command}${number}${isEnded(row) ? " (ended)" : ""}`;
}

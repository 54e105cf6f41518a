// Tables that sort and filter. The columns are those of the table that came with the page.

import { cell, measure } from "./format.js";

export class Table {
  constructor(id) {
    this.table = document.getElementById(id);
    this.body = this.table.tBodies[0];
    this.rows = [];
    this.filter = "";
    this.elapsed = 1;
    this.columns = [...this.table.tHead.rows[0].cells].map((head) => ({
      id: head.dataset.id,
      unit: head.dataset.unit,
      rate: head.dataset.rate === "true",
      head,
    }));
    this.order = this.columns.find((column) => column.id === this.table.dataset.order) ?? this.columns[0];
    this.down = true;
    for (const column of this.columns) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...column.head.childNodes);
      button.addEventListener("click", () => this.sort(column));
      column.head.append(button);
    }
    this.mark();
  }

  sort(column) {
    this.down = this.order === column ? !this.down : column.unit !== "text";
    this.order = column;
    this.mark();
    this.draw();
  }

  mark() {
    for (const column of this.columns) {
      if (column === this.order) column.head.setAttribute("aria-sort", this.down ? "descending" : "ascending");
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

  key(row) {
    if (this.order.unit === "text") return row[this.order.id] ?? null;
    return measure(row, { ...this.order, elapsed: this.elapsed });
  }

  sorted() {
    const wanted = this.filter.toLowerCase();
    const names = this.columns.filter((column) => column.unit === "text" || column.unit === "id");
    const rows = this.rows.filter(
      (row) => !wanted || names.some((column) => String(row[column.id] ?? "").toLowerCase().includes(wanted)),
    );
    const sign = this.down ? -1 : 1;
    // Unknown values come last in both directions.
    return rows
      .map((row) => [this.key(row), row])
      .sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null);
        return sign * (typeof a === "string" ? a.localeCompare(b) : a - b);
      })
      .map(([, row]) => row);
  }

  draw() {
    const rows = this.sorted();
    if (rows.length === 0) {
      const empty = document.createElement("td");
      empty.className = "empty";
      empty.colSpan = this.columns.length;
      const none = this.filter ? "Nothing matches." : "Nobody used the page cache in this interval.";
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
      this.columns.forEach((column, at) => {
        const td = line.cells[at] ?? line.insertCell();
        const { text, title } = cell(row, { ...column, elapsed: this.elapsed });
        td.colSpan = 1;
        td.className = column.unit === "text" ? "name" : "number";
        if (td.textContent !== text) td.textContent = text;
        const hint = title ?? (column.unit === "text" ? text : "");
        if (td.title !== hint) td.title = hint;
      });
    });
  }
}

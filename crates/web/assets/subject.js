// One process, command, file, control group or device: its past, its files, its readers, and who evicted it.

import { readBar } from "./bar.js";
import { cell, count, pageSize, bytes, plain } from "./format.js";
import { SmallChart } from "./small.js";
import { ask, recorded } from "./source.js";
import { isEnded, nameOf } from "./tables.js";

const EVERY_MS = 2000;
const byId = (id) => document.getElementById(id);

const KINDS = { process: "Process", command: "Command", file: "File", inode: "File", cgroup: "Control group", device: "Device" };
const NUMBERS = [
  { id: "read_requested_pages", unit: "pages", title: "Requested" },
  { id: "reuse_ratio", unit: "ratio", title: "Hit %" },
  { id: "read_missed_pages", unit: "pages", title: "Missed" },
  { id: "readahead_hit_pages", unit: "pages", title: "Read ahead" },
  { id: "direct_bytes", unit: "bytes", title: "Direct" },
  { id: "fetched_bytes", unit: "bytes", title: "Fetched" },
];
const PROCESS = [{ id: "command", unit: "text", title: "Command" }, { id: "pid", unit: "id", title: "PID" }, ...NUMBERS, { id: "cpu_seconds", unit: "seconds", title: "CPU" }];
const FILE = [{ id: "path", unit: "text", title: "Path" }, ...NUMBERS, { id: "file_size_bytes", unit: "bytes", title: "Size" }];

const UNRECORDED = "A recording has the most active processes and files of each sample, and not which process used which file.";

const made = (name, content, className = "") => {
  const element = document.createElement(name);
  element.append(...[content].flat());
  if (className) element.className = className;
  return element;
};

export class SubjectPanel {
  constructor(state) {
    this.state = state;
    this.element = byId("subject");
    this.chart = new SmallChart(byId("subject-chart"));
    this.isPaused = false;
    byId("subject-close").addEventListener("click", () => this.close());
    this.element.addEventListener("click", (event) => {
      const link = event.target.closest("a[data-subject]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      state.set({ subject: link.dataset.subject });
    });
    state.on(["subject"], () => this.open(true));
    if (!recorded) setInterval(() => {
      if (this.isOpen && !this.isPaused && !document.hidden) this.load();
    }, EVERY_MS);
    this.open(false);
  }

  get isOpen() {
    return !this.element.hidden;
  }

  open(hasFocus) {
    const subject = this.state.get("subject");
    const was = this.shown;
    this.shown = subject;
    this.element.hidden = subject === "";
    if (subject === "") {
      if (was && hasFocus) this.back(was);
      return;
    }
    const [kind, ...name] = subject.split(":");
    byId("subject-kind").textContent = KINDS[kind] ?? "";
    byId("subject-title").textContent = plain(name.join(":"));
    this.chart.clear();
    for (const id of ["subject-about", "subject-processes", "subject-files", "subject-evictions"]) byId(id).replaceChildren();
    this.element.scrollTop = 0;
    if (hasFocus) byId("subject-title").focus({ preventScroll: true });
    this.load();
  }

  close() {
    this.state.set({ subject: "" });
  }

  // The keyboard goes on where it was.
  back(subject) {
    const links = [...document.querySelectorAll("main a[data-subject], main tr[data-subject] a")];
    const link = links.find((link) => (link.dataset.subject ?? link.closest("tr").dataset.subject) === subject && link.offsetParent);
    (link ?? document.querySelector("#tabs [aria-selected=true]")).focus({ preventScroll: true });
  }

  async load() {
    const subject = this.shown;
    let answer;
    try {
      ({ answer } = await ask("subject", { of: subject }));
    } catch (error) {
      answer = { error: `The server does not answer: ${error.message}` };
    }
    // Another one was opened meanwhile.
    if (subject !== this.shown || subject === "") return;
    if (answer.error) {
      byId("subject-about").replaceChildren(made("p", answer.error, "note problem"));
      return;
    }
    this.show(answer);
  }

  show(answer) {
    const { row } = answer;
    if (answer.points) this.chart.add(answer.points);
    byId("subject-about").replaceChildren(...this.about(answer));
    if (row) byId("subject-title").textContent = titleOf(answer);
    const seconds = Math.round(answer.elapsed_seconds ?? 0);
    const isFile = /^(file|inode|device):/.test(answer.subject);
    this.fill("subject-processes", isFile ? "Readers and writers" : "Processes", PROCESS, answer.processes, seconds);
    this.fill("subject-files", "Files", FILE, answer.subject.startsWith("device:") || !isFile ? answer.files : [], seconds);
    const isHidden = recorded && row && (isFile ? answer.processes : answer.files)?.length === 0;
    if (isHidden) byId(isFile ? "subject-processes" : "subject-files").replaceChildren(made("p", UNRECORDED, "note"));
    this.evictions(answer);
  }

  about({ subject, row, reasons }) {
    if (!row) return [made("p", `No use of the page cache in ${recorded ? "this recording" : "the last minute"}${reasons?.row ? `: ${reasons.row}` : ""}.`, "note")];
    const list = made("dl", [], "about-list");
    const add = (title, content) => list.append(made("div", [made("dt", title), made("dd", content)]));
    const link = (of, text) => {
      const shown = made("a", text);
      shown.href = this.state.link({ subject: of });
      shown.dataset.subject = of;
      return shown;
    };
    if (row.members > 1) add("Processes", count(row.members));
    else if (typeof row.pid === "number") add("PID", String(row.pid));
    if (typeof row.command === "string" && !subject.startsWith("command:")) add("All of this command", link(`command:${row.command}`, plain(row.command)));
    if (isEnded(row)) add("State", row.exit_status === "ended" ? "ended" : `ended: ${row.exit_status}`);
    else if (row.exit_status) add("State", "running");
    if (typeof row.cgroup === "string" && !subject.startsWith("cgroup:")) add("Control group", link(`cgroup:${row.cgroup}`, plain(row.cgroup)));
    if (row.group_name) add("Name", plain(row.group_name));
    if (row.filesystem) add("File system", row.filesystem);
    for (const column of NUMBERS) add(column.title, cell(row, column).text);
    return [list, readBar(row)];
  }

  fill(place, title, columns, rows, seconds) {
    const host = byId(place);
    if (!rows || rows.length === 0) {
      host.replaceChildren();
      return;
    }
    const period = recorded ? "the recording" : `the last ${seconds} s`;
    const head = made("thead", made("tr", columns.map((column) => {
      const cell = made("th", column.title);
      cell.scope = "col";
      cell.dataset.unit = column.unit;
      return cell;
    })));
    const body = made("tbody", rows.map((row) => this.line(row, columns)));
    const table = made("table", [made("caption", `${title} of ${period}`, "hidden"), head, body]);
    const scroll = made("div", table, "scroll");
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", `Table: ${title.toLowerCase()} of what is chosen`);
    const old = host.querySelector(".scroll");
    const focus = host.contains(document.activeElement) ? document.activeElement.dataset.subject ?? "" : null;
    const [left, top] = [old?.scrollLeft ?? 0, old?.scrollTop ?? 0];
    host.replaceChildren(made("h3", [`${title} `, made("small", `sums of ${period}`)]), scroll);
    scroll.scrollTo(left, top);
    if (focus !== null) ([...scroll.querySelectorAll("a")].find((link) => link.dataset.subject === focus) ?? scroll).focus({ preventScroll: true });
  }

  line(row, columns) {
    const cells = columns.map((column, place) => {
      const { text, title } = cell(row, column);
      const content = column.id === "command" ? nameOf(row) : row.members > 1 && row[column.id] === null ? "-" : text;
      const isName = column.unit === "text";
      const td = made("td", [], isName ? "name" : row[column.id] === 0 ? "number zero" : "number");
      td.title = title ?? (isName ? content : "");
      if (place > 0 || !row.subject) td.append(content);
      else {
        const link = made("a", content);
        link.href = this.state.link({ subject: row.subject });
        link.dataset.subject = row.subject;
        td.append(link, readBar(row));
      }
      return td;
    });
    return made("tr", cells, isEnded(row) ? "ended" : "");
  }

  // Of a file and of a group these are its own pages; of a process those that it evicted.
  evictions({ subject, evictions }) {
    const isFile = /^(file|inode):/.test(subject);
    const isEvictor = /^(process|command):/.test(subject);
    const items = (evictions ?? []).map((row) => {
      const { culprit } = row;
      const size = bytes(row.evicted_pages * pageSize);
      const of = isFile ? "" : ` of ${plain(row.path ?? `inode ${row.inode ?? "?"}`)}`;
      const item = made("li", `${size}${of} evicted (${row.cause.replaceAll("_", " ")})`);
      if (!culprit || isEvictor) return item;
      const name = plain(culprit.command ?? "?");
      const isOne = typeof culprit.pid === "number";
      if (isOne || typeof culprit.command === "string") {
        const link = made("a", isOne ? `${name}, PID ${culprit.pid}` : name);
        link.dataset.subject = isOne ? `process:${culprit.pid}` : `command:${culprit.command}`;
        link.href = this.state.link({ subject: link.dataset.subject });
        item.append(" by ", link);
      } else item.append(` by ${name}`);
      return item;
    });
    byId("subject-evictions").replaceChildren(...(items.length > 0 ? [made("h3", isEvictor ? "Pages that it evicted" : "Evicted pages"), made("ul", items)] : []));
  }
}

function titleOf({ subject, row }) {
  const kind = subject.split(":")[0];
  if (kind === "process" || kind === "command") return nameOf(row);
  return plain({ cgroup: row.cgroup, device: row.path ?? row.device }[kind] ?? row.path ?? subject.slice(kind.length + 1));
}

// A map of the page cache: area is bytes, colour is how much of the files is there. The table beside it
// has the same numbers; each points at the other.

import { bytes, count, percent } from "./format.js";
import { ask } from "./source.js";

// Cividis: its steps differ in lightness, for every kind of colour vision, and in grey.
const RAMP = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];
const OTHERS = "#8e959e";
const SVG = "http://www.w3.org/2000/svg";
const HEAD = 18;
const AGAIN_MS = 2000;

const node = (name, attributes = {}) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

export const shade = (ratio) =>
  ratio === null || ratio === undefined ? OTHERS : RAMP[Math.min(RAMP.length - 1, Math.floor(ratio * RAMP.length))];

const inkOn = (fill) => {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(fill.slice(at, at + 2), 16));
  return 0.299 * r + 0.587 * g + 0.114 * b > 130 ? "#000" : "#fff";
};

// Squarified treemap (Bruls, Huizing, van Wijk): rows along the shorter side, as long as that makes
// their members more square. Members come with the largest first.
export function squarify(members, box) {
  const total = members.reduce((sum, member) => sum + member.weight, 0);
  if (total <= 0 || box.w <= 0 || box.h <= 0) return [];
  const scale = (box.w * box.h) / total;
  const placed = [];
  let { x, y, w, h } = box;
  let row = [];
  const worst = (row, side) => {
    const areas = row.map((member) => member.weight * scale);
    const sum = areas.reduce((a, b) => a + b, 0);
    return Math.max((side * side * Math.max(...areas)) / (sum * sum), (sum * sum) / (side * side * Math.min(...areas)));
  };
  const lay = () => {
    const sum = row.reduce((sum, member) => sum + member.weight * scale, 0);
    const across = w >= h;
    const depth = sum / (across ? h : w);
    let at = across ? y : x;
    for (const member of row) {
      const length = (member.weight * scale) / depth;
      placed.push(across ? { member, x, y: at, w: depth, h: length } : { member, x: at, y, w: length, h: depth });
      at += length;
    }
    if (across) [x, w] = [x + depth, w - depth];
    else [y, h] = [y + depth, h - depth];
    row = [];
  };
  for (const member of members.filter((member) => member.weight > 0)) {
    const side = Math.min(w, h);
    if (row.length > 0 && worst([...row, member], side) > worst(row, side)) lay();
    row.push(member);
  }
  if (row.length > 0) lay();
  return placed;
}

const describe = (entry) =>
  `${entry.path}${entry.kind === "others" ? ` (${entry.name})` : ""}\n` +
  `${bytes(entry.resident_bytes)} in the page cache, ${percent(entry.resident_ratio)} of ${bytes(entry.size_bytes)}\n` +
  `${count(entry.files)} ${entry.files === 1 ? "file" : "files"}`;

export class Treemap {
  constructor(state) {
    this.state = state;
    this.map = document.getElementById("map");
    this.crumbs = document.getElementById("crumbs");
    this.notes = document.getElementById("cache-notes");
    this.body = document.getElementById("cache").tBodies[0];
    this.path = state.get("path");
    this.view = null;
    this.legend();
    document.getElementById("map-figure").hidden = false;
    const again = document.getElementById("again");
    again.hidden = false;
    again.addEventListener("click", () => this.load());
    for (const place of [this.crumbs, this.body]) {
      place.addEventListener("click", (event) => {
        const link = event.target.closest("a[data-path]");
        if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        this.open(link.dataset.path);
      });
    }
    this.body.addEventListener("mouseover", (event) => this.link(event.target.closest("tr")?.dataset.path));
    this.body.addEventListener("mouseleave", () => this.link(null));
    this.map.addEventListener("mouseleave", () => this.link(null));
    state.on(["path"], () => this.load());
    new ResizeObserver(() => this.draw()).observe(this.map);
    this.load();
  }

  legend() {
    const bar = node("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" });
    RAMP.forEach((fill, place) => bar.append(node("rect", { x: place * 10, y: 0, width: 10, height: 8, fill })));
    document.getElementById("ramp").append(bar);
  }

  open(path) {
    this.state.set({ path });
  }

  async load() {
    const path = this.state.get("path");
    this.path = path;
    let answer;
    try {
      const asked = await ask("cache", { path });
      answer = asked.answer;
      // The census takes long: the next answer has it.
      if (asked.status === 503) setTimeout(() => path === this.path && this.load(), AGAIN_MS);
    } catch (error) {
      answer = { error: `The server does not answer: ${error.message}` };
    }
    // The user has opened another directory meanwhile.
    if (path !== this.path) return;
    const notes = answer.error ? [answer.error] : answer.notes;
    this.notes.replaceChildren(
      ...notes.map((note) => {
        const line = document.createElement("p");
        line.className = "note";
        line.textContent = note;
        return line;
      }),
    );
    this.trail();
    this.view = answer.cache ?? null;
    this.fill();
    this.draw();
  }

  trail() {
    const parts = this.path.split("/").filter(Boolean);
    const links = ["", ...parts].map((part, place) => {
      const link = document.createElement("a");
      const path = `/${parts.slice(0, place).join("/")}`;
      link.href = this.state.link({ path });
      link.dataset.path = path;
      link.textContent = part || "/";
      if (place === parts.length) link.setAttribute("aria-current", "location");
      return link;
    });
    this.crumbs.replaceChildren(...links);
  }

  fill() {
    const rows = (this.view?.children ?? []).map((entry) => {
      const row = document.createElement("tr");
      row.dataset.path = entry.kind === "others" ? "" : entry.path;
      const name = document.createElement("td");
      name.className = "name";
      name.title = entry.path;
      if (entry.kind === "directory") {
        const link = document.createElement("a");
        link.href = this.state.link({ path: entry.path });
        link.dataset.path = entry.path;
        link.textContent = `${entry.name}/`;
        name.append(link);
      } else name.textContent = entry.name;
      row.append(name);
      for (const text of [bytes(entry.resident_bytes), percent(entry.resident_ratio), bytes(entry.size_bytes), count(entry.files)]) {
        const cell = row.insertCell();
        cell.className = "number";
        cell.textContent = text;
      }
      return row;
    });
    this.body.replaceChildren(...rows);
  }

  draw() {
    const { clientWidth: w, clientHeight: h } = this.map;
    this.map.setAttribute("viewBox", `0 0 ${w} ${h}`);
    this.map.replaceChildren();
    for (const placed of squarify(this.weighed(this.view?.children), { x: 0, y: 0, w, h })) this.entry(placed, true);
  }

  weighed(members) {
    return (members ?? []).map((entry) => ({ entry, weight: entry.resident_bytes })).sort((a, b) => b.weight - a.weight);
  }

  entry({ member: { entry }, x, y, w, h }, outer) {
    const group = node("g");
    const fill = entry.kind === "others" ? OTHERS : shade(entry.resident_ratio);
    group.append(node("rect", { x, y, width: w, height: h, fill }));
    const title = node("title");
    title.textContent = describe(entry);
    group.append(title);
    group.dataset.path = entry.kind === "others" ? "" : entry.path;
    const nested = outer && entry.children?.length > 0 && w > 50 && h > 46;
    if (w > 34 && h > 15) {
      const label = node("text", { x: x + 5, y: y + 13, fill: inkOn(fill), class: nested ? "head" : "" });
      const room = Math.floor((w - 8) / (nested ? 7.6 : 6.8));
      const name = entry.kind === "directory" ? `${entry.name}/` : entry.name;
      const long = nested || h < 30 ? `${name}  ${bytes(entry.resident_bytes)}` : name;
      const text = long.length <= room ? long : name;
      label.textContent = text.length > room ? `${text.slice(0, Math.max(1, room - 1))}…` : text;
      group.append(label);
      if (!nested && h > 30 && w > 60) {
        const size = node("text", { x: x + 5, y: y + 27, fill: inkOn(fill) });
        size.textContent = bytes(entry.resident_bytes);
        group.append(size);
      }
    }
    this.map.append(group);
    if (entry.kind === "directory" && outer) {
      group.classList.add("open");
      group.addEventListener("click", () => this.open(entry.path));
    }
    if (outer) group.addEventListener("mouseenter", () => this.link(group.dataset.path));
    if (nested) {
      const box = { x: x + 2, y: y + HEAD, w: w - 4, h: h - HEAD - 2 };
      for (const placed of squarify(this.weighed(entry.children), box)) {
        const inner = this.entry(placed, false);
        group.append(inner);
      }
    }
    return group;
  }

  link(path) {
    for (const row of this.body.rows) row.classList.toggle("linked", Boolean(path) && row.dataset.path === path);
    for (const group of this.map.children) group.classList.toggle("linked", Boolean(path) && group.dataset.path === path);
  }
}

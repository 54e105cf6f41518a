// The findings: cards with their evidence, the fix, and a link to what is known of their subject.

import { cell, plain } from "./format.js";
import { recorded } from "./source.js";

const UNITS = ["pages", "bytes", "seconds", "ratio"];
const QUALITIES = ["reasons", "reason_codes", "estimated", "escaped"];

// The subject of a finding with its name: a label before the path, a unit or container behind it.
function nameOf({ subject, subject_name: name, subject_kind: kind }) {
  if (!subject) return name ? `in ${name}` : "";
  const path = plain(subject);
  if (!name || name === path) return path;
  return kind === "file" ? `${name} (${path})` : `${path} (${name})`;
}

// Its name at /api/v1/subject; null for the machine as a whole.
const KINDS = { file: "file", group: "cgroup", device: "device" };
function subjectOf({ subject, pid, subject_kind: kind }) {
  if (kind === "process") return typeof pid === "number" ? `process:${pid}` : null;
  return subject && kind in KINDS ? `${KINDS[kind]}:${subject}` : null;
}

const line = (name, ...content) => {
  const made = document.createElement(name);
  made.append(...content);
  return made;
};

function evidenceOf(finding) {
  const evidence = line("ul");
  evidence.className = "evidence";
  for (const name of Object.keys(finding.figures)) {
    if (QUALITIES.includes(name)) continue;
    const unit = UNITS.find((unit) => name.endsWith(`_${unit}`)) ?? "count";
    const number = line("b", cell(finding.figures, { id: name, unit }).text);
    evidence.append(line("li", `${name.replace(`_${unit}`, "").replaceAll("_", " ")} `, number));
  }
  for (const folded of finding.also ?? []) {
    evidence.append(line("li", folded.subject ? `${folded.cause}: ${plain(folded.subject)}` : folded.cause));
  }
  return evidence;
}

function card(finding, link) {
  const item = line("li", line("h3", finding.title));
  item.className = finding.severity;
  const text = nameOf(finding);
  const subject = subjectOf(finding);
  if (subject) {
    const shown = line("a", line("code", text || subject));
    shown.href = link(subject);
    shown.dataset.subject = subject;
    item.append(shown);
    item.dataset.subject = subject;
  } else if (text) item.append(line("code", text));
  const page = line("a", finding.id);
  page.href = finding.page;
  page.rel = "noreferrer";
  item.append(evidenceOf(finding), line("p", finding.next_step), line("p", `Verify: ${finding.verify}`), line("p", "Explained by ", page));
  return item;
}

// Shows a list of findings. `list` is null if unknown; `reason` says why, or why only a part of the rules
// applied. `link` makes the address of a subject.
export function findings(list, reason, link) {
  const items = (list ?? []).map((finding) => card(finding, link));
  if (items.length === 0 || reason) {
    const none = line("li", reason ? `Not known: ${reason}.` : `Nothing to find fault with in ${recorded ? "this recording" : "the last minute"}.`);
    none.className = reason ? "unknown" : "none";
    items.push(none);
  }
  // A card that has the keyboard's focus stays the same element while nothing changes.
  const element = document.getElementById("findings");
  const focus = element.contains(document.activeElement) ? document.activeElement.dataset.subject : undefined;
  if (items.map((item) => item.outerHTML).join("") === [...element.children].map((item) => item.outerHTML).join("")) return;
  element.replaceChildren(...items);
  if (focus) [...element.querySelectorAll("a[data-subject]")].find((shown) => shown.dataset.subject === focus)?.focus();
}

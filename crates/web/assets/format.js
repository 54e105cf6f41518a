// Numbers as people read them, the same as in cachewise's own tables.

import { recorded } from "./source.js";

const STEPS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

export const pageSize = Number(document.body.dataset.pageSize);

export function bytes(number) {
  if (number === null || number === undefined || Number.isNaN(number)) return "?";
  const sign = number < 0 ? "-" : "";
  const size = Math.round(Math.abs(number));
  if (size < 1024) return `${sign}${size} B`;
  // Compared after rounding: otherwise 1,048,575 bytes would be "1024.0 KiB".
  const tenths = (step) => Math.round((size * 10) / 1024 ** step);
  let step = 1;
  while (tenths(step) >= 10240 && step < STEPS.length - 1) step += 1;
  return `${sign}${Math.floor(tenths(step) / 10)}.${tenths(step) % 10} ${STEPS[step]}`;
}

export function percent(ratio) {
  return ratio === null || ratio === undefined ? "-" : `${(Math.round(ratio * 1000) / 10).toFixed(1)} %`;
}

export function count(number) {
  return Math.round(number).toLocaleString("en");
}

// The time of day: the reader's own, and UTC in a recorded page, as in all of the report. A recording of more
// than a day has the day too.
const DAY = 86_400;
export const zone = recorded ? " UTC" : "";
export const clock = (seconds) => {
  if (!Number.isFinite(seconds)) return "";
  const date = new Date(seconds * 1000);
  if (!recorded) return date.toLocaleTimeString([], { hourCycle: "h23" });
  const text = date.toISOString().replace("T", " ");
  return text.slice(recorded.tick.point.elapsed_seconds > DAY ? 5 : 11, 19);
};

// Whether a column is shown a second. A recorded page has the sums of its time.
export const isRate = (column) => Boolean(column.rate) && !recorded;

// A name as it may be shown: characters that turn the direction of what follows, or have no picture, would
// make it read as another one. The paths of the map come without.
export function plain(name) {
  return String(name).replace(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

// A value of a row as a number in the unit that is shown: a second, pages as bytes. Null if not known.
export function measure(row, column) {
  const value = row[column.id];
  if (value === null || value === undefined || typeof value !== "number") return null;
  const rate = isRate(column) ? value / (row.elapsed_seconds || column.elapsed || 1) : value;
  return column.unit === "pages" ? rate * pageSize : rate;
}

// A cell: its text, and what there is to say of it.
export function cell(row, column) {
  const value = row[column.id];
  const reason = row.reasons?.[column.id];
  if (value === null || value === undefined) {
    const code = row.reason_codes?.[column.id];
    return { text: code && code !== "nothing_requested" && column.unit !== "ratio" ? "?" : "-", title: reason };
  }
  const estimated = row.estimated?.includes(column.id) ? "~" : "";
  const number = measure(row, column);
  const text = {
    pages: () => bytes(number),
    bytes: () => bytes(number),
    ratio: () => percent(number),
    count: () => count(number),
    seconds: () => `${(Math.round(number * 1000) / 1000).toFixed(3)} s`,
  }[column.unit]?.() ?? plain(value);
  return { text: estimated + text, title: reason };
}

// The points of the charts, and the times without them. A server that starts again has no past: what the
// browser knows stays, with a gap. A recording knows its gaps.

import { recorded } from "./source.js";

// The longest time that is shown, in seconds.
const MOST_SECONDS = recorded ? Infinity : 3600;
// Beyond this number the past is loaded again: the server has it in fewer points.
const MANY = 2000;
const MOST = 4000;
// Times are those of the clock, lengths are not: they differ by a little.
const TOLERANCE_SECONDS = 1.5;

const stamped = (point) => ({ ...point, at: Date.parse(point.time) / 1000 });
const begin = (point) => point.at - point.elapsed_seconds;

export class Points {
  constructor() {
    this.points = [];
    this.restarts = [];
    this.started = null;
    this.interval = 1;
    this.longest = 10;
    // The gaps of a recording; null where they follow from the points.
    this.known = null;
    // When the connection was lost, in seconds; null while there is one.
    this.silent = null;
  }

  get isMany() {
    return this.points.length > MANY;
  }

  // The end of what is shown.
  get end() {
    const last = this.points.at(-1)?.at ?? Date.now() / 1000;
    return this.silent === null ? last : Math.max(last, Date.now() / 1000);
  }

  get begin() {
    return this.points.length > 0 ? begin(this.points[0]) : this.end;
  }

  // Takes the past that a server has. Points from before it, and later ones, stay.
  reset({ points, started, interval_seconds: interval, longest_point_seconds: longest, gaps }) {
    if (this.started !== null && this.started !== started) this.restarts.push(Date.parse(started) / 1000);
    [this.started, this.interval, this.longest] = [started, interval, longest];
    this.known = gaps?.map(({ begin, end, kind }) => ({ from: Date.parse(begin) / 1000, to: Date.parse(end) / 1000, kind })) ?? null;
    const fresh = points.map(stamped);
    if (fresh.length === 0) return;
    const [first, last] = [begin(fresh[0]) + this.interval / 2, fresh.at(-1).at];
    this.points = [
      ...this.points.filter((point) => point.at <= first),
      ...fresh,
      ...this.points.filter((point) => point.at > last),
    ];
    this.trim();
  }

  add(point) {
    const added = stamped(point);
    // A clock that was set back: later times are no longer in order.
    while (this.points.length > 0 && this.points.at(-1).at >= added.at) this.points.pop();
    this.points.push(added);
    this.trim();
  }

  trim() {
    const from = this.end - MOST_SECONDS;
    const old = this.points.findIndex((point) => point.at >= from);
    this.points.splice(0, Math.max(old, this.points.length - MOST, 0));
    this.restarts = this.restarts.filter((at) => at >= from);
  }

  // Gaps for people, each with its kind.
  gaps(from) {
    return this.known ?? this.holes(from);
  }

  // Times without points, or with one that is far too long.
  holes(from) {
    const gaps = [];
    const first = this.points[0];
    if (first && begin(first) > from + TOLERANCE_SECONDS) gaps.push({ from, to: begin(first), kind: "before" });
    this.points.forEach((point, place) => {
      const before = this.points[place - 1];
      if (before) {
        const restarted = this.restarts.some((at) => at > before.at - TOLERANCE_SECONDS && at <= point.at);
        const is = begin(point) - before.at > Math.max(TOLERANCE_SECONDS, this.interval);
        if (restarted || is) gaps.push({ from: before.at, to: Math.max(begin(point), before.at), kind: restarted ? "restart" : "missing" });
      }
      const usual = Math.max(this.longest, this.interval) * 1.5;
      if (point.elapsed_seconds > usual) gaps.push({ from: begin(point), to: point.at, kind: "long" });
    });
    const last = this.points.at(-1);
    if (last && this.silent !== null && this.end - last.at > TOLERANCE_SECONDS) {
      gaps.push({ from: last.at, to: this.end, kind: "disconnected" });
    }
    return gaps;
  }

  // Times in which counts were lost.
  losses() {
    const lossy = this.points.filter((point) => point.lost_events > 0);
    return lossy.map((point) => ({ from: begin(point), to: point.at, count: point.lost_events }));
  }

  // Points in order, with null where nothing may be drawn between two of them.
  rows() {
    const breaks = this.holes(Infinity).filter((gap) => gap.kind !== "long").map((gap) => gap.from);
    const [times, rows] = [[], []];
    for (const point of this.points) {
      times.push(point.at);
      rows.push(point);
      if (breaks.includes(point.at)) {
        times.push(point.at + 0.001);
        rows.push(null);
      }
    }
    return [times, rows];
  }
}

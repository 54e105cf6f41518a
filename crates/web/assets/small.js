// One chart of reads, of a subject.

import { bytes, clock, pageSize } from "./format.js";
import { marked } from "./marks.js";
import { Points } from "./points.js";
import { READS } from "./series.js";
import { recorded } from "./source.js";

const HEIGHT = 170;
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export class SmallChart {
  constructor(host) {
    this.host = host;
    this.clear();
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(host);
  }

  clear() {
    this.store = new Points();
    this.plot?.destroy();
    this.plot = null;
  }

  size() {
    return { width: Math.max(this.host.clientWidth, 120), height: HEIGHT };
  }

  // Adds the last minute as the server has it to what is known already.
  add(points) {
    // The points of a recording are as long as they need to be.
    const lengths = points.map((point) => point.elapsed_seconds);
    const longest = recorded ? Math.max(...lengths) : 10;
    this.store.reset({ points, started: "", interval_seconds: 1, longest_point_seconds: longest });
    const data = this.data();
    if (this.plot) this.plot.setData(data);
    else this.plot = this.draw(data);
  }

  data() {
    const [times, rows] = this.store.rows();
    this.rows = rows;
    const own = READS.series.map((series) => rows.map((row) => (row ? series.of(row, pageSize) : null)));
    const stacked = own.slice(0, READS.stacked);
    const heights = stacked.map((_, place) =>
      rows.map((_, at) => {
        const parts = stacked.slice(0, place + 1).map((part) => part[at]);
        return parts.includes(null) ? null : parts.reduce((sum, part) => sum + part);
      }),
    );
    return [times, ...heights, ...own.slice(READS.stacked)];
  }

  draw(data) {
    const axis = { stroke: color("quiet"), grid: { stroke: color("grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    return new globalThis.uPlot(
      {
        ...this.size(),
        cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
        padding: [8, 26, 0, 0],
        plugins: [marked(() => ({ gaps: this.store.gaps(Infinity), losses: [] }), color)],
        bands: [{ series: [2, 1] }, { series: [3, 2] }],
        scales: {
          x: { time: true, range: (_, low, high) => [Math.min(low, high - 60), high] },
          y: { range: (_, __, high) => [0, Math.max(high ?? 0, 1024) * 1.08] },
        },
        axes: [
          { ...axis, space: 80, size: 24, values: (_, ticks) => ticks.map(clock) },
          { ...axis, size: 82, space: 30, incrs: Array.from({ length: 60 }, (_, power) => 2 ** power), values: (_, ticks) => ticks.map((tick) => `${bytes(tick).replace(".0 ", " ")}/s`) },
        ],
        series: [
          { label: "Time", value: (_, time) => (time === null ? "" : clock(time)) },
          ...READS.series.map((series, place) => ({
            label: series.label,
            stroke: color(series.color),
            width: 1.5,
            fill: place < READS.stacked ? `${color(series.color)}b0` : undefined,
            value: (_, __, ___, at) => {
              const row = this.rows[at ?? this.rows.length - 1];
              return READS.show(row ? series.of(row, pageSize) : null);
            },
            points: { show: false },
          })),
        ],
      },
      data,
      this.host,
    );
  }
}

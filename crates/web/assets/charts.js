// Charts over time, drawn by uPlot. An unknown value is a gap, not 0.

import { bytes, pageSize, percent } from "./format.js";

const KEPT = 900;
const HEIGHT = 188;

const style = () => getComputedStyle(document.documentElement);
const color = (name) => style().getPropertyValue(`--${name}`).trim();

const rate = (id, factor = 1) => (point) =>
  typeof point[id] === "number" && point.elapsed_seconds > 0 ? (point[id] * factor) / point.elapsed_seconds : null;
const gauge = (id, factor = 1) => (point) => (typeof point[id] === "number" ? point[id] * factor : null);

const perSecond = (value) => (value === null ? "-" : `${bytes(value)}/s`);
const share = (value) => percent(value === null ? null : value / 100);
const plain = (value) => (value === null ? "-" : bytes(value));

const CHARTS = [
  {
    place: "chart-reads",
    show: perSecond,
    // The first three are stacked: their height is what was requested.
    stacked: 3,
    series: [
      { label: "From cache", color: "cached", of: rate("read_cached_pages", pageSize) },
      { label: "Read ahead", color: "ahead", of: rate("readahead_hit_pages", pageSize) },
      { label: "Missed", color: "miss", of: rate("read_missed_pages", pageSize) },
      { label: "Direct", color: "direct", of: rate("direct_read_bytes") },
    ],
  },
  {
    place: "chart-devices",
    show: perSecond,
    series: [
      { label: "Read", color: "cached", fill: true, of: rate("device_read_bytes") },
      { label: "Written", color: "write", of: rate("device_write_bytes") },
    ],
  },
  {
    place: "chart-memory",
    show: plain,
    series: [
      { label: "Cached", color: "cached", fill: true, of: gauge("cached_bytes") },
      { label: "Buffers", color: "ahead", of: gauge("buffers_bytes") },
      { label: "Dirty", color: "miss", of: gauge("dirty_bytes") },
    ],
  },
  {
    place: "chart-waiting",
    show: share,
    least: 1,
    series: [
      { label: "I/O", color: "miss", fill: true, of: gauge("psi_io_some_ratio", 100) },
      { label: "Memory", color: "direct", of: gauge("psi_memory_some_ratio", 100) },
      { label: "CPU", color: "cached", of: gauge("psi_cpu_some_ratio", 100) },
    ],
  },
];

export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hourCycle: "h23" });

// Steps of powers of two for bytes: 512 KiB and not 500,000.
const BINARY = Array.from({ length: 60 }, (_, power) => 2 ** power);

export class Charts {
  constructor() {
    this.points = [];
    this.plots = [];
    this.draw();
    const again = () => this.draw();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    new ResizeObserver(() => this.fit()).observe(document.getElementById("charts"));
  }

  reset(points) {
    this.points = points.slice(-KEPT);
    this.update();
  }

  add(point) {
    this.points.push(point);
    if (this.points.length > KEPT) this.points.shift();
  }

  data(chart) {
    const times = this.points.map((point) => Date.parse(point.time) / 1000);
    const own = chart.series.map((series) => this.points.map(series.of));
    const heights = own.map((values, place) =>
      place === 0 || place >= (chart.stacked ?? 0)
        ? values
        : values.map((_, at) => {
            const parts = own.slice(0, place + 1).map((part) => part[at]);
            return parts.includes(null) ? null : parts.reduce((sum, part) => sum + part);
          }),
    );
    return [times, ...heights];
  }

  update() {
    CHARTS.forEach((chart, place) => {
      this.plots[place].setData(this.data(chart));
      this.last(this.plots[place]);
    });
  }

  // Without a pointer on it, the legend has the newest numbers.
  last(plot) {
    if (plot.cursor.left === undefined || plot.cursor.left < 0) plot.setLegend({ idx: this.points.length - 1 });
  }

  // Anew, as colours are drawn and not styled.
  draw() {
    this.plots.forEach((plot) => plot.destroy());
    this.plots = CHARTS.map((chart) => this.plot(chart));
    this.plots.forEach((plot) => this.last(plot));
  }

  size(place) {
    const width = Math.max(place.clientWidth, 120);
    return { width, height: HEIGHT };
  }

  fit() {
    CHARTS.forEach((chart, place) => this.plots[place].setSize(this.size(document.getElementById(chart.place))));
  }

  plot(chart) {
    const host = document.getElementById(chart.place);
    const axis = { stroke: color("quiet"), grid: { stroke: color("grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const inBytes = chart.show !== share;
    const second = chart.show === perSecond ? "/s" : "";
    return new globalThis.uPlot(
      {
        ...this.size(host),
        cursor: { y: false, points: { size: 6 } },
        padding: [10, 28, 0, 0],
        hooks: { setCursor: [(plot) => this.last(plot)] },
        legend: { live: true },
        bands: Array.from({ length: Math.max((chart.stacked ?? 0) - 1, 0) }, (_, low) => ({ series: [low + 2, low + 1] })),
        scales: {
          x: { time: true },
          y: { range: (_, low, high) => [0, Math.max(high ?? 0, chart.least ?? 1024) * 1.08] },
        },
        axes: [
          { ...axis, space: 80, size: 28, values: (_, ticks) => ticks.map(clock) },
          {
            ...axis,
            size: 82,
            space: 32,
            ...(inBytes ? { incrs: BINARY } : {}),
            values: (_, ticks) => ticks.map((tick) => (inBytes ? `${bytes(tick).replace(".0 ", " ")}${second}` : `${tick} %`)),
          },
        ],
        series: [
          { label: "Time", value: (_, time) => (time === null ? "" : clock(time)) },
          ...chart.series.map((series, place) => ({
            label: series.label,
            stroke: color(series.color),
            width: 1.5,
            fill: place < (chart.stacked ?? 0) ? `${color(series.color)}b0` : series.fill ? `${color(series.color)}22` : undefined,
            // The part itself, not the height up to which it is drawn.
            value: (_, value, __, at) => chart.show(at === null || at === undefined ? value ?? null : series.of(this.points[at] ?? {})),
            points: { show: false },
          })),
        ],
      },
      this.data(chart),
      host,
    );
  }
}

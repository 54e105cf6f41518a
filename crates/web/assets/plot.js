// The parts of a uPlot chart that the charts of the machine and of a subject share.

import { bytes, clock, pageSize, percent } from "./format.js";

export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// Steps of powers of two for bytes: 512 KiB and not 500,000.
const BINARY = Array.from({ length: 60 }, (_, power) => 2 ** power);

// The lines of a chart over rows. Stacked parts are drawn up to the sum of those below them.
export function heights(chart, rows) {
  const own = chart.series.map((series) => rows.map((row) => (row ? series.of(row, pageSize) : null)));
  return own.map((values, place) =>
    place === 0 || place >= (chart.stacked ?? 0)
      ? values
      : values.map((_, at) => {
          const parts = own.slice(0, place + 1).map((part) => part[at]);
          return parts.includes(null) ? null : parts.reduce((sum, part) => sum + part);
        }),
  );
}

// Options of a chart. `rowAt` returns the row at a place, which is not known where no pointer is on the chart.
export function look(chart, rowAt) {
  const axis = { stroke: color("quiet"), grid: { stroke: color("grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  const value = (tick) => (chart.unit === "percent" ? percent(tick / 100) : `${bytes(tick)}${chart.unit === "rate" ? "/s" : ""}`).replace(".0 ", " ");
  const stacked = chart.stacked ?? 0;
  return {
    bands: Array.from({ length: Math.max(stacked - 1, 0) }, (_, low) => ({ series: [low + 2, low + 1] })),
    axes: [
      { ...axis, space: 80, ...(chart.hasTime ? { size: 24, values: (_, ticks) => ticks.map(clock) } : { size: 6, values: () => [] }) },
      { ...axis, size: 82, space: 30, ...(chart.unit === "percent" ? {} : { incrs: BINARY }), values: (_, ticks) => ticks.map(value) },
    ],
    series: [
      { label: "Time", value: (_, time) => (time === null ? "" : clock(time)) },
      ...chart.series.map((series, place) => ({
        label: series.label,
        stroke: color(series.color),
        // A line along the sum of all parts would hide the others where points are close.
        width: place < stacked ? 0 : 1.5,
        fill: place < stacked ? `${color(series.color)}d0` : series.fill ? `${color(series.color)}22` : undefined,
        // The part itself, not the height up to which it is drawn.
        value: (_, __, ___, at) => {
          const row = rowAt(at);
          return chart.show(row ? series.of(row, pageSize) : null);
        },
        points: { show: false },
      })),
    ],
  };
}

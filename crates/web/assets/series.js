// The charts: their places on the page, and the parts of a point that they show.

import { bytes, percent } from "./format.js";

const rate = (id) => (point) =>
  typeof point[id] === "number" && point.elapsed_seconds > 0 ? point[id] / point.elapsed_seconds : null;
const pages = (id) => (point, pageSize) => {
  const number = rate(id)(point);
  return number === null ? null : number * pageSize;
};
const gauge = (id, factor = 1) => (point) => (typeof point[id] === "number" ? point[id] * factor : null);

const perSecond = (value) => (value === null ? "-" : `${bytes(value)}/s`);
const share = (value) => percent(value === null ? null : value / 100);
const size = (value) => (value === null ? "-" : bytes(value));

// The parts of reads. The first three are stacked: their height is what was requested.
export const READS = {
  show: perSecond,
  unit: "rate",
  stacked: 3,
  hasTime: true,
  series: [
    { label: "From cache", color: "cached", of: pages("read_cached_pages") },
    { label: "Read ahead", color: "ahead", of: pages("readahead_hit_pages") },
    { label: "Missed", color: "miss", of: pages("read_missed_pages") },
    { label: "Direct", color: "direct", of: rate("direct_read_bytes") },
  ],
};

export const SERIES = [
  { ...READS, place: "chart-reads", height: 230 },
  {
    place: "chart-devices",
    height: 90,
    show: perSecond,
    unit: "rate",
    series: [
      { label: "Read", color: "cached", fill: true, of: rate("device_read_bytes") },
      { label: "Written", color: "write", of: rate("device_write_bytes") },
    ],
  },
  {
    place: "chart-waiting",
    height: 90,
    show: share,
    unit: "percent",
    least: 1,
    series: [
      { label: "I/O", color: "miss", fill: true, of: gauge("psi_io_some_ratio", 100) },
      { label: "Memory", color: "direct", of: gauge("psi_memory_some_ratio", 100) },
      { label: "CPU", color: "cached", of: gauge("psi_cpu_some_ratio", 100) },
    ],
  },
  {
    place: "chart-reclaim",
    height: 90,
    show: perSecond,
    unit: "rate",
    series: [
      { label: "Files reclaimed", color: "direct", fill: true, of: pages("evicted_reclaim_pages") },
      { label: "Refaults of files", color: "miss", of: pages("file_refault_pages") },
    ],
  },
  {
    place: "chart-memory",
    height: 108,
    hasTime: true,
    show: size,
    unit: "bytes",
    series: [
      { label: "Cached", color: "cached", fill: true, of: gauge("cached_bytes") },
      { label: "Buffers", color: "ahead", of: gauge("buffers_bytes") },
      { label: "Dirty", color: "miss", of: gauge("dirty_bytes") },
      { label: "Anonymous", color: "direct", of: gauge("anon_bytes") },
      { label: "Swap", color: "write", of: gauge("swap_used_bytes") },
    ],
  },
];

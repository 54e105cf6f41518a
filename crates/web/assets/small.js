// One chart of reads, of a subject.

import { marked } from "./marks.js";
import { color, heights, look } from "./plot.js";
import { Points } from "./points.js";
import { READS } from "./series.js";
import { recorded } from "./source.js";

const HEIGHT = 170;

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
    return [times, ...heights(READS, rows)];
  }

  draw(data) {
    return new globalThis.uPlot(
      {
        ...this.size(),
        ...look(READS, (at) => this.rows[at ?? this.rows.length - 1]),
        cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
        padding: [8, 26, 0, 0],
        plugins: [marked(() => ({ gaps: this.store.gaps(Infinity), losses: [] }), color)],
        scales: {
          x: { time: true, range: (_, low, high) => [recorded ? low : Math.min(low, high - 60), high] },
          y: { range: (_, __, high) => [0, Math.max(high ?? 0, 1024) * 1.08] },
        },
      },
      data,
      this.host,
    );
  }
}

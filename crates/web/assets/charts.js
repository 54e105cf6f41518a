// Charts over time, drawn by uPlot. An unknown value is a gap, not 0. All charts share the time, the
// crosshair and the zoom; the zoom is in the page's address.

import { clock, pageSize, zone } from "./format.js";
import { list, marked } from "./marks.js";
import { color, heights, look } from "./plot.js";
import { Points } from "./points.js";
import { SERIES } from "./series.js";
import { recorded } from "./source.js";

const byId = (id) => document.getElementById(id);

// Between two clicks the mouse moves a little: that is no zoom.
const LEAST_PIXELS = 6;

export class Charts {
  constructor(state) {
    this.state = state;
    this.store = new Points();
    this.plots = [];
    this.draw();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.fit()).observe(byId("charts"));
    state.on(["window", "from", "to"], () => this.update());
    byId("whole").addEventListener("click", () => this.whole());
    for (const button of byId("windows").children) {
      button.addEventListener("click", () => state.set({ window: button.dataset.window, from: "", to: "" }));
    }
    SERIES.forEach((chart, place) => {
      byId(chart.place).addEventListener("keydown", (event) => this.key(event, place));
    });
  }

  get points() {
    return this.store.points;
  }

  // The chosen window in seconds; 0 for all of a recording.
  get chosen() {
    const window = Number(this.state.get("window"));
    return window >= 10 && window <= 3600 ? window : recorded ? 0 : 300;
  }

  // The length of the window in seconds.
  get window() {
    return this.chosen || Math.max(this.store.end - this.store.begin, 1);
  }

  // The length in seconds of the past that is needed for what is shown.
  get length() {
    const zoomed = this.isZoomed ? Math.ceil(Date.now() / 1000 - Number(this.state.get("from"))) : 0;
    return Math.min(Math.max(this.window, zoomed), 3600);
  }

  get isZoomed() {
    const [from, to] = [Number(this.state.get("from")), Number(this.state.get("to"))];
    return from > 0 && to > from;
  }

  // The time that is shown.
  range() {
    if (this.isZoomed) return [Number(this.state.get("from")), Number(this.state.get("to"))];
    const { begin, end } = this.store;
    if (recorded) return [Math.max(end - this.window, begin), end];
    // A server that has just started has no past: a minute is the least that is shown.
    return [Math.max(end - this.window, Math.min(begin, end - 60)), end];
  }

  // Whether the shown time may have points that only the server has.
  get isShort() {
    return this.store.end - this.length < this.store.begin;
  }

  zoom(from, to) {
    if (to - from < 0.5) return;
    this.state.set({ from: from.toFixed(1), to: to.toFixed(1) });
  }

  whole() {
    this.state.set({ from: "", to: "" });
  }

  reset(past) {
    this.store.reset(past);
    this.update();
  }

  add(point) {
    this.store.add(point);
  }

  // Works out times, rows, gaps and losses once for all charts.
  prepare() {
    const [times, rows] = this.store.rows();
    const [min, max] = this.range();
    this.drawn = { times, rows, marks: { gaps: this.store.gaps(min), losses: this.store.losses() } };
    list(byId("marks"), this.drawn.marks, min, max);
    byId("whole").hidden = !this.isZoomed;
    byId("range").textContent = `${clock(min)} to ${clock(max)}${zone}`;
    for (const button of byId("windows").children) {
      const length = Number(button.dataset.window);
      button.setAttribute("aria-pressed", String(!this.isZoomed && length === this.chosen));
      button.hidden = recorded ? length * 1.1 > this.store.end - this.store.begin : length === 0;
    }
  }

  data(chart) {
    const { times, rows } = this.drawn;
    return [times, ...heights(chart, rows)];
  }

  update() {
    this.prepare();
    SERIES.forEach((chart, place) => {
      this.plots[place].setData(this.data(chart));
      this.last(this.plots[place]);
    });
  }

  // Without a pointer on it, the legend has the newest numbers.
  last(plot) {
    if (plot.cursor.left === undefined || plot.cursor.left < 0) plot.setLegend({ idx: this.drawn.rows.length - 1 });
  }

  // Anew, as colours are drawn and not styled.
  draw() {
    this.prepare();
    this.plots.forEach((plot) => plot.destroy());
    this.plots = SERIES.map((chart) => this.plot(chart));
    this.plots.forEach((plot) => this.last(plot));
  }

  size(chart) {
    return { width: Math.max(byId(chart.place).clientWidth, 120), height: chart.height };
  }

  fit() {
    SERIES.forEach((chart, place) => this.plots[place].setSize(this.size(chart)));
  }

  // Arrows move the crosshair, + and - zoom around it, Escape shows the whole window.
  key(event, place) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity };
    const { times, rows } = this.drawn;
    const [min, max] = this.range();
    const from = times.findIndex((time) => time >= min);
    const last = times.findLastIndex((time) => time <= max);
    if (event.key in steps && from >= 0 && last >= from) {
      event.preventDefault();
      let at = Math.min(Math.max((this.at ?? last) + steps[event.key], from), last);
      if (!rows[at]) at += Math.sign(steps[event.key]);
      this.at = Math.min(Math.max(at, from), last);
      for (const plot of this.plots) plot.setCursor({ left: plot.valToPos(times[this.at], "x"), top: 1 });
      this.tell(SERIES[place], rows[this.at]);
    } else if (event.key === "+" || event.key === "-") {
      const middle = times[this.at] ?? (min + max) / 2;
      const part = event.key === "+" ? 0.25 : 1;
      this.zoom(middle - (max - min) * part, middle + (max - min) * part);
    } else if (event.key === "Escape") this.whole();
    else return;
    event.stopPropagation();
  }

  // Says the numbers at the crosshair.
  tell(chart, row) {
    if (!row) return;
    const parts = chart.series.map((series) => `${series.label} ${chart.show(series.of(row, pageSize))}`);
    byId("told").textContent = `${clock(row.at)}: ${parts.join(", ")}`;
  }

  brushed(plot) {
    const { left, width } = plot.select;
    if (width < LEAST_PIXELS) return;
    const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.zoom(from, to);
  }

  plot(chart) {
    const host = byId(chart.place);
    return new globalThis.uPlot(
      {
        ...this.size(chart),
        ...look(chart, (at) => this.drawn.rows[at]),
        cursor: {
          y: false,
          points: { size: 6 },
          sync: { key: "time", setSeries: false, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
          drag: { x: true, y: false, setScale: false, dist: LEAST_PIXELS },
          bind: { dblclick: () => () => this.whole() },
        },
        padding: [10, 26, 0, 0],
        hooks: { setCursor: [(plot) => this.last(plot)], setSelect: [(plot) => this.brushed(plot)] },
        plugins: [marked(() => this.drawn.marks, color)],
        legend: { live: true },
        scales: {
          x: { time: true, range: () => this.range() },
          y: { range: (_, low, high) => [0, Math.max(high ?? 0, chart.least ?? 1024) * 1.08] },
        },
      },
      this.data(chart),
      host,
    );
  }
}

"use strict";
// Draws the plots of a report. All numbers are in the page; nothing is fetched.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const style = () => getComputedStyle(document.documentElement);
  const color = (name) => style().getPropertyValue(`--${name}`).trim();
  const powers = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
  const scaled = (value, base, names, unit) => {
    let power = 0;
    while (Math.abs(value) >= base && power < names.length - 1) { value /= base; power += 1; }
    const digits = value !== 0 && Math.abs(value) < 10 ? 1 : 0;
    return `${Number(value.toFixed(digits))} ${names[power]}${unit}`.trimEnd();
  };
  const formats = {
    bytes: (value) => scaled(value, 1024, powers, "B"),
    rate: (value) => `${scaled(value, 1024, powers, "B")}/s`,
    count: (value) => `${scaled(value, 1000, ["", "k", "M", "G", "T"], "")}/s`,
    ratio: (value) => `${Number((value * 100).toFixed(value < 0.1 ? 2 : 1))} %`,
  };
  const utc = (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC");
  const clock = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ");
  const plots = [];
  const whole = document.getElementById("whole");
  let zooming = false;

  // Time that is not in the recording, or in one piece.
  const gaps = {
    hooks: {
      drawClear: [(u) => {
        u.ctx.save();
        u.ctx.fillStyle = color("gap");
        for (const [from, to] of data.gaps) {
          const left = Math.max(u.valToPos(from, "x", true), u.bbox.left);
          const right = Math.min(u.valToPos(to, "x", true), u.bbox.left + u.bbox.width);
          if (right >= left) u.ctx.fillRect(left, u.bbox.top, Math.max(right - left, 1), u.bbox.height);
        }
        u.ctx.restore();
      }],
    },
  };

  // Zooming one zooms all, so that what happened at the same time stands under each other.
  const together = (u) => {
    if (zooming) return;
    zooming = true;
    const { min, max } = u.scales.x;
    for (const other of plots) if (other !== u) other.setScale("x", { min, max });
    whole.disabled = min <= data.times[0] && max >= data.times[data.times.length - 1];
    zooming = false;
  };

  const axis = (extra) => ({
    stroke: () => color("quiet"), grid: { stroke: () => color("grid"), width: 1 }, ticks: { show: false },
    font: "12px system-ui, sans-serif", ...extra,
  });

  const draw = (plot, place) => {
    const host = document.getElementById(`plot-${place}`);
    const format = formats[plot.unit];
    const shown = host.parentElement.querySelector(".at");
    const byteSplits = (u, at, low, high) => {
      const power = 1024 ** Math.floor(Math.log(Math.max(high, 1)) / Math.log(1024));
      const raw = high / power / 5;
      const nice = [0.05, 0.1, 0.2, 0.25, 0.5, 1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 128, 200, 250, 256, 500, 512, 1024];
      const step = (nice.find((step) => step >= raw) ?? 1024) * power;
      const splits = [];
      for (let split = 0; split <= high * 1.0001 && splits.length < 20; split += step) splits.push(split);
      return splits;
    };
    const isBytes = plot.unit === "bytes" || plot.unit === "rate";
    // Stacked parts are drawn up to the sum of those below them.
    const heights = plot.series.map((series, place) => {
      if (!series.stacked) return series.values;
      const below = plot.series.slice(0, place + 1).filter((other) => other.stacked);
      return series.values.map((_, at) => {
        const parts = below.map((part) => part.values[at]);
        return parts.includes(null) ? null : parts.reduce((sum, part) => sum + part);
      });
    });
    const stacked = plot.series.filter((series) => series.stacked).length;
    const u = new uPlot({
      width: host.clientWidth, height: 200,
      tzDate: utc,
      cursor: { sync: { key: "time" }, focus: { prox: 24 }, points: { size: 6 } },
      focus: { alpha: 0.35 },
      legend: { live: true },
      bands: Array.from({ length: Math.max(stacked - 1, 0) }, (_, low) => ({ series: [low + 2, low + 1] })),
      scales: { y: { range: (u, low, high) => [0, plot.most ?? Math.max(high ?? 0, plot.unit === "ratio" ? 0.01 : 1) * 1.05] } },
      axes: [
        axis({ space: 70, values: [
          [86400, "{YYYY}-{MM}-{DD}", null, null, null, null, null, null, 1],
          [3600, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{YYYY}-{MM}-{DD}", null, null, null, 1],
          [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{YYYY}-{MM}-{DD}", null, null, null, 1],
          [0.001, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", null, "\n{YYYY}-{MM}-{DD}", null, null, null, 1],
        ] }),
        axis({ size: 68, values: (u, splits) => splits.map(format), ...(isBytes ? { splits: byteSplits } : {}) }),
      ],
      series: [
        {},
        ...plot.series.map((series, number) => ({
          label: series.label, width: 1.5, spanGaps: false,
          stroke: () => color(series.color ?? `c${number}`),
          dash: number > 3 ? [5, 3] : undefined,
          fill: series.stacked ? () => `${color(series.color)}b0` : plot.series.length === 1 ? () => `${color("c0")}22` : undefined,
          points: { show: data.times.length < 3 },
          // The part itself, not the height up to which it is drawn.
          value: (u, value, of, at) => (at == null ? "" : series.values[at] == null ? "?" : format(series.values[at])),
        })),
      ],
      plugins: [gaps],
      hooks: {
        setScale: [(u, key) => { if (key === "x") together(u); }],
        setLegend: [(u) => {
          const here = u.legend.idxs?.[0] ?? u.cursor.idx;
          shown.textContent = here == null ? "" : clock(data.times[here]);
        }],
      },
    }, [data.times, ...heights], host);
    plots.push(u);

    // Arrows step through time, as the mouse does.
    let at = -1;
    host.addEventListener("keydown", (event) => {
      const far = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity }[event.key];
      if (event.key === "Escape") { reset(); return; }
      if (far === undefined) return;
      event.preventDefault();
      const last = data.times.length - 1;
      at = Math.min(Math.max((at < 0 ? (far > 0 ? -1 : last + 1) : at) + far, 0), last);
      u.setCursor({ left: u.valToPos(data.times[at], "x"), top: 0 });
      const told = plot.series.map((series) => {
        const value = series.values[at];
        return `${series.label} ${value == null ? "not known" : format(value)}`;
      });
      document.getElementById("told").textContent = `${clock(data.times[at])} UTC: ${told.join(", ")}`;
    });
  };

  const reset = () => {
    const [min, max] = [data.times[0], data.times[data.times.length - 1]];
    for (const u of plots) u.setScale("x", { min, max });
  };
  data.plots.forEach(draw);
  whole.hidden = false;
  whole.addEventListener("click", reset);
  const fit = () => plots.forEach((u) => u.setSize({ width: u.root.parentElement.clientWidth, height: 200 }));
  new ResizeObserver(fit).observe(document.querySelector(".plots"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.forEach((u) => u.redraw()));
  document.documentElement.dataset.drawn = String(plots.length);
})();

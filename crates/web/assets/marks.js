// Marks of gaps and of lost counts: in the charts, and as a list for those who do not see them.

import { clock, count } from "./format.js";

const GAPS = {
  before: "not recorded",
  restart: "server restarted",
  missing: "no data",
  long: "suspended or stalled",
  disconnected: "not connected",
  not_recorded: "not recorded",
  unreadable: "unreadable samples",
  suspended: "suspended",
  late: "recorder late",
};
const MOST = 6;

// A plugin of uPlot. `marks` returns gaps and losses in seconds; `color` returns a colour by name.
export const marked = (marks, color) => ({
  hooks: {
    drawClear: [(plot) => {
      const { ctx, bbox } = plot;
      const place = (at) => Math.min(Math.max(plot.valToPos(at, "x", true), bbox.left), bbox.left + bbox.width);
      ctx.save();
      for (const { from, to, kind } of marks().gaps) {
        if (to < plot.scales.x.min || from > plot.scales.x.max) continue;
        const [left, right] = [place(from), place(to)];
        const width = Math.max(right - left, 2);
        ctx.fillStyle = color("gap");
        ctx.fillRect(left, bbox.top, width, bbox.height);
        ctx.fillStyle = color("quiet");
        ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
        ctx.textAlign = "center";
        if (ctx.measureText(GAPS[kind]).width < width - 8) ctx.fillText(GAPS[kind], left + width / 2, bbox.top + bbox.height / 2);
      }
      ctx.restore();
    }],
    draw: [(plot) => {
      const { ctx, bbox } = plot;
      const size = 5 * devicePixelRatio;
      ctx.save();
      ctx.fillStyle = color("warn");
      for (const { from, to } of marks().losses) {
        const at = (from + to) / 2;
        if (at < plot.scales.x.min || at > plot.scales.x.max) continue;
        const middle = plot.valToPos(at, "x", true);
        ctx.beginPath();
        ctx.moveTo(middle - size, bbox.top);
        ctx.lineTo(middle + size, bbox.top);
        ctx.lineTo(middle, bbox.top + size * 1.6);
        ctx.fill();
      }
      ctx.restore();
    }],
  },
});

// Fills the list below the charts with the newest marks that are shown.
export function list(element, { gaps, losses }, min, max) {
  const isShown = ({ from, to }) => to >= min && from <= max;
  const lost = losses.filter(isShown);
  const texts = gaps
    .filter((gap) => isShown(gap) && gap.kind !== "before")
    .slice(-MOST)
    .map(({ from, to, kind }) => [kind, `${clock(from)} to ${clock(to)}: ${GAPS[kind]}`]);
  if (lost.length > 0) {
    const sum = lost.reduce((sum, loss) => sum + loss.count, 0);
    texts.push(["lost", `▼ incomplete: ${count(sum)} events lost between ${clock(lost[0].from)} and ${clock(lost.at(-1).to)}`]);
  }
  const items = texts.map(([kind, text]) => {
    const item = document.createElement("li");
    item.dataset.kind = kind;
    item.textContent = text;
    return item;
  });
  const same = items.map((item) => item.textContent).join("\n") === [...element.children].map((item) => item.textContent).join("\n");
  if (!same) element.replaceChildren(...items);
  element.hidden = items.length === 0;
}

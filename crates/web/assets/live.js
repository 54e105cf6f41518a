// The numbers of a server: they come by themselves, until they are paused. The connection comes back by itself,
// also to a server that was started again.

import { clock } from "./format.js";
import { ask } from "./source.js";

const byId = (id) => document.getElementById(id);
const AGAIN_MS = 3000;
// The flame graph is a picture that the server draws: now and then again.
const FLAME_EVERY_MS = 10_000;
// Thinning is not done at each tick: short intervals have many points even so.
const THIN_EVERY_MS = 60_000;

// Calls `opened`, `tick`, `failed` with the server's problem, and `lost` with the status: 0 without an answer.
function connect(calls) {
  const events = new EventSource("/api/v1/events");
  events.addEventListener("open", calls.opened);
  events.addEventListener("tick", (event) => calls.tick(JSON.parse(event.data)));
  events.addEventListener("problem", (event) => calls.failed(JSON.parse(event.data).error));
  events.addEventListener("error", async () => {
    // The browser tries again by itself where the server is not there, and not where it refuses.
    const isRefused = events.readyState === EventSource.CLOSED;
    calls.lost(isRefused ? await status() : 0);
    if (isRefused) setTimeout(() => connect(calls), AGAIN_MS);
  });
}

async function status() {
  try {
    return (await fetch(`${location.origin}/api/v1/machine`)).status;
  } catch {
    return 0;
  }
}

function say(isLive, text) {
  byId("state").dataset.live = String(isLive);
  byId("state").textContent = text;
}

function problem(text) {
  byId("problem").hidden = !text;
  byId("problem").textContent = text ?? "";
}

const time = (tick) => (tick ? clock(Date.parse(tick.point.time) / 1000) : "the start");

let flameDrawn = performance.now();
function flame() {
  const picture = byId("flame");
  if (!picture || performance.now() - flameDrawn < FLAME_EVERY_MS) return;
  flameDrawn = performance.now();
  picture.src = `/flame.svg?at=${Math.round(flameDrawn)}`;
}

// Keeps the parts of the page at the server's numbers. `show` draws a tick.
export function follow({ state, charts, panel, over, show: draw }) {
  // Pause: numbers go on to be collected, and stand still here.
  let paused = false;
  let latest = null;
  const show = (tick) => {
    draw(tick);
    flame();
    say(true, `live, ${time(tick)}`);
  };
  byId("pause").addEventListener("click", () => {
    paused = !paused;
    panel.isPaused = paused;
    over.isPaused = paused;
    byId("pause").setAttribute("aria-pressed", String(paused));
    byId("pause").textContent = paused ? "Go on" : "Pause";
    if (!paused && latest) show(latest);
    else if (paused) say(false, `paused at ${time(latest)}`);
  });
  addEventListener("keydown", (event) => {
    if (event.key !== " " || event.target !== document.body) return;
    event.preventDefault();
    byId("pause").click();
  });

  // The past of the time that is shown.
  const past = async () => {
    const { status, answer } = await ask("history", { seconds: charts.length });
    if (status !== 200) throw new Error(answer.error);
    charts.store.silent = null;
    byId("refused").hidden = true;
    charts.reset(answer);
  };
  const again = () => past().then(() => problem(null), (error) => problem(error.message));
  state.on(["window", "from"], () => {
    if (charts.isShort) again();
  });
  // The server has a long time in fewer points.
  let isThinned = false;
  const thin = () => {
    if (!charts.store.isMany || isThinned) return;
    isThinned = true;
    setTimeout(() => { isThinned = false; }, THIN_EVERY_MS);
    again();
  };

  // The history has the ticks of the time without a connection.
  connect({
    opened: again,
    tick: (tick) => {
      latest = tick;
      charts.add(tick.point);
      thin();
      if (paused) return;
      problem(null);
      show(tick);
    },
    failed: (error) => problem(`No numbers: ${error}`),
    lost: (status) => {
      say(false, "not connected, trying again");
      charts.store.silent ??= Date.now() / 1000;
      byId("refused").hidden = status !== 401;
    },
  });
  setInterval(() => {
    if (charts.store.silent !== null && !paused) charts.update();
  }, 1000);
}

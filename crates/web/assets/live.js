// The connection to the server: it comes back by itself, also to a server that was started again.

const AGAIN_MS = 3000;

// Calls `opened`, `tick`, `failed` with the server's problem, and `lost` with the status: 0 without an answer.
export function connect(calls) {
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
    return (await fetch("/api/v1/machine")).status;
  } catch {
    return 0;
  }
}

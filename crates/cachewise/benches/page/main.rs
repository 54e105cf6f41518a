//! Cost of the page of `cachewise serve` in a browser, with many processes that use the page cache at each tick.
//!
//! `cargo bench -p cachewise --bench page`, as root and with Chromium; without either it says what is missing.
//!
//! The processes read a file once a second. Chromium loads the page, and then shows it for a while, twice: as it is
//! first seen, and with the table of processes in sight. The first paint is that of the browser's own timing
//! (`PerformancePaintTiming`), from the start of the navigation. The cost of a tick is what the browser's trace
//! (`Tracing`, as its developer tools use it) has of the main thread of the page, in CPU time, over the ticks of that
//! time: scripts, layout with styles, and all of painting there. The trace itself costs too, and is included. A script of
//! known work, timed in the page, shows how fast the machine is meanwhile.
//!
//! `CACHEWISE_BENCH_PROCESSES` sets how many processes (5,000), `CACHEWISE_BENCH_SECONDS` how long the page is shown
//! (20); `CACHEWISE_TABLE=PATH` writes the table there too. Without `--bench` all is short.

#[path = "../../tests/commands/serve/chromium.rs"]
#[expect(dead_code, reason = "tests do more with a browser")]
mod chromium;
#[path = "../../tests/commands/serve/http.rs"]
#[expect(dead_code, reason = "tests do more with requests")]
mod http;
#[path = "../../../probe/benches/support/number.rs"]
mod number;
mod readers;
#[path = "../support/table.rs"]
mod table;
mod trace;

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use chromium::Chromium;
use number::number;
use readers::Readers;
use serde_json::json;
use table::finish;
use trace::{Cost, Trace};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The browser's module takes this from its tests.
mod support {
    use std::time::{Duration, Instant};

    /// Returns what `look` finds within a minute.
    pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "gave up waiting until {what}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The most that the first paint and a tick may take, in milliseconds.
const PAINT_GOAL: f64 = 1000.0;
const TICK_GOAL: f64 = 20.0;
/// The server's token.
const TOKEN: &str = "a-token-of-enough-characters";
/// Loads of the page, each in a browser of its own.
const LOADS: usize = 3;
/// Milliseconds that a fixed script takes: the least of many rounds.
const SPEED: &str = "(() => { let least = Infinity; for (let round = 0; round < 200; round += 1) { \
    const begin = performance.now(); let sum = 0; for (let i = 0; i < 3e5; i += 1) sum += i * i % 7; \
    least = Math.min(least, performance.now() - begin); } return least; })()";
const COUNT: &str = "globalThis.ticks = 0; (() => { const { charts } = cachewise; const add = charts.add.bind(charts); \
    charts.add = (point) => { ticks += 1; add(point); }; })()";

/// A process, ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Server {
    address: String,
    _process: Running,
}

impl Server {
    fn start() -> Outcome<Server> {
        let mut process = Command::new(env!("CARGO_BIN_EXE_cachewise"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("CACHEWISE_TOKEN", TOKEN)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().ok_or("no pipe")?).read_line(&mut line)?;
        let process = Running(process);
        let address = line
            .strip_prefix("http://")
            .and_then(|rest| rest.split('/').next());
        let address = address.ok_or_else(|| format!("it says where it listens, not {line:?}"))?;
        Ok(Server {
            address: address.to_owned(),
            _process: process,
        })
    }

    /// Processes that used the page cache in the last tick.
    fn known(&self) -> usize {
        let bearer = format!("Bearer {TOKEN}");
        let request = http::Request::new(&self.address, "/api/v1/processes?limit=1");
        let answer = request.header("Authorization", &bearer).send();
        let json: serde_json::Value = serde_json::from_str(&answer.body).unwrap_or_default();
        json["count"].as_u64().unwrap_or(0) as usize
    }

    /// The page in a new browser, and the time of its first paint in milliseconds.
    fn opened(&self) -> Outcome<(Chromium, f64)> {
        let mut browser = Chromium::start().ok_or("no chromium")?;
        let bearer = json!({ "headers": { "Authorization": format!("Bearer {TOKEN}") } });
        browser.call("Network.setExtraHTTPHeaders", bearer);
        browser.open(&format!("http://{}/", self.address));
        browser.until(
            "points come",
            "(globalThis.cachewise?.charts.points.length ?? 0) > 1",
        );
        let paint = browser.until(
            "it is painted",
            "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null",
        );
        Ok((browser, paint.as_f64().ok_or("no time")?))
    }
}

/// The cost of a tick, and how many there were.
fn ticks(browser: &mut Chromium, time: Duration) -> Outcome<(Cost, f64)> {
    browser.value(COUNT);
    let trace = Trace::start(browser);
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::thread::sleep(Duration::from_millis(100));
    }
    let ticks = browser.value("ticks").as_f64().unwrap_or(0.0);
    let cost = trace.end(browser)?;
    if ticks < 1.0 {
        return Err("the page got no tick".into());
    }
    Ok((cost / ticks, ticks))
}

fn bench(processes: usize, seconds: usize) -> Outcome<String> {
    let server = Server::start()?;
    let _readers = Readers::start(processes)?;
    let known = support::until("the processes are counted", || {
        let known = server.known();
        (known * 10 >= processes * 9).then_some(known)
    });
    let time = Duration::from_secs(seconds as u64);
    let mut paints = Vec::new();
    for _ in 1..LOADS {
        paints.push(server.opened()?.1);
    }
    let (mut browser, paint) = server.opened()?;
    paints.push(paint);
    paints.sort_by(f64::total_cmp);
    let speed = browser.value(SPEED);
    let (first, count) = ticks(&mut browser, time)?;
    browser.value("document.querySelector('#tables').scrollIntoView()");
    let (table, _) = ticks(&mut browser, time)?;
    let met = |is: bool| if is { "met" } else { "MISSED" };
    let mut text = format!(
        "page with {processes} processes ({known} in a tick), {count} ticks each, script of known work: {speed} ms\n\n\
         | what, ms | all | script | layout | paint | other | goal |\n|---|---|---|---|---|---|---|\n\
         | first paint, median of {LOADS} | {:.0} | | | | | under {PAINT_GOAL:.0}: {} |\n",
        paints[LOADS / 2],
        met(paints[LOADS / 2] < PAINT_GOAL),
    );
    for (name, cost) in [
        ("as first seen", first),
        ("with the table of processes in sight", table),
    ] {
        text += &format!(
            "| CPU of a tick, {name} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | under {TICK_GOAL:.0}: {} |\n",
            cost.all(),
            cost.script,
            cost.layout,
            cost.paint,
            cost.other,
            met(cost.all() < TICK_GOAL),
        );
    }
    Ok(text)
}

fn main() -> ExitCode {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: cost of the page: needs root, to count processes");
        return ExitCode::SUCCESS;
    }
    if Chromium::start().is_none() {
        println!("skipped: cost of the page: needs chromium; scripts/setup test installs it");
        return ExitCode::SUCCESS;
    }
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let usual = if is_bench { (5000, 20) } else { (5, 2) };
    let table = number("CACHEWISE_BENCH_PROCESSES", usual.0)
        .map_err(Into::into)
        .and_then(|processes| bench(processes, number("CACHEWISE_BENCH_SECONDS", usual.1)?));
    finish("bench of the page", table)
}

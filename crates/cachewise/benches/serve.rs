//! Cost of a scrape of `cachewise serve`, with many processes that have used the page cache.
//!
//! `cargo bench -p cachewise --bench serve`, as root: without BPF there are no processes to count.
//!
//! The processes read a file and stay. Then each round requests `/metrics` once, over a new connection, as Prometheus
//! does after a while. Between two rounds one process after the other reads again, so that a scrape has new counts of
//! some. The table has the median and quartiles of the time to the last byte, and the CPU time of the server for a
//! scrape (from /proc/PID/stat, in ticks: over all rounds).
//!
//! `CACHEWISE_BENCH_PROCESSES` sets how many processes (500), `CACHEWISE_BENCH_PAIRS` the rounds (50);
//! `CACHEWISE_TABLE=PATH` writes the table there too. Without `--bench` all is short.

#[path = "../../probe/benches/support/number.rs"]
mod number;
#[path = "../../probe/benches/support/quantile.rs"]
mod quantile;
#[path = "support/table.rs"]
mod table;

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use number::number;
use quantile::quantile;
use table::finish;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The most that a scrape may take.
const GOAL: Duration = Duration::from_millis(20);
/// Processes that read between two scrapes.
const BUSY: usize = 20;
/// The server's token.
const TOKEN: &str = "a-token-of-enough-characters";
/// Reads without starting another program, so that what runs is what was counted.
const READER: &str = r#"while read -r _; do read -r _ < "$0"; done"#;

/// A process, ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Reader {
    stdin: ChildStdin,
    _process: Running,
}

impl Reader {
    fn start(file: &str) -> Outcome<Reader> {
        let mut process = Command::new("sh")
            .args(["-c", READER, file])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        let stdin = process.stdin.take().ok_or("no pipe")?;
        let mut reader = Reader {
            stdin,
            _process: Running(process),
        };
        reader.read()?;
        Ok(reader)
    }

    fn read(&mut self) -> Outcome<()> {
        Ok(self.stdin.write_all(b"\n")?)
    }
}

/// The answer, and how long it took to have all of it.
fn get(address: &str, path: &str) -> Outcome<(String, Duration)> {
    let begin = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {TOKEN}\r\n\
         Accept: application/openmetrics-text\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let took = begin.elapsed();
    if !answer.starts_with("HTTP/1.1 200") {
        return Err(format!("{path}: {}", answer.lines().next().unwrap_or("no answer")).into());
    }
    Ok((answer, took))
}

/// User and system time of a process in ticks of the clock.
fn ticks(pid: u32) -> Outcome<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = text.rsplit_once(')').ok_or("no name in stat")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let time = |place: usize| fields.get(place).and_then(|time| time.parse::<f64>().ok());
    Ok(time(11).ok_or("no user time")? + time(12).ok_or("no system time")?)
}

fn bench(processes: usize, rounds: usize) -> Outcome<String> {
    let mut server = Command::new(env!("CARGO_BIN_EXE_cachewise"))
        .args(["serve", "--listen", "127.0.0.1:0", "--top-n", "20"])
        .env("CACHEWISE_TOKEN", TOKEN)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(server.stdout.take().ok_or("no pipe")?).read_line(&mut line)?;
    let server = Running(server);
    let address = line
        .strip_prefix("http://")
        .and_then(|rest| rest.split('/').next())
        .ok_or_else(|| format!("it says where it listens, not {line:?}"))?
        .to_owned();
    let mut readers = Vec::new();
    for _ in 0..processes {
        readers.push(Reader::start("/etc/passwd")?);
    }
    // The first has all the starts in it.
    get(&address, "/metrics")?;
    let (before, begin) = (ticks(server.0.id())?, Instant::now());
    let (mut times, mut own, mut size) = (Vec::new(), Vec::new(), 0);
    for round in 0..rounds {
        for place in 0..BUSY.min(processes) {
            readers[(round * BUSY + place) % processes].read()?;
        }
        let (answer, took) = get(&address, "/metrics")?;
        size = answer.len();
        times.push(took.as_secs_f64() * 1e3);
        let watch = "cachewise_scrape_duration_seconds{collector=\"watch\"} ";
        let watch = answer.lines().find_map(|line| line.strip_prefix(watch));
        own.push(
            watch
                .and_then(|seconds| seconds.parse::<f64>().ok())
                .unwrap_or(0.0)
                * 1e3,
        );
        // Two at once would be one waiting for the other.
        std::thread::sleep(Duration::from_millis(50));
    }
    let cpu = (ticks(server.0.id())? - before) * 10.0;
    let lasted = begin.elapsed().as_secs_f64() * 1e3;
    let (json, _) = get(&address, "/api/v1/processes?limit=5000&seconds=60")?;
    let known = json.matches("\"pid\":").count();
    let median = quantile(&times, 0.5);
    let goal = GOAL.as_secs_f64() * 1e3;
    let met = if median < goal { "met" } else { "MISSED" };
    Ok(format!(
        "{rounds} scrapes with {processes} processes ({known} known), {size} bytes each\n\n\
         | what | median | quartiles | most | goal |\n|---|---|---|---|---|\n\
         | scrape, to the last byte, ms | {median:.2} | {:.2} to {:.2} | {:.2} | under {goal:.0}: {met} |\n\
         | of it the watch, ms | {:.2} | {:.2} to {:.2} | {:.2} | |\n\
         | CPU of the server, scrapes and ticks together, % of a core | {:.1} | | | |\n",
        quantile(&times, 0.25),
        quantile(&times, 0.75),
        quantile(&times, 1.0),
        quantile(&own, 0.5),
        quantile(&own, 0.25),
        quantile(&own, 0.75),
        quantile(&own, 1.0),
        cpu / lasted * 100.0,
    ))
}

fn main() -> ExitCode {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let usual = if is_bench { (500, 50) } else { (5, 2) };
    let table = number("CACHEWISE_BENCH_PROCESSES", usual.0)
        .map_err(Into::into)
        .and_then(|processes| bench(processes, number("CACHEWISE_BENCH_PAIRS", usual.1)?));
    finish("bench of serve", table)
}

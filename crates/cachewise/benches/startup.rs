//! Time of a start of `cachewise`, and CPU time of `stat` while it waits.
//!
//! `cargo bench -p cachewise --bench startup`, as root: without BPF there is nothing to start up.
//!
//! - Each round runs `true` alone, `cachewise run -- true` and `cachewise stat 0.01 1` in turn, in changing order. The
//!   table has medians and quartiles of wall time, of the excess over `true` in the same round, and of CPU time (of the
//!   command and its children, from wait4(2)). `stat 0.01 1` waits for 10 ms of its time.
//! - `stat 1` runs for one second and for ten, three times in turn. The additional CPU time of the nine seconds is the
//!   share of a core without the start. It is the use of `stat` itself, on the machine as it is.
//!
//! `CACHEWISE_BENCH_PAIRS` sets the number of rounds (25), `CACHEWISE_BENCH_SECONDS` the longer run of `stat`
//! (10); `CACHEWISE_TABLE=PATH` writes the tables there too. Without `--bench` all is short.

#[path = "../../probe/benches/support/number.rs"]
mod number;
#[path = "../../probe/benches/support/quantile.rs"]
mod quantile;

use std::error::Error;
use std::fmt::Write as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use cachewise_sys::children_usage;
use number::number;
use quantile::quantile;

type Outcome<T> = Result<T, Box<dyn Error>>;

const CACHEWISE: &str = env!("CARGO_BIN_EXE_cachewise");

/// The most that `run -- true` may take.
const START_GOAL: Duration = Duration::from_millis(60);
/// The most that `stat 1` may take of a core, in per cent.
const STAT_GOAL: f64 = 0.5;

const COMMANDS: [&[&str]; 3] = [
    &["true"],
    &[CACHEWISE, "run", "--", "true"],
    &[CACHEWISE, "stat", "0.01", "1"],
];
const NAMES: [&str; 3] = [
    "`true`",
    "`cachewise run -- true`",
    "`cachewise stat 0.01 1`",
];

/// Time of a command, in milliseconds.
#[derive(Clone, Copy)]
struct Sample {
    wall: f64,
    user: f64,
    system: f64,
}

fn sample(command: &[&str]) -> Outcome<Sample> {
    let before = children_usage();
    let start = Instant::now();
    let status = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    let wall = start.elapsed();
    if !status.success() {
        return Err(format!("{}: {status}", command.join(" ")).into());
    }
    let after = children_usage();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    Ok(Sample {
        wall: milliseconds(wall),
        user: milliseconds(after.user - before.user),
        system: milliseconds(after.system - before.system),
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    quantile(&values.collect::<Vec<_>>(), 0.5)
}

fn start_up(rounds: usize) -> Outcome<String> {
    let mut samples: [Vec<Sample>; 3] = Default::default();
    for command in COMMANDS {
        sample(command)?; // the first finds its files on the disk
    }
    for round in 0..rounds {
        for place in 0..COMMANDS.len() {
            let which = (place + round) % COMMANDS.len();
            samples[which].push(sample(COMMANDS[which])?);
        }
    }
    let mut table = format!(
        "{rounds} rounds, medians\n\n\
         | command | wall, ms | quartiles | more than `true`, ms | user, ms | system, ms | goal |\n\
         |---|---|---|---|---|---|---|\n"
    );
    for (which, name) in NAMES.iter().enumerate() {
        let walls: Vec<f64> = samples[which].iter().map(|sample| sample.wall).collect();
        let wall = quantile(&walls, 0.5);
        let more = median(
            samples[which]
                .iter()
                .zip(&samples[0])
                .map(|(this, bare)| this.wall - bare.wall),
        );
        let goal = START_GOAL.as_millis();
        writeln!(
            table,
            "| {name} | **{wall:.1}** | {:.1}-{:.1} | {more:.1} | {:.1} | {:.1} | {} |",
            quantile(&walls, 0.25),
            quantile(&walls, 0.75),
            median(samples[which].iter().map(|sample| sample.user)),
            median(samples[which].iter().map(|sample| sample.system)),
            match which {
                1 if wall < goal as f64 => format!("{goal} met"),
                1 => format!("{goal} missed"),
                _ => String::new(),
            }
        )?;
    }
    Ok(table)
}

fn steady(seconds: usize, repetitions: usize) -> Outcome<String> {
    let seconds = seconds.max(2);
    let mut shares = Vec::new();
    let mut wakeups = Vec::new();
    for _ in 0..repetitions {
        let short = sample(&[CACHEWISE, "stat", "1", "1"])?;
        let long = sample(&[CACHEWISE, "stat", "1", &seconds.to_string()])?;
        let cpu = (long.user + long.system) - (short.user + short.system);
        shares.push(cpu / (long.wall - short.wall) * 100.0);
        wakeups.push(cpu / (seconds - 1) as f64);
    }
    let share = quantile(&shares, 0.5);
    Ok(format!(
        "`cachewise stat 1`: **{share:.2} %** of a core ({:.2}-{:.2}), {:.2} ms of CPU time for each second; \
         goal {STAT_GOAL} % {}\n",
        quantile(&shares, 0.0),
        quantile(&shares, 1.0),
        quantile(&wakeups, 0.5),
        if share < STAT_GOAL { "met" } else { "missed" },
    ))
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}

fn bench() -> Outcome<()> {
    let short = !std::env::args().any(|argument| argument == "--bench");
    if !rustix::process::geteuid().is_root() {
        println!("skipped: startup: without root there is no probe to start; run it as root");
        return Ok(());
    }
    let before = load();
    let mut text = start_up(number("CACHEWISE_BENCH_PAIRS", if short { 1 } else { 25 })?)?;
    print!("{text}");
    let steady = steady(
        number("CACHEWISE_BENCH_SECONDS", if short { 2 } else { 10 })?,
        if short { 1 } else { 3 },
    )?;
    let load = format!("load average {before} before, {} after", load());
    println!("\n{steady}\n{load}");
    write!(text, "\n{steady}\n{load}\n")?;
    if let Some(path) = std::env::var_os("CACHEWISE_TABLE") {
        std::fs::write(path, text)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match bench() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("startup: {error}");
            ExitCode::FAILURE
        }
    }
}

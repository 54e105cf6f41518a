//! Time of a start of `cachewise`, and CPU time of `stat` while it waits.
//!
//! `cargo bench -p cachewise --bench startup [-- --check]`, as root: without BPF there is nothing to start up. With `--check` it
//! ends with 1 where a goal is missed.
//!
//! - Each round has a shell run each command of the table in turn, in changing order: a user waits for the shell too. The
//!   table has medians and quartiles of wall time, of the excess over `true` in the same round, and of CPU time (of the
//!   shell and its children, from wait4(2)). Some commands wait for a part of their time, which their goal contains.
//! - Before a cold start the pages of the program file are evicted; those of the libraries are mapped by other programs.
//! - `stat 1` runs for one second and for ten, three times in turn. The additional CPU time of the nine seconds is the
//!   share of a core without the start. It is the use of `stat` itself, on the machine as it is.
//!
//! `CACHEWISE_BENCH_PAIRS` sets the number of rounds (25), `CACHEWISE_BENCH_SECONDS` the longer run of `stat`
//! (10); `CACHEWISE_TABLE=PATH` writes the tables there too. Without `--bench` all is short.

#[path = "../../probe/benches/support/goals.rs"]
mod goals;
#[path = "../../probe/benches/support/number.rs"]
mod number;
#[path = "../../probe/benches/support/quantile.rs"]
mod quantile;

use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use cachewise_sys::{cachestat, children_usage, fadvise_dont_need, page_size};
use number::number;
use quantile::quantile;

type Outcome<T> = Result<T, Box<dyn Error>>;

const CACHEWISE: &str = env!("CARGO_BIN_EXE_cachewise");

/// The most that `stat 1` may take of a core, in per cent.
const STAT_GOAL: f64 = 0.5;

/// A command line whose start is measured.
struct Start {
    /// The words that a user types.
    line: &'static str,
    is_cold: bool,
    /// The most wall and CPU time, in milliseconds.
    goals: (Option<f64>, Option<f64>),
}

impl Start {
    const fn new(line: &'static str) -> Start {
        Start {
            line,
            is_cold: false,
            goals: (None, None),
        }
    }

    fn sample(&self) -> Outcome<Sample> {
        if self.is_cold {
            let program = File::open(CACHEWISE)?;
            fadvise_dont_need(program.as_fd())?;
            // Pages that another process has mapped stay, and the start would be warm.
            let left = cachestat(program.as_fd(), None)?.cached.0;
            if left * page_size().get() > program.metadata()?.len() / 20 {
                return Err(format!("{left} pages of {CACHEWISE} stay: is it running?").into());
            }
        }
        let line = self.line.replace("cachewise ", "\"$0\" ");
        sample(&["sh", "-c", &line, CACHEWISE])
    }

    fn name(&self) -> String {
        let cold = if self.is_cold { ", cold" } else { "" };
        format!("`{}`{cold}", self.line)
    }
}

/// The first is what the others are compared with.
const STARTS: [Start; 6] = [
    Start::new("true"),
    Start {
        goals: (Some(45.0), Some(60.0)),
        ..Start::new("cachewise run -- true")
    },
    Start {
        is_cold: true,
        goals: (Some(45.0), Some(60.0)),
        ..Start::new("cachewise run -- true")
    },
    Start::new("cachewise stat 0.01 1"),
    Start {
        goals: (Some(300.0), None),
        ..Start::new("cachewise doctor --capabilities")
    },
    Start {
        goals: (Some(1300.0), None),
        ..Start::new("cachewise doctor -d 1")
    },
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

/// The table, and how many goals are missed.
fn start_up(rounds: usize) -> Outcome<(String, usize)> {
    let mut samples: [Vec<Sample>; STARTS.len()] = Default::default();
    for start in &STARTS {
        start.sample()?; // the first finds its files on the disk
    }
    for round in 0..rounds {
        for place in 0..STARTS.len() {
            let which = (place + round) % STARTS.len();
            samples[which].push(STARTS[which].sample()?);
        }
    }
    let mut table = format!(
        "{rounds} rounds, medians\n\n\
         | command | wall, ms | quartiles | more than `true`, ms | user, ms | system, ms | goals, ms |\n\
         |---|---|---|---|---|---|---|\n"
    );
    let mut missed = 0;
    for (start, samples_of) in STARTS.iter().zip(&samples) {
        let walls: Vec<f64> = samples_of.iter().map(|sample| sample.wall).collect();
        let wall = quantile(&walls, 0.5);
        let more = median(
            samples_of
                .iter()
                .zip(&samples[0])
                .map(|(this, bare)| this.wall - bare.wall),
        );
        let cpu = median(samples_of.iter().map(|sample| sample.user + sample.system));
        let (of_wall, of_cpu) = start.goals;
        let goals = [("wall", of_wall, wall), ("CPU", of_cpu, cpu)];
        let goals: Vec<String> = goals
            .into_iter()
            .filter_map(|(name, goal, is)| {
                let is_missed = is > goal?;
                missed += usize::from(is_missed);
                let verdict = if is_missed { "missed" } else { "met" };
                Some(format!("{name} {}: {verdict}", goal?))
            })
            .collect();
        writeln!(
            table,
            "| {} | **{wall:.1}** | {:.1}-{:.1} | {more:.1} | {:.1} | {:.1} | {} |",
            start.name(),
            quantile(&walls, 0.25),
            quantile(&walls, 0.75),
            median(samples_of.iter().map(|sample| sample.user)),
            median(samples_of.iter().map(|sample| sample.system)),
            goals.join(", "),
        )?;
    }
    Ok((table, missed))
}

/// A sentence on `stat 1`, and whether its goal is missed.
fn steady(seconds: usize, repetitions: usize) -> Outcome<(String, bool)> {
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
    let is_missed = share >= STAT_GOAL;
    let text = format!(
        "`cachewise stat 1`: **{share:.2} %** of a core ({:.2}-{:.2}), {:.2} ms of CPU time for each second; \
         goal {STAT_GOAL} % {}\n",
        quantile(&shares, 0.0),
        quantile(&shares, 1.0),
        quantile(&wakeups, 0.5),
        if is_missed { "missed" } else { "met" },
    );
    Ok((text, is_missed))
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}

/// Prints the tables; returns how many goals are missed.
fn bench() -> Outcome<usize> {
    let short = !std::env::args().any(|argument| argument == "--bench");
    if !rustix::process::geteuid().is_root() {
        println!("skipped: startup: without root there is no probe to start; run it as root");
        return Ok(0);
    }
    let before = load();
    let (mut text, mut missed) =
        start_up(number("CACHEWISE_BENCH_PAIRS", if short { 1 } else { 25 })?)?;
    print!("{text}");
    let (steady, is_missed) = steady(
        number("CACHEWISE_BENCH_SECONDS", if short { 2 } else { 10 })?,
        if short { 1 } else { 3 },
    )?;
    missed += usize::from(is_missed);
    let load = format!("load average {before} before, {} after", load());
    println!("\n{steady}\n{load}");
    write!(text, "\n{steady}\n{load}\n")?;
    if let Some(path) = std::env::var_os("CACHEWISE_TABLE") {
        std::fs::write(path, text)?;
    }
    Ok(missed)
}

fn main() -> ExitCode {
    goals::ended("startup", bench)
}

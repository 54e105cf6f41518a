//! Cost of `cachewise files` as a user measures it, beside the floor and beside other tools.
//!
//! `cargo bench -p cachewise --bench files [-- --check]`; only the census needs root. `--check` ends with 1 where a goal is missed.
//!
//! # Rows
//! - `--version`, and `files` of one file beside fincore and vmtouch.
//! - `files` of a tree with one thread, with two, with all rows as CSV, of a list on standard input and by xargs, beside the
//!   floor: open, cachestat and close of each path of a prepared list, on one thread of this process. vmtouch walks the
//!   same tree.
//! - Peak memory of a sorted CSV of 100,000 files.
//! - A census as CSV, as root, over these files and the others that are in memory.
//!
//! # Fairness
//! A round runs each command once, in changing order; a ratio compares two commands of one round. Times are CPU time, user
//! and system, of the process with its start; that of the floor has no start in it. The table has medians of all rounds,
//! with the least and the greatest.
//!
//! `CACHEWISE_BENCH_ROUNDS` sets the number of rounds (11), `CACHEWISE_BENCH_DIR` where the files go (`/var/tmp`). Without
//! `--bench` it is one small round that only shows that it works.

mod census;
#[path = "../../../probe/benches/support/goals.rs"]
mod goals;
#[path = "../../../probe/benches/support/number.rs"]
mod number;
#[path = "../../../probe/benches/support/quantile.rs"]
mod quantile;
mod tree;

use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use cachewise_sys::{cachestat_raw, children_usage};
use cachewise_units::{ByteRange, Pages};
use number::number;
use quantile::quantile;
use rustix::fs::{Mode, OFlags};
use rustix::time::{ClockId, clock_gettime};
use tree::Tree;

type Outcome<T> = Result<T, Box<dyn Error>>;

const CACHEWISE: &str = env!("CARGO_BIN_EXE_cachewise");

/// A command that is timed, and what it is held against.
struct Row {
    name: &'static str,
    run: Run,
    beside: Option<&'static str>,
    goal: Option<Goal>,
}

enum Run {
    /// The floor, in this process.
    Floor,
    /// A program and its arguments, with the list of paths on standard input or not.
    Program(Vec<OsString>, Input),
}

#[derive(Clone, Copy, PartialEq)]
enum Input {
    Nothing,
    Lines,
    Zeros,
}

#[derive(Clone, Copy)]
enum Goal {
    /// CPU time, of that of the command beside it.
    Share(f64),
    /// CPU time and wall time, of those of the command beside it.
    Shares(f64, f64),
    /// CPU time in milliseconds.
    Milliseconds(f64),
    /// The command beside it takes at least this many times the CPU time.
    Times(f64),
}

/// CPU time and wall time in milliseconds.
#[derive(Clone, Copy)]
struct Took {
    cpu: f64,
    wall: f64,
}

const FLOOR: &str = "floor";

fn main() -> ExitCode {
    goals::ended("files", bench)
}

fn bench() -> Outcome<usize> {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (rounds, directories, many) = match is_bench {
        true => (number("CACHEWISE_BENCH_ROUNDS", 11)?, 1182, 100_000),
        false => (1, 20, 1000),
    };
    let place = std::env::var_os("CACHEWISE_BENCH_DIR").unwrap_or_else(|| "/var/tmp".into());
    let scratch = tempfile::Builder::new()
        .prefix("cachewise-files-")
        .tempdir_in(place)?;
    let mut missed = 0;
    println!("{}", memory(scratch.path(), many, &mut missed)?);
    let tree = Tree::make(&scratch.path().join("tree"), directories)?;
    // Dirty pages cost a row system calls, and most files of a machine have none.
    rustix::fs::syncfs(File::open(scratch.path())?)?;
    println!("{}", census::census(rounds, &mut missed)?);
    println!("{} files; {rounds} rounds\n", tree.files.len());
    let rows = rows(&tree);
    let mut took: Vec<Vec<Took>> = rows.iter().map(|_| Vec::new()).collect();
    for round in 0..=rounds {
        tree.warm()?;
        for turn in 0..rows.len() {
            let which = (round + turn) % rows.len();
            let one = rows[which].run.time(&tree)?;
            // The first round brings the programs in.
            if round > 0 {
                took[which].push(one);
            }
        }
    }
    missed += print(&rows, &took);
    Ok(missed)
}

fn rows(tree: &Tree) -> Vec<Row> {
    let root = tree.root.as_os_str();
    let file = tree.files[0].as_os_str();
    let program = |words: &[&str], path: Option<&std::ffi::OsStr>, input| {
        let words = words.iter().map(OsString::from);
        Run::Program(words.chain(path.map(OsString::from)).collect(), input)
    };
    let ours = |words: &[&str], path, input| {
        let words: Vec<&str> = std::iter::once(CACHEWISE)
            .chain(words.iter().copied())
            .collect();
        program(&words, path, input)
    };
    let row = |name, run, beside, goal| Row {
        name,
        run,
        beside,
        goal: Some(goal),
    };
    let peer = |name, run| Row {
        name,
        run,
        beside: None,
        goal: None,
    };
    let none = Input::Nothing;
    let one = ["files", "--threads", "1"];
    let csv = ["files", "--threads", "1", "-o", "csv"];
    let by_xargs = ["xargs", "-0", CACHEWISE, "files", "-o", "csv"];
    let mut rows = vec![
        peer(FLOOR, Run::Floor),
        row(
            "--version",
            ours(&["--version"], None, none),
            None,
            Goal::Milliseconds(3.0),
        ),
        row(
            "files TREE, 1 thread",
            ours(&one, Some(root), none),
            Some(FLOOR),
            Goal::Share(1.15),
        ),
        row(
            "files TREE, 2 threads",
            ours(&["files", "--threads", "2"], Some(root), none),
            Some(FLOOR),
            Goal::Shares(1.20, 0.65),
        ),
        row(
            "files TREE -o csv",
            ours(&csv, Some(root), none),
            Some(FLOOR),
            Goal::Share(1.30),
        ),
        row(
            "xargs files -o csv",
            program(&by_xargs, None, Input::Zeros),
            Some(FLOOR),
            Goal::Share(2.0),
        ),
        row(
            "files --files-from - -o csv",
            ours(
                &["files", "--files-from", "-", "-o", "csv"],
                None,
                Input::Lines,
            ),
            Some(FLOOR),
            Goal::Share(1.2),
        ),
    ];
    if is_installed("fincore") {
        rows.push(peer(
            "fincore FILE",
            program(&["fincore"], Some(file), none),
        ));
        rows.push(row(
            "files FILE",
            ours(&["files"], Some(file), none),
            Some("fincore FILE"),
            Goal::Share(1.5),
        ));
    }
    if is_installed("vmtouch") {
        rows.push(peer(
            "vmtouch FILE",
            program(&["vmtouch"], Some(file), none),
        ));
        rows.push(row(
            "vmtouch TREE",
            program(&["vmtouch"], Some(root), none),
            Some("files TREE, 1 thread"),
            Goal::Times(3.0),
        ));
    }
    rows
}

fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    if !is_there {
        println!("without {name}: it is not installed");
    }
    is_there
}

impl Run {
    fn time(&self, tree: &Tree) -> Outcome<Took> {
        match self {
            Run::Floor => {
                let (cpu, wall) = (own_cpu(), Instant::now());
                floor(&tree.files)?;
                Ok(Took {
                    cpu: own_cpu() - cpu,
                    wall: milliseconds(wall),
                })
            }
            Run::Program(words, input) => {
                let list: &Path = match input {
                    Input::Nothing => Path::new("/dev/null"),
                    Input::Lines => &tree.lines,
                    Input::Zeros => &tree.zeros,
                };
                let (cpu, wall) = (cpu_of_children(), Instant::now());
                let status = Command::new(&words[0])
                    .args(&words[1..])
                    .stdin(File::open(list)?)
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status()?;
                if !status.success() {
                    return Err(format!("{words:?}: {status}").into());
                }
                Ok(Took {
                    cpu: cpu_of_children() - cpu,
                    wall: milliseconds(wall),
                })
            }
        }
    }
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

fn own_cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

fn cpu_of_children() -> f64 {
    let usage = children_usage();
    (usage.user + usage.system).as_secs_f64() * 1e3
}

/// The least that can be done for each file.
fn floor(files: &[PathBuf]) -> Outcome<Pages> {
    let flags =
        OFlags::RDONLY | OFlags::NOATIME | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut cached = Pages::ZERO;
    for path in files {
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        cached += cachestat_raw(file.as_fd(), Some(ByteRange::starting_at(0)))?.cached;
    }
    Ok(cached)
}

/// Prints the table; returns how many goals are missed.
fn print(rows: &[Row], took: &[Vec<Took>]) -> usize {
    println!(
        "| command | CPU ms [least-most] | wall ms [least-most] | beside | CPU, of that | wall, of that | goal |\n\
         |---|---|---|---|---|---|---|"
    );
    let spread = |values: Vec<f64>| {
        let at = |share| quantile(&values, share);
        format!("{:.2} [{:.2}-{:.2}]", at(0.5), at(0.0), at(1.0))
    };
    let mut missed = 0;
    for (row, own) in rows.iter().zip(took) {
        let beside = rows.iter().position(|other| Some(other.name) == row.beside);
        let ratio = |of: fn(&Took) -> f64| {
            let other = &took[beside?];
            let pairs = own
                .iter()
                .zip(other)
                .map(|(own, other)| of(own) / of(other));
            Some(quantile(&pairs.collect::<Vec<_>>(), 0.5))
        };
        let (cpu, wall) = (ratio(|took| took.cpu), ratio(|took| took.wall));
        let least_cpu = quantile(&own.iter().map(|took| took.cpu).collect::<Vec<_>>(), 0.5);
        let is_at_most = |found: Option<f64>, most: f64| found.is_some_and(|found| found <= most);
        let (words, is_met) = match row.goal {
            None => (String::new(), true),
            Some(Goal::Share(most)) => (format!("{most:.2}"), is_at_most(cpu, most)),
            Some(Goal::Shares(most, wall_most)) => (
                format!("{most:.2}; wall {wall_most:.2}"),
                is_at_most(cpu, most) && is_at_most(wall, wall_most),
            ),
            Some(Goal::Milliseconds(most)) => (format!("{most} ms"), least_cpu <= most),
            Some(Goal::Times(least)) => (
                format!("{least:.1} times"),
                cpu.is_some_and(|found| found >= least),
            ),
        };
        let verdict = match (row.goal, is_met) {
            (None, _) => "",
            (_, true) => " met",
            (_, false) => " MISSED",
        };
        missed += usize::from(!is_met);
        let shown = |ratio: Option<f64>| ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"));
        println!(
            "| {} | {} | {} | {} | {} | {} | {words}{verdict} |",
            row.name,
            spread(own.iter().map(|took| took.cpu).collect()),
            spread(own.iter().map(|took| took.wall).collect()),
            row.beside.unwrap_or_default(),
            shown(cpu),
            shown(wall),
        );
    }
    missed
}

/// The peak memory of a sorted CSV of this number of files, as `VmHWM` of the process has it before it ends.
fn memory(scratch: &Path, files: usize, missed: &mut usize) -> Outcome<String> {
    const MOST_MIB: f64 = 32.0;
    let root = tree::many(&scratch.join("many"), files)?;
    // GNU time prints the peak of the process that it ran.
    let output = Command::new("/usr/bin/time")
        .args([
            "-f", "%M", CACHEWISE, "files", "--sort", "path", "-o", "csv",
        ])
        .arg(root)
        .stdout(Stdio::null())
        .output();
    let Ok(output) = output else {
        return Ok("without peak memory: /usr/bin/time is not installed".to_owned());
    };
    let text = String::from_utf8(output.stderr)?;
    let peak: f64 = text.trim().lines().last().unwrap_or_default().parse()?;
    let mib = peak / 1024.0;
    let verdict = if mib <= MOST_MIB { "met" } else { "MISSED" };
    *missed += usize::from(mib > MOST_MIB);
    Ok(format!(
        "sorted CSV of {files} files, peak memory: {mib:.1} MiB (goal: at most {MOST_MIB}: {verdict})"
    ))
}

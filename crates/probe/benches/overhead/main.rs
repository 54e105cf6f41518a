//! Cost of the probe to the programs that it watches: ratios of pairs, on against off.
//!
//! `cargo bench -p cachewise-probe --bench overhead [-- [--check] NAME...]`; a name is a part of the name of a workload.
//! It needs root for BPF, without which there is nothing to measure. With `--check` it ends with 1 where a goal is missed by more
//! than the noise.
//!
//! # Variants
//! - `empty`: programs that do nothing on the same tracepoints. The minimum: no probe can cost less.
//! - `stat`: one sum over the whole machine, as `cachewise stat`.
//! - `run`: a row for each process and file of one tree, as `cachewise run`, with this process (for
//!   `compile`: its children) as the tree.
//! - `rows`: the same rows for the whole machine, by interval, as `cachewise top`, `record` and `serve`.
//!
//! # Fairness
//! - A block is a fixed number of operations, about 100 ms of them, the same ones in the same order each
//!   time (fixed seeds). A round has a block of each variant with a block without any before, between and
//!   after: off, A, off, B, off, C, off, D, off. A variant is compared with the mean of the two blocks next
//!   to it, which cancels drift (clock, other programs, temperature), and the ratio of each round compares a
//!   pair that was measured within a second. The variants change places from round to round. The
//!   table has the median and the quartiles of these ratios; no block is omitted.
//! - Attaching is not timed (the bench `startup` does that): after attaching, the bench waits for a moment
//!   until the kernel has patched its code, and then warms up, except if the first touch is
//!   measured: files read cold or once. Files are evicted before the probe is attached, as for a user.
//!   After detaching it waits again, as the kernel frees memory later.
//! - CPU time is that of the thread that does the work (of all children for `compile`), which other programs
//!   on this machine hardly affect; wall time is shown too. The thread that collects names of files
//!   for `run` and `rows` is not in the CPU time; it is in the wall time only if CPUs are short.
//! - `files` consists of system calls: no compiler runs between them, so it is the worst case of
//!   a build, and each file costs `run` a new row. `compile` is a real build, and `git-grep` a real search.
//! - `new-files-6k` has 20,000 files that the probe has not seen, `files-6k-again` 2,000 that it knows, and `open-files-again`
//!   10,000 of which a page is read in turn.
//! - The first round checks the counts of the probe: a probe that does not count costs nothing.
//! - In three more blocks of each variant the kernel takes the time of the programs: `in the kernel`.
//!
//! `CACHEWISE_BENCH_PAIRS` sets the number of rounds (15); `CACHEWISE_TABLE=PATH` writes the table there too.
//! Without `--bench`, as under `cargo test --benches`, it is one short round that only shows that it works.
//!
//! # Layout
//! - `variant`: what is attached; `work`: the loads.
//! - `measurement`: blocks and pairs; `clocked`: time of the programs by the kernel's account.
//! - `machine`: CPU time, the work's and others'; `table`: the ratios.

mod clocked;
#[path = "../support/goals.rs"]
mod goals;
mod machine;
mod measurement;
#[path = "../support/number.rs"]
mod number;
#[path = "../support/quantile.rs"]
mod quantile;
mod table;
mod variant;
mod work;

use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use cachewise_probe::ErrorKind;
use cachewise_probe::bare::Bare;

use measurement::measure;
use number::number;
use table::{HEAD, disturbance, rows};
use work::{Access, CachedFile, Compile, LargeFile, ManyFiles, Pattern, SmallFiles, Use, Work};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// How long a block works, about.
const BLOCK: Duration = Duration::from_millis(100);
/// Between a change of what is attached and the next block.
const PAUSE: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    goals::ended("overhead", bench)
}

/// Prints the table; returns how many goals are missed.
fn bench() -> Outcome<usize> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let short = !arguments.iter().any(|argument| argument == "--bench");
    let filters: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let rounds = number("CACHEWISE_BENCH_PAIRS", if short { 1 } else { 15 })?;
    let length = if short { BLOCK / 10 } else { BLOCK };
    match Bare::attach() {
        Ok(bare) => drop(bare),
        Err(error) if error.kind() == ErrorKind::Denied => {
            println!("skipped: overhead: {error}; run it as root");
            return Ok(0);
        }
        Err(error) => return Err(error.into()),
    }
    let directory = directory()?;
    let mut works = works(directory.path());
    works.retain(|work| {
        filters.is_empty() || filters.iter().any(|name| work.name().contains(*name))
    });
    if works.is_empty() {
        return Err(format!("no workload is named like {filters:?}").into());
    }

    let mut table = format!("{rounds} rounds of pairs; median of the ratios on/off\n\n{HEAD}");
    let (mut disturbances, mut missed) = (String::new(), 0);
    print!("{table}");
    for mut work in works {
        let measured = measure(work.as_mut(), rounds, length)
            .map_err(|error| format!("{}: {error}", work.name()))?;
        let (rows, of_work) = rows(work.as_ref(), &measured);
        missed += of_work;
        print!("{rows}");
        std::io::stdout().flush()?;
        table.push_str(&rows);
        disturbances.push_str(&disturbance(work.name(), &measured));
    }
    println!("\n{disturbances}");
    if let Some(path) = std::env::var_os("CACHEWISE_TABLE") {
        fs::write(path, format!("{table}\n{disturbances}"))?;
    }
    Ok(missed)
}

/// All kinds of work that this machine can do.
fn works(place: &Path) -> Vec<Box<dyn Work>> {
    let mut works: Vec<Box<dyn Work>> = Vec::new();
    for pattern in [
        Pattern::WarmRandom,
        Pattern::WarmLarge,
        Pattern::WarmSequential,
        Pattern::ColdSequential,
        Pattern::ColdRandom,
    ] {
        works.push(Box::new(LargeFile::new(pattern, place)));
    }
    for access in [Access::Write, Access::Touch] {
        works.push(Box::new(CachedFile::new(access, place)));
    }
    works.push(Box::new(ManyFiles::new(place)));
    for used in [Use::New, Use::Again] {
        works.push(Box::new(SmallFiles::new(used, place)));
    }
    if SmallFiles::may_be_open() {
        works.push(Box::new(SmallFiles::new(Use::Open, place)));
    } else {
        println!("skipped: open-files-again: the limit of open files is too low");
    }
    if has("git") {
        works.push(Box::new(SmallFiles::new(Use::Grep, place)));
    } else {
        println!("skipped: git-grep: there is no git");
    }
    if has("gcc") {
        works.push(Box::new(Compile::new(place)));
    } else {
        println!("skipped: compile: there is no gcc");
    }
    works
}

/// A directory that goes with its owner, also when that panics.
fn directory() -> Outcome<tempfile::TempDir> {
    const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6]; // tmpfs, ramfs
    let candidates = [env!("CARGO_TARGET_TMPDIR"), "/var/tmp"];
    for candidate in candidates {
        let Ok(found) = rustix::fs::statfs(candidate) else {
            continue;
        };
        if !IN_MEMORY.contains(&(found.f_type as u64)) {
            let directory = tempfile::Builder::new()
                .prefix("overhead-")
                .tempdir_in(candidate)?;
            return Ok(directory);
        }
    }
    Err(format!("there is no disk under any of {candidates:?}").into())
}

fn has(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    found.is_ok_and(|status| status.success())
}

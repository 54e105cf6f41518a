//! Cost of a census: per inode in memory, per inode with pages, and the longest run in the kernel.
//!
//! `cargo bench -p cachewise-probe --bench census [-- --check]`, as root; with `--check` it ends with 1 where a goal is missed.
//!
//! It makes two tmpfs in a mount namespace of its own: one of empty files, whose inodes are only visited, and one of files of
//! one page, which are reported with their names. It takes a census of the machine with neither, with the first, and with
//! both; the differences are the cost of an inode and of a record, independent of the rest of the machine. 400,000 empty
//! files need about 400 MB of memory.
//!
//! - Times in the kernel are from the beginning of each run to its end, on the monotonic clock, so they contain
//!   interrupts and time that a hypervisor took: medians of the rounds, with quartiles in brackets. CPU time is that of
//!   the thread, in the kernel and in user space, where each record is parsed and dropped.
//! - The longest run is that of all rounds. The program ends a run by the clock; a longer run was interrupted.
//!
//! `CACHEWISE_BENCH_PAIRS` sets the number of rounds (15); `CACHEWISE_TABLE=PATH` writes the tables there too.
//! Without `--bench`, as under `cargo test --benches`, it is short.

#[path = "support/goals.rs"]
mod goals;
#[path = "support/number.rs"]
mod number;
#[path = "support/quantile.rs"]
mod quantile;

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use cachewise_probe::ErrorKind;
use cachewise_probe::census::{Census, Options, Summary};
use number::number;
use quantile::quantile;
use rustix::thread::UnshareFlags;
use rustix::time::{ClockId, clock_gettime};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The most that an inode in memory may take.
const INODE_GOAL: f64 = 250.0;
/// The most that a run in the kernel may take.
const RUN_GOAL: Duration = Duration::from_millis(5);
/// The most that a census of 400,000 inodes may take.
const CENSUS_GOAL: Duration = Duration::from_millis(100);

const FILES_PER_DIRECTORY: u32 = 5000;

fn spread(values: impl Iterator<Item = f64>) -> String {
    let values: Vec<f64> = values.collect();
    let at = |share| quantile(&values, share);
    format!("{:.1} [{:.1}-{:.1}]", at(0.5), at(0.25), at(0.75))
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Mounts a tmpfs and fills it with files of this content.
fn fill(place: &Path, files: u32, content: &[u8]) -> Outcome<()> {
    fs::create_dir(place)?;
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "nr_inodes=0", "bench"])
        .arg(place)
        .status()?;
    if !mounted.success() {
        return Err(format!("mount {}: {mounted}", place.display()).into());
    }
    for number in 0..files {
        let directory = place.join((number / FILES_PER_DIRECTORY).to_string());
        if number % FILES_PER_DIRECTORY == 0 {
            fs::create_dir(&directory)?;
        }
        File::create_new(directory.join(format!("file-{number}")))?.write_all(content)?;
    }
    Ok(())
}

/// A census, and what it took of a CPU, in the kernel and here.
#[derive(Clone)]
struct Taken {
    summary: Summary,
    cpu: Duration,
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Results of `rounds` censuses, after a first one that does not count.
fn measure(census: &mut Census, options: &Options, rounds: usize) -> Outcome<Vec<Taken>> {
    let mut taken = Vec::new();
    for _ in 0..=rounds {
        let start = cpu_time();
        let summary = census.stream(options, |inode| {
            std::hint::black_box(inode);
        })?;
        if summary.is_partial() {
            return Err(format!("the census is not whole: {summary:?}").into());
        }
        let cpu = cpu_time() - start;
        taken.push(Taken { summary, cpu });
    }
    taken.remove(0);
    Ok(taken)
}

const HEAD: &str = "\
| the machine | inodes | with pages | ns an inode, in the kernel | ns an inode, CPU in all | census, CPU ms | census, ms | longest run, ms |
|---|---|---|---|---|---|---|---|
";

fn row(name: &str, taken: &[Taken]) -> String {
    let times = |of: fn(&Taken) -> Duration| spread(taken.iter().map(|one| milliseconds(of(one))));
    let per_inode = |of: fn(&Taken) -> Duration| {
        let nanoseconds = |one: &Taken| of(one).as_secs_f64() * 1e9 / one.summary.visited as f64;
        spread(taken.iter().map(nanoseconds))
    };
    format!(
        "| {name} | {} | {} | {} | {} | {} | {} | {:.2} |\n",
        taken[0].summary.visited,
        taken[0].summary.found,
        per_inode(|one| one.summary.kernel_time),
        per_inode(|one| one.cpu),
        times(|one| one.cpu),
        times(|one| one.summary.elapsed),
        milliseconds(longest(taken)),
    )
}

fn longest(taken: &[Taken]) -> Duration {
    let runs = taken.iter().map(|one| one.summary.longest_run);
    runs.max().unwrap_or_default()
}

fn median(taken: &[Taken], of: impl Fn(&Taken) -> f64) -> f64 {
    let values: Vec<f64> = taken.iter().map(of).collect();
    quantile(&values, 0.5)
}

/// Additional time in the kernel per file, in nanoseconds.
fn difference(fewer: &[Taken], more: &[Taken], files: u32) -> f64 {
    let time = |one: &Taken| one.summary.kernel_time.as_secs_f64() * 1e9;
    (median(more, time) - median(fewer, time)) / f64::from(files)
}

/// Judges goals, unless rounds are short: one on a busy machine says nothing.
struct Judge {
    short: bool,
    missed: usize,
}

impl Judge {
    fn verdict(&mut self, is_met: bool) -> &'static str {
        if self.short {
            return "too short to say";
        }
        self.missed += usize::from(!is_met);
        if is_met { "met" } else { "missed" }
    }
}

/// Prints the tables; returns how many goals are missed.
fn bench() -> Outcome<usize> {
    let short = !std::env::args().any(|argument| argument == "--bench");
    let (empty, small) = if short {
        (10_000, 2_000)
    } else {
        (400_000, 50_000)
    };
    let rounds = number("CACHEWISE_BENCH_PAIRS", if short { 1 } else { 15 })?;
    let mut loads = Vec::new();
    let mut census = None;
    for _ in 0..rounds {
        drop(census.take());
        let start = Instant::now();
        match Census::open() {
            Ok(loaded) => census = Some(loaded),
            Err(error) if error.kind() == ErrorKind::Denied => {
                println!("skipped: census: {error}; run it as root");
                return Ok(0);
            }
            Err(error) => return Err(error.into()),
        }
        loads.push(milliseconds(start.elapsed()));
    }
    let mut census = census.ok_or("there is at least one round")?;
    // SAFETY: there is no other thread whose working directory or root could be meant.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
    let private = Command::new("mount")
        .args(["--make-rprivate", "/"])
        .status()?;
    if !private.success() {
        return Err(format!("mount --make-rprivate /: {private}").into());
    }
    let directory = tempfile::tempdir()?;
    // Mounted in this namespace only: they go with this process, if not before.
    let (first, second) = (
        directory.path().join("empty"),
        directory.path().join("small"),
    );

    let options = Options::default();
    let alone = measure(&mut census, &options, rounds)?;
    fill(&first, empty, b"")?;
    let with_empty = measure(&mut census, &options, rounds)?;
    fill(&second, small, b"content")?;
    let with_both = measure(&mut census, &options, rounds)?;
    for place in [&second, &first] {
        Command::new("umount").arg("-l").arg(place).status()?;
    }

    let inode = difference(&alone, &with_empty, empty);
    let record = difference(&with_empty, &with_both, small);
    // Of a mixture: the machine's own files and the empty ones.
    let of_400_000 = median(&with_empty, |one| {
        milliseconds(one.cpu) * 400_000.0 / one.summary.visited as f64
    });
    let run = [&alone, &with_empty, &with_both].map(|taken| longest(taken));
    let run = run.into_iter().max().unwrap_or_default();
    let mut judge = Judge { short, missed: 0 };
    let mut text = format!("{rounds} rounds; medians [quartiles]\n\n{HEAD}");
    text += &row("as it is", &alone);
    text += &row(&format!("and {empty} empty files"), &with_empty);
    text += &row(&format!("and {small} files of a page"), &with_both);
    writeln!(text, "\nloading: {} ms", spread(loads.into_iter()))?;
    writeln!(
        text,
        "an inode more, without pages: {inode:.0} ns in the kernel; goal {INODE_GOAL}: {}",
        judge.verdict(inode <= INODE_GOAL)
    )?;
    writeln!(
        text,
        "one more with a page, its record and its name: {record:.0} ns in the kernel"
    )?;
    writeln!(
        text,
        "the longest run of all: {:.2} ms; goal {}: {}",
        milliseconds(run),
        RUN_GOAL.as_millis(),
        judge.verdict(run <= RUN_GOAL)
    )?;
    writeln!(
        text,
        "CPU time for 400,000 inodes of the second line: {of_400_000:.1} ms; goal {}: {}",
        CENSUS_GOAL.as_millis(),
        judge.verdict(of_400_000 <= milliseconds(CENSUS_GOAL))
    )?;
    print!("{text}");
    if let Some(path) = std::env::var_os("CACHEWISE_TABLE") {
        fs::write(path, text)?;
    }
    Ok(judge.missed)
}

fn main() -> ExitCode {
    goals::ended("census", bench)
}

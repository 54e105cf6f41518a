//! Bytes that are read again when files that exceed the cache are read repeatedly, by the order of reading.
//!
//! `cargo bench -p cachewise-residency --bench order [-- --check] [NAME...]`; a name is a part of the name of a strategy;
//! `--check` ends with 1 where a goal is missed. As root:
//! this process enters a memory control group, which is removed at the end, also after Ctrl-C.
//!
//! # Method
//! Files of random bytes, on a disk, are read as a whole repeatedly, with memory for all of the data, for 3/4 of it and
//! for 1/2. Before each case the files are evicted, and that is verified: a page that another group has inserted would
//! be charged to that group and escape the limit. The first two cycles, which fill the cache, do not count.
//!
//! # Results
//! Bytes really read: `read_bytes` of `/proc/self/io`, which this process requested of block devices. Median, minimum
//! and maximum of the cycles. No order reads less than the bound: the data minus the memory of the group that is left
//! for the page cache (its limit minus other charges, measured during the case).
//!
//! # Settings
//! `CACHEWISE_BENCH_FILES` (8), `CACHEWISE_BENCH_MIB` (128, each), `CACHEWISE_BENCH_CYCLES` (10),
//! `CACHEWISE_BENCH_ROUNDS` (1: how often each case, in changing order), `CACHEWISE_TEST_DIR` (where the files go),
//! `CACHEWISE_TABLE=PATH` and `CACHEWISE_PLOT=PATH` (the table, the SVG plot). Without `--bench`, as under
//! `cargo test --benches`, it is one small case of each strategy that only shows that it works.

mod cgroup;
#[path = "../../../probe/benches/support/goals.rs"]
mod goals;
mod plot;
mod strategy;

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{IsTerminal, Read, Write as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cachewise_sys::{fadvise_dont_need, page_size, sync_data};
use cachewise_units::{Bytes, Ratio};

use cgroup::Cgroup;
use strategy::{ALL, Reader, Strategy, cached};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Cycles that fill the cache.
const WARM_UP: u64 = 2;

/// Which part of the data fits into memory.
const SHARES: [(u64, u64); 3] = [(1, 1), (3, 4), (1, 2)];

/// Maximum of the medians of `free` and `fixed` with drop-behind above the bound at 3/4 of the data, in per cent.
const GOAL: f64 = 5.0;
/// Minimum number of cycles.
const LEAST_CYCLES: u64 = 8;

struct Settings {
    files: u64,
    file_size: u64,
    cycles: u64,
    rounds: u64,
}

/// One strategy with one limit.
struct Case {
    strategy: Strategy,
    limit: Bytes,
    cycles: Vec<Cycle>,
}

#[derive(Clone, Copy)]
struct Cycle {
    read: Bytes,
    time: Duration,
    /// Memory of the group for pages.
    memory: Bytes,
}

fn main() -> ExitCode {
    goals::ended("order", run)
}

/// Measures, prints, and returns how many goals are missed.
fn run() -> Outcome<usize> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_bench = arguments.iter().any(|argument| argument == "--bench");
    let names: Vec<_> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let settings = if is_bench {
        Settings {
            files: setting("CACHEWISE_BENCH_FILES", 8)?,
            file_size: setting("CACHEWISE_BENCH_MIB", 128)? << 20,
            cycles: setting("CACHEWISE_BENCH_CYCLES", 10)?,
            rounds: setting("CACHEWISE_BENCH_ROUNDS", 1)?,
        }
    } else {
        Settings {
            files: 2,
            file_size: 8 << 20,
            cycles: 1,
            rounds: 1,
        }
    };
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in signal_hook::consts::TERM_SIGNALS {
        signal_hook::flag::register(*signal, Arc::clone(&interrupted))?;
    }
    let dir = tempfile::Builder::new()
        .prefix("cachewise-order-")
        .tempdir_in(
            std::env::var_os("CACHEWISE_TEST_DIR")
                .map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from),
        )?;
    let group = match Cgroup::enter() {
        Ok(group) => group,
        Err(error) if is_bench => return Err(error),
        Err(error) => {
            println!("skipped: reading order: {error}");
            return Ok(0);
        }
    };
    let files = make_files(dir.path(), &settings)?;
    let chosen = |strategy: &Strategy| {
        names.is_empty() || names.iter().any(|name| strategy.name().contains(*name))
    };
    let is_watched = std::io::stderr().is_terminal();
    let mut cases: Vec<Case> = Vec::new();
    for (part, of) in SHARES {
        let limit = Bytes(settings.files * settings.file_size / of * part);
        for strategy in ALL.into_iter().filter(chosen) {
            cases.push(Case {
                strategy,
                limit,
                cycles: Vec::new(),
            });
        }
    }
    for round in 0..settings.rounds as usize {
        let count = cases.len();
        for index in 0..count {
            // Each strategy comes after each of the others in some round.
            let case = &mut cases[(index * (2 * round + 1) + round) % count];
            if is_watched {
                eprint!("\r\x1b[K{}, {}", case.strategy.name(), case.limit);
            }
            measure(case, &group, &files, &settings, &interrupted)?;
        }
    }
    if is_watched {
        eprint!("\r\x1b[K");
    }
    let table = table(&cases, &settings);
    print!("{table}");
    if let Some(path) = std::env::var_os("CACHEWISE_TABLE") {
        fs::write(path, &table)?;
    }
    if let Some(path) = std::env::var_os("CACHEWISE_PLOT") {
        let data = Bytes(settings.files * settings.file_size);
        plot::draw(Path::new(&path), &cases, data)?;
    }
    Ok(table.matches("goal MISSED").count())
}

fn setting(name: &str, default: u64) -> Outcome<u64> {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .map_err(|error| format!("{name}={text}: {error}").into()),
        Err(_) => Ok(default),
    }
}

fn make_files(dir: &Path, settings: &Settings) -> Outcome<Vec<PathBuf>> {
    let mut random = File::open("/dev/urandom")?;
    let mut block = vec![0; 1 << 20];
    (0..settings.files)
        .map(|index| {
            let path = dir.join(format!("f{index}"));
            let mut file = File::create(&path)?;
            for _ in 0..settings.file_size / block.len() as u64 {
                random.read_exact(&mut block)?;
                file.write_all(&block)?;
            }
            sync_data(file.as_fd())?;
            Ok(path)
        })
        .collect()
}

/// Evicts the files until the kernel says that nothing is left.
fn evict(files: &[PathBuf]) -> Outcome<()> {
    const ATTEMPTS: usize = 100;
    for path in files {
        let file = File::open(path)?;
        let mut left = 0;
        for _ in 0..ATTEMPTS {
            fadvise_dont_need(file.as_fd())?;
            left = cached(path, None)?;
            if left == 0 {
                break;
            }
        }
        if left > 0 {
            return Err(format!("{left} pages of {} cannot be evicted", path.display()).into());
        }
    }
    Ok(())
}

fn measure(
    case: &mut Case,
    group: &Cgroup,
    files: &[PathBuf],
    settings: &Settings,
    interrupted: &AtomicBool,
) -> Outcome<()> {
    evict(files)?;
    group.set_limit(case.limit)?;
    let (usage_file, limit) = (group.usage_file(), case.limit);
    let headroom = move || Some(limit.saturating_sub(cgroup::number(&usage_file).ok()?));
    let mut reader = Reader::new(case.strategy, files, headroom);
    for number in 0..WARM_UP + settings.cycles {
        if interrupted.load(Ordering::Relaxed) {
            return Err("interrupted".into());
        }
        let before = device_read()?;
        let start = Instant::now();
        let read = reader.cycle(number)?;
        let time = start.elapsed();
        if read.0 != settings.files * settings.file_size {
            return Err(format!("{} read {read} of the files", case.strategy.name()).into());
        }
        let other = group.usage()?.saturating_sub(group.cache()?);
        if number >= WARM_UP {
            case.cycles.push(Cycle {
                read: device_read()?.saturating_sub(before),
                time,
                memory: case.limit.saturating_sub(other),
            });
        }
    }
    Ok(())
}

/// Bytes that this process has read from block devices.
fn device_read() -> Outcome<Bytes> {
    let text = fs::read_to_string("/proc/self/io")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "));
    Ok(Bytes(
        line.ok_or("/proc/self/io has no read_bytes")?.parse()?,
    ))
}

impl Case {
    fn sorted<T: Ord>(&self, value: impl Fn(&Cycle) -> T) -> Vec<T> {
        let mut values: Vec<T> = self.cycles.iter().map(value).collect();
        values.sort_unstable();
        values
    }

    fn read(&self) -> [Bytes; 3] {
        let read = self.sorted(|cycle| cycle.read);
        [read[read.len() / 2], read[0], read[read.len() - 1]]
    }

    fn bound(&self, data: Bytes) -> Bytes {
        let memory = self.sorted(|cycle| cycle.memory);
        data.saturating_sub(memory[memory.len() / 2])
    }
}

fn table(cases: &[Case], settings: &Settings) -> String {
    let data = Bytes(settings.files * settings.file_size);
    let mut text = format!(
        "{} files of {}, {} cycles each, {} rounds, pages of {}\n",
        settings.files,
        Bytes(settings.file_size),
        settings.cycles,
        settings.rounds,
        page_size(),
    );
    let mib = |bytes: Bytes| format!("{:.1}", bytes.0 as f64 / f64::from(1 << 20));
    let mut limit = None;
    for case in cases {
        if limit != Some(case.limit) {
            limit = Some(case.limit);
            let _ = write!(
                text,
                "\nmemory {}\n\n| strategy | MiB read a cycle | least | most | bound | over the bound | hits | seconds |\n\
                 |---|--:|--:|--:|--:|--:|--:|--:|\n",
                case.limit
            );
        }
        let [median, least, most] = case.read();
        let bound = case.bound(data);
        let percent = (median.0 as f64 / bound.0.max(1) as f64 - 1.0) * 100.0;
        let over = match bound.0 * 20 > data.0 {
            true => format!("{percent:+.1} %"),
            // A ratio to almost zero means nothing.
            false => "-".into(),
        };
        let has_goal = case.strategy.has_goal()
            && case.limit.0 * 4 == data.0 * 3
            && settings.cycles >= LEAST_CYCLES;
        let verdict = match has_goal {
            true if percent <= GOAL => " (goal met)",
            true => " (goal MISSED)",
            false => "",
        };
        let hits = Ratio::of(data.saturating_sub(median).0, data.0);
        let times = case.sorted(|cycle| cycle.time);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {over}{verdict} | {} | {:.3} |",
            case.strategy.name(),
            mib(median),
            mib(least),
            mib(most),
            mib(bound),
            hits.map_or_else(|| "-".into(), |hits| hits.to_string()),
            times[times.len() / 2].as_secs_f64(),
        );
    }
    text
}

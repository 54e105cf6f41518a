//! Bytes that `cachewise order` and `cat --keep` read per cycle of files that exceed the memory of a control group.
//!
//! `cargo bench -p cachewise --bench order [-- --check]`; as root. `--check` ends with 1 where a goal is missed.
//!
//! # Rows
//! - `cat FILES` in the order given: nothing is hit.
//! - `order -0 FILES | xargs -0 cat`.
//! - `order --unit range FILES`, read in that order by this process: with the kernel's readahead, and advised to be random
//!   (`posix_fadvise`), which inserts nothing beyond a range.
//! - `cat --keep=keep FILES`.
//!
//! # Method
//! Eight files of 128 MiB in a group with 3/4 of that. Before each row the files are evicted. Two cycles fill the cache;
//! each further cycle is one sample: the bytes that the programs and this process requested of block devices
//! (`ru_inblock`). The bound is the data minus the memory of the group that is left for pages of files. `--simulate` with
//! the limit of the group is held against the medians.
//!
//! `CACHEWISE_BENCH_CYCLES` sets the number of cycles (10), `CACHEWISE_BENCH_MIB` the size of a file (128),
//! `CACHEWISE_TEST_DIR` where the files go (`/var/tmp`). Without `--bench` it is one small cycle that only shows that it
//! works.

#[path = "../../residency/benches/order/cgroup.rs"]
mod cgroup;
#[path = "../../probe/benches/support/goals.rs"]
mod goals;
#[path = "../../probe/benches/support/number.rs"]
mod number;

use std::error::Error;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use cachewise_sys::{children_usage, fadvise_dont_need, fadvise_random, process_usage, sync_data};
use cachewise_units::Bytes;
use cgroup::Cgroup;
use number::number;

type Outcome<T> = Result<T, Box<dyn Error>>;

const CACHEWISE: &str = env!("CARGO_BIN_EXE_cachewise");
const FILES: u64 = 8;
/// Cycles that fill the cache.
const WARM_UP: usize = 2;
/// Maximum of one cycle, as a share of the bound.
const MOST_OF_A_CYCLE: f64 = 300.0 / 257.0;
/// Maximum difference of a simulated cycle and the median, as a share.
const SIMULATED: f64 = 0.05;

#[derive(Clone, Copy)]
enum Row {
    AsGiven,
    Files,
    Ranges,
    RandomRanges,
    Keep,
}

const ROWS: [Row; 5] = [
    Row::AsGiven,
    Row::Files,
    Row::Ranges,
    Row::RandomRanges,
    Row::Keep,
];

impl Row {
    fn name(self) -> &'static str {
        match self {
            Row::AsGiven => "cat, order given",
            Row::Files => "order, xargs cat",
            Row::Ranges => "order --unit range, readahead",
            Row::RandomRanges => "order --unit range, random advice",
            Row::Keep => "cat --keep",
        }
    }

    /// Maximum of the median, as a share of the bound: 290 and 267 MiB of 257.
    fn goal(self) -> Option<f64> {
        match self {
            Row::AsGiven | Row::Ranges => None,
            Row::Files => Some(290.0 / 257.0),
            Row::RandomRanges | Row::Keep => Some(267.0 / 257.0),
        }
    }

    /// The row of `order --simulate` for the same reading.
    fn simulated(self) -> &'static str {
        match self {
            Row::AsGiven => "as given",
            Row::Files => "files, most cached first",
            Row::Ranges | Row::RandomRanges => "free",
            Row::Keep => "as given, misses dropped",
        }
    }

    /// Reads each byte of the files once.
    fn read(self, files: &[PathBuf]) -> Outcome<()> {
        match self {
            Row::AsGiven => done(Command::new("cat").args(files)),
            Row::Keep => done(
                Command::new(CACHEWISE)
                    .args(["cat", "--keep=keep"])
                    .args(files),
            ),
            Row::Files => {
                let list = ordered(&["-0"], files)?;
                let mut cat = Command::new("xargs")
                    .args(["-0", "cat"])
                    .stdin(Stdio::piped())
                    .stdout(Stdio::null())
                    .spawn()?;
                cat.stdin.take().ok_or("no pipe")?.write_all(&list)?;
                let status = cat.wait()?;
                status.success().then_some(()).ok_or("xargs failed".into())
            }
            Row::Ranges | Row::RandomRanges => {
                let list = ordered(&["--unit", "range"], files)?;
                read_ranges(&list, matches!(self, Row::RandomRanges))
            }
        }
    }
}

/// The output of `cachewise order`.
fn ordered(options: &[&str], files: &[PathBuf]) -> Outcome<Vec<u8>> {
    let output = Command::new(CACHEWISE)
        .arg("order")
        .args(options)
        .args(files)
        .stderr(Stdio::inherit())
        .output()?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("order {options:?}: {}", output.status).into()),
    }
}

fn done(command: &mut Command) -> Outcome<()> {
    let status = command.stdout(Stdio::null()).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {status}").into()),
    }
}

/// Reads lines of path, offset and length, 128 KiB at a time.
fn read_ranges(list: &[u8], is_random: bool) -> Outcome<()> {
    let mut buffer = vec![0; 128 << 10];
    let mut open: Option<(&[u8], File)> = None;
    for line in list.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b'\t');
        let (Some(path), Some(start), Some(len)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let number = |text: &[u8]| -> Outcome<u64> { Ok(std::str::from_utf8(text)?.parse()?) };
        let (mut offset, end) = (number(start)?, number(start)? + number(len)?);
        if open.as_ref().is_none_or(|(opened, _)| *opened != path) {
            let file = File::open(OsStr::from_bytes(path))?;
            if is_random {
                fadvise_random(file.as_fd())?;
            }
            open = Some((path, file));
        }
        let Some((_, file)) = &open else { continue };
        while offset < end {
            let want = buffer.len().min((end - offset) as usize);
            match file.read_at(&mut buffer[..want], offset)? {
                0 => break,
                len => offset += len as u64,
            }
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    goals::ended("order", bench)
}

/// Measures, prints, and returns how many goals are missed.
fn bench() -> Outcome<usize> {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (size, cycles) = match is_bench {
        true => (
            (number("CACHEWISE_BENCH_MIB", 128)? as u64) << 20,
            number("CACHEWISE_BENCH_CYCLES", 10)?,
        ),
        false => (4 << 20, 1),
    };
    let place = std::env::var_os("CACHEWISE_TEST_DIR").unwrap_or_else(|| "/var/tmp".into());
    let scratch = tempfile::Builder::new()
        .prefix("cachewise-order-")
        .tempdir_in(place)?;
    let group = match Cgroup::enter() {
        Ok(group) => group,
        Err(error) if is_bench => return Err(error),
        Err(error) => {
            println!("skipped: reading order: {error}");
            return Ok(0);
        }
    };
    let files = make(scratch.path(), size)?;
    let limit = Bytes(FILES * size / 4 * 3);
    println!(
        "{FILES} files of {} in a group of {limit}, {cycles} cycles each\n\n\
         | reading | MiB a cycle [least-most] | bound | simulated | goals |\n|---|---|---|---|---|",
        Bytes(size)
    );
    let mut missed = 0;
    for row in ROWS {
        evict(&files)?;
        group.set_limit(limit)?;
        let mut read = Vec::new();
        for number in 0..WARM_UP + cycles {
            let before = device_read();
            row.read(&files)?;
            if number >= WARM_UP {
                read.push(device_read().saturating_sub(before));
            }
        }
        read.sort_unstable();
        let other = group.usage()?.saturating_sub(group.cache()?);
        let bound = Bytes(FILES * size).saturating_sub(limit.saturating_sub(other));
        missed += print(row, &read, bound, simulated(row, limit, &files)?);
    }
    Ok(missed)
}

/// Prints a row; returns how many of its goals are missed.
fn print(row: Row, read: &[Bytes], bound: Bytes, simulated: Bytes) -> usize {
    let (median, least, most) = (read[read.len() / 2], read[0], read[read.len() - 1]);
    let share = |bytes: Bytes| bytes.0 as f64 / bound.0.max(1) as f64;
    let mut goals = Vec::new();
    let mut missed = 0;
    let mut goal = |words: String, is_met: bool| {
        missed += usize::from(!is_met);
        goals.push(format!("{words} {}", if is_met { "met" } else { "MISSED" }));
    };
    if let Some(at_most) = row.goal() {
        goal(
            format!("{:.3} of the bound: {:.3}", at_most, share(median)),
            share(median) <= at_most,
        );
        goal(
            format!("no cycle above {MOST_OF_A_CYCLE:.3}"),
            share(most) <= MOST_OF_A_CYCLE,
        );
        let difference = (simulated.0 as f64 / median.0.max(1) as f64 - 1.0).abs();
        goal(
            format!("simulated within {:.0} %", SIMULATED * 100.0),
            difference <= SIMULATED,
        );
    }
    let mib = |bytes: Bytes| bytes.0 as f64 / f64::from(1 << 20);
    println!(
        "| {} | {:.1} [{:.1}-{:.1}] | {:.1} | {:.1} | {} |",
        row.name(),
        mib(median),
        mib(least),
        mib(most),
        mib(bound),
        mib(simulated),
        goals.join("; "),
    );
    missed
}

/// Bytes that this process and its children requested of block devices.
fn device_read() -> Bytes {
    process_usage().device_read + children_usage().device_read
}

/// The bytes per cycle that `order --simulate` shows for the same reading.
fn simulated(row: Row, limit: Bytes, files: &[PathBuf]) -> Outcome<Bytes> {
    let limit = limit.0.to_string();
    let text = String::from_utf8(ordered(&["--simulate", &limit, "-o", "csv"], files)?)?;
    let found = text.lines().find_map(|line| {
        let (bytes, note) = line.split_once(',')?;
        let note = note.trim_matches('"');
        note.starts_with(row.simulated())
            .then(|| bytes.parse().ok())?
    });
    Ok(Bytes(found.ok_or_else(|| format!("no row in {text}"))?))
}

fn make(directory: &Path, size: u64) -> Outcome<Vec<PathBuf>> {
    let mut random = File::open("/dev/urandom")?;
    let mut block = vec![0; 1 << 20];
    let make = |index: u64| {
        let path = directory.join(format!("f{index}"));
        let mut file = File::create(&path)?;
        for _ in 0..size / block.len() as u64 {
            random.read_exact(&mut block)?;
            file.write_all(&block)?;
        }
        sync_data(file.as_fd())?;
        Ok(path)
    };
    (0..FILES).map(make).collect()
}

/// Evicts the files until the kernel says that nothing is left: pages that another group is charged for escape the limit.
fn evict(files: &[PathBuf]) -> Outcome<()> {
    const ATTEMPTS: usize = 100;
    for path in files {
        let file = File::open(path)?;
        let is_evicted = || -> Outcome<bool> {
            fadvise_dont_need(file.as_fd())?;
            Ok(cachewise_sys::resident(path)?.cached.is_zero())
        };
        let mut attempts = (0..ATTEMPTS).map(|_| is_evicted());
        if !attempts.any(|evicted| evicted.unwrap_or(false)) {
            return Err(format!("{} cannot be evicted", path.display()).into());
        }
    }
    Ok(())
}

//! Watching lines of a process by hardware breakpoints.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use cachewise_cpu::sharing::{
    Answer, BREAKPOINTS, NoWatch, Proof, Watch, find_variable, is_mapped,
};
use cachewise_units::escaped;

use super::Touched;
use crate::commands::arguments::CpuSharing;

/// More lines of a variable are not watched: each has a share of the time only.
const MOST_LINES: usize = 8;

/// Maximum time to wait for a variable: it exists only after the loader has mapped the libraries.
const SYMBOL_TIMEOUT: Duration = Duration::from_secs(2);

/// Variable or address to watch.
pub struct WatchTarget {
    place: TargetLocation,
    line_size: u64,
}

enum TargetLocation {
    Symbol(String),
    Address(u64),
}

/// Result of watching.
#[derive(Default)]
pub struct Lines {
    pub proofs: Vec<Proof>,
    pub touches: Vec<Touched>,
    pub notes: Vec<String>,
}

impl WatchTarget {
    /// The target of `--symbol` or `--address`; `None` without either.
    pub fn from_arguments(arguments: &CpuSharing, line_size: u64) -> Option<WatchTarget> {
        let symbol = arguments.symbol.clone().map(TargetLocation::Symbol);
        let place = symbol.or(arguments.address.map(TargetLocation::Address))?;
        Some(WatchTarget { place, line_size })
    }

    pub fn is_address(&self) -> bool {
        matches!(self.place, TargetLocation::Address(_))
    }

    /// Its first byte and its size, and what to say of it; nothing as long as it is not there.
    fn find(&self, pid: u32) -> Result<Option<(u64, u64, Option<String>)>> {
        Ok(match &self.place {
            TargetLocation::Address(address) => {
                is_mapped(pid, *address)?.then_some((*address, 1, None))
            }
            TargetLocation::Symbol(name) => find_variable(pid, name)?.map(|found| {
                let note = format!(
                    "{name} is {} bytes at {:#x} of {}",
                    found.size,
                    found.address,
                    escaped(&found.object)
                );
                (found.address, found.size.max(1), Some(note))
            }),
        })
    }

    fn name(&self) -> String {
        match &self.place {
            TargetLocation::Symbol(name) => format!("variable {name}"),
            TargetLocation::Address(address) => format!("memory at {address:#x}"),
        }
    }
}

/// Watches the target until the time is over, the process ends, or `stop` returns true.
pub fn watch(
    pid: u32,
    wanted: &WatchTarget,
    time: Duration,
    stop: impl Fn() -> bool,
) -> Result<Lines> {
    let mut lines = Lines::default();
    let begin = Instant::now();
    let (address, size, note) = loop {
        // A process that ends has no mappings any more.
        match wanted.find(pid) {
            Ok(Some(found)) => break found,
            Ok(None) if begin.elapsed() < SYMBOL_TIMEOUT && !stop() => {}
            Ok(None) => bail!(
                "cannot find {} in process {pid}: symbols of its child processes are not searched, and a stripped \
                 program has none; `nm -C PROGRAM` lists them",
                wanted.name()
            ),
            Err(_) if !fs::exists(format!("/proc/{pid}")).unwrap_or(false) || stop() => {
                return Ok(ended(lines, wanted));
            }
            Err(error) => return Err(error),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    lines.notes.extend(note);
    let last = address.saturating_add(size - 1);
    let first = Watch::of_address(pid, address, wanted.line_size).line();
    let line_size = wanted.line_size.max(1);
    let all = (last.saturating_sub(first) / line_size).saturating_add(1);
    if all > MOST_LINES as u64 {
        lines.notes.push(format!(
            "only the first {MOST_LINES} of {all} lines of the variable were watched: use --address for another line"
        ));
    }
    let lines_of = |start: u64| Watch::of_address(pid, start, wanted.line_size);
    let starts = (first..=last).step_by(line_size as usize);
    let mut watched: Vec<Watch> = starts.take(MOST_LINES).map(lines_of).collect();
    let mut names: HashMap<u32, String> = HashMap::new();
    let begin = Instant::now();
    'time: while begin.elapsed() < time {
        for line in &mut watched {
            if stop() {
                break 'time;
            }
            match line.round() {
                Ok(()) => {}
                Err(NoWatch::Ended) => break 'time,
                Err(reason) => {
                    lines.proofs.push(cannot(reason.to_string()));
                    return Ok(lines);
                }
            }
            for touch in line.touches() {
                let file = || fs::read_to_string(format!("/proc/{pid}/task/{}/comm", touch.thread));
                let name = || file().unwrap_or_default().trim_end().to_owned();
                names.entry(touch.thread).or_insert_with(name);
            }
        }
    }
    for line in &watched {
        lines.proofs.push(line.proof());
        lines
            .touches
            .extend(line.touches().into_iter().map(|touch| {
                Touched {
                    line: line.line(),
                    touch,
                    name: names
                        .get(&touch.thread)
                        .filter(|name| !name.is_empty())
                        .cloned(),
                    by: BREAKPOINTS,
                }
            }));
    }
    Ok(lines)
}

fn ended(mut lines: Lines, wanted: &WatchTarget) -> Lines {
    lines.proofs.push(cannot(format!(
        "the process ended before {} was mapped",
        wanted.name()
    )));
    lines
}

fn cannot(says: String) -> Proof {
    Proof {
        name: BREAKPOINTS,
        answer: Answer::Unknown,
        ratio: None,
        says,
    }
}

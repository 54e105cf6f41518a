//! Search for data that is cached twice: resident pages of files that processes also keep in their own memory.
//!
//! The proof is a comparison of bytes. It reads only what is in memory: resident pages of files without waiting for a
//! device, and present pages of processes, so that nothing is swapped in. It reads the memory of a process as a debugger
//! does (`/proc/PID/mem`).
//!
//! # Layout
//! - `open_file`: a file that a process has open
//! - `sample`: pages of a file, and the search for them in bytes
//! - `memory`: present memory of a process
//! - this file: the processes and files that are worth the comparison

mod memory;
mod open_file;
mod sample;

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use cachewise_kstat::{Hold, Kernel};
use cachewise_model::{Copies, Exit, Interval};
use cachewise_units::Bytes;

use open_file::{OpenFile, WORTH};
use sample::Sample;

/// Processes that are compared: those with the most memory.
const PROCESSES: usize = 4;
/// Files of each that are compared: the largest.
const FILES: usize = 8;
/// The time that all comparisons may take.
const TIME: Duration = Duration::from_secs(3);

/// Compares the files of these processes with their memory, and adds what it finds to the interval.
///
/// A note names each process whose memory cannot be read.
pub fn fill(interval: &mut Interval, kernel: &Kernel, pids: impl IntoIterator<Item = u32>) {
    let end = Instant::now() + TIME;
    let own = std::process::id();
    let mut large: Vec<(Bytes, u32)> = pids
        .into_iter()
        .filter(|pid| *pid != own && is_allowed(kernel, *pid))
        .filter_map(|pid| Some((kernel.own_memory(pid).ok()?, pid)))
        .filter(|(bytes, _)| *bytes >= WORTH)
        .collect();
    large.sort_unstable_by_key(|entry| std::cmp::Reverse(*entry));
    for (bytes, pid) in large.into_iter().take(PROCESSES) {
        let files = files(kernel, pid);
        if files.is_empty() || Instant::now() >= end {
            continue;
        }
        let mut samples: Vec<Sample> = files.into_iter().filter_map(Sample::of).collect();
        if samples.is_empty() {
            continue;
        }
        if let Err(error) = memory::search(kernel, pid, &mut samples, end) {
            let note = format!(
                "whether process {pid} has its own copies of cached files is unknown: its memory cannot be read ({error}); \
                 this needs root or CAP_SYS_PTRACE"
            );
            interval.backend_mut().notes.push(note);
            continue;
        }
        let command = kernel.process_command(pid).unwrap_or_default();
        interval
            .copies
            .extend(samples.into_iter().map(|sample| Copies {
                pid,
                command: command.clone(),
                resident_pages: sample.resident.0,
                own_memory_bytes: bytes.0,
                compared_pages: sample.compared(),
                copied_pages: sample.copied(),
                path: sample.path,
            }));
    }
}

/// Whether the memory of a process is the caller's business: of its own processes, or of all as root. Capabilities for
/// probes do not count.
fn is_allowed(kernel: &Kernel, pid: u32) -> bool {
    let caller = rustix::process::geteuid();
    caller.is_root()
        || kernel
            .process_uid(pid)
            .is_ok_and(|user| user == caller.as_raw())
}

/// The running processes of an interval.
pub fn running(interval: &Interval) -> Vec<u32> {
    let rows = interval.processes.iter();
    let running = rows.filter(|row| row.exit == Exit::Running);
    running.filter_map(|row| row.pid).collect()
}

/// The largest files that a process has open for reading and writing, each once.
fn files(kernel: &Kernel, pid: u32) -> Vec<OpenFile> {
    let Ok(all) = kernel.process_files(pid) else {
        return Vec::new();
    };
    let mut seen = HashSet::new();
    let mut files: Vec<OpenFile> = Vec::new();
    for file in all.files {
        // Mapped pages are not copied: the process uses those of the page cache.
        if !matches!(file.hold, Hold::Descriptor(_)) || file.deleted {
            continue;
        }
        let Ok(facts) = file.link.metadata() else {
            continue;
        };
        let is_new = seen.insert((facts.dev(), facts.ino()));
        if facts.is_file() && facts.len() >= WORTH.0 && is_new {
            files.push(OpenFile {
                path: file.path,
                link: file.link,
                size: facts.len(),
            });
        }
    }
    files.sort_by_key(|file| std::cmp::Reverse(file.size));
    files.truncate(FILES);
    files
}

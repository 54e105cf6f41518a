//! The screen's queries and operations on the machine.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cachewise_kstat::Kernel;
use cachewise_model::{Measured, Missing, Reason, Residency};
use cachewise_residency::{
    Error, EvictOptions, Inode, WarmOptions, WarmShortfall, Watch, evict, open, open_to_act, query,
    warm,
};
use cachewise_sys::page_size;
use cachewise_tui::{Act, FileName, Machine, ProcessName, Verb};
use cachewise_units::{ByteRange, Bytes, Pages};
use rustix::time::{ClockId, clock_gettime};

use crate::commands::files::{ListedFile, unknown_reason};

const ANOTHER: &str = "another file has replaced it";

/// The watched machine.
pub struct Actions {
    kernel: Kernel,
}

impl Actions {
    pub fn new(kernel: Kernel) -> Actions {
        Actions { kernel }
    }

    fn is_it(&self, process: &ProcessName) -> bool {
        let (Some(started), Ok(begun)) = (process.started, self.kernel.process_start(process.pid))
        else {
            return process.started.is_none();
        };
        // The probe's clock stops while the machine sleeps, that of /proc does not: in /proc a
        // process starts later by the time slept since, at most all of it.
        let clock = |id| Duration::try_from(clock_gettime(id)).unwrap_or_default();
        let slept = clock(ClockId::Boottime).saturating_sub(clock(ClockId::Monotonic));
        let started = Duration::from_nanos(started);
        let tick = Duration::from_millis(20);
        begun + tick >= started && begun <= started + slept + tick
    }
}

/// Opens a file if it still is the selected one.
fn open_it(
    name: &FileName,
    open: fn(&Path) -> Result<File, Error>,
) -> Result<(File, Inode), String> {
    let file = open(&name.path).map_err(|error| error.to_string())?;
    let inode = Inode::of_fd(file.as_fd()).map_err(|error| error.to_string())?;
    let device = format!("{}:{}", inode.device.0, inode.device.1);
    // The counters hold no inode for a block device.
    let is_same = device == name.number.device
        && (name.number.inode == 0 || inode.number == name.number.inode);
    match is_same {
        true => Ok((file, inode)),
        false => Err(format!("{}: {ANOTHER}", name.path.display())),
    }
}

impl Machine for Actions {
    fn residency(&mut self, name: &FileName) -> Residency {
        let missing = |why| {
            let count = Measured::Missing(Missing::Unknown(why));
            Residency {
                file_pages: count,
                resident_pages: count,
                resident_bytes: count,
                ..Residency::default()
            }
        };
        let Ok((file, inode)) = open_it(name, open) else {
            return missing(Reason::CannotOpen);
        };
        let counts = match query(&file, ByteRange::starting_at(0)) {
            Ok(counts) => Ok(counts),
            Err(error) => match error.unknown() {
                Some(why) => Err(unknown_reason(why)),
                None => return missing(Reason::ResidencyNotRead),
            },
        };
        ListedFile::new(name.path.clone(), inode.size.0, counts)
            .row()
            .residency
    }

    fn command_line(&mut self, process: &ProcessName) -> Measured<String> {
        if !self.is_it(process) {
            return Measured::unknown(Reason::HasEnded);
        }
        match self.kernel.process_arguments(process.pid) {
            Ok(words) if words.is_empty() => Measured::not_offered(Reason::NoCommandLine),
            Ok(words) => {
                let quoted = words
                    .iter()
                    .map(|word| match word.contains(' ') || word.is_empty() {
                        true => format!("'{word}'"),
                        false => word.clone(),
                    });
                Measured::Exact(quoted.collect::<Vec<_>>().join(" "))
            }
            Err(_) => Measured::unknown(Reason::CommandLineNotRead),
        }
    }

    fn act(&mut self, act: &Act, cancel: &AtomicBool) -> Result<String, String> {
        let mut done = Done::default();
        for name in &act.files {
            if cancel.load(Ordering::Relaxed) {
                done.cancelled = true;
                break;
            }
            let one = open_it(name, open_to_act).and_then(|(file, _)| match act.verb {
                Verb::Warm => done.warm(&file, cancel),
                Verb::Evict => done.evict(&file),
            });
            match one {
                Ok(()) => done.files += 1,
                Err(why) => {
                    done.failed += 1;
                    done.first_failure.get_or_insert(why);
                }
            }
        }
        done.summary(act)
    }
}

/// Result of an operation.
#[derive(Default)]
struct Done {
    files: u64,
    failed: u64,
    first_failure: Option<String>,
    went: u64,
    stayed: u64,
    /// Files with unknown residency.
    unknown: u64,
    read: u64,
    here: u64,
    note: Option<String>,
    cancelled: bool,
}

impl Done {
    fn warm(&mut self, file: &File, cancel: &AtomicBool) -> Result<(), String> {
        let options = WarmOptions {
            watch: Watch {
                cancel: Some(cancel),
                progress: None,
            },
            ..WarmOptions::default()
        };
        let warmed = warm(file, &[ByteRange::starting_at(0)], &options)
            .map_err(|error| error.to_string())?;
        self.read = self.read.saturating_add(warmed.read.0);
        match warmed.after {
            Ok(after) => self.here += after.0,
            Err(_) => self.unknown += 1,
        }
        match warmed.short {
            Some(WarmShortfall::Cancelled) => self.cancelled = true,
            Some(short) => _ = self.note.get_or_insert(short.to_string()),
            None => {}
        }
        Ok(())
    }

    fn evict(&mut self, file: &File) -> Result<(), String> {
        let options = EvictOptions::default();
        let evicted =
            evict(file, ByteRange::starting_at(0), &options).map_err(|error| error.to_string())?;
        match (evicted.went(), &evicted.after) {
            (Some(went), Ok(after)) => {
                self.went += went.0;
                self.stayed += after.cached.0;
            }
            _ => self.unknown += 1,
        }
        if let Some(stayed) = &evicted.stayed {
            let reasons = [
                (stayed.dirty + stayed.writeback, "dirty or being written"),
                (stayed.only_copy, "in memory only"),
                (stayed.other + stayed.locked + stayed.mapped, "in use"),
            ];
            let reasons = reasons
                .into_iter()
                .filter(|(pages, _)| *pages > Pages::ZERO);
            let reasons: Vec<String> = reasons
                .map(|(pages, why)| format!("{pages} {why}"))
                .collect();
            if self.note.is_none() && !reasons.is_empty() {
                self.note = Some(reasons.join(", "));
            }
        }
        Ok(())
    }

    fn summary(self, act: &Act) -> Result<String, String> {
        if self.files == 0 && self.failed > 0 {
            return Err(self.first_failure.unwrap_or_default());
        }
        let size = |pages: u64| Pages(pages).bytes(page_size());
        let mut summary = match act.verb {
            Verb::Warm => format!(
                "{} read, {} resident now",
                Bytes(self.read),
                size(self.here)
            ),
            Verb::Evict => format!(
                "{} ({} pages) evicted, {} stayed",
                size(self.went),
                self.went,
                size(self.stayed)
            ),
        };
        if self.unknown > 0 {
            summary += &format!("; {} files: residency unknown", self.unknown);
        }
        if let Some(note) = self.note {
            summary += &format!(" ({note})");
        }
        if self.cancelled {
            summary += "; stopped";
        }
        if let Some(why) = self.first_failure {
            summary += &format!("; {} failed: {why}", self.failed);
        }
        Ok(summary)
    }
}

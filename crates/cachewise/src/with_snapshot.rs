//! A snapshot that is restored while a program starts.

use std::fs::File;
use std::io::BufReader;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use cachewise_cli::output::{explain, tell};
use cachewise_probe::{Probe, Snapshot};
use cachewise_residency::snapshot::{Reader, RestoreOptions, Restored, restore};
use cachewise_residency::{Inode, Watch};
use cachewise_units::{Bytes, Pages, counted, grouped};

use crate::commands::snapshot::read;
use crate::touched::{TouchWatcher, Touched};

/// Readers: they wait for the device, not for a CPU.
const READERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(7);

/// A snapshot that is restored beside a command, and the pages that the command touches.
pub struct WithSnapshot<'a> {
    file: &'a Path,
    restoring: Restoring,
    touches: Option<TouchWatcher>,
}

impl<'a> WithSnapshot<'a> {
    /// Begins to restore; with a probe that sends accesses, what is used is counted.
    pub fn start(file: &'a Path, probe: Option<&Probe>) -> Result<WithSnapshot<'a>> {
        let reader = read(file)?;
        Ok(WithSnapshot {
            file,
            touches: probe.map(TouchWatcher::start).transpose()?,
            restoring: Restoring::start(reader, None)?,
        })
    }

    /// Ends the thread that takes touches, as [`TouchWatcher::end_thread`].
    pub fn end_thread(&mut self) {
        if let Some(touches) = &mut self.touches {
            touches.end_thread();
        }
    }

    /// Ends with the command, and reports how much of the snapshot it used.
    pub fn finish(self, snapshot: Option<&Snapshot>) {
        self.restoring.finish();
        let (Some(touches), Some(snapshot)) = (self.touches, snapshot) else {
            tell("snapshot: how much of it was used is unknown without the probe");
            return;
        };
        let used = touches
            .finish()
            .and_then(|touched| used(self.file, touched, snapshot));
        match used {
            Err(error) => tell(&explain(&error)),
            Ok((used, all, is_lossy)) => tell(&format!(
                "snapshot: the command used {}{} of its {}{}",
                if is_lossy { "at least " } else { "" },
                grouped(used.0),
                counted(all.0, "page"),
                match used < all {
                    true => "; `cachewise snapshot prune` drops the others",
                    false => "",
                }
            )),
        }
    }
}

/// Pages of the snapshot that were touched, all its pages, and whether touches were lost.
fn used(file: &Path, touched: Touched, snapshot: &Snapshot) -> Result<(Pages, Pages, bool)> {
    let is_lossy = touched.lost > 0 || touched.is_cut;
    let mut touched = touched.by_identity(snapshot);
    let (mut used, mut all) = (Pages::ZERO, Pages::ZERO);
    for entry in read(file)? {
        let mut entry = entry?;
        all += entry.cached();
        if let Ok(now) = Inode::at(&entry.path)
            && let Some(pages) = touched.remove(&(now.device, now.number))
        {
            entry.keep(pages);
            used += entry.cached();
        }
    }
    Ok((used, all, is_lossy))
}

/// A thread that restores, until the program ends.
pub struct Restoring {
    cancel: Arc<AtomicBool>,
    thread: JoinHandle<Restored>,
}

impl Restoring {
    /// Starts to read; `most` bytes at most.
    pub fn start(reader: Reader<BufReader<File>>, most: Option<Bytes>) -> Result<Restoring> {
        let cancel = Arc::new(AtomicBool::new(false));
        let cancelled = Arc::clone(&cancel);
        let work = move || {
            let options = RestoreOptions {
                threads: READERS,
                most,
                watch: Watch {
                    cancel: Some(&cancelled),
                    progress: None,
                },
                ..RestoreOptions::default()
            };
            restore(reader, &options)
        };
        let thread = cachewise_sys::start_thread("snapshot", work)
            .context("cannot start the thread that restores the snapshot")?;
        Ok(Restoring { cancel, thread })
    }

    /// Ends it with the program, and reports what it read.
    pub fn finish(self) {
        let is_done = self.thread.is_finished();
        self.cancel.store(true, Ordering::Release);
        let Ok(restored) = self.thread.join() else {
            tell("the thread that restores the snapshot ended early");
            return;
        };
        let mut line = format!(
            "snapshot: read {} of {}; {} were resident before",
            restored.read,
            counted(restored.files, "file"),
            counted(restored.before.0, "page"),
        );
        if !is_done {
            line += "; not all of it before the command ended";
        }
        let skipped = restored.skipped;
        if skipped.total() > 0 {
            line += &format!(
                "; {} gone, changed or unreadable",
                counted(skipped.total(), "file")
            );
        }
        tell(&line);
        if let Some(damage) = restored.damage {
            tell(&format!("the rest of the snapshot was not read: {damage}"));
        }
    }
}

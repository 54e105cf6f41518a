//! Snapshots of what a command touches: `snapshot save --of`, and `snapshot prune`, which drops the rest.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use cachewise_cli::child::{self, StartError, not_started, status_of};
use cachewise_cli::output::{self, tell};
use cachewise_kstat::Kernel;
use cachewise_probe::{Detail, Options, Probe, Scope, Snapshot};
use cachewise_residency::Inode;
use cachewise_residency::snapshot::Writer;
use cachewise_sys::page_size;
use cachewise_units::{counted, escaped, grouped};

use super::read::{STREAM, read};
use crate::machine;
use crate::touched::{TouchWatcher, Touched};
use crate::with_snapshot::Restoring;

/// Runs the command, and saves what it touches.
pub fn save(file: &Path, command: &[OsString]) -> Result<ExitCode> {
    refuse_stream(file)?;
    let mut writer = Writer::create(file)?;
    let Watched {
        touched,
        snapshot,
        status,
    } = match watch(command)? {
        Ok(watched) => watched,
        Err(status) => return Ok(status),
    };
    let is_lossy = tell_losses(&touched);
    let files = touched.named(&snapshot);
    for why in &files.failed {
        tell(&format!("not saved: {why}"));
    }
    for entry in &files.entries {
        writer.add(entry)?;
    }
    let totals = writer.totals();
    if totals.files == 0 {
        tell(&format!(
            "the command touched no page of a file: {} was not written",
            escaped(file)
        ));
        return Ok(worse(status, true));
    }
    writer.finish()?.commit()?;
    let nameless = match files.nameless {
        0 => String::new(),
        files => format!(
            "; {} without a name were left out (deleted, or more than the probe keeps)",
            counted(files as u64, "file")
        ),
    };
    tell(&format!(
        "{}: {} touched ({}), of {}, in the order of the first touch{nameless}",
        escaped(file),
        counted(totals.pages.0, "page"),
        totals.pages.bytes(page_size()),
        counted(totals.files, "file"),
    ));
    Ok(worse(status, is_lossy || !files.failed.is_empty()))
}

/// Restores the snapshot beside the command, and drops the pages that the command did not touch.
pub fn prune(file: &Path, command: &[OsString]) -> Result<ExitCode> {
    refuse_stream(file)?;
    // Read before the command runs: a damaged snapshot costs no run.
    let mut entries = read(file)?.collect::<Result<Vec<_>, _>>()?;
    let restoring = Restoring::start(read(file)?, None)?;
    let watched = watch(command)?;
    restoring.finish();
    let Watched {
        touched,
        snapshot,
        status,
    } = match watched {
        Ok(watched) => watched,
        Err(status) => return Ok(status),
    };
    if tell_losses(&touched) {
        tell(&format!(
            "{} is unchanged: pages that were touched would be dropped",
            escaped(file)
        ));
        return Ok(worse(status, true));
    }
    let mut used = touched.by_identity(&snapshot);
    let before = counted(entries.iter().map(|entry| entry.cached().0).sum(), "page");
    let mut writer = Writer::create(file)?;
    for entry in &mut entries {
        let now = Inode::at(&entry.path).ok();
        let pages = now.and_then(|inode| used.remove(&(inode.device, inode.number)));
        entry.keep(pages.unwrap_or_default());
        if !entry.ranges.is_empty() {
            writer.add(entry)?;
        }
    }
    let totals = writer.totals();
    if totals.files == 0 {
        tell(&format!(
            "the command touched no page of {}, which is unchanged: is it the snapshot of another command?",
            escaped(file)
        ));
        return Ok(worse(status, true));
    }
    writer.finish()?.commit()?;
    tell(&format!(
        "{}: {} of {before} kept ({}), of {}; the command did not touch the others",
        escaped(file),
        grouped(totals.pages.0),
        totals.pages.bytes(page_size()),
        counted(totals.files, "file"),
    ));
    Ok(status)
}

struct Watched {
    touched: Touched,
    snapshot: Snapshot,
    /// The status of the command.
    status: ExitCode,
}

/// Runs the command; the status alone if it cannot be started.
fn watch(command: &[OsString]) -> Result<Result<Watched, ExitCode>> {
    let kernel = Kernel::new();
    let options = Options {
        mounted_only: true,
        accesses: true,
        fault_around: true,
        ..Options::new(Scope::Children, Detail::Rows)
    };
    let mut probe = match Probe::attach(&options) {
        Ok(probe) => probe,
        Err(error) => bail!(
            "what the command touches cannot be watched: {}",
            machine::why_no_probe(error)
        ),
    };
    let mut watcher = TouchWatcher::start(&probe)?;
    let end_threads = || {
        watcher.end_thread();
        probe.end_thread();
    };
    let course = match child::run(&kernel, || child::command(command), end_threads) {
        Ok(course) => course,
        Err(StartError::Start(error)) => return Ok(Err(not_started(&command[0], &error))),
        Err(StartError::Other(error)) => return Err(error),
    };
    let touched = watcher.finish()?;
    let snapshot = probe.snapshot().context("what was counted is lost")?;
    Ok(Ok(Watched {
        touched,
        snapshot,
        status: ExitCode::from(status_of(course.exit)),
    }))
}

/// Reports touches that are missing, and returns whether there are any.
fn tell_losses(touched: &Touched) -> bool {
    if touched.lost > 0 {
        tell(&format!(
            "{} were too many for the ring of the probe, and are missing",
            counted(touched.lost, "access")
        ));
    }
    if touched.is_cut {
        tell("the command touched more ranges of pages than are kept: later ones are missing");
    }
    touched.lost > 0 || touched.is_cut
}

/// The status of the command, if it failed; else whether anything is missing.
fn worse(status: ExitCode, is_incomplete: bool) -> ExitCode {
    match status {
        ExitCode::SUCCESS => output::status(is_incomplete),
        failed => failed,
    }
}

/// The command has standard output.
fn refuse_stream(file: &Path) -> Result<()> {
    if file == Path::new(STREAM) {
        bail!("the command has standard input and output: name a file for the snapshot");
    }
    Ok(())
}

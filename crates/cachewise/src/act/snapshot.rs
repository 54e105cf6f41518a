//! `snapshot`: what is resident, kept in a file, brought back and compared.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use cachewise_residency::snapshot::{
    Entry, Fate, FileDiff, FileOutcome, Reader, RestoreOptions, Writer, diff, diff_now, restore,
};
use cachewise_residency::{Counts, Inode, Limiter, Watch, map};
use cachewise_sys::page_size;
use cachewise_units::{ByteRange, Bytes, Pages};

use super::pool::{Done, each_file, threads};
use super::{INTERRUPTED, cancelled_by_signals};
use crate::cli::{Output, Select, Snapshot, SnapshotCommand, SortKey};
use crate::files::{Found, Order, Plan, Show};
use crate::output::{FAILED, tell};

/// Failures that are told one by one; of the rest only their number.
const TOLD: u64 = 10;

/// Saves, restores or compares.
pub fn snapshot(arguments: &Snapshot) -> Result<ExitCode> {
    match &arguments.command {
        SnapshotCommand::Save {
            file,
            paths,
            select,
        } => save(file, paths, select),
        SnapshotCommand::Restore {
            file,
            anyway,
            rate,
            threads,
            dry_run,
        } => {
            if *dry_run {
                return would_restore(file);
            }
            bring_back(file, *anyway, *rate, *threads)
        }
        SnapshotCommand::Diff {
            file,
            other,
            top,
            output,
        } => compare(file, other.as_deref(), *top, output),
    }
}

fn save(file: &Path, paths: &[PathBuf], select: &Select) -> Result<ExitCode> {
    let cancel = cancelled_by_signals()?;
    let mut writer = Writer::create(file)?;
    let (mut failed, mut empty) = (0u64, 0u64);
    each_file(
        paths,
        select,
        &cancel,
        |path, file| {
            let inode = Inode::of(std::os::fd::AsFd::as_fd(file))?;
            Ok(Entry::new(
                path,
                &inode,
                map(file, ByteRange::starting_at(0))?,
            ))
        },
        |done| {
            match done {
                Done::File(entry) if entry.cached() > Pages::ZERO => writer.add(&entry)?,
                Done::File(_) => empty += 1,
                Done::Vanished | Done::Nothing => {}
                Done::Failed(error) => {
                    failed += 1;
                    if failed <= TOLD {
                        tell(&error);
                    }
                }
            }
            Ok(())
        },
    )?;
    if cancel.load(Ordering::Relaxed) {
        tell(&format!("interrupted: {} was not written", file.display()));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let totals = writer.totals();
    writer.finish()?.commit()?;
    tell(&format!(
        "{}: {} resident pages ({}) of {} files; {empty} files have none",
        file.display(),
        totals.pages,
        totals.pages.bytes(page_size()),
        totals.files
    ));
    if failed > TOLD {
        tell(&format!("and {} more", failed - TOLD));
    }
    Ok(if failed > 0 {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

fn bring_back(
    file: &Path,
    anyway: bool,
    rate: Option<Bytes>,
    asked: Option<u16>,
) -> Result<ExitCode> {
    let cancel = cancelled_by_signals()?;
    let limiter = rate.and_then(Limiter::new);
    let told = Mutex::new(0u64);
    let tell_of = |entry: &Entry, why: &dyn std::fmt::Display| {
        // A poisoned count is still a count.
        let mut told = told.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *told += 1;
        if *told <= TOLD {
            tell(&format!("{}: {why}", entry.path.display()));
        }
    };
    let each = |entry: &Entry, outcome: FileOutcome<'_>| match outcome {
        FileOutcome::Skipped(why) => tell_of(entry, why),
        FileOutcome::Warmed(warmed) => {
            if let Some(short) = &warmed.short {
                tell_of(entry, short);
            }
        }
    };
    let options = RestoreOptions {
        anyway,
        threads: threads(asked)
            .try_into()
            .unwrap_or(std::num::NonZeroUsize::MIN),
        limiter: limiter.as_ref(),
        watch: Watch {
            cancel: Some(&cancel),
            ..Watch::default()
        },
        each: Some(&each),
    };
    let restored = restore(Reader::open(file)?, &options);
    let hidden = told
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
        .saturating_sub(TOLD);
    if hidden > 0 {
        tell(&format!("and {hidden} more"));
    }
    tell(&format!(
        "{} of {} pages are resident again, {} were before; read {} of {} files",
        restored.after, restored.pages, restored.before, restored.read, restored.files
    ));
    let skipped = restored.skipped.total();
    if skipped > 0 {
        tell(&format!(
            "left alone: {} files that are gone, {} that have changed (--anyway takes them), {} that could not be read",
            restored.skipped.vanished,
            restored.skipped.changed,
            restored.skipped.denied + restored.skipped.failed
        ));
    }
    if let Some(damage) = restored.damage {
        return Err(damage).context("what comes later in the snapshot was left alone");
    }
    Ok(if restored.cancelled {
        ExitCode::from(INTERRUPTED)
    } else if skipped + restored.short > 0 {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

fn would_restore(file: &Path) -> Result<ExitCode> {
    let totals = diff_now(Reader::open(file)?, |_| {})?;
    tell(&format!(
        "would read up to {} pages ({}), of {} files; {} of {} are resident; nothing was read",
        totals.lost,
        totals.lost.bytes(page_size()),
        totals.files,
        totals.before.saturating_sub(totals.lost),
        totals.before
    ));
    Ok(ExitCode::SUCCESS)
}

fn compare(
    file: &Path,
    other: Option<&Path>,
    top: Option<usize>,
    output: &Output,
) -> Result<ExitCode> {
    const COLUMNS: [&str; 4] = [
        "resident_before_pages",
        "resident_after_pages",
        "note",
        "path",
    ];
    let mut show = Show::open(
        output,
        Plan {
            columns: COLUMNS
                .into_iter()
                .filter_map(cachewise_model::field)
                .collect(),
            columns_are_chosen: false,
            all_are_named: false,
            order: Order {
                key: SortKey::Resident,
                reverse: false,
            },
            order_is_chosen: false,
            top,
            only_cached: false,
            maps: false,
            strips: false,
            repeated: false,
        },
    )?;
    let mut listing = show.begin()?;
    let mut result = Ok(());
    let each = |difference: FileDiff| {
        let is_same = difference.gained + difference.lost == Pages::ZERO
            && matches!(difference.fate, Fate::Same | Fate::Changed);
        if result.is_ok() && !is_same {
            result = listing.changed(found(difference));
        }
    };
    let totals = match other {
        Some(other) => diff(file, other, each),
        None => diff_now(Reader::open(file)?, each),
    }?;
    result?;
    listing.finish()?;
    show.line(&format!(
        "{} of {} files differ: {} pages came, {} went; {} resident then, {} {}",
        totals.different,
        totals.files,
        totals.gained,
        totals.lost,
        totals.before,
        totals.after,
        if other.is_some() {
            "in the other"
        } else {
            "now"
        }
    ))?;
    Ok(if totals.unknown > 0 {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

fn found(difference: FileDiff) -> Found {
    let counts = match &difference.fate {
        Fate::Unknown(_) => Err("it cannot be looked at"),
        _ => Ok(Counts {
            total: difference.after,
            cached: difference.after,
            states: None,
        }),
    };
    let mut notes = Vec::new();
    match &difference.fate {
        Fate::Added => notes.push("only in the other".to_owned()),
        Fate::Gone => notes.push("gone".to_owned()),
        Fate::Changed => notes.push("changed".to_owned()),
        Fate::Unknown(error) => notes.push(error.to_string()),
        _ => {}
    }
    if difference.gained > Pages::ZERO {
        notes.push(format!("+{}", difference.gained));
    }
    if difference.lost > Pages::ZERO {
        notes.push(format!("-{}", difference.lost));
    }
    Found {
        before: Some(Ok(difference.before.0)),
        note: (!notes.is_empty()).then(|| notes.join(", ")),
        ..Found::new(difference.path, 0, counts)
    }
}

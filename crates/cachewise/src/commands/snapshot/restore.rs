//! `snapshot restore`: what was resident is read again.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::{Context, Result};
use cachewise_cli::output::tell;
use cachewise_residency::snapshot::{
    Fate, FileOutcome, RestoreOptions, Skip, Skipped, SnapshotEntry, diff_now, restore,
};
use cachewise_residency::{Limiter, Unknown, WarmShortfall, Watch};
use cachewise_sys::{ErrorKind, page_size};
use cachewise_units::{Bytes, Pages, counted, escaped, grouped};

use super::read::read;
use super::telling::{Telling, locked};
use crate::acting::pool::threads;
use crate::acting::{moving, status};
use crate::interrupt::Interrupt;
use crate::progress::Meter;

/// Reads the pages.
pub fn bring_back(
    file: &Path,
    anyway: bool,
    (rate, most): (Option<Bytes>, Option<Bytes>),
    asked: Option<u16>,
) -> Result<ExitCode> {
    let reader = read(file)?;
    let interrupt = Interrupt::catch()?;
    let limiter = rate.and_then(Limiter::new);
    let meter = Meter::new();
    let progress = moving(&meter);
    let telling = Telling::new(&meter);
    let unknown_residency = Mutex::new(None);
    let each = |entry: &SnapshotEntry, outcome: FileOutcome<'_>| {
        meter.file();
        match outcome {
            FileOutcome::Skipped(why) => telling.tell(&skipped(&entry.path, why)),
            FileOutcome::Warmed(warmed) => {
                // The interruption is reported once, at the end.
                if let Some(short) = &warmed.short
                    && !matches!(short, WarmShortfall::Cancelled)
                {
                    telling.tell(&format!("{}: {short}", escaped(&entry.path)));
                }
                if let Err(why) = warmed.after.and(warmed.before) {
                    *locked(&unknown_residency) = Some(why);
                }
            }
        }
    };
    let options = RestoreOptions {
        anyway,
        threads: threads(asked),
        most,
        limiter: limiter.as_ref(),
        watch: Watch {
            cancel: Some(interrupt.flag()),
            progress: Some(&progress),
        },
        each: Some(&each),
    };
    let restored = restore(reader, &options);
    telling.end();
    let known = |pages: Pages| match restored.unknown {
        0 => grouped(pages.0),
        _ => "?".to_owned(),
    };
    let mut line = format!(
        "{} of {} resident again, {} were before; read {} of {}",
        known(restored.after),
        counted(restored.pages.0, "page"),
        known(restored.before),
        restored.read,
        counted(restored.files, "file")
    );
    line += &beyond(restored.beyond);
    tell(&line);
    if let Some(why) = *locked(&unknown_residency) {
        tell(&unknown_of(restored.unknown, why));
    }
    left_alone(&restored.skipped);
    if let Some(damage) = restored.damage {
        return Err(damage).context("the rest of the snapshot was not restored");
    }
    Ok(status(
        &interrupt,
        restored.skipped.total() + restored.short + restored.unknown > 0,
    ))
}

/// Pages of the snapshot beyond the end of truncated files.
fn beyond(pages: Pages) -> String {
    match pages {
        Pages::ZERO => String::new(),
        Pages(1) => "; 1 is beyond the end of a truncated file".to_owned(),
        pages => format!("; {pages} are beyond the end of truncated files"),
    }
}

/// Why numbers are `?`.
fn unknown_of(files: u64, why: Unknown) -> String {
    format!(
        "residency of {} is unknown: {why}; {}",
        counted(files, "file"),
        why.advice()
    )
}

/// Errors know their files; other reasons do not.
fn skipped(path: &Path, why: &Skip) -> String {
    match why {
        Skip::Failed(error) => error.to_string(),
        other => format!("{}: {other}", escaped(path)),
    }
}

fn left_alone(skipped: &Skipped) {
    let kinds = [
        (skipped.vanished, "gone"),
        (skipped.changed, "changed (--anyway restores them)"),
        (skipped.denied, "not permitted to open"),
        (skipped.failed, "failed"),
    ];
    let kinds: Vec<String> = kinds
        .into_iter()
        .filter(|(files, _)| *files > 0)
        .map(|(files, kind)| format!("{files} {kind}"))
        .collect();
    if !kinds.is_empty() {
        tell(&format!(
            "not restored: {}: {}",
            counted(skipped.total(), "file"),
            kinds.join(", ")
        ));
    }
}

/// Says what would be read.
pub fn would_restore(file: &Path, anyway: bool) -> Result<ExitCode> {
    let meter = Meter::new();
    let telling = Telling::new(&meter);
    let (mut pages, mut absent, mut cut) = (Pages::ZERO, Pages::ZERO, Pages::ZERO);
    let (mut files, mut unknown, mut unknown_residency) = (0u64, 0u64, None);
    let mut left = Skipped::default();
    let reader = read(file)?;
    let interrupt = Interrupt::catch()?;
    diff_now(reader.cancelled_by(interrupt.shared()), |difference| {
        meter.file();
        let path = escaped(&difference.path);
        match &difference.fate {
            Fate::Changed if !anyway => {
                left.changed += 1;
                telling.tell(&format!("{path}: it has changed"));
                return;
            }
            Fate::Gone | Fate::Renamed(_) => {
                left.vanished += 1;
                telling.tell(&format!("{path}: it is gone"));
                return;
            }
            Fate::Unknown(error) => match error.unknown() {
                Some(why) if why.is_of_caller() => {
                    unknown += 1;
                    unknown_residency = Some(why);
                    absent += difference.before;
                }
                _ => {
                    match error.kind() {
                        ErrorKind::Denied => left.denied += 1,
                        _ => left.failed += 1,
                    }
                    telling.tell(&error.to_string());
                    return;
                }
            },
            _ => {
                cut += difference.beyond;
                absent += difference.lost.saturating_sub(difference.beyond);
            }
        }
        files += 1;
        pages += difference.before;
    })?;
    telling.end();
    left_alone(&left);
    let all_of_unknown = match unknown {
        0 => String::new(),
        unknown => format!(
            "; {}: residency unknown, so all of it",
            counted(unknown, "file")
        ),
    };
    tell(&format!(
        "would read {} of {} ({}) in {}{all_of_unknown}{}; nothing was read",
        grouped(absent.0),
        counted(pages.0, "page"),
        absent.bytes(page_size()),
        counted(files, "file"),
        beyond(cut)
    ));
    if let Some(why) = unknown_residency {
        tell(&unknown_of(unknown, why));
    }
    Ok(status(&interrupt, left.total() + unknown > 0))
}

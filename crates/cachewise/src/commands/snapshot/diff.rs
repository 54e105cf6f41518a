//! `snapshot diff`: what changed since, or between two snapshots.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use cachewise_cli::output::{self, tell};
use cachewise_model::Reason;
use cachewise_residency::Counts;
use cachewise_residency::snapshot::{Fate, FileDiff, diff, diff_now};
use cachewise_units::{Pages, counted, escaped, grouped};

use super::read::read;
use crate::acting::listed::plan;
use crate::columns::fields;
use crate::commands::files::{ListedFile, Show, unknown_reason};
use crate::interrupt::{Interrupt, Stop};
use crate::options::Output;

/// Shows the differences.
pub fn compare(
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
    let first = read(file)?;
    let second = other.map(read).transpose()?;
    let interrupt = Interrupt::catch()?;
    let first = first.cancelled_by(interrupt.shared());
    let mut show = Show::open(output, plan(fields(&COLUMNS), top))?;
    show.end_early(Stop::at(&interrupt));
    let mut listing = show.begin()?;
    let mut result = Ok(());
    let each = |difference: FileDiff| {
        let is_same = difference.gained + difference.lost == Pages::ZERO
            && matches!(difference.fate, Fate::Same | Fate::Changed);
        if result.is_ok() && !is_same {
            result = listing.changed(found(difference), u64::abs_diff);
        }
    };
    let totals = match second {
        Some(second) => diff(first, second, each),
        None => diff_now(first, each),
    }?;
    result?;
    listing.finish()?;
    let when = match other {
        Some(_) => "in the other",
        None => "now",
    };
    let (before, different) = (grouped(totals.before.0), grouped(totals.different));
    show.line(&match totals.unknown {
        0 => format!(
            "{different} of {} differ: {} gained, {} lost; {before} resident then, {} {when}",
            counted(totals.files, "file"),
            counted(totals.gained.0, "page"),
            grouped(totals.lost.0),
            grouped(totals.after.0),
        ),
        // Of some of them a sum would look like one of all.
        unknown => format!(
            "{different} of {} differ, {} unknown: ? pages gained, ? lost; {before} resident then, ? {when}",
            counted(totals.files, "known file"),
            counted(unknown, "other"),
        ),
    })?;
    if let Some(status) = interrupt.status() {
        tell("interrupted: the result so far is shown, the rest was not compared");
        return Ok(status);
    }
    show.keep()?;
    Ok(output::status(totals.unknown > 0))
}

fn found(difference: FileDiff) -> ListedFile {
    let mut notes = Vec::new();
    let mut counts = Ok(Counts {
        total: difference.after,
        cached: difference.after,
        states: None,
    });
    match &difference.fate {
        Fate::Added => notes.push("only in the other".to_owned()),
        Fate::Gone => notes.push("gone".to_owned()),
        Fate::Changed => notes.push("changed".to_owned()),
        Fate::Renamed(path) => notes.push(format!("renamed to {}", escaped(path))),
        Fate::Unknown(error) => {
            let why = error.unknown();
            counts = Err(why.map_or(Reason::CannotBeLookedAt, unknown_reason));
            if why.is_none() {
                notes.push(error.to_string());
            }
        }
        _ => {}
    }
    if difference.gained > Pages::ZERO {
        notes.push(format!("+{}", grouped(difference.gained.0)));
    }
    if difference.lost > Pages::ZERO {
        notes.push(format!("-{}", grouped(difference.lost.0)));
    }
    ListedFile {
        before: Some(Ok(difference.before.0)),
        note: (!notes.is_empty()).then(|| notes.join(", ")),
        ..ListedFile::new(difference.path, 0, counts)
    }
}

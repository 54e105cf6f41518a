//! `report --compare`: the changes between two reports, or between repeats of both.
//!
//! # Layout
//! - `document`: the numbers of one report; `side`: the reports of one file
//! - `show`: the changes as text and for programs
//! - this file: pairs of samples, and their order

mod document;
mod show;
mod side;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use cachewise_cli::columns::SheetColumnsParser;
use cachewise_cli::output::{Stream, is_broken_pipe};
use cachewise_cli::sinks::Sinks;
use cachewise_model::{FIELDS, Unit, field};

use super::arguments::Report;
use crate::comparison::{self, Change, Figure};
use document::{ARM, FILE, ORDER, PROCESS, Subject, TOTALS};
pub use show::COLUMNS as COMPARED_COLUMNS;
use show::Comparison;
use side::Side;

/// Resamples of intervals are the same each time.
const SEED: u64 = 1;

/// Files and processes that are compared, those with the most fetched bytes first.
const MOST_PARTS: usize = 200;

/// Compared figures of files and processes, in their order.
const OF_PARTS: [&str; 4] = [
    ORDER,
    "read_missed_pages",
    "read_requested_pages",
    "fault_miss_pages",
];

/// Compares two files.
pub fn compare(arguments: &Report, old: &Path, new: &Path) -> Result<ExitCode> {
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stdout)?;
    sinks
        .iter()
        .try_for_each(|sink| show::check_format(sink.format))?;
    let columns = arguments.columns.as_deref();
    let columns = columns.map(|list| SheetColumnsParser(&[&show::COLUMNS]).parse(list));
    let columns = columns.transpose().map_err(anyhow::Error::msg)?;
    let (old, new) = (Side::read(old)?, Side::read(new)?);
    if old.page_size() != new.page_size() {
        bail!(
            "cannot compare {} with {}: their machines have page sizes of {} and {} bytes, so that pages differ",
            old.name,
            new.name,
            old.page_size(),
            new.page_size()
        );
    }
    if old.is_matrix() != new.is_matrix() {
        bail!(
            "cannot compare {} with {}: only one of them is a report of `bench matrix`",
            old.name,
            new.name
        );
    }
    let comparison = Comparison {
        changes: changes(&old, &new),
        old,
        new,
        top: arguments.top,
        columns,
    };
    match sinks.write(|sink| comparison.write(sink)) {
        Err(error) if !is_broken_pipe(&error) => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Changed figures: of the totals in the order of the fields, then of files and processes, most fetched bytes first.
fn changes(old: &Side, new: &Side) -> Vec<Change> {
    let subjects: BTreeSet<&Subject> = old.subjects().into_iter().chain(new.subjects()).collect();
    let mut changes = Vec::new();
    for kind in [TOTALS, ARM, FILE, PROCESS] {
        let mut subjects: Vec<&Subject> = subjects
            .iter()
            .copied()
            .filter(|one| one.0 == kind)
            .collect();
        if [FILE, PROCESS].contains(&kind) {
            let order = figure(ORDER);
            let most = |subject: &Subject| {
                let of = |side: &Side| side.values(subject, &order).into_iter().flatten();
                of(old).chain(of(new)).fold(0.0, f64::max)
            };
            subjects.sort_by(|a, b| most(b).total_cmp(&most(a)));
            subjects.truncate(MOST_PARTS);
        }
        let mut found = Vec::new();
        for figure in figures(kind, &subjects, old, new) {
            let pairs = subjects.iter().filter_map(|subject| {
                let (old, new) = (old.values(subject, &figure)?, new.values(subject, &figure)?);
                Some((subject.0, subject.1.clone(), old, new))
            });
            found.extend(comparison::changes(&figure, pairs.collect(), SEED));
        }
        found.retain(Change::is_different);
        // Stable, so that figures keep their order.
        found.sort_by_key(|change: &Change| {
            subjects.iter().position(|subject| subject.1 == change.name)
        });
        changes.extend(found);
    }
    changes
}

/// The figures of a kind, in the order of the fields.
fn figures(kind: &str, subjects: &[&Subject], old: &Side, new: &Side) -> Vec<Figure> {
    if [FILE, PROCESS].contains(&kind) {
        return OF_PARTS.iter().map(|id| figure(id)).collect();
    }
    let mut figures: Vec<Figure> = Vec::new();
    for subject in subjects {
        let both = old.figures(subject).into_iter().chain(new.figures(subject));
        for figure in both {
            if !figures.contains(figure) {
                figures.push(figure.clone());
            }
        }
    }
    let place = |figure: &Figure| FIELDS.iter().position(|field| field.id == figure.id);
    figures.sort_by_key(|figure| place(figure));
    figures
}

fn figure(id: &str) -> Figure {
    Figure::new(id, field(id).map_or(Unit::Count, |field| field.unit))
}

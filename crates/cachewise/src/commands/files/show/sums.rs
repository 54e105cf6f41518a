//! Rows of tables, rows that sum up, and the end of a list.

use std::path::Path;

use cachewise_cli::output::Sink;
use cachewise_model::{Labels, Measured, Row, Subject};
use cachewise_residency::Counts;
use cachewise_view::RowWriters;

use crate::commands::files::batched::Batched;
use crate::commands::files::counting::Answer;
use crate::commands::files::listed_file::{ListedFile, sum};

/// The row of tables: its note is short, and the reason for unknown numbers is printed once below the table.
pub fn brief(found: &ListedFile) -> Row {
    let mut row = found.row();
    let unknown = found.counts.is_err() && found.note.is_none();
    let brief = found.brief.clone();
    if let Some(note) = brief.or(unknown.then(|| "unknown".to_owned())) {
        row.labels.note = Measured::Exact(note);
    }
    row
}

/// Ends lists, and returns their outputs.
pub fn ended(writers: RowWriters<Batched>, total: Option<&Row>) -> std::io::Result<Vec<Sink>> {
    let outputs = writers.finish(total)?;
    outputs.into_iter().map(Batched::end).collect()
}

/// The total of all, shown or not.
pub fn total(answer: &Answer) -> Row {
    let mut row = sum_row(
        Path::new("(all)"),
        answer.files,
        answer.unknown,
        answer.size,
        &answer.counts,
    );
    if let Some(why) = answer.partial {
        row.residency = row.residency.estimated(why);
    }
    if answer.unknown > 0 {
        row.labels.note = Measured::Exact(format!("without {} unknown", answer.unknown));
    }
    if let Some(change) = &answer.change {
        row.subject.resident_before_pages = change.before.measured();
        row.subject.resident_after_pages = change.after.measured();
    }
    row
}

/// A row that sums up files, of which some may be unknown.
pub fn sum_row(path: &Path, files: u64, unknown: u64, size: u64, counts: &Counts) -> Row {
    let mut row = Row::of_file();
    row.labels = Labels {
        path: Measured::Exact(path.to_owned()),
        ..Labels::default()
    };
    row.subject = Subject {
        file_size_bytes: Measured::Exact(size),
        ..row.subject
    };
    row.residency = sum(files, unknown, counts);
    row
}

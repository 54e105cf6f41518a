//! A report for programs: CSV with the files, OpenMetrics with the totals.

use std::io;

use cachewise_model::{
    FIELDS, Field, FileNumber, FileRow, Interval, Kind, Ledger, Measured, NOT_APPLICABLE, Reason,
    Row, Unit, Value,
};

use super::lost_text;
use crate::csv_text::{self, Reasons};
use crate::metrics::Exposition;

/// The value of a field that this kind of row does not have.
const MISPLACED: Value = Measured::Missing(NOT_APPLICABLE);

/// A row per file.
pub(super) fn csv(interval: &Interval, columns: Option<&[&'static Field]>) -> io::Result<String> {
    let file = any_file();
    let fields: Vec<&Field> = match columns {
        Some(columns) => columns.to_vec(),
        None => FIELDS.iter().collect(),
    };
    let fields: Vec<&Field> = fields
        .into_iter()
        .filter(|field| field.of(&file) != MISPLACED)
        .collect();
    let flags = ["deleted", "direct"].into_iter().chain(csv_text::REASONS);
    let ids = fields.iter().map(|field| field.id);
    let mut text = csv_text::line(ids.chain(flags).map(str::to_owned))?;
    for file in &interval.files {
        let row = interval.of_run(file.row());
        let values: Vec<(&str, Value)> = fields
            .iter()
            .map(|field| (field.id, field.of(&row)))
            .collect();
        let cells = values.iter().map(|(_, value)| csv_text::cell(value));
        let mut reasons = Reasons::of(values.iter().map(|(id, value)| (*id, value)));
        // The sums of the whole run: no row is about all files.
        for lost in interval.lost.iter().filter(|lost| lost.count > 0) {
            reasons.add(&lost_text(lost), "");
        }
        let flags = [file.deleted.to_string(), file.direct.to_string()];
        text += &csv_text::line(cells.chain(flags).chain(reasons.cells()))?;
    }
    Ok(text)
}

/// A row of a file with unknown values, for the fields of files in a report without any.
fn any_file() -> Row {
    FileRow {
        path: Measured::unknown(Reason::NotMeasured),
        label: Measured::Missing(cachewise_model::NOT_APPLICABLE),
        deleted: false,
        filesystem: Measured::unknown(Reason::NotMeasured),
        number: Some(FileNumber {
            device: String::new(),
            inode: 0,
        }),
        size_bytes: Measured::unknown(Reason::NotMeasured),
        resident_before_pages: Measured::unknown(Reason::NotMeasured),
        resident_after_pages: Measured::unknown(Reason::NotMeasured),
        ledger: Ledger::default(),
        direct: false,
    }
    .row()
}

/// The totals.
pub(super) fn openmetrics(interval: &Interval) -> io::Result<String> {
    let mut exposition = Exposition::new();
    exposition.page_size(interval.page());
    let row = interval.total_row();
    // Ratios cannot be summed over machines; their counters are here.
    for field in FIELDS.iter().filter(|field| field.unit != Unit::Ratio) {
        if field.of(&row) != MISPLACED {
            exposition.field(&row, field);
        }
    }
    let outside = interval.run().outside_bytes.bytes();
    let help = "Bytes read from pipes, sockets, tmpfs and the like, which no page cache serves";
    exposition.value("outside_bytes", help, Unit::Bytes, Kind::Counter, &outside);
    exposition.counted_by(interval);
    let facts = vec![
        ("name", interval.source.backend.name.clone()),
        ("exact", interval.source.backend.exact.to_string()),
        ("kernel", interval.source.kernel.clone()),
    ];
    exposition.info(
        "backend",
        "What counted, and whether it is exact to the page",
        facts,
    );
    exposition.text()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn csv_has_a_row_per_file() {
        let text = csv(&sample::cold(), None).unwrap();
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let ids: Vec<String> = reader
            .headers()
            .unwrap()
            .iter()
            .map(str::to_owned)
            .collect();
        let record = reader.records().next().unwrap().unwrap();
        let cell = |id: &str| &record[ids.iter().position(|known| known == id).unwrap()];
        assert_eq!(cell("path"), "/data/file", "the path");
        assert_eq!(cell("read_missed_pages"), "512", "integers, no thousands");
        assert_eq!(cell("reuse_ratio"), "0", "ratios 0 to 1");
        assert_eq!(cell("deleted"), "false", "flags");
        assert!(
            cell("reasons").contains("fault_hit_ratio: nothing was requested"),
            "the reason"
        );
        assert!(
            !ids.iter().any(|id| id == "pid" || id == "cached_bytes"),
            "only fields of files"
        );
    }

    #[test]
    fn csv_says_in_each_row_what_the_run_lost() {
        let mut interval = sample::cold();
        let whole = csv(&interval, None).unwrap();
        assert!(!whole.contains("incomplete"), "nothing lost, nothing said");
        interval.lost[0].count = 1234;
        let text = csv(&interval, None).unwrap();
        let rows = text.lines().count() - 1;
        assert_eq!(
            text.matches("incomplete, rows: 1,234 events").count(),
            rows,
            "every row may be affected: {text}"
        );
    }

    #[test]
    fn csv_without_files_has_the_same_header() {
        let mut interval = sample::cold();
        let with = csv(&interval, None).unwrap();
        interval.files.clear();
        let without = csv(&interval, None).unwrap();
        assert_eq!(without.lines().count(), 1, "the header alone");
        assert_eq!(without.lines().next(), with.lines().next(), "the same one");
    }

    #[test]
    fn openmetrics_has_totals_without_file_names() {
        let text = openmetrics(&sample::cold()).unwrap();
        for line in [
            "# TYPE cachewise_read_requested_pages counter",
            "# UNIT cachewise_read_requested_pages pages",
            "cachewise_read_requested_pages_total 131072",
            "cachewise_read_missed_pages_total 512",
            "cachewise_page_size_bytes 4096",
            "cachewise_outside_bytes_total 1536",
            "cachewise_lost_events_total 0",
            "cachewise_kernel_memory_bytes 33554432",
            "cachewise_elapsed_seconds 0.512",
            "cachewise_backend_info{name=\"tracepoints\",exact=\"true\",kernel=\"6.18.0\"} 1",
        ] {
            assert!(
                text.lines().any(|known| known == line),
                "`{line}` is in\n{text}"
            );
        }
        assert!(text.ends_with("# EOF\n"), "the end is marked");
        assert!(!text.contains("/data/file"), "files are not labels");
        assert!(!text.contains("_ratio"), "ratios cannot be summed");
        let mut samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let all = samples.len();
        samples.sort_unstable();
        samples.dedup();
        assert_eq!(samples.len(), all, "no series is repeated");
    }
}

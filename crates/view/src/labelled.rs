//! One OpenMetrics exposition of several objects: a series for each, distinguished by labels.
//!
//! The caller keeps the number of label values small: a label with a path or pid has no bound.

use std::collections::BTreeMap;
use std::io;

use cachewise_model::{Field, Kind, Lost, Reason, Row, Unit};
use cachewise_units::PageSize;

use crate::metrics::{Exposition, Labels, MetricNumber};

/// Writes these columns of these objects, and what was lost. A missing value is an absent series; where
/// no object has a value, `cachewise_left_out` has the reason. The help of an estimate says so.
///
/// # Errors
/// The library cannot write its input.
pub fn labelled_metrics(
    rows: &[(Labels, Row)],
    columns: &[&'static Field],
    page_size: PageSize,
    lost: Option<&[Lost]>,
) -> io::Result<String> {
    let mut exposition = Exposition::new();
    exposition.page_size(page_size);
    if let Some(lost) = lost {
        exposition.lost(lost);
    }
    let mut named: Vec<&str> = Vec::new();
    let mut left_out: BTreeMap<Reason, u64> = BTreeMap::new();
    for field in columns.iter().filter(|field| field.kind != Kind::Label) {
        if named.contains(&field.id) {
            continue;
        }
        named.push(field.id);
        let (mut how, mut why) = (None, None);
        let mut series = Vec::with_capacity(rows.len());
        for (labels, row) in rows {
            let value = field.of(row);
            how = how.or(value.estimate());
            why = why.or(value.missing());
            if let Some(number) = MetricNumber::of(&value) {
                series.push((labels.clone(), number));
            }
        }
        if let (true, Some(missing)) = (series.is_empty(), why) {
            *left_out.entry(missing.reason()).or_default() += 1;
        }
        exposition.add(field.id, field.help, (field.unit, field.kind), how, series);
    }
    // They distinguish columns without a value from columns that do not exist.
    let help = "Metrics left out because their values are unknown, by reason";
    let series = left_out.into_iter().map(|(reason, count)| {
        let labels = vec![
            ("reason", reason.words().to_owned()),
            ("reason_code", reason.code().to_owned()),
        ];
        (labels, MetricNumber::Whole(count))
    });
    let kind = (Unit::Count, Kind::Gauge);
    exposition.add("left_out", help, kind, None, series.collect());
    exposition.text()
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Counter, Missing, Reason, field};

    use super::*;

    #[test]
    fn labelled_metrics_writes_one_head_and_a_series_per_object() {
        let row = |pages| {
            let mut row = Row::default();
            row.ledger.set(Counter::ReadRequestedPages, pages);
            row
        };
        let mut blind = row(1);
        blind.ledger.set_missing(
            Counter::ReadRequestedPages,
            Missing::Unknown(Reason::LostEvents),
        );
        let rows = [
            (vec![("command", "a\"b\\\n".to_owned())], row(4)),
            (vec![("command", "dd".to_owned())], row(5)),
            (vec![("command", "cat".to_owned())], blind),
        ];
        let columns = ["read_requested_pages", "read_requested_pages", "command"]
            .map(|id| field(id).unwrap());
        let page = PageSize::new(4 << 10).unwrap();
        let text = labelled_metrics(&rows, &columns, page, None).unwrap();
        let expected = "\
# HELP cachewise_page_size_bytes Size of a page.
# TYPE cachewise_page_size_bytes gauge
# UNIT cachewise_page_size_bytes bytes
cachewise_page_size_bytes 4096
# HELP cachewise_read_requested_pages Pages that reads requested, up to the end of the file: hits, misses and unserved pages.
# TYPE cachewise_read_requested_pages counter
# UNIT cachewise_read_requested_pages pages
cachewise_read_requested_pages_total{command=\"a\\\"b\\\\\\n\"} 4
cachewise_read_requested_pages_total{command=\"dd\"} 5
# EOF
";
        assert_eq!(text, expected, "once each; a missing value is absent");

        let expected = "\
# HELP cachewise_left_out Metrics left out because their values are unknown, by reason.
# TYPE cachewise_left_out gauge
cachewise_left_out{reason=\"events were lost\",reason_code=\"lost_events\"} 1
# EOF
";
        let lost = [Lost::new("rows", 7)];
        let text = labelled_metrics(&rows, &columns, page, Some(&lost)).unwrap();
        assert!(
            text.contains("\ncachewise_lost_events_total 7\n"),
            "one for all of them: {text}"
        );
        let text = labelled_metrics(&rows[2..], &columns, page, None).unwrap();
        assert!(
            text.ends_with(expected) && !text.contains("read_requested_pages"),
            "where none is known, the reason: {text}"
        );
    }
}

//! One OpenMetrics exposition of several objects: a series for each, distinguished by labels.
//!
//! The caller keeps the number of label values small: a label with a path or pid has no bound.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use cachewise_model::{Field, Kind, Lost, Missing, Reason, Row};
use cachewise_units::PageSize;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::metrics::{Exposition, Number, help_text, number};

/// Label names and values of an object.
pub type Labels = Vec<(&'static str, String)>;

#[derive(Debug)]
struct Families<'a> {
    rows: &'a [(Labels, Row)],
    columns: &'a [&'static Field],
}

/// Writes these columns of these things, and what was lost. What is missing is an absent series, and of a column that has none at all
/// `cachewise_left_out` has the reason; an estimate says so in its help.
///
/// # Errors
/// The library cannot write its input.
pub fn labelled_metrics(
    rows: &[(Labels, Row)],
    columns: &[&'static Field],
    page_size: PageSize,
    lost: Option<&[Lost]>,
) -> io::Result<String> {
    // The collector must own its values.
    let mut head = Exposition::new();
    head.page_size(page_size);
    if let Some(lost) = lost {
        head.lost(lost);
    }
    let head = head.text()?;
    let head = head.strip_suffix("# EOF\n").unwrap_or(&head);
    let mut registry = Registry::with_prefix("cachewise");
    let families = Owned {
        rows: rows.to_vec(),
        columns: columns.to_vec(),
    };
    registry.register_collector(Box::new(families));
    let mut out = String::from(head);
    text::encode(&mut out, &registry).map_err(io::Error::other)?;
    Ok(out)
}

#[derive(Debug)]
struct Owned {
    rows: Vec<(Labels, Row)>,
    columns: Vec<&'static Field>,
}

impl Collector for Owned {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let families = Families {
            rows: &self.rows,
            columns: &self.columns,
        };
        let mut named: Vec<&str> = Vec::new();
        let mut left_out: BTreeMap<Reason, u64> = BTreeMap::new();
        for field in families
            .columns
            .iter()
            .filter(|field| field.kind != Kind::Label)
        {
            if named.contains(&field.id) {
                continue;
            }
            named.push(field.id);
            if let Some(missing) = families.field(field, &mut encoder)? {
                *left_out.entry(missing.reason()).or_default() += 1;
            }
        }
        write_left_out(&left_out, &mut encoder)
    }
}

impl Families<'_> {
    /// Writes a column; counts it with the reason if no row has a value.
    fn field(
        &self,
        field: &Field,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<Option<Missing>, fmt::Error> {
        let (mut how, mut why) = (None, None);
        let mut series = Vec::with_capacity(self.rows.len());
        for (labels, row) in self.rows {
            let value = field.of(row);
            how = how.or(value.estimate());
            why = why.or(value.missing());
            if let Some(number) = value.known().and_then(|datum| number(&datum, field.kind)) {
                series.push((labels, number));
            }
        }
        let Some((_, first)) = series.first() else {
            return Ok(why);
        };
        let note = how
            .map(|how| format!(" (estimated: {how})"))
            .unwrap_or_default();
        let name = field
            .unit
            .suffix()
            .and_then(|unit| field.id.strip_suffix(unit));
        let unit = field.unit.name().map(|name| Unit::Other(name.to_owned()));
        let kind = with_metric(first, |metric| metric.metric_type());
        let mut family = encoder.encode_descriptor(
            name.unwrap_or(field.id),
            &help_text(&format!("{}{note}.", field.help)),
            unit.as_ref(),
            kind,
        )?;
        for (labels, number) in &series {
            let encoder = family.encode_family(*labels)?;
            with_metric(number, |metric| metric.encode(encoder))?;
        }
        Ok(None)
    }
}

/// Number of columns without a value, for each reason: it distinguishes them from columns that do
/// not exist.
fn write_left_out(
    reasons: &BTreeMap<Reason, u64>,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    if reasons.is_empty() {
        return Ok(());
    }
    let help = "Metrics left out because their values are unknown, by reason.";
    let mut family = encoder.encode_descriptor("left_out", help, None, MetricType::Gauge)?;
    for (reason, count) in reasons {
        let labels = vec![
            ("reason", reason.words().to_owned()),
            ("reason_code", reason.code().to_owned()),
        ];
        let encoder = family.encode_family(&labels)?;
        ConstGauge::new(*count).encode(encoder)?;
    }
    Ok(())
}

fn with_metric<T>(number: &Number, then: impl FnOnce(&dyn EncodeMetric) -> T) -> T {
    match number {
        Number::Counter(n) => then(&ConstCounter::new(*n)),
        Number::CounterFraction(n) => then(&ConstCounter::new(*n)),
        Number::Gauge(n) => then(&ConstGauge::new(*n)),
        Number::GaugeFraction(n) => then(&ConstGauge::new(*n)),
        // Only expositions of a whole machine have facts.
        Number::Info(_) => then(&ConstGauge::new(1u64)),
    }
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

//! One OpenMetrics exposition, written by `prometheus-client`. Reports and the server's scrapes use it.
//!
//! A metric's name is `cachewise_` and the field's id; the library adds `_total`, `# UNIT`, label
//! escapes and `# EOF`. A missing value is an absent series; the help of an estimate says so. No
//! label holds a file, process or command: their number has no bound.

use std::collections::HashSet;
use std::fmt;
use std::io;

use cachewise_model::{Datum, Field, Interval, Kind, Lost, Measured, Reason, Row, Unit, Value};
use cachewise_units::PageSize;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit as MetricUnit};

/// Label names and values of a series.
pub type Labels = Vec<(&'static str, String)>;

/// The metrics of one exposition.
#[derive(Debug, Default)]
pub struct Exposition {
    metrics: Vec<Metric>,
    names: HashSet<String>,
}

/// A metric with its series.
#[derive(Debug)]
pub struct Metric {
    /// The name without prefix, unit and `_total`.
    pub name: String,
    /// One sentence, with its full stop.
    pub help: String,
    /// The unit's name.
    pub unit: Option<&'static str>,
    /// Counter or gauge; a label is a set of facts.
    pub kind: Kind,
    /// Each series.
    pub series: Vec<(Labels, MetricNumber)>,
}

/// The number of a series.
#[derive(Debug, Clone, Copy)]
pub enum MetricNumber {
    /// An integer.
    Whole(u64),
    /// A number with a fraction: seconds, ratios.
    Fraction(f64),
}

impl MetricNumber {
    /// The number of a field's value; `None` for names and missing values.
    #[must_use]
    pub fn of(value: &Value) -> Option<MetricNumber> {
        Some(match value.as_ref().known()? {
            Datum::Count(number) => MetricNumber::Whole(*number),
            Datum::Pages(pages) => MetricNumber::Whole(pages.0),
            Datum::Bytes(bytes) => MetricNumber::Whole(bytes.0),
            Datum::Seconds(number) | Datum::Latency(number) | Datum::Factor(number) => {
                MetricNumber::Fraction(*number)
            }
            Datum::Ratio(ratio) => MetricNumber::Fraction(ratio.get()),
            Datum::Id(_) | Datum::Text(_) | Datum::Path(_) | Datum::Time(_) => return None,
        })
    }

    fn metric(self, kind: Kind) -> Box<dyn EncodeMetric> {
        match (kind, self) {
            (Kind::Counter, MetricNumber::Whole(number)) => Box::new(ConstCounter::new(number)),
            (Kind::Counter, MetricNumber::Fraction(number)) => Box::new(ConstCounter::new(number)),
            (_, MetricNumber::Whole(number)) => Box::new(ConstGauge::new(number)),
            (_, MetricNumber::Fraction(number)) => Box::new(ConstGauge::new(number)),
        }
    }
}

impl Exposition {
    pub(crate) fn new() -> Self {
        Exposition::default()
    }

    /// Adds a metric under an id that ends with its unit. Skips one without series and a duplicate
    /// name.
    pub fn add(
        &mut self,
        id: &str,
        help: &str,
        (unit, kind): (Unit, Kind),
        estimated: Option<Reason>,
        series: Vec<(Labels, MetricNumber)>,
    ) {
        if series.is_empty() || !self.names.insert(id.to_owned()) {
            return;
        }
        let note = estimated
            .map(|how| format!(" (estimated: {how})"))
            .unwrap_or_default();
        let name = unit.suffix().and_then(|suffix| id.strip_suffix(suffix));
        self.metrics.push(Metric {
            name: name.unwrap_or(id).to_owned(),
            help: format!("{help}{note}."),
            unit: unit.name(),
            kind,
            series,
        });
    }

    /// Adds one field of a row if it has a value.
    pub(crate) fn field(&mut self, row: &Row, field: &Field) {
        if field.kind != Kind::Label {
            self.value(field.id, field.help, field.unit, field.kind, &field.of(row));
        }
    }

    /// Adds a value without labels.
    pub(crate) fn value(&mut self, id: &str, help: &str, unit: Unit, kind: Kind, value: &Value) {
        let series = MetricNumber::of(value).map(|number| (Labels::new(), number));
        let series = series.into_iter().collect();
        self.add(id, help, (unit, kind), value.estimate(), series);
    }

    /// Adds the page size, which converts pages to bytes.
    pub fn page_size(&mut self, page_size: PageSize) {
        let value = Measured::Exact(Datum::Bytes(page_size.bytes()));
        self.value(
            "page_size_bytes",
            "Size of a page",
            Unit::Bytes,
            Kind::Gauge,
            &value,
        );
    }

    /// Adds the losses of a report, and the kernel memory that counting took.
    pub(crate) fn counted_by(&mut self, interval: &Interval) {
        let help = "Kernel memory of the maps and programs that count";
        let memory = interval.source.backend.kernel_memory_bytes.bytes();
        self.value(
            "kernel_memory_bytes",
            help,
            Unit::Bytes,
            Kind::Gauge,
            &memory,
        );
        if interval.ledger.all_unknown().is_none() {
            self.lost(&interval.lost);
        }
    }

    /// Adds the number of events that were lost.
    pub(crate) fn lost(&mut self, lost: &[Lost]) {
        let help = "Events not counted, or in a sum only";
        let lost = Measured::Exact(Lost::sum(lost)).count();
        self.value("lost_events", help, Unit::Count, Kind::Counter, &lost);
    }

    /// Adds facts that are no numbers, of which there is a fixed set.
    pub(crate) fn info(&mut self, name: &str, help: &str, facts: Labels) {
        let series = vec![(facts, MetricNumber::Whole(1))];
        self.add(name, help, (Unit::Text, Kind::Label), None, series);
    }

    /// The metrics, in the order in which they were added.
    #[must_use]
    pub fn into_metrics(self) -> Vec<Metric> {
        self.metrics
    }

    /// The exposition as OpenMetrics, `# EOF` included.
    ///
    /// # Errors
    /// The library cannot write its input.
    pub fn text(self) -> io::Result<String> {
        let mut registry = Registry::with_prefix("cachewise");
        registry.register_collector(Box::new(self));
        let mut out = String::new();
        text::encode(&mut out, &registry).map_err(io::Error::other)?;
        Ok(out)
    }
}

/// Help in the format's syntax, with the escapes that the library does not add.
fn help_text(help: &str) -> String {
    help.replace('\\', r"\\")
        .replace('\n', r"\n")
        .replace('"', r#"\""#)
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for metric in &self.metrics {
            let unit = metric.unit.map(|name| MetricUnit::Other(name.to_owned()));
            let Some((labels, number)) = metric.series.first() else {
                continue;
            };
            let is_alone = labels.is_empty() && metric.series.len() == 1;
            let first: Box<dyn EncodeMetric> = match metric.kind {
                Kind::Label => Box::new(Info::new(labels.clone())),
                kind => number.metric(kind),
            };
            let help = help_text(&metric.help);
            let kind = first.metric_type();
            let mut family = encoder.encode_descriptor(&metric.name, &help, unit.as_ref(), kind)?;
            if is_alone || metric.kind == Kind::Label {
                first.encode(family)?;
                continue;
            }
            for (labels, number) in &metric.series {
                let number = number.metric(metric.kind);
                number.encode(family.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Counter, FIELDS, Missing, Reason, field};

    use super::*;

    fn row() -> Row {
        let mut row = Row::default();
        row.ledger.set(Counter::ReadRequestedPages, 4);
        row.ledger.set(Counter::ReadHitPages, 4);
        row.ledger.set(Counter::ReadRequests, 2);
        row.system.cached_bytes = Measured::Exact(1 << 30);
        row
    }

    #[test]
    fn counters_gauges_and_ratios_are_written() {
        let mut exposition = Exposition::new();
        let mut row = row();
        row.ledger
            .set_estimated(Counter::ReadRequestedBytes, 4096, Reason::OwnReadCalls);
        for id in [
            "read_requested_pages",
            "read_requests",
            "cached_bytes",
            "reuse_ratio",
            "read_bytes",
        ] {
            exposition.field(&row, field(id).unwrap());
        }
        let expected = "\
# HELP cachewise_read_requested_pages Pages that reads requested, up to the end of the file: hits, misses and unserved pages.
# TYPE cachewise_read_requested_pages counter
# UNIT cachewise_read_requested_pages pages
cachewise_read_requested_pages_total 4
# HELP cachewise_read_requests Read requests on cached files: read, pread, readv, sendfile, splice, io_uring reads and the like.
# TYPE cachewise_read_requests counter
cachewise_read_requests_total 2
# HELP cachewise_cached_bytes Page cache of files, shared memory and tmpfs included.
# TYPE cachewise_cached_bytes gauge
# UNIT cachewise_cached_bytes bytes
cachewise_cached_bytes 1073741824
# HELP cachewise_reuse_ratio Share of requested pages that came from the cache without I/O of this run: hits minus readahead hits, over requested pages.
# TYPE cachewise_reuse_ratio gauge
# UNIT cachewise_reuse_ratio ratio
cachewise_reuse_ratio 1.0
# HELP cachewise_read_bytes Bytes that reads moved through the page cache: requested minus unserved; unknown for the kernel's own reads (execve) (estimated: read calls of the process itself, pipes and sockets included).
# TYPE cachewise_read_bytes counter
# UNIT cachewise_read_bytes bytes
cachewise_read_bytes_total 4096
# EOF
";
        assert_eq!(
            exposition.text().unwrap(),
            expected,
            "name, help, type, unit and end"
        );
    }

    #[test]
    fn missing_values_names_and_duplicates_are_absent() {
        let mut exposition = Exposition::new();
        let mut row = row();
        row.ledger.set_missing(
            Counter::ReadRequestedPages,
            Missing::Unknown(Reason::LostEvents),
        );
        row.labels.path = Measured::Exact("/etc/passwd".into());
        row.labels.pid = Measured::Exact(7);
        for id in [
            "read_requested_pages",
            "path",
            "pid",
            "read_requests",
            "read_requests",
        ] {
            exposition.field(&row, field(id).unwrap());
        }
        let text = exposition.text().unwrap();
        assert!(
            !text.contains("read_requested_pages"),
            "a missing value has no series"
        );
        assert!(!text.contains("passwd"), "files have no metrics");
        assert_eq!(
            text.matches("\ncachewise_").count(),
            1,
            "a series is written once: {text}"
        );
    }

    #[test]
    fn facts_and_help_are_escaped() {
        let mut exposition = Exposition::new();
        exposition.info(
            "backend",
            "What \"counted\"\n",
            vec![("name", "a\"b\nc".to_owned())],
        );
        let expected = "# HELP cachewise_backend What \\\"counted\\\"\\n.\n# TYPE cachewise_backend info\n\
            cachewise_backend_info{name=\"a\\\"b\\nc\"} 1\n# EOF\n";
        assert_eq!(
            exposition.text().unwrap(),
            expected,
            "quotes and line feeds do not break out"
        );
    }

    #[test]
    fn every_field_writes_valid_lines() {
        let mut exposition = Exposition::new();
        let mut row = row();
        row.subject.cpu_seconds = Measured::Exact(0.25);
        for field in &FIELDS {
            exposition.field(&row, field);
        }
        let text = exposition.text().unwrap();
        assert!(
            text.ends_with("\n# EOF\n"),
            "the exposition ends as it must"
        );
        assert!(
            text.contains("\ncachewise_cpu_seconds_total 0.25\n"),
            "seconds have a fraction"
        );
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, number) = line.split_once(' ').unwrap();
            assert!(name.starts_with("cachewise_"), "`{line}` has our prefix");
            assert!(number.parse::<f64>().is_ok(), "`{line}` ends in a number");
            let family = name.strip_suffix("_total").unwrap_or(name);
            assert!(
                text.contains(&format!("# TYPE {family} ")),
                "`{line}` has a type"
            );
            assert!(
                text.contains(&format!("# HELP {family} ")),
                "`{line}` has a help"
            );
        }
    }
}

//! One OpenMetrics exposition, written by `prometheus-client`.
//!
//! A metric's name is `cachewise_` and the field's id; the library adds `_total`, `# UNIT`, label
//! escapes and `# EOF`. A missing value is an absent series; the help of an estimate says so. No
//! label holds a file, process or command: their number has no bound.

use std::collections::HashSet;
use std::fmt;
use std::io;

use cachewise_model::{Datum, Field, Kind, Lost, Measured, Report, Row, Unit, Value};
use cachewise_units::PageSize;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit as MetricUnit};

/// The series of one exposition.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    series: Vec<Series>,
    names: HashSet<String>,
}

#[derive(Debug)]
struct Series {
    /// Without prefix, unit and `_total`.
    name: String,
    help: String,
    unit: Option<MetricUnit>,
    number: Number,
}

#[derive(Debug)]
pub(crate) enum Number {
    Counter(u64),
    /// Counters of seconds have a fraction.
    CounterFraction(f64),
    Gauge(u64),
    GaugeFraction(f64),
    Info(Vec<(&'static str, String)>),
}

impl Exposition {
    pub(crate) fn new() -> Self {
        Exposition::default()
    }

    /// Adds one field of a row if it has a value; skips a duplicate name.
    pub(crate) fn field(&mut self, row: &Row, field: &Field) {
        if field.kind != Kind::Label {
            self.value(field.id, field.help, field.unit, field.kind, &field.of(row));
        }
    }

    /// Adds a value under an id that ends with its unit.
    pub(crate) fn value(&mut self, id: &str, help: &str, unit: Unit, kind: Kind, value: &Value) {
        let Some(datum) = value.as_ref().known() else {
            return;
        };
        let Some(number) = number(datum, kind) else {
            return;
        };
        let note = value
            .estimate()
            .map(|how| format!(" (estimated: {how})"))
            .unwrap_or_default();
        self.push(Series {
            name: unit
                .suffix()
                .and_then(|suffix| id.strip_suffix(suffix))
                .unwrap_or(id)
                .to_owned(),
            help: help_text(&format!("{help}{note}.")),
            unit: unit.name().map(|name| MetricUnit::Other(name.to_owned())),
            number,
        });
    }

    /// Adds the page size, which converts pages to bytes.
    pub(crate) fn page_size(&mut self, page_size: PageSize) {
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
    pub(crate) fn counted_by(&mut self, report: &Report) {
        let help = "Kernel memory of the maps and programs that count";
        let memory = report.backend.kernel_memory_bytes.bytes();
        self.value(
            "kernel_memory_bytes",
            help,
            Unit::Bytes,
            Kind::Gauge,
            &memory,
        );
        if report.totals.all_unknown().is_none() {
            self.lost(&report.lost);
        }
    }

    /// Adds the number of events that were lost.
    pub(crate) fn lost(&mut self, lost: &[Lost]) {
        let help = "Events not counted, or in a sum only";
        let lost = Measured::Exact(Lost::sum(lost)).count();
        self.value("lost_events", help, Unit::Count, Kind::Counter, &lost);
    }

    /// Adds facts that are no numbers, of which there is a fixed set.
    pub(crate) fn info(&mut self, name: &str, help: &str, facts: Vec<(&'static str, String)>) {
        let help = help_text(&format!("{help}."));
        self.push(Series {
            name: name.to_owned(),
            help,
            unit: None,
            number: Number::Info(facts),
        });
    }

    fn push(&mut self, series: Series) {
        let full = series.unit.as_ref().map_or_else(
            || series.name.clone(),
            |unit| format!("{}_{}", series.name, unit.as_str()),
        );
        if self.names.insert(full) {
            self.series.push(series);
        }
    }

    /// The exposition as text, `# EOF` included.
    ///
    /// # Errors
    /// The library cannot write its input.
    pub(crate) fn text(self) -> io::Result<String> {
        let mut registry = Registry::with_prefix("cachewise");
        registry.register_collector(Box::new(self));
        let mut out = String::new();
        text::encode(&mut out, &registry).map_err(io::Error::other)?;
        Ok(out)
    }
}

/// Help in the format's syntax, with the escapes that the library does not add.
pub(crate) fn help_text(help: &str) -> String {
    help.replace('\\', r"\\")
        .replace('\n', r"\n")
        .replace('"', r#"\""#)
}

pub(crate) fn number(datum: &Datum, kind: Kind) -> Option<Number> {
    let whole = match datum {
        Datum::Count(number) => *number,
        Datum::Pages(pages) => pages.0,
        Datum::Bytes(bytes) => bytes.0,
        Datum::Seconds(seconds) if kind == Kind::Counter => {
            return Some(Number::CounterFraction(*seconds));
        }
        Datum::Seconds(number) | Datum::Latency(number) | Datum::Factor(number) => {
            return Some(Number::GaugeFraction(*number));
        }
        Datum::Ratio(ratio) => return Some(Number::GaugeFraction(ratio.get())),
        Datum::Id(_) | Datum::Text(_) | Datum::Path(_) | Datum::Time(_) => return None,
    };
    Some(if kind == Kind::Counter {
        Number::Counter(whole)
    } else {
        Number::Gauge(whole)
    })
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for Series {
            name,
            help,
            unit,
            number,
        } in &self.series
        {
            let metric: &dyn EncodeMetric = match number {
                Number::Counter(n) => &ConstCounter::new(*n),
                Number::CounterFraction(n) => &ConstCounter::new(*n),
                Number::Gauge(n) => &ConstGauge::new(*n),
                Number::GaugeFraction(n) => &ConstGauge::new(*n),
                Number::Info(facts) => &Info::new(facts.clone()),
            };
            let kind = metric.metric_type();
            metric.encode(encoder.encode_descriptor(name, help, unit.as_ref(), kind)?)?;
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

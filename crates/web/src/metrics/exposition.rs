//! The text of a scrape: OpenMetrics by `prometheus-client`, and the older Prometheus format
//! derived from it.

use std::fmt;

use cachewise_model::{Datum, Kind, Reason, Unit, Value};
use prometheus_client::collector::Collector as Collects;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit as MetricUnit};

use super::family::Family;

/// In which format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    OpenMetrics,
    Text,
}

impl Format {
    /// Returns the format for an `Accept` header: OpenMetrics if its weight is at least that of the
    /// Prometheus text, else the Prometheus text.
    pub(crate) fn from_accept(accept: Option<&str>) -> Format {
        let weight = |name: &str| {
            accept.unwrap_or_default().split(',').find_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                let is_it = parts.next()?.eq_ignore_ascii_case(name);
                let weight = parts.find_map(|part| part.strip_prefix("q="));
                is_it.then(|| weight.and_then(|weight| weight.parse().ok()).unwrap_or(1.0))
            })
        };
        let openmetrics: Option<f64> = weight("application/openmetrics-text");
        match (openmetrics, weight("text/plain")) {
            (Some(open), plain) if open > 0.0 && open >= plain.unwrap_or(0.0) => {
                Format::OpenMetrics
            }
            _ => Format::Text,
        }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Number {
    Whole(u64),
    Fraction(f64),
}

impl Number {
    /// A field's value as a number; names are none, and what is missing has no series.
    pub(crate) fn from_value(value: &Value) -> Option<Number> {
        Some(match value.as_ref().known()? {
            Datum::Count(number) => Number::Whole(*number),
            Datum::Pages(pages) => Number::Whole(pages.0),
            Datum::Bytes(bytes) => Number::Whole(bytes.0),
            Datum::Seconds(number) | Datum::Latency(number) | Datum::Factor(number) => {
                Number::Fraction(*number)
            }
            Datum::Ratio(ratio) => Number::Fraction(ratio.get()),
            Datum::Id(_) | Datum::Text(_) | Datum::Path(_) | Datum::Time(_) => return None,
        })
    }
}

pub(crate) type Labels = Vec<(&'static str, String)>;

/// Everything that one scrape gives.
#[derive(Debug, Default)]
pub(crate) struct Exposition {
    pub(super) families: Vec<Filled>,
}

#[derive(Debug)]
pub(super) struct Filled {
    pub(super) name: String,
    pub(super) help: String,
    pub(super) unit: Option<MetricUnit>,
    pub(super) kind: Kind,
    pub(super) series: Vec<(Labels, Number)>,
}

impl Exposition {
    /// Adds a family with its series; one without any is left out.
    pub(crate) fn add(
        &mut self,
        family: &Family,
        estimated: Option<Reason>,
        series: Vec<(Labels, Number)>,
    ) {
        if series.is_empty() {
            return;
        }
        let note = estimated
            .map(|how| format!(" (estimated: {how})"))
            .unwrap_or_default();
        let help = format!("{}{note}.", family.help());
        let unit = family.unit.name().filter(|_| family.unit != Unit::Count);
        self.families.push(Filled {
            name: match family.unit.suffix() {
                Some(suffix) => family.name.strip_suffix(suffix).unwrap_or(family.name),
                None => family.name,
            }
            .to_owned(),
            help: escaped(&help),
            unit: unit.map(|name| MetricUnit::Other(name.to_owned())),
            kind: family.kind,
            series,
        });
    }

    pub(crate) fn text(self, format: Format) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("cachewise");
        registry.register_collector(Box::new(self));
        let mut out = String::new();
        text::encode(&mut out, &registry)?;
        Ok(match format {
            Format::OpenMetrics => out,
            Format::Text => plain(&out),
        })
    }
}

/// Help as both formats want it, but for quotes, of which there are none.
fn escaped(help: &str) -> String {
    help.replace('\\', r"\\")
        .replace('\n', r"\n")
        .replace('"', "'")
}

/// The format before OpenMetrics: counters are called by their whole name, there are no units and no end.
fn plain(openmetrics: &str) -> String {
    let counters: std::collections::HashSet<&str> = openmetrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(openmetrics.len());
    for line in openmetrics.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        let comment = ["# HELP ", "# TYPE "]
            .into_iter()
            .find_map(|head| Some((head, line.strip_prefix(head)?)));
        match comment.and_then(|(head, rest)| Some((head, rest.split_once(' ')?))) {
            Some((head, (name, rest))) => {
                let total = if counters.contains(name) {
                    "_total"
                } else {
                    ""
                };
                text.extend([head, name, total, " ", rest]);
            }
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

impl Collects for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        for family in &self.families {
            let Some((_, first)) = family.series.first() else {
                continue;
            };
            let kind = metric(family.kind, *first).metric_type();
            let mut described = encoder.encode_descriptor(
                &family.name,
                &family.help,
                family.unit.as_ref(),
                kind,
            )?;
            if let [(labels, number)] = family.series.as_slice()
                && labels.is_empty()
            {
                metric(family.kind, *number).encode(described)?;
                continue;
            }
            for (labels, number) in &family.series {
                metric(family.kind, *number).encode(described.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

fn metric(kind: Kind, number: Number) -> Box<dyn EncodeMetric> {
    match (kind, number) {
        (Kind::Counter, Number::Whole(number)) => Box::new(ConstCounter::new(number)),
        (Kind::Counter, Number::Fraction(number)) => Box::new(ConstCounter::new(number)),
        (_, Number::Whole(number)) => Box::new(ConstGauge::new(number)),
        (_, Number::Fraction(number)) => Box::new(ConstGauge::new(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::table::FAMILIES;

    fn family(name: &str) -> &'static Family {
        let mut all = FAMILIES.iter();
        all.find(|family| family.name == name)
            .expect("it is in the table")
    }

    fn sample() -> Exposition {
        let mut exposition = Exposition::default();
        exposition.add(
            family("page_cache_hits"),
            Some(Reason::ByVmstat),
            vec![(Vec::new(), Number::Whole(7))],
        );
        exposition.add(
            family("pressure_waiting_seconds"),
            None,
            vec![
                (vec![("resource", "cpu".into())], Number::Fraction(0.5)),
                (
                    vec![("resource", "a\"b\\c\nd".into())],
                    Number::Fraction(1.0),
                ),
            ],
        );
        exposition.add(
            family("dirty_bytes"),
            None,
            vec![(Vec::new(), Number::Whole(4096))],
        );
        exposition.add(family("swap_used_bytes"), None, Vec::new());
        exposition
    }

    #[test]
    fn help_has_neither_quotes_nor_line_feeds() {
        assert_eq!(escaped("by \"vmstat\"\\\n"), r"by 'vmstat'\\\n");
    }

    #[test]
    fn openmetrics_line_by_line() {
        let expected = r#"# HELP cachewise_page_cache_hits Requested pages that were in the page cache when the read reached them (estimated: the machine's vmstat).
# TYPE cachewise_page_cache_hits counter
cachewise_page_cache_hits_total 7
# HELP cachewise_pressure_waiting_seconds Time in which some task waited for the resource (PSI, some).
# TYPE cachewise_pressure_waiting_seconds counter
# UNIT cachewise_pressure_waiting_seconds seconds
cachewise_pressure_waiting_seconds_total{resource="cpu"} 0.5
cachewise_pressure_waiting_seconds_total{resource="a\"b\\c\nd"} 1.0
# HELP cachewise_dirty_bytes Page cache waiting to be written back.
# TYPE cachewise_dirty_bytes gauge
# UNIT cachewise_dirty_bytes bytes
cachewise_dirty_bytes 4096
# EOF
"#;
        assert_eq!(
            sample()
                .text(Format::OpenMetrics)
                .expect("it can be written"),
            expected,
            "names, units, escapes, the end; what has no series is left out"
        );
    }

    #[test]
    fn the_older_format_has_whole_names() {
        let text = sample().text(Format::Text).expect("it can be written");
        assert!(
            text.contains("# TYPE cachewise_page_cache_hits_total counter\n"),
            "the type is that of the whole name: {text}"
        );
        assert!(
            text.contains("\ncachewise_page_cache_hits_total 7\n"),
            "the same number"
        );
        assert!(
            text.contains("# TYPE cachewise_dirty_bytes gauge\n"),
            "gauges stay"
        );
        assert!(
            !text.contains("# EOF") && !text.contains("# UNIT"),
            "what it does not know"
        );
    }

    #[test]
    fn clients_get_what_they_ask_for() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
            application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        for (accept, format) in [
            (Some(prometheus), Format::OpenMetrics),
            (
                Some("application/openmetrics-text; version=1.0.0"),
                Format::OpenMetrics,
            ),
            (Some("text/plain"), Format::Text),
            (
                Some("text/plain;q=0.9, application/openmetrics-text;q=0.1"),
                Format::Text,
            ),
            (Some("application/openmetrics-text;q=0"), Format::Text),
            (Some("*/*"), Format::Text),
            (Some("text/html,;;q=x,="), Format::Text),
            (None, Format::Text),
        ] {
            assert_eq!(Format::from_accept(accept), format, "{accept:?}");
        }
    }
}

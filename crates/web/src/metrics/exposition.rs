//! The text of a scrape: OpenMetrics, and the older Prometheus format derived from it.

use std::io;

use cachewise_model::Reason;
use cachewise_view::{Exposition, Labels, MetricNumber};

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

/// Adds a family with its series.
pub(crate) fn add(
    exposition: &mut Exposition,
    family: &Family,
    estimated: Option<Reason>,
    series: Vec<(Labels, MetricNumber)>,
) {
    let kind = (family.unit, family.kind);
    exposition.add(family.name, family.help(), kind, estimated, series);
}

/// The exposition in this format.
pub(crate) fn text(exposition: Exposition, format: Format) -> io::Result<String> {
    let text = exposition.text()?;
    Ok(match format {
        Format::OpenMetrics => text,
        Format::Text => plain(&text),
    })
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
                // Help of this format has no escapes for quotes.
                let rest = rest.replace("\\\"", "\"");
                text.extend([head, name, total, " ", &rest]);
            }
            None => text.push_str(line),
        }
        text.push('\n');
    }
    text
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
        add(
            &mut exposition,
            family("page_cache_hits"),
            Some(Reason::ByVmstat),
            vec![(Vec::new(), MetricNumber::Whole(7))],
        );
        add(
            &mut exposition,
            family("pressure_waiting_seconds"),
            None,
            vec![
                (
                    vec![("resource", "cpu".into())],
                    MetricNumber::Fraction(0.5),
                ),
                (
                    vec![("resource", "a\"b\\c\nd".into())],
                    MetricNumber::Fraction(1.0),
                ),
            ],
        );
        add(
            &mut exposition,
            family("dirty_bytes"),
            None,
            vec![(Vec::new(), MetricNumber::Whole(4096))],
        );
        add(&mut exposition, family("swap_used_bytes"), None, Vec::new());
        exposition
    }

    #[test]
    fn plain_help_escapes_no_quotes() {
        assert_eq!(
            plain("# HELP a by \\\"vmstat\\\"\\\\\\n\n# EOF\n"),
            "# HELP a by \"vmstat\"\\\\\\n\n"
        );
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
            text(sample(), Format::OpenMetrics).expect("it can be written"),
            expected,
            "names, units, escapes, the end; what has no series is left out"
        );
    }

    #[test]
    fn the_older_format_has_whole_names() {
        let text = text(sample(), Format::Text).expect("it can be written");
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

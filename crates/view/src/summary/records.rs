//! A summary for programs: CSV with a row per field, OpenMetrics with the totals.

use std::io;

use cachewise_model::{Figures, Kind, NOT_APPLICABLE, Statistics, Unit, Value};

use super::options::{SummaryOptions, is_wanted};
use crate::csv_text::{self, Reasons};
use crate::metrics::Exposition;

pub(super) fn csv(summary: &Statistics, options: &SummaryOptions) -> io::Result<String> {
    let header = [
        "field",
        "kind",
        "unit",
        "per_second",
        "known_samples",
        "min",
        "mean",
        "p50",
        "p90",
        "p99",
        "max",
        "total",
    ];
    let header = header.into_iter().chain(csv_text::REASONS);
    let mut text = csv_text::line(header.map(str::to_owned))?;
    for spread in (summary.spreads.iter()).filter(|spread| is_wanted(spread.field, options)) {
        let figures = spread.figures;
        let figure = |of: fn(&Figures) -> f64| {
            let number = figures.as_ref().map(of).known();
            number.map(|number| number.to_string()).unwrap_or_default()
        };
        let why: Value = figures.map(|_| cachewise_model::Datum::Count(0));
        let reasons = [("figures", &why), ("total", &spread.total)];
        let kind = match spread.field.kind {
            Kind::Counter => "counter",
            Kind::Gauge | Kind::Label => "gauge",
        };
        let cells = [
            spread.field.id.to_owned(),
            kind.to_owned(),
            spread.field.unit.name().unwrap_or_default().to_owned(),
            spread.is_rate().to_string(),
            spread.known.to_string(),
            figure(|figures| figures.min),
            figure(|figures| figures.mean),
            figure(|figures| figures.p50),
            figure(|figures| figures.p90),
            figure(|figures| figures.p99),
            figure(|figures| figures.max),
            csv_text::cell(&spread.total),
        ];
        let reasons = Reasons::of(reasons.into_iter()).cells();
        text += &csv_text::line(cells.into_iter().chain(reasons))?;
    }
    Ok(text)
}

pub(super) fn openmetrics(summary: &Statistics, options: &SummaryOptions) -> io::Result<String> {
    let mut exposition = Exposition::new();
    exposition.page_size(summary.total.page());
    let row = summary.total.row();
    // Ratios cannot be summed over machines; their counters are here.
    for field in (summary.spreads.iter().map(|spread| spread.field))
        .filter(|field| field.unit != Unit::Ratio && is_wanted(field, options))
    {
        if field.of(&row) != Value::Missing(NOT_APPLICABLE) {
            exposition.field(&row, field);
        }
    }
    if summary.total.parts_missing().is_none() {
        exposition.lost(&summary.total.lost);
    }
    exposition.text()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn csv_has_a_record_per_field() {
        let text = csv(&sample::night(), &SummaryOptions::default()).unwrap();
        let line = text
            .lines()
            .find(|line| line.starts_with("read_requested_pages,"))
            .unwrap();
        assert_eq!(
            line, "read_requested_pages,counter,pages,true,2,100,150,100,200,200,200,300,,",
            "figures a second, and the sum"
        );
        assert!(
            text.lines()
                .any(|line| line.starts_with("free_bytes,gauge,bytes,false,0,,,,,,,,")),
            "an unknown value is empty, with a reason: {text}"
        );
    }

    #[test]
    fn openmetrics_holds_the_totals() {
        let text = openmetrics(&sample::night(), &SummaryOptions::default()).unwrap();
        assert!(
            text.contains("\ncachewise_read_requested_pages_total 300\n")
                && text.contains("\ncachewise_lost_events_total 0\n")
                && text.ends_with("# EOF\n"),
            "{text}"
        );
    }
}

//! Minimum, maximum, mean and percentiles of each number of the machine.

use cachewise_model::{
    Datum, FIELDS, Field, Figures, Kind, Measured, Missing, Reason, Row, Spread, Unit,
};
use hdrhistogram::Histogram;

/// Percentiles are exact up to this number of samples. Beyond it they have three digits, and memory
/// stays bounded.
const EXACT: usize = 100_000;

/// The reason for a field that no sample has.
const NEVER: Missing = Missing::NotOffered(Reason::NeverSampled);

/// The numbers of many rows.
#[derive(Debug)]
pub struct Spreads {
    fields: Vec<Of>,
}

#[derive(Debug)]
struct Of {
    field: &'static Field,
    values: Values,
    known: u64,
    min: f64,
    max: f64,
    sum: f64,
    seconds: f64,
    /// Of a ratio, the samples that have it as one row: a second without reads is no hit ratio of 0, and one
    /// with a thousand reads weighs more than one with two.
    whole: Option<Box<Row>>,
    missing: Missing,
    estimated: Option<Reason>,
}

impl Default for Spreads {
    /// Of every number that rows of the machine have.
    fn default() -> Spreads {
        let numbers = FIELDS
            .iter()
            .filter(|field| field.kind != Kind::Label && field.is_of(&Row::of_system()));
        Spreads {
            fields: numbers.map(Of::new).collect(),
        }
    }
}

impl Spreads {
    /// Adds a row.
    pub fn add(&mut self, row: &Row) {
        for of in &mut self.fields {
            of.add(row);
        }
    }

    /// How each number behaved; `total` is the sum of all rows.
    #[must_use]
    pub fn finish(self, total: &Row) -> Vec<Spread> {
        let spreads = self.fields.into_iter().map(|of| of.finish(total));
        spreads.collect()
    }
}

impl Of {
    fn new(field: &'static Field) -> Of {
        Of {
            field,
            values: Values::All(Vec::new()),
            known: 0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            sum: 0.0,
            seconds: 0.0,
            whole: None,
            missing: NEVER,
            estimated: None,
        }
    }

    fn add(&mut self, row: &Row) {
        let value = self.field.of(row);
        if let Some(missing) = value.missing() {
            self.missing = missing;
        }
        self.estimated = self.estimated.or(value.estimate());
        let Some(number) = value.known().and_then(|datum| number(&datum)) else {
            return;
        };
        let seconds = row.elapsed.as_secs_f64();
        let shown = match self.field.kind {
            Kind::Counter if seconds > 0.0 => number / seconds,
            Kind::Counter => return,
            Kind::Gauge | Kind::Label => number,
        };
        self.known += 1;
        self.min = self.min.min(shown);
        self.max = self.max.max(shown);
        self.sum += number;
        self.seconds += seconds;
        self.values.add(shown, scale(self.field.unit));
        if self.field.unit == Unit::Ratio {
            match &mut self.whole {
                Some(whole) => whole.append(row),
                None => self.whole = Some(Box::new(row.clone())),
            }
        }
    }

    fn finish(mut self, total: &Row) -> Spread {
        let total = self.field.of(total);
        let figures = match (self.known, self.estimated) {
            (0, _) => Measured::Missing(self.missing),
            (_, None) => Measured::Exact(self.figures()),
            (_, Some(how)) => Measured::Estimated(self.figures(), how),
        };
        Spread {
            field: self.field,
            figures,
            known: self.known,
            total,
        }
    }

    fn figures(&mut self) -> Figures {
        let scale = scale(self.field.unit);
        let whole = self.whole.as_deref().map(|whole| self.field.of(whole));
        let ratio = whole.and_then(|value| number(&value.known()?));
        self.values.sort();
        let (min, max) = (self.min, self.max);
        // A histogram rounds: never beyond what was seen.
        let percentile = |part| self.values.percentile(part, scale).clamp(min, max);
        Figures {
            min,
            mean: match (self.field.kind, ratio) {
                (_, Some(ratio)) => ratio,
                (Kind::Counter, None) => self.sum / self.seconds,
                (Kind::Gauge | Kind::Label, None) => self.sum / self.known as f64,
            },
            p50: percentile(0.50),
            p90: percentile(0.90),
            p99: percentile(0.99),
            max,
        }
    }
}

/// The number in a cell, in its own unit.
pub(crate) fn number(datum: &Datum) -> Option<f64> {
    match datum {
        Datum::Count(number) => Some(*number as f64),
        Datum::Pages(pages) => Some(pages.0 as f64),
        Datum::Bytes(bytes) => Some(bytes.0 as f64),
        Datum::Seconds(number) | Datum::Latency(number) | Datum::Factor(number) => Some(*number),
        Datum::Ratio(ratio) => Some(ratio.get()),
        Datum::Id(_) | Datum::Text(_) | Datum::Path(_) | Datum::Time(_) => None,
    }
}

/// Histograms are of whole numbers: what is less than one is counted in these parts.
fn scale(unit: Unit) -> f64 {
    match unit {
        Unit::Seconds | Unit::Ratio | Unit::Factor => 1e6,
        _ => 1e3,
    }
}

fn count(histogram: &mut Histogram<u64>, value: f64, scale: f64) {
    // It grows as it must; what is beyond all numbers counts as the largest.
    if histogram.record((value * scale) as u64).is_err() {
        histogram.saturating_record(u64::MAX);
    }
}

#[derive(Debug)]
enum Values {
    All(Vec<f64>),
    Counted(Histogram<u64>),
}

impl Values {
    fn add(&mut self, value: f64, scale: f64) {
        match self {
            Values::All(values) => {
                values.push(value);
                if values.len() > EXACT
                    && let Ok(mut histogram) = Histogram::new(3)
                {
                    histogram.auto(true);
                    for value in values {
                        count(&mut histogram, *value, scale);
                    }
                    *self = Values::Counted(histogram);
                }
            }
            Values::Counted(histogram) => count(histogram, value, scale),
        }
    }

    fn sort(&mut self) {
        if let Values::All(values) = self {
            values.sort_by(f64::total_cmp);
        }
    }

    /// Returns the percentile by nearest rank: the least value with at least this share of the
    /// samples at or below it.
    fn percentile(&self, part: f64, scale: f64) -> f64 {
        match self {
            Values::All(values) => {
                let rank = (part * values.len() as f64).ceil() as usize;
                let place = rank.saturating_sub(1).min(values.len().saturating_sub(1));
                values.get(place).copied().unwrap_or(f64::NAN)
            }
            Values::Counted(histogram) => histogram.value_at_quantile(part) as f64 / scale,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cachewise_model::Counter;

    use super::*;

    fn row(cached: u64, pages: u64, seconds: u64) -> Row {
        let mut row = Row::of_system();
        row.system.cached_bytes = Measured::Exact(cached);
        row.ledger.set(Counter::ReadRequestedPages, pages);
        row.elapsed = Duration::from_secs(seconds);
        row
    }

    fn spread(spreads: Vec<Spread>, id: &str) -> Spread {
        let mut found = spreads.into_iter().filter(|spread| spread.field.id == id);
        found.next().expect("every number has one")
    }

    #[test]
    fn gauges_as_they_are_and_counters_a_second() {
        let spreads = || {
            let mut spreads = Spreads::default();
            for cached in 1..=100 {
                spreads.add(&row(cached, 200, 2));
            }
            spreads.finish(&row(100, 20_000, 200))
        };
        let cached = spread(spreads(), "cached_bytes");
        assert_eq!(
            cached.figures,
            Measured::Exact(Figures {
                min: 1.0,
                mean: 50.5,
                p50: 50.0,
                p90: 90.0,
                p99: 99.0,
                max: 100.0
            }),
            "by nearest rank"
        );
        let read = spread(spreads(), "read_requested_pages");
        let figures = read.figures.known().unwrap();
        assert_eq!((figures.min, figures.mean), (100.0, 100.0), "a second");
        assert_eq!(
            read.total.known().and_then(|total| number(&total)),
            Some(20_000.0),
            "in all"
        );
    }

    #[test]
    fn a_ratio_is_that_of_the_sums_and_never_a_mean_of_ratios() {
        let reads = |pages, misses| {
            let mut row = row(0, pages, 1);
            row.ledger.set(Counter::ReadMissedPages, misses);
            row.ledger.derive_hits();
            row
        };
        let mut spreads = Spreads::default();
        let mut blind = reads(8, 8);
        blind.ledger.set_missing(
            Counter::ReadRequestedPages,
            Missing::Unknown(Reason::LostEvents),
        );
        let mut total = reads(990, 0);
        for sample in [reads(990, 0), reads(10, 10), reads(0, 0), blind] {
            spreads.add(&sample);
            total.append(&sample);
        }
        let hit = spread(spreads.finish(&total), "reuse_ratio");
        let figures = hit.figures.known().expect("two samples have it");
        assert_eq!(
            (hit.known, figures.min, figures.max),
            (2, 0.0, 1.0),
            "each as it was"
        );
        assert!(
            (figures.mean - 0.99).abs() < 1e-9,
            "990 of the 1,000 that are known: {}",
            figures.mean
        );
    }

    #[test]
    fn a_long_interval_weighs_by_its_length() {
        let mut spreads = Spreads::default();
        spreads.add(&row(0, 100, 1));
        spreads.add(&row(0, 0, 99));
        let read = spread(spreads.finish(&row(0, 100, 100)), "read_requested_pages");
        assert_eq!(
            read.figures.known().map(|figures| figures.mean),
            Some(1.0),
            "one page a second over the whole time"
        );
    }

    #[test]
    fn what_is_not_known_has_its_reason() {
        let mut spreads = Spreads::default();
        let mut blind = row(1, 1, 1);
        blind.system.cached_bytes = Measured::unknown(Reason::NoPermission);
        spreads.add(&blind);
        let cached = spread(spreads.finish(&blind), "cached_bytes");
        assert_eq!(
            cached.figures.missing(),
            Some(Missing::Unknown(Reason::NoPermission)),
            "not zero"
        );
    }

    #[test]
    fn many_samples_are_counted_to_three_digits() {
        let mut values = Values::All(Vec::new());
        let count = EXACT as u64 * 2;
        for value in 1..=count {
            values.add(value as f64, 1e3);
        }
        assert!(matches!(values, Values::Counted(_)), "in bounded memory");
        let half = values.percentile(0.5, 1e3);
        let error = (half - EXACT as f64).abs() / EXACT as f64;
        assert!(error < 0.002, "{half} is the median to three digits");
    }
}

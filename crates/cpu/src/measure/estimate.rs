//! From samples to a figure, with the range that it came in and how far to trust it.

/// Rounds that differ by no more than this agree.
const AGREE: f64 = 1.10;

/// Rounds that differ by more than this were not alone with the machine.
const CONTENDED: f64 = 1.30;

/// How far a figure can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trust {
    /// Rounds agree.
    Good,
    /// They differ by more than a tenth.
    Fair,
    /// They differ so much that something else was at work: the range is what is known.
    Contended,
}

impl Trust {
    /// The name in machine formats.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Trust::Good => "good",
            Trust::Fair => "fair",
            Trust::Contended => "contended",
        }
    }

    /// Of what came out between these.
    #[must_use]
    pub fn from_range(low: f64, high: f64) -> Trust {
        match high / low {
            ratio if ratio <= AGREE => Trust::Good,
            ratio if ratio <= CONTENDED => Trust::Fair,
            // NaN is no agreement.
            _ => Trust::Contended,
        }
    }
}

/// A figure and the range of the rounds that it is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// The lowest round.
    pub low: f64,
    /// The highest round.
    pub high: f64,
}

impl Estimate {
    /// The median over rounds; `None` without a round.
    #[must_use]
    pub fn median_of(rounds: &[f64]) -> Option<Estimate> {
        Some(Estimate {
            value: quantile(rounds, 0.5)?,
            low: quantile(rounds, 0.0)?,
            high: quantile(rounds, 1.0)?,
        })
    }

    /// How far to trust it.
    #[must_use]
    pub fn trust(&self) -> Trust {
        Trust::from_range(self.low, self.high)
    }

    /// In another unit.
    #[must_use]
    pub fn times(self, factor: f64) -> Estimate {
        Estimate {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
        }
    }
}

/// Returns a quantile of the samples: 0.5 is the median. `None` without samples.
#[must_use]
pub fn quantile(samples: &[f64], part: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let place = last as f64 * part.clamp(0.0, 1.0);
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    let between = place - low as f64;
    Some(sorted[low] * (1.0 - between) + sorted[high] * between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_samples() {
        assert_eq!(quantile(&[], 0.5), None, "of nothing there is none");
        let samples = [3.0, 1.0, 2.0, 10.0];
        assert_eq!(quantile(&samples, 0.5), Some(2.5), "half-way between two");
        assert_eq!(quantile(&samples, 0.0), Some(1.0), "the lowest");
        assert_eq!(quantile(&samples, 1.0), Some(10.0), "the highest");
    }

    #[test]
    fn rounds_that_differ_are_not_trusted() {
        let estimate = |rounds: &[f64]| Estimate::median_of(rounds).map(|found| found.trust());
        assert_eq!(
            estimate(&[1.0, 1.05, 1.02]),
            Some(Trust::Good),
            "they agree"
        );
        assert_eq!(estimate(&[1.0, 1.2]), Some(Trust::Fair), "nearly");
        assert_eq!(estimate(&[1.0, 3.0]), Some(Trust::Contended), "not at all");
        assert_eq!(
            Trust::from_range(0.0, 0.0),
            Trust::Contended,
            "nothing was measured"
        );
    }
}

//! The price of a page from a device: what tasks waited for files, by the pages that devices delivered meanwhile.

use cachewise_model::{Counter, Ledger, Measured, Reason};
use cachewise_units::Pages;

/// Waits that end when a device has delivered pages of a file.
const WAITS: [Counter; 4] = [
    Counter::WaitedMissed,
    Counter::WaitedRefault,
    Counter::WaitedInFlight,
    Counter::WaitedFault,
];

/// Pages that devices delivered.
const FETCHED: [Counter; 5] = [
    Counter::ReadMissedPages,
    Counter::ReadaheadPages,
    Counter::PrefetchPages,
    Counter::FaultMissPages,
    Counter::FaultReadaheadPages,
];

const NANOSECONDS: f64 = 1e9;

/// Seconds that a page from a device costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price(Measured<f64>);

impl Price {
    /// The price in a measurement with this total. A page that was read ahead costs less than one that a reader waits
    /// for; the mean of both is the price.
    pub fn of(total: &Ledger) -> Price {
        let sum = |counters: &[Counter]| {
            let counts = counters.iter().map(|counter| total.get(*counter));
            counts.fold(Measured::Exact(0), Measured::plus)
        };
        match (sum(&WAITS), sum(&FETCHED)) {
            (Measured::Missing(missing), _) | (_, Measured::Missing(missing)) => {
                Price(Measured::Missing(missing))
            }
            (_, Measured::Exact(0) | Measured::Estimated(0, _)) => {
                Price(Measured::unknown(Reason::NothingFetched))
            }
            (waited, fetched) => Price(waited.zip(fetched, |waited, fetched| {
                waited as f64 / NANOSECONDS / fetched as f64
            })),
        }
    }

    /// Seconds that this number of pages costs.
    pub fn seconds(self, pages: Pages) -> Measured<f64> {
        match self.0 {
            Measured::Missing(missing) => Measured::Missing(missing),
            Measured::Exact(price) | Measured::Estimated(price, _) => {
                Measured::Estimated(price * pages.0 as f64, Reason::Simulated)
            }
        }
    }

    /// Seconds of a page, if they are known.
    pub fn known(self) -> Option<f64> {
        self.0.known()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(waited: u64, missed: u64) -> Ledger {
        let mut total = Ledger::default();
        total.set(Counter::WaitedMissed, waited);
        total.set(Counter::ReadMissedPages, missed);
        total
    }

    #[test]
    fn seconds_follow_the_waits_of_fetched_pages() {
        let price = Price::of(&total(3_000_000_000, 1000));
        assert_eq!(
            price.seconds(Pages(500)),
            Measured::Estimated(1.5, Reason::Simulated)
        );
    }

    #[test]
    fn price_is_unknown_when_nothing_was_fetched() {
        let price = Price::of(&total(0, 0));
        assert_eq!(
            price.seconds(Pages(500)),
            Measured::unknown(Reason::NothingFetched)
        );
        assert_eq!(price.known(), None);
    }
}

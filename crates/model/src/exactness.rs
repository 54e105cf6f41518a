//! Exactness of a report's numbers, as one value for every output.

use crate::lost::Lost;

/// Quality of a set of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exactness {
    /// Exact to the page.
    Exact,
    /// The back-end is exact, but events were lost: `lost` names the affected numbers.
    Incomplete,
    /// The back-end is exact and nothing was lost, but independent counts disagree.
    Contradicted,
    /// The back-end estimates.
    Estimated,
}

impl Exactness {
    /// The quality of a back-end's counts, given its losses.
    #[must_use]
    pub fn new(is_exact: bool, lost: &[Lost]) -> Exactness {
        match (is_exact, lost.iter().any(|lost| lost.count > 0)) {
            (false, _) => Exactness::Estimated,
            (true, true) => Exactness::Incomplete,
            (true, false) => Exactness::Exact,
        }
    }

    /// The name in machine formats: `exact`, `incomplete`, `contradicted` or `estimated`.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Exactness::Exact => "exact",
            Exactness::Incomplete => "incomplete",
            Exactness::Contradicted => "contradicted",
            Exactness::Estimated => "estimated",
        }
    }

    /// The name for people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Exactness::Exact => "exact to the page",
            Exactness::Incomplete => "NOT exact: counts were lost, see \"lost\"",
            Exactness::Contradicted => {
                "NOT exact: independent counts disagree, see \"DOES NOT ADD UP\""
            }
            Exactness::Estimated => "NOT exact: ~ marks estimates, - what cannot be had this way",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(count: u64) -> Lost {
        Lost {
            id: "forgotten",
            count,
            meaning: "m",
        }
    }

    #[test]
    fn exactness_with_lost_events_is_incomplete() {
        assert_eq!(Exactness::new(true, &[]), Exactness::Exact);
        assert_eq!(Exactness::new(true, &[lost(0)]), Exactness::Exact);
        assert_eq!(
            Exactness::new(true, &[lost(0), lost(1)]),
            Exactness::Incomplete
        );
        assert_eq!(Exactness::new(false, &[]), Exactness::Estimated);
        assert_eq!(Exactness::new(false, &[lost(1)]), Exactness::Estimated);
        assert!(!Exactness::Incomplete.text().starts_with("exact"));
    }
}

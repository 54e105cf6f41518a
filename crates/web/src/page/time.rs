//! [`Time`]: whose numbers a page shows.

use cachewise_model::Kind;

/// The time of the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Time {
    /// The last seconds of a server; counters are a second.
    Live,
    /// A recording; counters are its sums.
    Recorded,
}

impl Time {
    /// The kind as which a number is shown.
    pub(super) fn kind(self, kind: Kind) -> Kind {
        match self {
            Time::Live => kind,
            Time::Recorded => Kind::Gauge,
        }
    }

    /// Whether a number is shown a second.
    pub(super) fn is_rate(self, kind: Kind) -> bool {
        self.kind(kind) == Kind::Counter
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Time::Live => "the last minute",
            Time::Recorded => "this recording",
        }
    }
}

//! A law of the numbers: two sums of independent counts that must agree.

use crate::measured::{Count, Measured, Missing};
use crate::reason::Reason;
use crate::unit::Unit;

/// A sum of counts, each with its name.
pub type Side = Vec<(&'static str, Count)>;

/// Two sums, from independent counts, that must agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Law {
    /// The name in machine formats.
    pub id: &'static str,
    /// The rows that it is about.
    pub scope: LawScope,
    /// The row, where it is about one.
    pub subject: Option<String>,
    /// One side.
    pub left: Side,
    /// How the left side compares with the right one.
    pub relation: Relation,
    /// The other side.
    pub right: Side,
    /// The unit of all counts.
    pub unit: Unit,
    /// Why it is not checked, whatever the counts are.
    pub unchecked: Option<Reason>,
}

/// The rows that a law is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LawScope {
    /// The sums of a report.
    Total,
    /// A file.
    File,
    /// A process.
    Process,
    /// A control group.
    Cgroup,
}

impl LawScope {
    /// The name in machine formats, which is also the singular for people.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            LawScope::Total => "total",
            LawScope::File => "file",
            LawScope::Process => "process",
            LawScope::Cgroup => "cgroup",
        }
    }
}

/// How two sides compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Relation {
    /// Both are equal.
    Equal,
    /// The left side is at most the right one.
    AtMost,
}

impl Relation {
    /// The sign, for people and in machine formats.
    #[must_use]
    pub const fn sign(self) -> &'static str {
        match self {
            Relation::Equal => "=",
            Relation::AtMost => "<=",
        }
    }

    const fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Relation::Equal => left == right,
            Relation::AtMost => left <= right,
        }
    }
}

/// Whether a law holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The parts sum up to the whole, to the page.
    Holds,
    /// They do not: events were lost, or there is a bug.
    Broken,
    /// A number is missing or estimated, for this reason.
    Unknown(Reason),
}

impl Law {
    /// Adds up both sides and compares.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if let Some(unchecked) = self.unchecked {
            return Verdict::Unknown(unchecked);
        }
        match self.comparison() {
            Measured::Exact(true) => Verdict::Holds,
            Measured::Exact(false) => Verdict::Broken,
            Measured::Estimated(_, how) => Verdict::Unknown(how),
            Measured::Missing(missing) => Verdict::Unknown(missing.reason()),
        }
    }

    /// The code of the reason where it is not checked: that of `unchecked`, or the quality of its counts.
    #[must_use]
    pub fn reason_code(&self) -> Option<&'static str> {
        if let Some(unchecked) = self.unchecked {
            return Some(unchecked.code());
        }
        match self.comparison() {
            Measured::Exact(_) => None,
            Measured::Estimated(..) => Some("estimated"),
            Measured::Missing(Missing::Unknown(_)) => Some("unknown"),
            Measured::Missing(Missing::NotOffered(_)) => Some("not_offered"),
        }
    }

    /// The sum of the left side, and that of the right one.
    #[must_use]
    pub fn sums(&self) -> (Count, Count) {
        let sum = |side: &Side| {
            side.iter()
                .fold(Measured::Exact(0), |sum, (_, part)| part.plus(sum))
        };
        (sum(&self.left), sum(&self.right))
    }

    fn comparison(&self) -> Measured<bool> {
        let (left, right) = self.sums();
        left.zip(right, |left, right| self.relation.holds(left, right))
    }

    pub(crate) fn of_totals(id: &'static str, left: Side, right: (&'static str, Count)) -> Law {
        Law {
            id,
            scope: LawScope::Total,
            subject: None,
            left,
            relation: Relation::Equal,
            right: vec![right],
            unit: Unit::Pages,
            unchecked: None,
        }
    }
}

//! Invariants that every row keeps, whatever was done.

use cachewise_model::{Counter, Ledger, contradicts_itself};

use crate::bounds::Difference;

/// Whether the pages that a file's row says were inserted are not those that came and went.
pub fn conserved(of: &str, ledger: &Ledger, came: i64) -> Option<Difference> {
    let gone = ledger[Counter::EvictedOtherPages] + ledger[Counter::EvictedReclaimPages];
    let inserted = ledger.inserted_pages().known().unwrap_or(u64::MAX);
    let must = u64::try_from(came + gone as i64).unwrap_or(0);
    let what = "inserted pages, by residency and evictions";
    Difference::find(of, what, (must, must), inserted)
}

/// The name of that invariant.
pub const CONTRADICTION: &str = "rows that contradict themselves";

/// Whether hits, misses and unserved pages of a row are not the requested ones.
pub fn contradiction(of: &str, ledger: &Ledger) -> Option<Difference> {
    let found = u64::from(contradicts_itself(ledger));
    Difference::find(of, CONTRADICTION, (0, 0), found)
}

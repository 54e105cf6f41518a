//! Rows of the probe summed by a key, and which sums come first.

use std::collections::HashMap;
use std::hash::Hash;

use cachewise_model::{Counter, Ledger};
use cachewise_probe::Row;

pub fn sums<K: Hash + Eq>(rows: &[Row], key: impl Fn(&Row) -> Option<K>) -> HashMap<K, Ledger> {
    let mut sums: HashMap<K, Ledger> = HashMap::new();
    for row in rows {
        if let Some(key) = key(row) {
            *sums.entry(key).or_default() += &row.ledger;
        }
    }
    sums
}

/// Sort key of a ledger: bytes requested in any way.
pub fn weight(ledger: &Ledger, page: u64) -> u64 {
    let faults = ledger[Counter::FaultRequests] + ledger[Counter::FaultReadaheadPages];
    ledger[Counter::ReadRequestedBytes]
        + ledger[Counter::DirectReadBytes]
        + ledger[Counter::DirectWriteBytes]
        + ledger[Counter::WriteBytes]
        + (faults + ledger[Counter::PrefetchPages] + ledger[Counter::MetadataPages]) * page
}

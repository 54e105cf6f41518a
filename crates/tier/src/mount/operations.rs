//! Counts and latencies of FUSE requests: one row for each operation, as in GlusterFS's io-stats.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::Latency;
use crate::counters::{Count, Latencies};

/// A FUSE operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Looks up a name.
    Lookup,
    /// The attributes of what it knows.
    Getattr,
    /// Reads the target of a link.
    Readlink,
    /// Reads an extended attribute, or lists them.
    Getxattr,
    /// A file is opened; asked once, and then no more.
    Open,
    /// A directory is opened: its list.
    Opendir,
    /// Bytes.
    Read,
}

impl Operation {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 7] = [
        Self::Lookup,
        Self::Getattr,
        Self::Readlink,
        Self::Getxattr,
        Self::Open,
        Self::Opendir,
        Self::Read,
    ];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Getattr => "getattr",
            Self::Readlink => "readlink",
            Self::Getxattr => "getxattr",
            Self::Open => "open",
            Self::Opendir => "opendir",
            Self::Read => "read",
        }
    }
}

/// The counters of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationRow {
    /// The operation.
    pub operation: Operation,
    /// Number of calls.
    pub calls: u64,
    /// Calls that failed; a name that does not exist is not a failure.
    pub errors: u64,
    /// Requests to the origin for the answer, without block reads.
    pub origin_calls: u64,
    /// Time to the answer.
    pub latency: Option<Latency>,
}

#[derive(Debug)]
struct OperationCounters {
    calls: Count,
    errors: Count,
    origin_calls: Count,
    latencies: Latencies,
}

/// All operations.
#[derive(Debug)]
pub(super) struct Operations([OperationCounters; Operation::ALL.len()]);

impl Operations {
    pub(super) fn new() -> Self {
        Self(Operation::ALL.map(|_| OperationCounters {
            calls: Count::default(),
            errors: Count::default(),
            origin_calls: Count::default(),
            latencies: Latencies::new(),
        }))
    }

    fn counters_of(&self, operation: Operation) -> Option<&OperationCounters> {
        let place = Operation::ALL.iter().position(|known| *known == operation);
        place.and_then(|place| self.0.get(place))
    }

    /// Notes an answer.
    pub(super) fn answered(&self, operation: Operation, begun: Instant, is_error: bool) {
        if let Some(counters) = self.counters_of(operation) {
            counters.calls.one();
            if is_error {
                counters.errors.one();
            }
            counters.latencies.record(begun.elapsed());
        }
    }

    /// Counts a request to the origin.
    pub(super) fn asks_origin(&self, operation: Operation) {
        if let Some(counters) = self.counters_of(operation) {
            counters.origin_calls.one();
        }
    }

    pub(super) fn rows(&self) -> Vec<OperationRow> {
        let all = Operation::ALL.iter().zip(&self.0);
        all.map(|(operation, counters)| OperationRow {
            operation: *operation,
            calls: counters.calls.get(),
            errors: counters.errors.get(),
            origin_calls: counters.origin_calls.get(),
            latency: counters.latencies.get(),
        })
        .collect()
    }
}

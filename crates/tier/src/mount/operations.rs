//! What the kernel asked, how often, and how long the answer took: a row an operation, as GlusterFS's io-stats has it.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::Latency;
use crate::counters::{Count, Latencies};

/// What the kernel asks of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// What a name is.
    Lookup,
    /// The attributes of what it knows.
    Getattr,
    /// A file is opened; asked once, and then no more.
    Open,
    /// A directory is opened: its list.
    Opendir,
    /// Bytes.
    Read,
}

impl Operation {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 5] = [
        Self::Lookup,
        Self::Getattr,
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
            Self::Open => "open",
            Self::Opendir => "opendir",
            Self::Read => "read",
        }
    }
}

/// What there was of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationRow {
    /// Which.
    pub operation: Operation,
    /// How often.
    pub calls: u64,
    /// How often the answer was an error; a name that does not exist is none.
    pub errors: u64,
    /// How often the origin was asked for the answer, blocks apart.
    pub origin_calls: u64,
    /// How long answers took.
    pub latency: Option<Latency>,
}

#[derive(Debug)]
struct Counters {
    calls: Count,
    errors: Count,
    origin_calls: Count,
    latencies: Latencies,
}

/// All operations.
#[derive(Debug)]
pub(super) struct Operations([Counters; Operation::ALL.len()]);

impl Operations {
    pub(super) fn new() -> Self {
        Self(Operation::ALL.map(|_| Counters {
            calls: Count::default(),
            errors: Count::default(),
            origin_calls: Count::default(),
            latencies: Latencies::new(),
        }))
    }

    fn counters_of(&self, operation: Operation) -> Option<&Counters> {
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

    /// Notes that the origin is asked for it.
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

//! [`Node`]: one node as the policy sees it.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::answer::{Answer, AskReason};
use super::breaker::{Admission, Breaker};
use crate::Settings;
use crate::counters::{Count, Latencies, NodeRow};
use crate::remote::NodeId;

/// One node as the policy sees it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) breaker: Breaker,
    /// One permit for each block that may be under way from it.
    pub(super) under_way: Arc<Semaphore>,
    hits: Count,
    misses: Count,
    errors: Count,
    late: Count,
    hedges: Count,
    probes: Count,
    opened: Count,
    first_byte: Latencies,
}

impl Node {
    pub(super) fn new(id: NodeId, settings: &Settings, block_size: u64) -> Self {
        let blocks = settings.in_flight.0 / block_size.max(1);
        let blocks = usize::try_from(blocks).unwrap_or(usize::MAX);
        Self {
            id,
            breaker: Breaker::new(settings),
            under_way: Arc::new(Semaphore::new(blocks.clamp(1, 4_096))),
            hits: Count::default(),
            misses: Count::default(),
            errors: Count::default(),
            late: Count::default(),
            hedges: Count::default(),
            probes: Count::default(),
            opened: Count::default(),
            first_byte: Latencies::new(),
        }
    }

    /// Says whether to ask it now.
    pub(super) fn admit(&self) -> Admission {
        self.breaker.admit(Instant::now())
    }

    /// Notes for what reason it is asked.
    pub(super) fn asked(&self, why: AskReason) {
        match why {
            AskReason::First => {}
            AskReason::Hedge => self.hedges.one(),
            AskReason::Probe => self.probes.one(),
        }
    }

    /// Notes what came of asking. Says whether that opened the breaker.
    pub(super) fn answered(&self, answer: &Answer) -> bool {
        match answer {
            Answer::Hit(_) => self.hits.one(),
            Answer::Miss => self.misses.one(),
            // The node is well; what it keeps is not.
            Answer::Corrupt => self.errors.one(),
            Answer::Error => self.errors.one(),
            Answer::Late => self.late.one(),
            Answer::Starved => {
                self.late.one();
                return false;
            }
        }
        let failed = matches!(answer, Answer::Error | Answer::Late);
        if !failed {
            self.breaker.succeeded(Instant::now());
            return false;
        }
        let opened = self.breaker.failed(Instant::now());
        if opened {
            self.opened.one();
        }
        opened
    }

    /// Notes that its time to take a block was up. Says whether that opened the breaker.
    pub(super) fn took_nothing(&self) -> bool {
        let opened = self.breaker.failed(Instant::now());
        if opened {
            self.opened.one();
        }
        opened
    }

    /// Notes how long its first byte took.
    pub(super) fn first_byte(&self, took: std::time::Duration) {
        self.first_byte.record(took);
    }

    /// Returns how often it had a block.
    pub(super) fn hits(&self) -> u64 {
        self.hits.get()
    }

    pub(super) fn row(&self, name: String, connections: usize) -> NodeRow {
        let (hits, misses) = (self.hits.get(), self.misses.get());
        let (errors, deadline_misses) = (self.errors.get(), self.late.get());
        NodeRow {
            node: name,
            calls: hits + misses + errors + deadline_misses,
            hits,
            misses,
            errors,
            deadline_misses,
            hedges: self.hedges.get(),
            probes: self.probes.get(),
            opened: self.opened.get(),
            breaker: self.breaker.get(),
            connections: u64::try_from(connections).unwrap_or(u64::MAX),
            latency: self.first_byte.get(),
        }
    }
}

//! [`Node`]: one node as the policy sees it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
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
    writes: Count,
    first_byte: Latencies,
    /// When this process asked it first.
    first_asked: OnceLock<Instant>,
    has_answered: AtomicBool,
    /// How often its breaker opened, for requests that wait longer than usual.
    openings: watch::Sender<u64>,
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
            writes: Count::default(),
            first_byte: Latencies::new(),
            first_asked: OnceLock::new(),
            has_answered: AtomicBool::new(false),
            openings: watch::Sender::new(0),
        }
    }

    /// Returns how long its first answer to this process may still take, of `longest`: it may be as busy as a node is that
    /// many clients ask in the instant of their start. `None` after its first answer: if it falls silent now, it hangs.
    pub(super) fn first_contact(&self, longest: Duration) -> Option<Duration> {
        if self.has_answered() {
            return None;
        }
        let now = Instant::now();
        let first_asked = *self.first_asked.get_or_init(|| now);
        Some((first_asked + longest).saturating_duration_since(now))
    }

    /// Returns whether it has answered this process.
    pub(super) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    /// Notes that it answers this process.
    pub(super) fn answers(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
    }

    /// Returns when the breaker opens: what waits longer than usual then waits in vain.
    pub(super) fn opens(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut openings = self.openings.subscribe();
        async move {
            // The sender lives as long as the node; a request that outlives it waits for its deadline.
            if openings.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
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
        self.failed()
    }

    /// Notes that it stored a block.
    pub(super) fn stored(&self) {
        self.writes.one();
    }

    /// Notes that its time to take a block was up. Says whether that opened the breaker.
    pub(super) fn took_nothing(&self) -> bool {
        self.failed()
    }

    fn failed(&self) -> bool {
        let opened = self.breaker.failed(Instant::now());
        if opened {
            self.opened.one();
            self.openings.send_modify(|openings| *openings += 1);
        }
        opened
    }

    /// Notes how long its first byte took.
    pub(super) fn first_byte(&self, took: Duration) {
        self.first_byte.record(took);
        self.answers();
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
            writes: self.writes.get(),
            breaker: self.breaker.get(),
            connections: u64::try_from(connections).unwrap_or(u64::MAX),
            latency: self.first_byte.get(),
        }
    }
}

//! [`Leases`]: of many clients that miss a block, one reads it from the origin; times and counters of that.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::attempt::Asker;
use crate::counters::Count;
use crate::remote::NodeId;
use crate::{BlockKey, Settings};

/// Usual response time of the origin from which leases are used: a faster origin is read in the time that a wait takes.
const SLOW: Duration = Duration::from_millis(5);

/// Assumed response time of the origin before the first response.
const ASSUMED: Duration = Duration::from_millis(150);

/// Maximum wait in leases: one is that of a client that dies, and one is left for the client that takes it over.
const WAIT: u32 = 2;

/// Waits in vain, in a row, after which leases are not used for [`OFF`].
const IN_VAIN: u32 = 8;

/// Time without leases after waits in vain, or after the engine refused a block.
const OFF: Duration = Duration::from_secs(10);

/// When leases are used, and for how long.
#[derive(Debug)]
pub(crate) struct Leases {
    lease: Duration,
    wait: Duration,
    latency: Mutex<Option<UsualLatency>>,
    off_until: Mutex<Option<Instant>>,
    in_vain_in_row: AtomicU32,
    pub(super) taken: Count,
    pub(super) waits: Count,
    pub(super) in_vain: Count,
}

/// Mean and deviation of response times in seconds, weighted towards recent ones as TCP does (RFC 6298).
#[derive(Clone, Copy, Debug)]
struct UsualLatency {
    mean: f64,
    deviation: f64,
}

/// The times of one lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseTimes {
    /// Time after which the engine ends a lease whose holder does not store the block.
    pub(crate) lease: Duration,
    /// Maximum time from the first request for a block to a read of the origin without a lease.
    pub(crate) wait: Duration,
    /// First pause between two looks for the block.
    pub(crate) pause: Duration,
    /// Longest pause between two looks for the block.
    pub(crate) longest_pause: Duration,
}

impl Leases {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            lease: settings.lease,
            // Then there is still time to read the origin.
            wait: settings
                .lease
                .saturating_mul(WAIT)
                .min(settings.read_deadline / 2),
            latency: Mutex::default(),
            off_until: Mutex::default(),
            in_vain_in_row: AtomicU32::new(0),
            taken: Count::default(),
            waits: Count::default(),
            in_vain: Count::default(),
        }
    }

    /// Returns the times of a lease taken now; `None` where leases are not used.
    pub(crate) fn times(&self) -> Option<LeaseTimes> {
        let off_until = *self
            .off_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if self.lease.is_zero() || off_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let latency = *self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        let usual = latency.map_or(ASSUMED, UsualLatency::upper);
        if usual < SLOW {
            return None;
        }
        Some(LeaseTimes {
            lease: self.lease,
            wait: self.wait,
            pause: (usual / 2).min(self.lease / 8),
            longest_pause: usual.min(self.lease / 8),
        })
    }

    /// Records the time that a read of the origin took.
    pub(crate) fn origin_took(&self, took: Duration) {
        let took = took.as_secs_f64();
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        *latency = Some(match *latency {
            None => UsualLatency {
                mean: took,
                deviation: took / 2.0,
            },
            Some(UsualLatency { mean, deviation }) => UsualLatency {
                mean: mean + (took - mean) / 8.0,
                deviation: deviation + ((took - mean).abs() - deviation) / 4.0,
            },
        });
    }

    /// Records that a wait began.
    pub(crate) fn waits(&self) {
        self.waits.one();
    }

    /// Records that a wait ended with the block, or with a lease.
    pub(crate) fn waited_well(&self) {
        self.in_vain_in_row.store(0, Ordering::Relaxed);
    }

    /// Records that a wait ended without the block.
    pub(crate) fn waited_in_vain(&self) {
        self.in_vain.one();
        if self.in_vain_in_row.fetch_add(1, Ordering::Relaxed) + 1 >= IN_VAIN {
            self.in_vain_in_row.store(0, Ordering::Relaxed);
            self.turn_off();
        }
    }

    /// Stops the use of leases for some time: the engine does not take blocks, so a wait for them would be in vain.
    pub(super) fn turn_off(&self) {
        let until = Instant::now() + OFF;
        *self
            .off_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(until);
    }
}

impl UsualLatency {
    /// Returns the time within which nearly all responses come.
    fn upper(self) -> Duration {
        let seconds = self.mean + 4.0 * self.deviation;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

/// A lease that this client has. Dropping it ends it in the engine, so that another client may read the block.
#[derive(Debug)]
pub(crate) struct Lease {
    asker: Arc<Asker>,
    node: NodeId,
    name: BlockKey,
    is_kept: bool,
}

impl Lease {
    pub(super) fn new(asker: &Arc<Asker>, node: NodeId, name: BlockKey) -> Self {
        Self {
            asker: Arc::clone(asker),
            node,
            name,
            is_kept: false,
        }
    }

    /// Returns the node that gave it.
    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    /// Lets the lease end by itself, as the block is stored: a client that missed it before will find it.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (asker, node, name) = (Arc::clone(&self.asker), self.node, self.name);
        runtime.spawn(async move {
            let ended = asker.engine.end_lease(node, &name);
            // If that fails, the lease ends by itself.
            let _ = tokio::time::timeout(asker.settings.whole, ended).await;
        });
    }
}

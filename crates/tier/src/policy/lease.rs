//! [`Leases`]: of many clients that miss a block, one reads it from the origin; times and counters of that.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::Settings;
use crate::counters::Count;

/// Usual response time of the origin from which leases are used: a faster origin is read in the time that a wait takes.
const SLOW: Duration = Duration::from_millis(5);

/// Assumed response time of the origin before the first response.
const ASSUMED: Duration = Duration::from_millis(150);

/// Longest pause between two looks for a block.
const LONGEST_PAUSE: Duration = Duration::from_millis(375);

/// The part of [`Settings::lease`] for which the first answer of a node is waited for.
const FIRST_CONTACT: u32 = 3;

/// The least part of [`Settings::read_deadline`] that a wait leaves for the read of the origin, and the largest.
const LEFT: [u32; 2] = [10, 2];

/// Usual response times that a wait leaves for the read of the origin.
const LEFT_TIMES: u32 = 2;

/// Time after a lease of another client in which nodes may be busy.
const CONTENDED: Duration = Duration::from_secs(1);

/// Waits in vain, in a row, after which leases are not used for [`OFF`].
const IN_VAIN: u32 = 8;

/// Time without leases after waits in vain, or after the engine refused a block.
const OFF: Duration = Duration::from_secs(10);

/// When leases are used, and for how long.
#[derive(Debug)]
pub(crate) struct Leases {
    lease: Duration,
    read_deadline: Duration,
    silence: Duration,
    /// Names this client among all that take leases.
    pub(super) holder: Arc<str>,
    latency: Mutex<Option<UsualLatency>>,
    off_until: Mutex<Option<Instant>>,
    /// When another client was seen last that had a lease.
    contended: Mutex<Option<Instant>>,
    in_vain_in_row: AtomicU32,
    pub(super) taken: Count,
    pub(super) waits: Count,
    pub(super) in_vain: Count,
}

/// The purpose of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseOf {
    /// A block that is read from the origin.
    Block,
    /// A copy that is made from the first copy.
    Copy,
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
    /// Time after which the engine ends a lease that its holder does not renew.
    pub(crate) lease: Duration,
    /// Maximum time that a busy node may be silent that has answered this process, or while it answers.
    pub(crate) silence: Duration,
    /// Maximum time to the first byte of the first answer of a node to this process.
    pub(crate) first_contact: Duration,
    /// Whether others missed the same blocks a moment ago, so that nodes may be busy.
    pub(crate) is_contended: bool,
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
            read_deadline: settings.read_deadline,
            silence: settings.busy_patience(),
            // Seeded by the system, so that it differs between machines.
            holder: format!("{:016x}", RandomState::new().hash_one(())).into(),
            latency: Mutex::default(),
            off_until: Mutex::default(),
            contended: Mutex::default(),
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
        let [least, most] = LEFT.map(|part| self.read_deadline / part);
        let left = usual.saturating_mul(LEFT_TIMES).clamp(least, most);
        Some(LeaseTimes {
            lease: self.lease,
            silence: self.silence,
            first_contact: self.lease / FIRST_CONTACT,
            is_contended: self.is_contended(),
            wait: self.read_deadline.saturating_sub(left),
            pause: (usual / 2).min(LONGEST_PAUSE),
            longest_pause: usual.min(LONGEST_PAUSE),
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

    /// Records that this client took a lease.
    pub(crate) fn takes(&self, of: LeaseOf) {
        if of == LeaseOf::Block {
            self.taken.one();
        }
    }

    /// Records that a wait began.
    pub(crate) fn waits(&self, of: LeaseOf) {
        if of == LeaseOf::Block {
            self.waits.one();
        }
        self.contend();
    }

    /// Records that a wait ended with the block, or with a lease.
    pub(crate) fn waited_well(&self) {
        self.in_vain_in_row.store(0, Ordering::Relaxed);
        self.contend();
    }

    /// Records that other clients want the same blocks now.
    pub(crate) fn contend(&self) {
        let mut contended = self
            .contended
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *contended = Some(Instant::now());
    }

    fn is_contended(&self) -> bool {
        let contended = *self
            .contended
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        contended.is_some_and(|at| at.elapsed() < CONTENDED)
    }

    /// Records that a wait ended without the block.
    pub(crate) fn waited_in_vain(&self, of: LeaseOf) {
        if of == LeaseOf::Copy {
            return;
        }
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

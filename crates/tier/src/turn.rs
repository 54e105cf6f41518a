//! [`Turn`]: whether a client that missed a block in the engine reads the origin, or waits for the client that does.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::BlockKey;
use crate::block::Block;
use crate::policy::{EngineAnswer, Lease, LeaseAnswer, LeaseOf, Remote};

/// A part of a lease in which no earlier one can have begun and ended, and its block been stored.
const SHORT: u32 = 50;

/// The outcome of a miss.
#[derive(Debug)]
pub(crate) enum Turn {
    /// This client reads the origin or the first copy, under a lease if the engine gave one.
    Read(Option<Lease>),
    /// Another client has done that.
    Found(Block),
}

/// Takes the lease of a block or of a copy, or waits for the block while another client has the lease. `asked` is the time of the
/// request to the engine that missed the block.
///
/// The wait is bounded. A lease whose holder died ends before that, and one of the waiting clients takes it over. The node
/// answered just now, so what it does not answer in time is taken for busy, and waited for.
pub(crate) async fn turn(remote: &Remote, of: LeaseOf, key: &BlockKey, mut asked: Instant) -> Turn {
    let leases = remote.leases();
    let Some(times) = leases.times() else {
        return Turn::Read(None);
    };
    let end = asked + times.wait;
    let left = || end.saturating_duration_since(Instant::now());
    let mut pause = times.pause;
    let mut is_waiting = false;
    loop {
        match remote
            .take_lease(key, times.lease, left().min(times.silence))
            .await
        {
            LeaseAnswer::Taken(lease) => {
                leases.takes(of);
                if is_waiting {
                    leases.waited_well();
                }
                // An earlier lease may have ended, with the block stored, since the block was missed.
                if (is_waiting || asked.elapsed() > times.lease / SHORT)
                    && let EngineAnswer::Hit(block) = remote.get_within(key, Some(left())).await
                {
                    return Turn::Found(block);
                }
                return Turn::Read(Some(lease));
            }
            LeaseAnswer::Held => {}
            LeaseAnswer::Unknown => return Turn::Read(None),
        }
        if !is_waiting {
            leases.waits(of);
            is_waiting = true;
        }
        if left().is_zero() {
            leases.waited_in_vain(of);
            return Turn::Read(None);
        }
        sleep(jittered(pause).min(left())).await;
        asked = Instant::now();
        match remote.get_within(key, Some(left())).await {
            EngineAnswer::Hit(block) => {
                leases.waited_well();
                return Turn::Found(block);
            }
            EngineAnswer::Miss => {}
            EngineAnswer::Corrupt | EngineAnswer::Unknown => return Turn::Read(None),
        }
        pause = (pause.saturating_mul(3) / 2).min(times.longest_pause);
    }
}

/// Returns a time between three and five quarters of this one, so that clients do not ask in step.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.75 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests;

//! [`by`]: a call that ends in time, with its timer set before it begins.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Longer than anybody waits, for times that no clock has.
const NEVER: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The end of a time that begins now.
pub(crate) fn after(within: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(within).unwrap_or(now + NEVER)
}

/// Runs a call until it is done or the deadline passes, which returns `None`. A call that never
/// waits is always in time.
///
/// tokio's `timeout` arms its timer when the call first waits. By then a request was sent, and a
/// server on this machine may be waiting for this CPU. So this function arms its timer before.
pub(crate) async fn by<T>(end: Instant, call: impl Future<Output = T>) -> Option<T> {
    let mut over = pin!(sleep_until(end));
    // The first look sets it.
    let _ = futures_util::poll!(over.as_mut());
    tokio::select! {
        biased;
        done = call => Some(done),
        () = over => None,
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_in_time_or_not_at_all() {
        let second = Duration::from_secs(1);
        let begun = Instant::now();
        assert_eq!(by(begun + second, async { 1 }).await, Some(1));
        assert_eq!(by(begun + second, sleep(second / 2)).await, Some(()));
        assert_eq!(by(begun + second, std::future::pending::<()>()).await, None);
        assert_eq!(begun.elapsed(), second);
        assert_eq!(by(begun, async { 2 }).await, Some(2), "it did not wait");
        assert_eq!(by(begun, sleep(second)).await, None);
        assert_eq!(begun.elapsed(), second, "nobody waited either");
        assert_eq!(by(after(Duration::MAX), async { 3 }).await, Some(3));
    }
}

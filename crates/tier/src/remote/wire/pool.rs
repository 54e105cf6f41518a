//! [`Pool`]: the connections to one node.
//!
//! Each command has a connection to itself. An abandoned reply ends with its connection instead of
//! delaying the replies behind it, and a large value does not delay a small one.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::connection::{Connection, Protocol, SharedDialer};
use crate::remote::{Address, RemoteError};

/// Maximum number of idle connections. With 120 client processes, a node keeps most of the 10,000
/// connections that Redis accepts.
const MOST_IDLE: usize = 32;

/// The connections to one node.
pub(in crate::remote) struct Pool<P: Protocol> {
    pub(in crate::remote) address: Address,
    dialer: SharedDialer<P>,
    /// Idle connections. The last used is taken first.
    idle: Mutex<Vec<Connection<P>>>,
    /// One permit for each of them.
    ready: Semaphore,
    /// How many wait for one.
    waiting: AtomicUsize,
    /// How many there are, idle or not.
    open: AtomicUsize,
    /// Whether one is being made: one at a time, so that a node that comes back is not met by all
    /// at once, and one that hangs has no queue of them.
    dialing: AtomicBool,
    /// When a connection was requested first.
    first_dial: OnceLock<Instant>,
    has_connected: AtomicBool,
    /// How often making one failed, and why it did last.
    failed: watch::Sender<(u64, Option<RemoteError>)>,
}

/// A connection in use. Ends when it is dropped; [`Lease::give_back`] keeps it.
pub(super) struct Lease<P: Protocol> {
    pool: Arc<Pool<P>>,
    connection: Option<Connection<P>>,
}

impl<P: Protocol> Pool<P> {
    pub(super) fn new(address: Address, dialer: SharedDialer<P>) -> Self {
        Self {
            address,
            dialer,
            idle: Mutex::default(),
            ready: Semaphore::new(0),
            waiting: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            dialing: AtomicBool::new(false),
            first_dial: OnceLock::new(),
            has_connected: AtomicBool::new(false),
            failed: watch::Sender::new((0, None)),
        }
    }

    /// Waits for a connection. If a dial fails, all waiting calls get its error.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease<P>, RemoteError> {
        if let Ok(permit) = self.ready.try_acquire() {
            permit.forget();
            return Ok(self.take());
        }
        let mut failed = self.failed.subscribe();
        let waits = Waits::new(&self.waiting);
        self.dial();
        tokio::select! {
            biased;
            permit = self.ready.acquire() => {
                // The semaphore is never closed.
                if let Ok(permit) = permit {
                    permit.forget();
                }
                drop(waits);
                Ok(self.take())
            }
            _ = failed.changed() => {
                let (_, why) = &*failed.borrow();
                Err(why.clone().unwrap_or(RemoteError::Deadline))
            }
        }
    }

    /// Takes an idle connection; its permit was taken before.
    fn take(self: &Arc<Self>) -> Lease<P> {
        let connection = self.idle().pop();
        Lease {
            pool: Arc::clone(self),
            connection,
        }
    }

    /// Makes a connection in the background, and more while calls wait for one.
    fn dial(self: &Arc<Self>) {
        if self.dialing.swap(true, Ordering::AcqRel) {
            return;
        }
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            // Set back also when this task is dropped with its runtime, or panics.
            let guard = Dialing(&pool.dialing);
            let mut last = None;
            while pool.waiting.load(Ordering::Acquire) > 0 {
                match pool
                    .dialer
                    .dial_within(&pool.address, pool.patience())
                    .await
                {
                    Ok(connection) => {
                        pool.has_connected.store(true, Ordering::Relaxed);
                        pool.open.fetch_add(1, Ordering::AcqRel);
                        pool.put_in(connection);
                        // Lets waiting calls run before another connection is made for them.
                        tokio::task::yield_now().await;
                    }
                    Err(error) => {
                        last = Some(error);
                        break;
                    }
                }
            }
            drop(guard);
            if let Some(error) = last {
                pool.failed.send_modify(|(count, why)| {
                    *count = count.wrapping_add(1);
                    *why = Some(error);
                });
            } else if pool.waiting.load(Ordering::Acquire) > 0 {
                // A call between the last check and the guard's end saw a dial under way and did
                // not start one.
                pool.dial();
            }
        });
    }

    /// Returns how long to wait for the first connection, as many clients may have started in the same instant.
    fn patience(&self) -> Duration {
        if self.has_connected.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let first = *self.first_dial.get_or_init(|| now);
        (first + self.dialer.longest_patience).saturating_duration_since(now)
    }

    fn put_in(&self, connection: Connection<P>) {
        self.idle().push(connection);
        self.ready.add_permits(1);
    }

    /// Closes all idle connections, after one of them was found dead.
    pub(super) fn clear(&self) {
        while let Ok(permit) = self.ready.try_acquire() {
            permit.forget();
            if self.idle().pop().is_some() {
                self.open.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// Returns how many connections there are.
    pub(in crate::remote) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection<P>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Dialing<'a>(&'a AtomicBool);

impl Drop for Dialing<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::AcqRel);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<P: Protocol> Lease<P> {
    /// Returns the connection, which is there until [`Self::give_back`].
    pub(super) fn connection(&mut self) -> Result<&mut Connection<P>, RemoteError> {
        self.connection
            .as_mut()
            .ok_or_else(|| RemoteError::Lost("it was given back".to_owned()))
    }

    /// Keeps the connection for the next command, where it is at the end of a reply.
    pub(super) fn give_back(mut self) {
        // Else dropping this ends it.
        let kept = |connection: &mut Connection<P>| {
            connection.is_clean() && self.pool.idle().len() < MOST_IDLE
        };
        if let Some(connection) = self.connection.take_if(kept) {
            self.pool.put_in(connection);
        }
    }
}

impl<P: Protocol> Drop for Lease<P> {
    fn drop(&mut self) {
        if self.connection.take().is_some() {
            self.pool.open.fetch_sub(1, Ordering::AcqRel);
            if self.pool.waiting.load(Ordering::Acquire) > 0 {
                self.pool.dial();
            }
        }
    }
}

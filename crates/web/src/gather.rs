//! [`Gatherer`]: the thread that watches; [`Asking`]: the way to ask it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Instant;

use tokio::sync::{broadcast, oneshot};

use crate::gathered::Gathered;
use crate::options::Options;
use crate::source::{Machine, Watching};

/// Requests that may wait.
const WAITING: usize = 64;
/// Events that a client may lag behind.
const EVENTS: usize = 16;
type Request = Box<dyn FnOnce(&mut Gathered, &mut dyn Watching) + Send>;

/// The way to ask the thread that watches.
#[derive(Clone)]
pub struct Asking {
    requests: SyncSender<Request>,
    events: broadcast::Sender<Arc<str>>,
}

impl std::fmt::Debug for Asking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asking").finish_non_exhaustive()
    }
}

impl Asking {
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Gathered, &mut dyn Watching) -> T + Send + 'static,
    ) -> Result<T, String> {
        let (sender, receiver) = oneshot::channel();
        let request: Request = Box::new(move |gathered, watching| {
            if !sender.is_closed() {
                // The client may have left meanwhile.
                let _ = sender.send(what(gathered, watching));
            }
        });
        self.requests
            .try_send(request)
            .map_err(|_| "too many requests wait: try again".to_owned())?;
        receiver
            .await
            .map_err(|_| "the thread that watches has ended".to_owned())
    }

    pub(crate) fn events(&self) -> broadcast::Receiver<Arc<str>> {
        self.events.subscribe()
    }
}

/// The thread that watches: answers requests, and ticks.
pub struct Gatherer {
    gathered: Gathered,
    requests: Receiver<Request>,
}

impl std::fmt::Debug for Gatherer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gatherer").finish_non_exhaustive()
    }
}

impl Gatherer {
    /// Sets it up; nothing is watched before [`Gatherer::run`].
    #[must_use]
    pub fn new(machine: Arc<Machine>, options: Arc<Options>) -> (Gatherer, Asking) {
        let (sender, requests) = sync_channel(WAITING);
        let (events, _) = broadcast::channel(EVENTS);
        let asking = Asking {
            requests: sender,
            events: events.clone(),
        };
        let gathered = Gathered::new(machine, options, events);
        (Gatherer { gathered, requests }, asking)
    }

    /// Watches until the last [`Asking`] is dropped.
    pub fn run(mut self, watching: &mut dyn Watching) {
        let interval = self.gathered.options.interval;
        let mut due = Instant::now() + interval;
        loop {
            let wait = due.saturating_duration_since(Instant::now());
            match self.requests.recv_timeout(wait) {
                Ok(request) => request(&mut self.gathered, watching),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if Instant::now() >= due {
                self.gathered.tick(watching);
                // A machine that slept: no rush to catch up.
                due = (due + interval).max(Instant::now());
            }
        }
    }
}

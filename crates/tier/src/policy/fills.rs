//! [`Fills`]: blocks that are on their way to the engine.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::Settings;

/// Each block on its way has a sender; the receiver hears when the last one is gone.
type UnderWay = (mpsc::Sender<Infallible>, mpsc::Receiver<Infallible>);

/// Blocks that are on their way to the engine, up to [`Settings::fills_in_flight`].
#[derive(Debug)]
pub(super) struct Fills {
    permits: Arc<Semaphore>,
    at_once: usize,
    /// Of the blocks that were brought since it was made.
    under_way: Mutex<UnderWay>,
    refusal: Refusal,
}

/// One block on its way, until this is dropped.
#[derive(Debug)]
pub(super) struct OnItsWay {
    _permit: OwnedSemaphorePermit,
    _sender: mpsc::Sender<Infallible>,
}

/// The last node that did not answer or refused a request, and the reason.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusal(Arc<Mutex<Option<String>>>);

impl Fills {
    pub(super) fn new(policy: &Settings, block_size: u64) -> Self {
        let blocks = policy.fills_in_flight.0 / block_size.max(1);
        let at_once = usize::try_from(blocks)
            .unwrap_or(usize::MAX)
            .clamp(1, 4_096);
        Self {
            permits: Arc::new(Semaphore::new(at_once)),
            at_once,
            under_way: Mutex::new(mpsc::channel(1)),
            refusal: Refusal::default(),
        }
    }

    /// Begins to bring a block; `None` at the limit.
    pub(super) fn begin(&self) -> Option<OnItsWay> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok()?;
        let under_way = self.under_way.lock();
        Some(OnItsWay {
            _permit: permit,
            _sender: under_way.unwrap_or_else(PoisonError::into_inner).0.clone(),
        })
    }

    /// Waits until the blocks that are on their way now have arrived, or are dropped.
    pub(super) async fn end(&self) {
        // Not by taking all permits: blocks that others bring meanwhile would find none.
        let (mut before, _after) = {
            let under_way = self.under_way.lock();
            let mut under_way = under_way.unwrap_or_else(PoisonError::into_inner);
            let (_, before) = std::mem::replace(&mut *under_way, mpsc::channel(1));
            // Later callers wait for these blocks too.
            (before, under_way.0.clone())
        };
        before.recv().await;
    }

    /// Returns how many blocks are on their way.
    pub(super) fn number(&self) -> u64 {
        let number = self
            .at_once
            .saturating_sub(self.permits.available_permits());
        u64::try_from(number).unwrap_or(u64::MAX)
    }

    pub(super) fn refusal(&self) -> Refusal {
        self.refusal.clone()
    }
}

impl Refusal {
    pub(super) fn set(&self, said: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
    }

    /// Sets it where no node has failed before.
    pub(super) fn set_first(&self, said: impl FnOnce() -> String) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.get_or_insert_with(said);
    }

    pub(super) fn get(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

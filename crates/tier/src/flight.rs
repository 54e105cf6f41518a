//! [`Flights`]: one fetch for each block, however many wait for it.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::block::Block;
use crate::{BlockKey, Error};

type FlightResult = Option<Result<Block, Error>>;
type Shard = Mutex<HashMap<BlockKey, watch::Receiver<FlightResult>>>;

/// Single-flight: one fetch for each block, shared by all readers that wait for it.
///
/// The fetch is a task of its own: if the first reader gives up, the others still get the block.
#[derive(Debug, Clone)]
pub(crate) struct Flights {
    shards: Arc<[Shard]>,
    hasher: RandomState,
}

/// The result that a reader waits for.
#[derive(Debug)]
pub(crate) struct Flight(watch::Receiver<FlightResult>);

impl Flights {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..16).map(|_| Shard::default()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Joins the fetch of this block that is under way, or begins one. Says whether it joined.
    pub(crate) fn join<F>(&self, key: BlockKey, fetch: impl FnOnce() -> F) -> (Flight, bool)
    where
        F: Future<Output = Result<Block, Error>> + Send + 'static,
    {
        let mut shard = self
            .shard(&key)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(under_way) = shard.get(&key) {
            return (Flight(under_way.clone()), true);
        }
        let (sender, receiver) = watch::channel(None);
        shard.insert(key, receiver.clone());
        drop(shard);
        let landing = Landing {
            flights: self.clone(),
            key,
        };
        let fetch = fetch();
        tokio::spawn(async move {
            // Removed from the list even if the fetch panics; waiting readers then see the sender
            // dropped.
            let landing = landing;
            let answer = fetch.await;
            // Removed before the result is published: later readers look into memory first.
            drop(landing);
            sender.send_replace(Some(answer));
        });
        (Flight(receiver), false)
    }

    fn shard(&self, key: &BlockKey) -> &Shard {
        let count = self.shards.len().max(1);
        // Lossless: below the number of shards.
        let at = self.hasher.hash_one(key) as usize % count;
        self.shards
            .get(at)
            .unwrap_or_else(|| unreachable!("a remainder is below its divisor"))
    }
}

impl Flight {
    /// Waits for the block; `None` when the fetch died.
    pub(crate) async fn land(mut self) -> FlightResult {
        let answer = self.0.wait_for(Option::is_some).await;
        answer.ok().and_then(|answer| answer.clone())
    }
}

struct Landing {
    flights: Flights,
    key: BlockKey,
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.flights
            .shard(&self.key)
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;

    fn block(key: &BlockKey) -> Block {
        Block::seal(key, Bytes::from_static(b"bytes"))
    }

    #[tokio::test(start_paused = true)]
    async fn many_readers_are_one_fetch_even_if_the_first_gives_up() {
        let flights = Flights::new();
        let key = BlockKey::from_bytes([1; 16]);
        let fetches = Arc::new(AtomicU32::new(0));
        let join = || {
            let fetches = Arc::clone(&fetches);
            flights.join(key, || async move {
                fetches.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(250)).await;
                Ok(block(&key))
            })
        };
        let (first, joined) = join();
        assert!(!joined, "nobody fetches it yet");
        let gave_up = tokio::time::timeout(Duration::from_millis(100), first.land()).await;
        assert!(gave_up.is_err(), "the fetch takes longer than that");
        let (second, joined) = join();
        assert!(joined, "the first one's fetch goes on without it");
        let answer = second.land().await.expect("the fetch lives");
        assert_eq!(answer.expect("it succeeds"), block(&key));
        assert_eq!(fetches.load(Ordering::Relaxed), 1, "one fetch");
        let (_, joined) = join();
        assert!(!joined, "what has landed is not joined");
    }

    #[tokio::test]
    async fn a_fetch_that_dies_leaves_nobody_waiting() {
        let flights = Flights::new();
        let key = BlockKey::from_bytes([2; 16]);
        let dies = || async { std::panic::resume_unwind(Box::new("a defect in a fetch")) };
        let (flight, _) = flights.join(key, dies);
        assert!(flight.land().await.is_none(), "the reader is told");
        let (flight, joined) = flights.join(key, move || async move { Ok(block(&key)) });
        assert!(!joined, "the dead one is off the list");
        assert!(flight.land().await.is_some_and(|answer| answer.is_ok()));
    }
}

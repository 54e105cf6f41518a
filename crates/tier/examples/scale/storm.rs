//! Many clients that start at once and read the same blocks in the same order, which no node has.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachewise_tier::simulation::SimulatedClient;
use cachewise_tier::{BlockKey, Settings};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep};

use super::fleet::{Fleet, Replicas};
use super::random::mix;

/// Blocks that each client reads.
pub const BLOCKS: usize = 32;
/// Blocks that each client reads at the same time.
const AT_ONCE: usize = 8;
/// Response time of the origin.
const ORIGIN: Duration = Duration::from_millis(30);

/// A start.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    pub clients: usize,
    pub nodes: usize,
    /// Time within which all of them start.
    pub within: Duration,
    pub leases: bool,
    /// [`Settings::copies`].
    pub copies: usize,
    /// Whether the nodes have all blocks before.
    pub is_warm: bool,
}

/// The cost of a start.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Reads of the origin for each block.
    pub reads_per_block: f64,
    /// Reads of the origin in the busiest 100 ms.
    pub busiest: u64,
    /// Seconds until a client has all its blocks: the median one and the last one.
    pub median: f64,
    pub last: f64,
    /// Waits for another client that ended without the block, of all waits.
    pub in_vain: f64,
    /// Copies made of each block.
    pub copies_per_block: f64,
}

#[derive(Default)]
struct Tally {
    origin: Vec<Instant>,
    ready: Vec<f64>,
    waits: u64,
    in_vain: u64,
    copies: u64,
}

/// Returns the key of a block; keys of all scenarios are the same.
pub fn key(number: usize) -> BlockKey {
    let halves = [number as u64, !(number as u64)].map(|half| mix(half).to_le_bytes());
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(halves.as_flattened()) {
        *to = *from;
    }
    BlockKey::from_bytes(bytes)
}

/// Runs a task on a clock that moves only when everything waits.
pub fn on_paused_clock<T>(task: impl Future<Output = T>) -> T {
    // Pauses between looks at a lease are random.
    fastrand::seed(1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread needs nothing");
    runtime.block_on(LocalSet::new().run_until(task))
}

/// Plays a start through.
pub fn simulate(start: Start) -> Cost {
    on_paused_clock(async move {
        let fleet = Fleet::new(start.nodes, Replicas::None);
        if start.is_warm {
            fill(&fleet, BLOCKS).await;
        }
        let mut settings = Settings {
            copies: start.copies,
            ..Settings::default()
        };
        if !start.leases {
            settings.lease = Duration::ZERO;
        }
        let tally = Rc::new(RefCell::new(Tally::default()));
        let tasks: Vec<_> = (0..start.clients)
            .map(|number| {
                let client = Rc::new(SimulatedClient::new(fleet.view(), &settings));
                let tally = Rc::clone(&tally);
                tokio::task::spawn_local(async move {
                    sleep(start.within.mul_f64(number as f64 / start.clients as f64)).await;
                    let begun = Instant::now();
                    let readers: Vec<_> = (0..AT_ONCE)
                        .map(|reader| {
                            let (client, tally) = (Rc::clone(&client), Rc::clone(&tally));
                            tokio::task::spawn_local(async move {
                                for block in (reader..BLOCKS).step_by(AT_ONCE) {
                                    read(&client, &tally, block).await;
                                }
                            })
                        })
                        .collect();
                    for reader in readers {
                        reader.await.expect("no reader fails");
                    }
                    let totals = client.totals();
                    let mut tally = tally.borrow_mut();
                    tally.ready.push(begun.elapsed().as_secs_f64());
                    tally.waits += totals.lease_waits;
                    tally.in_vain += totals.lease_waits_in_vain;
                    tally.copies += totals.copies;
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no client fails");
        }
        let mut tally = tally.take();
        tally.cost()
    })
}

async fn read(client: &SimulatedClient, tally: &RefCell<Tally>, block: usize) {
    let key = key(block);
    let origin = async {
        tally.borrow_mut().origin.push(Instant::now());
        sleep(ORIGIN).await;
        bytes(&key)
    };
    client.read(&key, origin).await;
}

impl Tally {
    fn cost(&mut self) -> Cost {
        self.ready.sort_by(f64::total_cmp);
        self.origin.sort();
        let mut busiest = 0;
        let mut from = 0;
        for (at, read) in self.origin.iter().enumerate() {
            while *read - self.origin[from] > Duration::from_millis(100) {
                from += 1;
            }
            busiest = busiest.max(at - from + 1);
        }
        Cost {
            reads_per_block: self.origin.len() as f64 / BLOCKS as f64,
            busiest: busiest as u64,
            median: self.ready[self.ready.len() / 2],
            last: self.ready.last().copied().unwrap_or(0.0),
            in_vain: self.in_vain as f64 / self.waits.max(1) as f64,
            copies_per_block: self.copies as f64 / BLOCKS as f64,
        }
    }
}

/// Returns the bytes of a block, which nodes take for long ones.
pub fn bytes(key: &BlockKey) -> Bytes {
    Bytes::copy_from_slice(key.as_bytes())
}

/// Brings all blocks to the nodes.
pub async fn fill(fleet: &Arc<Fleet>, blocks: usize) {
    let filler = SimulatedClient::new(
        fleet.view(),
        &Settings {
            lease: Duration::ZERO,
            ..Settings::default()
        },
    );
    for number in 0..blocks {
        let key = key(number);
        filler.read(&key, std::future::ready(bytes(&key))).await;
    }
    sleep(Duration::from_secs(1)).await;
}

//! A thousand clients that start at once on cold blocks of an origin with a latency of 30 ms: reads of the origin per
//! block, with leases and without.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cachewise_tier::dev_cluster::Topology;
use cachewise_tier::{BlockCache, Entry, Error, Kind, Meta, Origin, Settings, Totals, Version};
use cachewise_units::{ByteRange, Bytes as Size};
use futures_util::future::BoxFuture;
use tokio::sync::Barrier;

use crate::support::{self, Goal};

const CLIENTS: usize = 1_000;
const LATENCY: Duration = Duration::from_millis(30);

/// The blocks of a start.
#[derive(Clone, Copy)]
struct Blocks {
    size: u64,
    count: u64,
    /// How many of them each client reads: all in the same order, or random ones.
    read: u64,
}

/// A whole GiB for each client is a TiB from the servers, an hour here.
const STARTS: [Blocks; 3] = [
    Blocks {
        size: 128 << 10,
        count: 64,
        read: 64,
    },
    Blocks {
        size: 1 << 20,
        count: 64,
        read: 64,
    },
    Blocks {
        size: 1 << 20,
        count: 1_024,
        read: 16,
    },
];

impl Blocks {
    /// Returns the blocks that a client reads, in its order.
    fn of(self, client: usize) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..self.count).collect();
        if self.read < self.count {
            support::random_of(client).shuffle(&mut numbers);
            numbers.truncate(self.read as usize);
        }
        numbers
    }
}

/// An origin of one file, whose state is the name of the run.
#[derive(Debug)]
struct Distant {
    state: String,
    block: u64,
    blocks: u64,
    reads: AtomicU64,
}

impl Origin for Distant {
    fn identity(&self) -> &str {
        &self.state
    }

    fn stat<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, Result<Meta, Error>> {
        let meta = Meta::plain(
            Kind::File,
            self.block * self.blocks,
            Version::new(&self.state),
        );
        Box::pin(std::future::ready(Ok(meta)))
    }

    fn list<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, Result<Vec<Entry>, Error>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn read<'a>(
        &'a self,
        _: &'a Path,
        _: &'a Meta,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<Bytes, Error>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            tokio::time::sleep(LATENCY).await;
            let number = (range.start / self.block) as u8;
            Ok(vec![number; range.len as usize].into())
        })
    }
}

pub fn run() {
    let cluster = support::servers(Topology::Standalone, 0);
    let runtime = support::runtime();
    let usual = Settings::default().lease;
    for blocks in STARTS {
        println!(
            "\n{CLIENTS} clients start at once, each reads {} of {} cold blocks of {} KiB, origin of 30 ms",
            blocks.read,
            blocks.count,
            blocks.size >> 10
        );
        for (name, lease, copies) in [
            ("default", usual, 1),
            ("8 copies", usual, 8),
            ("no leases", Duration::ZERO, 1),
        ] {
            // Without leases each client brings each block: minutes.
            if lease.is_zero() && blocks.size * blocks.count > 8 << 20 {
                continue;
            }
            let settings = Settings {
                block: Size(blocks.size),
                memory: Size(4 * blocks.size),
                engine: Some(cluster.address().parse().expect("an engine")),
                lease,
                copies,
                read_deadline: Duration::from_secs(60),
                ..Settings::default()
            };
            let (reads, seconds, sum) = runtime.block_on(start(name, &settings, blocks));
            let per_block = reads as f64 / blocks.count as f64;
            println!(
                "{name:<10} {per_block:8.2} reads of the origin per block, {seconds:5.1} s; {} leases, {} waits, {} in vain, \
                 {} copies, {} reads of them, {} late answers, {} skips by breakers, {} blocks not stored",
                sum.leases,
                sum.lease_waits,
                sum.lease_waits_in_vain,
                sum.copies,
                sum.copy_hits,
                sum.deadline_misses,
                sum.breaker_skips,
                sum.dropped_fills
            );
            if !lease.is_zero() {
                Goal::AtMost(1.05).beside("reads of the origin per block", per_block, "");
            }
        }
    }
}

async fn start(name: &str, settings: &Settings, blocks: Blocks) -> (u64, f64, Totals) {
    let block = blocks.size;
    let origin = Arc::new(Distant {
        state: format!("{name} {block} {}", blocks.count),
        block,
        blocks: blocks.count,
        reads: AtomicU64::new(0),
    });
    let barrier = Arc::new(Barrier::new(CLIENTS + 1));
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let cache = BlockCache::open(settings.clone(), Arc::clone(&origin) as _);
        let cache = cache.await.expect("it opens");
        let barrier = Arc::clone(&barrier);
        clients.push(tokio::spawn(async move {
            let file = cache.stat(Path::new("file")).await.expect("it is there");
            barrier.wait().await;
            for number in blocks.of(client) {
                let range = ByteRange {
                    start: number * block,
                    len: block,
                };
                let bytes = cache.get(&file, range).await.expect("it is somewhere");
                // All bytes are the first one, if each is as the one before.
                let is_right = bytes[0] == number as u8 && bytes[1..] == bytes[..bytes.len() - 1];
                assert!(is_right && bytes.len() as u64 == block, "block {number}");
            }
            cache.table().totals
        }));
    }
    barrier.wait().await;
    let begun = Instant::now();
    let mut sum = Totals::default();
    for client in clients {
        let totals = client.await.expect("no client fails");
        sum.leases += totals.leases;
        sum.lease_waits += totals.lease_waits;
        sum.lease_waits_in_vain += totals.lease_waits_in_vain;
        sum.copies += totals.copies;
        sum.copy_hits += totals.copy_hits;
        sum.deadline_misses += totals.deadline_misses;
        sum.breaker_skips += totals.breaker_skips;
        sum.dropped_fills += totals.dropped_fills;
    }
    let reads = origin.reads.load(Ordering::Relaxed);
    (reads, begun.elapsed().as_secs_f64(), sum)
}

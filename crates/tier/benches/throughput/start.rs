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
/// Sizes of blocks, and how many of them: a whole GiB for each client is a TiB from the servers, an hour here.
const SIZES: [(u64, u64); 2] = [(128 << 10, 64), (1 << 20, 16)];
const LATENCY: Duration = Duration::from_millis(30);

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
    for (block, blocks) in SIZES {
        println!(
            "\n{CLIENTS} clients start at once on {blocks} cold blocks of {} KiB, origin of 30 ms",
            block >> 10
        );
        for (name, lease) in [("default", usual), ("no leases", Duration::ZERO)] {
            // Without leases each client brings each block: minutes.
            if lease.is_zero() && block * blocks > 8 << 20 {
                continue;
            }
            let settings = Settings {
                block: Size(block),
                memory: Size(4 * block),
                engine: Some(cluster.address().parse().expect("an engine")),
                lease,
                read_deadline: Duration::from_secs(60),
                ..Settings::default()
            };
            let (reads, seconds, sum) = runtime.block_on(start(name, &settings, blocks));
            let per_block = reads as f64 / blocks as f64;
            println!(
                "{name:<10} {per_block:8.2} reads of the origin per block, {seconds:5.1} s; {} leases, {} waits, {} in vain, \
                 {} late answers, {} skips by breakers",
                sum.leases,
                sum.lease_waits,
                sum.lease_waits_in_vain,
                sum.deadline_misses,
                sum.breaker_skips
            );
            if !lease.is_zero() {
                Goal::AtMost(1.05).beside("reads of the origin per block", per_block, "");
            }
        }
    }
}

async fn start(name: &str, settings: &Settings, blocks: u64) -> (u64, f64, Totals) {
    let block = settings.block.0;
    let origin = Arc::new(Distant {
        state: format!("{name} {block}"),
        block,
        blocks,
        reads: AtomicU64::new(0),
    });
    let barrier = Arc::new(Barrier::new(CLIENTS + 1));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let cache = BlockCache::open(settings.clone(), Arc::clone(&origin) as _);
        let cache = cache.await.expect("it opens");
        let barrier = Arc::clone(&barrier);
        clients.push(tokio::spawn(async move {
            let file = cache.stat(Path::new("file")).await.expect("it is there");
            barrier.wait().await;
            for number in 0..blocks {
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
        sum.deadline_misses += totals.deadline_misses;
        sum.breaker_skips += totals.breaker_skips;
    }
    let reads = origin.reads.load(Ordering::Relaxed);
    (reads, begun.elapsed().as_secs_f64(), sum)
}

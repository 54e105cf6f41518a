//! A thousand clients that start at once on cold blocks of an origin with a latency of 30 ms: reads of the origin per
//! block, with leases and without.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cachewise_tier::dev_cluster::Topology;
use cachewise_tier::{BlockCache, Entry, Error, Kind, Meta, Origin, Settings, Version};
use cachewise_units::{ByteRange, Bytes as Size};
use futures_util::future::BoxFuture;
use tokio::sync::Barrier;

use crate::support::{self, Goal};

const CLIENTS: usize = 1_000;
/// A whole GiB for each client is a TiB from the servers: an hour here.
const BLOCKS: u64 = 64;
const BLOCK: u64 = 128 << 10;
const LATENCY: Duration = Duration::from_millis(30);

/// An origin of one file, whose state is the name of the run.
#[derive(Debug)]
struct Distant {
    state: String,
    reads: AtomicU64,
}

impl Origin for Distant {
    fn identity(&self) -> &str {
        &self.state
    }

    fn stat<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, Result<Meta, Error>> {
        let meta = Meta::plain(Kind::File, BLOCK * BLOCKS, Version::new(&self.state));
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
            let number = (range.start / BLOCK) as u8;
            Ok(vec![number; range.len as usize].into())
        })
    }
}

pub fn run() {
    let cluster = support::servers(Topology::Standalone, 0);
    let runtime = support::runtime();
    println!(
        "\n{CLIENTS} clients start at once on {BLOCKS} cold blocks of 128 KiB, origin of 30 ms"
    );
    let settings = |lease| Settings {
        block: Size(BLOCK),
        memory: Size(4 * BLOCK),
        engine: Some(cluster.address().parse().expect("an engine")),
        lease,
        ..Settings::default()
    };
    let usual = Settings::default().lease;
    for (name, lease, deadline) in [
        ("no leases", Duration::ZERO, None),
        ("default", usual, None),
        ("deadline 2 s", usual, Some(Duration::from_secs(2))),
    ] {
        let mut settings = settings(lease);
        if let Some(deadline) = deadline {
            settings.connect = deadline;
            settings.deadline = deadline;
            settings.whole = deadline * 5;
            settings.hedge = Duration::ZERO;
        }
        let (reads, seconds, in_vain) = runtime.block_on(start(name, &settings));
        let per_block = reads as f64 / BLOCKS as f64;
        println!(
            "{name:<14} {per_block:8.2} reads of the origin per block, {seconds:5.1} s, {in_vain} waits in vain"
        );
        if name == "default" {
            Goal::AtMost(1.05).beside("reads of the origin per block", per_block, "");
        }
    }
}

async fn start(name: &str, settings: &Settings) -> (u64, f64, u64) {
    let origin = Arc::new(Distant {
        state: name.to_owned(),
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
            for number in 0..BLOCKS {
                let range = ByteRange {
                    start: number * BLOCK,
                    len: BLOCK,
                };
                let bytes = cache.get(&file, range).await.expect("it is somewhere");
                let is_right = bytes.iter().all(|byte| *byte == number as u8);
                assert!(is_right && bytes.len() as u64 == BLOCK, "block {number}");
            }
            cache.table().totals.lease_waits_in_vain
        }));
    }
    barrier.wait().await;
    let begun = Instant::now();
    let mut in_vain = 0;
    for client in clients {
        in_vain += client.await.expect("no client fails");
    }
    let reads = origin.reads.load(Ordering::Relaxed);
    (reads, begun.elapsed().as_secs_f64(), in_vain)
}

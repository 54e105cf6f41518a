//! 120 readers as fast as they can, blocks of 256 KiB from five servers: the cache beside blocking sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cachewise_tier::dev_cluster::{DevCluster, Topology};
use cachewise_tier::{BlockCache, File, Settings};
use cachewise_units::ByteRange;

use crate::support::raw::{Raw, Values};
use crate::support::{self, Goal, READERS, median, policy_off, random_of};

const BLOCK: u64 = 256 << 10;
const BLOCKS: usize = 500;
pub const TURNS: usize = 7;
const TURN: Duration = Duration::from_secs(2);

const WHOLE: ByteRange = ByteRange {
    start: 0,
    len: BLOCK,
};

pub fn run() {
    let cluster = support::servers(Topology::Standalone, 0);
    let values = Values::store(&cluster, BLOCKS, BLOCK);
    let scratch = origin();
    let runtime = support::runtime();
    let (on, off) = runtime.block_on(async {
        let on = Client::new(&cluster, scratch.path(), Settings::default()).await;
        let off = Client::new(&cluster, scratch.path(), policy_off()).await;
        (on, off)
    });
    // Before the turns: the cache's pools have their connections, too.
    let mut connections: Vec<_> = (0..READERS).map(|_| values.connect()).collect();
    let turns: Vec<[Rate; 3]> = (0..TURNS)
        .map(|_| {
            [
                Rate::of_read(|| runtime.block_on(on.saturate())),
                Rate::of_read(|| raw(&values, &mut connections)),
                Rate::of_read(|| runtime.block_on(off.saturate())),
            ]
        })
        .collect();
    println!("\nSaturated, {READERS} readers, blocks of 256 KiB, medians of {TURNS} turns");
    let of = |kind: usize, figure: fn(&Rate) -> f64| {
        median(turns.iter().map(|turn| figure(&turn[kind])))
    };
    for (name, kind) in [("raw GET", 1), ("policy on", 0), ("policy off", 2)] {
        println!(
            "{name:<10} {:6.0} MB/s, {:5.0} MB for each second of the client's CPU time",
            of(kind, |rate| rate.of_time) / 1e6,
            of(kind, |rate| rate.of_cpu) / 1e6
        );
    }
    let ratio = |kind: usize, figure: fn(&Rate) -> f64| {
        median(
            turns
                .iter()
                .map(|turn| figure(&turn[kind]) / figure(&turn[1])),
        )
    };
    let on_time = ratio(0, |rate| rate.of_time);
    Goal::AtLeast(0.8).beside("policy on, of raw (median of turns)", on_time, "");
    println!(
        "    policy off: {:.2}; for the same CPU time: policy on {:.2}, policy off {:.2}",
        ratio(2, |rate| rate.of_time),
        ratio(0, |rate| rate.of_cpu),
        ratio(2, |rate| rate.of_cpu)
    );
    let table = on.cache.table();
    let asked = table.tiers.iter().map(|row| row.calls).max().unwrap_or(0);
    println!(
        "    policy on: of {asked} blocks {} late, {} with all breakers open, {} hedges",
        table.totals.deadline_misses, table.totals.breaker_skips, table.totals.hedges
    );
}

/// Makes an origin of one file per block.
pub fn origin() -> tempfile::TempDir {
    let scratch = tempfile::tempdir().expect("a directory can be made");
    for number in 0..BLOCKS {
        let bytes = vec![number as u8; BLOCK as usize];
        std::fs::write(scratch.path().join(number.to_string()), bytes).expect("room");
    }
    std::thread::sleep(Duration::from_millis(300));
    scratch
}

/// Bytes a second, and bytes for each second of this process's CPU time.
pub struct Rate {
    pub of_time: f64,
    pub of_cpu: f64,
}

impl Rate {
    /// Measures a function that returns the number of bytes it read.
    pub fn of_read(read: impl FnOnce() -> u64) -> Self {
        let (begun, cpu) = (Instant::now(), support::cpu_seconds());
        let bytes = read() as f64;
        Self {
            of_time: bytes / begun.elapsed().as_secs_f64(),
            of_cpu: bytes / (support::cpu_seconds() - cpu),
        }
    }
}

/// A cache whose engine has all blocks.
pub struct Client {
    pub cache: BlockCache,
    files: Arc<Vec<File>>,
}

impl Client {
    pub async fn new(cluster: &DevCluster, origin: &std::path::Path, policy: Settings) -> Self {
        let cache = support::open(cluster, origin, BLOCK, policy).await;
        let mut files = Vec::new();
        for number in 0..BLOCKS {
            let file = cache.stat(number.to_string().as_ref()).await;
            let file = file.expect("it is there");
            cache.refill(&file, WHOLE).await.expect("it can be read");
            cache.filled().await.expect("the disk takes it");
            files.push(file);
        }
        let files = Arc::new(files);
        Self { cache, files }
    }

    /// Reads for a turn; returns how many bytes.
    pub async fn saturate(&self) -> u64 {
        let begun = Instant::now();
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                let (cache, files) = (self.cache.clone(), Arc::clone(&self.files));
                tokio::spawn(async move {
                    let (mut bytes, mut random) = (0, random_of(reader));
                    while begun.elapsed() < TURN {
                        let file = &files[random.usize(..files.len())];
                        let read = cache.get(file, WHOLE).await;
                        bytes += read.expect("it is somewhere").len() as u64;
                    }
                    bytes
                })
            })
            .collect();
        let mut bytes = 0;
        for reader in readers {
            bytes += reader.await.expect("no reader fails");
        }
        bytes
    }
}

/// As much with blocking sockets.
fn raw(values: &Values, connections: &mut [Vec<Raw>]) -> u64 {
    let (bytes, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for (reader, connections) in (0..READERS).zip(connections) {
            let (bytes, is_over) = (&bytes, &is_over);
            scope.spawn(move || {
                let mut random = random_of(reader);
                let mut buffer = vec![0; values.size + 2];
                while !is_over.load(Ordering::Relaxed) {
                    let (at, name) = values.place(random.usize(..values.count()));
                    connections[at].get(name, &mut buffer);
                    bytes.fetch_add(BLOCK, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(TURN);
        is_over.store(true, Ordering::Relaxed);
    });
    bytes.into_inner()
}

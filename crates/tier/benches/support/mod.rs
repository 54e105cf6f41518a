//! Common parts of both benches: servers, a cache without its policy, a raw client, and goals
//! beside the measurements.

#![allow(dead_code, reason = "each bench uses a part")]

pub mod raw;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cachewise_tier::dev_cluster::{DevCluster, DevClusterOptions, Topology};
use cachewise_tier::{BlockCache, Directory, Settings};
use cachewise_units::Bytes;

/// How many read side by side.
pub const READERS: usize = 120;

/// Starts five servers, with this number of replicas each.
pub fn servers(topology: Topology, replicas: usize) -> DevCluster {
    DevCluster::start(&DevClusterOptions {
        nodes: 5,
        replicas,
        topology,
        memory: Bytes(1 << 30),
        ..DevClusterOptions::default()
    })
    .expect("redis-server starts: apt-get install redis-server")
}

/// A cache before these servers that keeps next to nothing itself: it is the servers that are asked.
pub async fn open(servers: &DevCluster, origin: &Path, block: u64, policy: Settings) -> BlockCache {
    let engine = servers.address().parse();
    let settings = Settings {
        block: Bytes(block),
        memory: Bytes(4 * block),
        engine: Some(engine.expect("the servers say where they are")),
        read_deadline: Duration::from_secs(30),
        ..policy
    };
    let origin = Arc::new(Directory::open(origin).expect("it was just made"));
    BlockCache::open(settings, origin).await.expect("it opens")
}

/// Waits for as long as it takes, as most clients do.
pub fn policy_off() -> Settings {
    let ever = Duration::from_secs(30);
    Settings {
        connect: ever,
        deadline: ever,
        whole: ever,
        hedge: Duration::ZERO,
        breaker_misses: u32::MAX,
        ..Settings::default()
    }
}

/// A runtime as the program has it.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cachewise_tier::worker_threads())
        .enable_all()
        .build()
        .expect("a runtime can be made")
}

/// Returns whether a part was requested. Without arguments all are.
pub fn wants(name: &str) -> bool {
    let mut asked = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .peekable();
    asked.peek().is_none() || asked.any(|asked| asked == name)
}

/// Numbers of its own for each reader, the same in each run.
pub fn random_of(reader: usize) -> fastrand::Rng {
    fastrand::Rng::with_seed(reader as u64)
}

pub fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

/// CPU time of this process so far, in seconds: what a machine that others use too does not change much.
pub fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the median, and the least and the greatest number.
pub fn spread(numbers: impl Iterator<Item = f64>) -> String {
    let numbers: Vec<f64> = numbers.collect();
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!(
        "{:.2} ({least:.2} to {greatest:.2})",
        median(numbers.into_iter())
    )
}

/// Goals that were missed.
static MISSED: AtomicUsize = AtomicUsize::new(0);

/// Returns the status of the program: 1 if goals were missed and `--check` was given.
pub fn status() -> ExitCode {
    let missed = MISSED.load(Ordering::Relaxed);
    let is_checked = std::env::args().any(|argument| argument == "--check");
    if missed > 0 {
        println!("\n{missed} goals were NOT met");
    }
    ExitCode::from(u8::from(is_checked && missed > 0))
}

/// The goal for a figure.
pub enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    /// Prints a figure beside its goal.
    pub fn beside(&self, what: &str, figure: f64, unit: &str) {
        let (is_met, words, bound) = match *self {
            Self::AtMost(bound) => (figure <= bound, "at most", bound),
            Self::AtLeast(bound) => (figure >= bound, "at least", bound),
        };
        MISSED.fetch_add(usize::from(!is_met), Ordering::Relaxed);
        let verdict = if is_met { "met" } else { "NOT met" };
        println!("    goal: {what} {words} {bound}{unit}: {figure:.2}{unit}, {verdict}");
    }
}

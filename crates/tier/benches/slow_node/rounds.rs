//! Rounds with one frozen node each, told apart by whether this machine's own clock ticks came in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cachewise_tier::dev_cluster::DevCluster;
use cachewise_tier::{Settings, Tier};
use tokio::runtime::Runtime;

use crate::load::{self, Load, Paced};
use crate::support::{Goal, spread};
use crate::{Client, calls};

const ROUNDS: usize = 20;
const FROZEN: Duration = Duration::from_secs(2);
const HEALTHY: Duration = Duration::from_millis(500);

/// Lateness of a tick from which on a round says more about this machine than about the cache: two thirds of the goal for
/// the 99th percentile.
const LATE: Duration = Duration::from_millis(10);

/// A thread that wakes each millisecond and notes how late.
struct Clock {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Clock {
    fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let tick = Duration::from_millis(1);
            let mut latest = Duration::ZERO;
            while !over.load(Ordering::Acquire) {
                let begun = Instant::now();
                std::thread::sleep(tick);
                latest = latest.max(begun.elapsed().saturating_sub(tick));
            }
            latest
        });
        Self { is_over, thread }
    }

    fn latest(self) -> Duration {
        self.is_over.store(true, Ordering::Release);
        self.thread.join().expect("it only sleeps")
    }
}

struct Round {
    paced: Paced,
    latest_tick: Duration,
    blocks: u64,
    origin: u64,
}

/// Freezes one node after the other, with a replica of each.
pub fn run(runtime: &Runtime, load: &Load, cluster: &DevCluster) {
    println!(
        "\n{ROUNDS} rounds: one of five nodes frozen for {} s, a replica of each",
        FROZEN.as_secs()
    );
    let client = runtime.block_on(Client::new(load, cluster, Settings::default()));
    let rounds: Vec<Round> = (0..ROUNDS)
        .map(|number| {
            runtime.block_on(client.paced(HEALTHY));
            let before = client.cache.table();
            let clock = Clock::start();
            let stopped = load::freeze(cluster.nodes()[number % 5].pid);
            let paced = runtime.block_on(client.paced(FROZEN));
            drop(stopped);
            let after = client.cache.table();
            let more = |tier| calls(&after, tier) - calls(&before, tier);
            Round {
                paced,
                latest_tick: clock.latest(),
                blocks: more(Tier::Remote),
                origin: more(Tier::Origin),
            }
        })
        .collect();
    let (late, in_time): (Vec<_>, Vec<_>) = rounds
        .into_iter()
        .partition(|round| round.latest_tick > LATE);
    report("ticks in time", &in_time);
    report("ticks late", &late);
    let all = || in_time.iter().chain(&late);
    let sum = |of: fn(&Round) -> u64| all().map(of).sum::<u64>() as f64;
    let share = 100.0 * sum(|round| round.origin) / sum(|round| round.blocks).max(1.0);
    Goal::AtMost(1.0).beside("origin reads, of all blocks of all rounds", share, " %");
    Goal::AtMost(0.0).beside("errors", sum(|round| round.paced.failed()), "");
    if in_time.is_empty() {
        println!(
            "    no round had its ticks in time: worst p99 and p99.9 are not judged on this machine now"
        );
        return;
    }
    let worst = |quantile: f64| {
        let of_rounds = in_time.iter().map(|round| round.paced.at(quantile));
        of_rounds.fold(0.0, f64::max)
    };
    Goal::AtMost(15.0).beside(
        "worst p99 of a round with ticks in time",
        worst(0.99),
        " ms",
    );
    Goal::AtMost(50.0).beside(
        "worst p99.9 of a round with ticks in time",
        worst(0.999),
        " ms",
    );
}

fn report(what: &str, rounds: &[Round]) {
    println!("{what}: {} rounds", rounds.len());
    if rounds.is_empty() {
        return;
    }
    let of = |figure: &dyn Fn(&Round) -> f64| spread(rounds.iter().map(figure));
    println!("    p50   {} ms", of(&|round| round.paced.at(0.5)));
    println!("    p99   {} ms", of(&|round| round.paced.at(0.99)));
    println!("    p99.9 {} ms", of(&|round| round.paced.at(0.999)));
    let latest = of(&|round| 1e3 * round.latest_tick.as_secs_f64());
    println!("    latest tick {latest} ms");
    println!("    origin reads {}", of(&|round| round.origin as f64));
}

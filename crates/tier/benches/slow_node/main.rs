//! The cost of a frozen node, with and without the policy, compared with a raw client in the same
//! run.
//!
//! Five real Redis nodes on this machine; 120 readers, each of which thinks for 200 ms on the
//! average between two reads of the first 4 KiB of one of 500 files of 64 KiB, 256 KiB or 1 MiB.
//! One node is stopped for 5 s. In the healthy phase all kinds of clients take turns, so that other
//! load on the machine disturbs them alike.
//!
//! `cargo bench -p cachewise-tier --bench slow_node [-- healthy|replicas|rounds|alone] [--check]`; with
//! `--check` it ends with 1 if a goal is missed.

mod load;
mod raw;
mod rounds;
#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use cachewise_tier::dev_cluster::{DevCluster, Topology};
use cachewise_tier::{BlockCache, File, Settings, Table, Tier};
use load::{FILES, Load, Paced};
use support::raw::{Raw, Values};
use support::{Goal, median, policy_off, servers, wants};
use tokio::runtime::Runtime;

/// The block that is fetched for 4 KiB.
const BLOCK: u64 = 64 << 10;
const HEALTHY: Duration = Duration::from_secs(4);
const TURNS: usize = 5;
const FROZEN: Duration = Duration::from_secs(5);

/// A cache whose engine has all first blocks, and that has a connection to each node.
#[derive(Clone)]
struct Client {
    cache: BlockCache,
    files: Arc<Vec<File>>,
}

impl Client {
    async fn new(load: &Load, cluster: &DevCluster, policy: Settings) -> Self {
        let cache = support::open(cluster, load.directory.path(), BLOCK, policy).await;
        let mut files = Vec::new();
        for number in 0..FILES {
            let file = cache.stat(&load::name_of(number)).await;
            files.push(file.expect("it is there"));
        }
        for file in &files {
            let first = cache.get(file, load::FIRST).await;
            first.expect("the origin has it");
        }
        while cache.table().nodes.len() < cluster.nodes().len() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let files = Arc::new(files);
        Self { cache, files }
    }

    async fn paced(&self, time: Duration) -> Paced {
        let client = self.clone();
        let read = move |number: usize| {
            let Self { cache, files } = client.clone();
            async move { cache.get(&files[number], load::FIRST).await.is_ok() }
        };
        Paced::run(time, read).await
    }
}

fn main() -> ExitCode {
    let runtime = support::runtime();
    let load = Load::new();
    println!("{}", heading());
    if wants("healthy") || wants("replicas") || wants("rounds") {
        let cluster = servers(Topology::Cluster, 1);
        if wants("healthy") {
            healthy(&runtime, &load, &cluster);
        }
        if wants("replicas") {
            println!("\nOne of five nodes frozen for 5 s, a replica of each");
            let (on, before) = frozen(&runtime, &load, &cluster);
            let rate = 100.0 * on.rate() / before.rate();
            Goal::AtLeast(95.0).beside("rate of the healthy one's", rate, " %");
            Goal::AtMost(15.0).beside("p99", on.at(0.99), " ms");
            Goal::AtMost(50.0).beside("max", on.at(1.0), " ms");
            Goal::AtMost(0.0).beside("errors", on.failed() as f64, "");
        }
        if wants("rounds") {
            rounds::run(&runtime, &load, &cluster);
        }
    }
    if wants("alone") {
        let cluster = servers(Topology::Cluster, 0);
        println!("\nOne of five nodes frozen for 5 s, no replicas");
        let (on, _) = frozen(&runtime, &load, &cluster);
        Goal::AtMost(30.0).beside("p99", on.at(0.99), " ms");
        Goal::AtMost(0.0).beside("errors", on.failed() as f64, "");
    }
    support::status()
}

fn heading() -> String {
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("?");
    format!("{cpus} CPUs, load {load} at the beginning; clients and servers share them")
}

/// All clients by turns; ours beside the raw one that reads as much.
fn healthy(runtime: &Runtime, load: &Load, cluster: &DevCluster) {
    let values = Values::store(cluster, FILES, BLOCK);
    let (on, off) = runtime.block_on(async {
        let on = Client::new(load, cluster, Settings::default()).await;
        (on, Client::new(load, cluster, policy_off()).await)
    });
    let mut turns: Vec<[Paced; 4]> = Vec::new();
    for _ in 0..TURNS {
        turns.push([
            raw::run(&values, HEALTHY, Raw::get_first),
            raw::run(&values, HEALTHY, Raw::get),
            runtime.block_on(on.paced(HEALTHY)),
            runtime.block_on(off.paced(HEALTHY)),
        ]);
    }
    println!("\nHealthy, paced, {TURNS} turns of {} s", HEALTHY.as_secs());
    let names = [
        "raw GETRANGE of 4 KiB",
        "raw GET of 64 KiB",
        "policy on, 64 KiB",
        "policy off, 64 KiB",
    ];
    for (kind, name) in names.into_iter().enumerate() {
        let mut all = Paced::new(Duration::ZERO);
        turns.iter().for_each(|turn| all.and(&turn[kind]));
        println!("{name:<24} {all}");
    }
    let ratio = |of: usize, to: usize, quantile: f64| {
        median(
            turns
                .iter()
                .map(|turn| turn[of].at(quantile) / turn[to].at(quantile)),
        )
    };
    let p99 = |kind: usize| median(turns.iter().map(|turn| turn[kind].at(0.99)));
    Goal::AtMost(1.3).beside(
        "p50, policy on, of the raw GET's (median of turns)",
        ratio(2, 1, 0.5),
        "",
    );
    println!("    policy off: {:.2}", ratio(3, 1, 0.5));
    let what = format!(
        "p99, policy on (median of turns; raw GETRANGE's {:.2} ms, raw GET's {:.2} ms, policy off {:.2} ms)",
        p99(0),
        p99(1),
        p99(3)
    );
    Goal::AtMost(5.0).beside(&what, p99(2), " ms");
}

/// With the policy and without it: while a node is frozen, and before. Returns those with it.
fn frozen(runtime: &Runtime, load: &Load, cluster: &DevCluster) -> (Paced, Paced) {
    let one = |name: &str, policy| {
        runtime.block_on(async {
            let client = Client::new(load, cluster, policy).await;
            let healthy = client.paced(HEALTHY).await;
            println!("{name} healthy   {healthy}");
            let before = client.cache.table();
            let stopped = load::freeze(cluster.nodes()[2].pid);
            let thaw = async {
                tokio::time::sleep(FROZEN).await;
                drop(stopped);
            };
            let (frozen, ()) = tokio::join!(client.paced(FROZEN), thaw);
            println!("{name} frozen    {frozen}");
            let after = client.cache.table();
            let (now, then) = (&after.totals, &before.totals);
            println!(
                "    {:.0} % of the healthy rate; of {} blocks {} from the origin, {} hedges, {} of them won, {} missed \
                 the deadline",
                100.0 * frozen.rate() / healthy.rate(),
                calls(&after, Tier::Remote) - calls(&before, Tier::Remote),
                calls(&after, Tier::Origin) - calls(&before, Tier::Origin),
                now.hedges - then.hedges,
                now.hedges_won - then.hedges_won,
                now.deadline_misses - then.deadline_misses,
            );
            (frozen, healthy)
        })
    };
    one("policy off", policy_off());
    one("policy on ", Settings::default())
}

fn calls(table: &Table, tier: Tier) -> u64 {
    let row = table.tiers.iter().find(|row| row.tier == tier);
    row.map_or(0, |row| row.calls)
}

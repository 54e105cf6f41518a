//! What a frozen node costs, with the policy and without it, beside a raw client in the same run.
//!
//! Five real Redis nodes on this machine; 120 readers, each of which thinks for 200 ms on the average between
//! two reads of the first 4 KiB of one of 500 files of 64 KiB, 256 KiB or 1 MiB. One node is stopped for 5 s.
//!
//! `cargo bench -p cachewise-tier --bench slow_node [-- raw|on|off|alone]`

mod load;
mod raw;

use std::sync::Arc;
use std::time::Duration;

use cachewise_tier::dev_cluster::{DevCluster, Options};
use cachewise_tier::{BlockCache, Directory, PolicySettings, Settings, Tier};
use cachewise_units::Bytes;
use load::{FILES, Load, Paced};

const BLOCK: u64 = 64 << 10;
const READERS: usize = 120;
const HEALTHY: Duration = Duration::from_secs(6);
const FROZEN: Duration = Duration::from_secs(5);

fn settings(engine: &str, policy: PolicySettings) -> Settings {
    Settings {
        block_size: Bytes(BLOCK),
        // Next to nothing stays here: it is the engine that is asked.
        memory: Bytes(4 * BLOCK),
        engine: Some(engine.parse().expect("the cluster says where it is")),
        policy,
        deadline: Duration::from_secs(30),
        ..Settings::default()
    }
}

/// Waits for as long as it takes, as most clients do.
fn policy_off() -> PolicySettings {
    let ever = Duration::from_secs(30);
    PolicySettings {
        connect: ever,
        first_byte: ever,
        whole: ever,
        hedge_max: Duration::ZERO,
        breaker_misses: u32::MAX,
        ..PolicySettings::default()
    }
}

async fn case(name: &str, load: &Load, cluster: &DevCluster, policy: PolicySettings) {
    let origin = Arc::new(Directory::open(load.directory.path()).expect("it was just made"));
    let cache = BlockCache::open(settings(&cluster.address(), policy), origin)
        .await
        .expect("it opens");
    let mut files = Vec::new();
    for number in 0..FILES {
        files.push(
            cache
                .stat(&load::name_of(number))
                .await
                .expect("it is there"),
        );
    }
    // The engine has everything afterwards, and each node a connection.
    for file in &files {
        cache
            .get(file, load::FIRST)
            .await
            .expect("the origin has it");
    }
    while cache.table().nodes.len() < cluster.nodes().len() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let files = Arc::new(files);
    let read = |cache: BlockCache, files: Arc<Vec<cachewise_tier::File>>| {
        move |number: usize| {
            let (cache, files) = (cache.clone(), Arc::clone(&files));
            async move { cache.get(&files[number], load::FIRST).await.is_ok() }
        }
    };
    let reader = read(cache.clone(), Arc::clone(&files));
    let healthy = Paced::run(READERS, HEALTHY, reader.clone()).await;
    println!("{name:<28} healthy  {healthy}");
    let before = cache.table();
    let stopped = load::freeze(cluster.nodes()[2].pid);
    let frozen = Paced::run(READERS, FROZEN, reader).await;
    drop(stopped);
    let table = cache.table();
    let origin = |table: &cachewise_tier::Table| {
        table
            .tiers
            .iter()
            .find(|row| row.tier == Tier::Origin)
            .map_or(0, |row| row.calls)
    };
    println!(
        "{name:<28} frozen   {frozen}  {:.0} % of the rate, {} from the origin, {} hedges, {} won, {} deadline misses",
        100.0 * frozen.rate / healthy.rate,
        origin(&table) - origin(&before),
        table.totals.hedges - before.totals.hedges,
        table.totals.hedges_won - before.totals.hedges_won,
        table.totals.deadline_misses - before.totals.deadline_misses,
    );
}

fn start(replicas: usize) -> DevCluster {
    DevCluster::start(&Options {
        nodes: 5,
        replicas,
        memory: Bytes(1 << 30),
        ..Options::default()
    })
    .expect("redis-server starts: apt-get install redis-server")
}

fn main() {
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with('-'))
        .collect();
    let wants = |name: &str| asked.is_empty() || asked.iter().any(|asked| asked == name);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    let load = Load::new();
    let with_replicas = start(1);
    if wants("raw") {
        raw::run(&with_replicas, BLOCK);
    }
    runtime.block_on(async {
        if wants("on") {
            case(
                "policy, replicas",
                &load,
                &with_replicas,
                PolicySettings::default(),
            )
            .await;
        }
        if wants("off") {
            case("no policy, replicas", &load, &with_replicas, policy_off()).await;
        }
        drop(with_replicas);
        if wants("alone") {
            let alone = start(0);
            case(
                "policy, no replicas",
                &load,
                &alone,
                PolicySettings::default(),
            )
            .await;
            case("no policy, no replicas", &load, &alone, policy_off()).await;
        }
    });
}

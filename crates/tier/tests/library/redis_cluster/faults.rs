//! Nodes that freeze, die, move, fill up or return wrong blocks: reads return right bytes, in
//! bounded time.

use std::time::Duration;

use cachewise_tier::dev_cluster::{DevCluster, Role};
use cachewise_tier::{BlockCache, BreakerState, NodeRow, Settings, Tier};

use crate::support::{
    self, BLOCK, Files, WHOLE, ask, bytes_of, forgetful, freeze, hasty, kill, read_for, row, until,
};

/// For how long a fault is read through: long enough for a breaker to open and to probe.
pub const A_WHILE: Duration = Duration::from_millis(1_500);

/// How many read side by side.
pub const READERS: usize = 24;

/// A read that takes longer would have hung. Far from what is expected, which is milliseconds: the
/// machine may be busy.
pub const NO_HANG: Duration = Duration::from_secs(4);

fn patient(engine: &str) -> Settings {
    forgetful(Some(engine))
}

pub fn node_row(cache: &BlockCache, cluster: &DevCluster, number: usize) -> NodeRow {
    let address = cluster.nodes()[number].address.to_string();
    let rows = cache.table().nodes;
    let row = rows.iter().find(|row| row.node == address);
    row.cloned().expect("the node is known")
}

pub async fn before_a_cluster(
    nodes: usize,
    replicas: usize,
    settings: fn(&str) -> Settings,
) -> Option<(Files, DevCluster, BlockCache)> {
    if !support::has("redis-server", "faults of real servers") {
        return None;
    }
    let files = Files::new(60, BLOCK);
    let cluster = support::cluster(nodes, replicas);
    support::fill(&files, &cluster.address()).await;
    let cache = BlockCache::open(settings(&cluster.address()), files.origin())
        .await
        .expect("it opens");
    // Masters hear of their replicas by and by, and so does who asks them.
    until("all nodes are known", || {
        cache.table().nodes.len() == cluster.nodes().len()
    })
    .await;
    Some((files, cluster, cache))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_node_with_a_replica_is_hedged_then_left_out_then_taken_back() {
    let _alone = support::alone().await;
    let Some((files, cluster, cache)) = before_a_cluster(3, 1, hasty).await else {
        return;
    };
    let read = files.settled(&cache).await;
    read_for(&cache, &read, READERS, A_WHILE / 3).await;
    let frozen = freeze(cluster.nodes()[0].pid);
    let met = read_for(&cache, &read, READERS, A_WHILE).await;
    assert!(met.longest < NO_HANG, "{met:?}");
    let table = cache.table();
    let node = node_row(&cache, &cluster, 0);
    assert!(node.deadline_misses >= 3, "it misses deadlines: {node:?}");
    assert!(node.opened >= 1, "then it is not asked: {node:?}");
    assert!(
        node.probes >= 1,
        "but for one question now and then: {node:?}"
    );
    assert!(
        table.totals.hedges_won > 0,
        "its replica answers: {table:?}"
    );
    drop(frozen);
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while node_row(&cache, &cluster, 0).breaker != BreakerState::Closed {
        assert!(
            std::time::Instant::now() < end,
            "it answers again: {:?}",
            cache.table()
        );
        read_for(&cache, &read, 4, Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_node_without_a_replica_is_the_origin_s_load() {
    let _alone = support::alone().await;
    let Some((files, cluster, cache)) = before_a_cluster(3, 0, hasty).await else {
        return;
    };
    let read = files.settled(&cache).await;
    let frozen = freeze(cluster.nodes()[1].pid);
    let met = read_for(&cache, &read, READERS, A_WHILE).await;
    assert!(met.longest < NO_HANG, "{met:?}");
    let table = cache.table();
    assert!(row(&table, Tier::Origin).hits > 0, "{table:?}");
    assert!(table.totals.deadline_misses > 0, "{table:?}");
    assert!(
        table.totals.breaker_skips > 0,
        "most are not even tried: {table:?}"
    );
    for number in [0, 2] {
        let node = node_row(&cache, &cluster, number);
        assert!(node.hits > 20, "the others are well: {node:?}");
    }
    drop(frozen);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_node_is_no_error_of_a_read() {
    let _alone = support::alone().await;
    let Some((files, cluster, cache)) = before_a_cluster(3, 1, hasty).await else {
        return;
    };
    let read = files.settled(&cache).await;
    read_for(&cache, &read, READERS, A_WHILE / 3).await;
    kill(cluster.nodes()[2].pid);
    let met = read_for(&cache, &read, READERS, A_WHILE).await;
    assert!(met.longest < NO_HANG, "{met:?}");
    let node = node_row(&cache, &cluster, 2);
    assert!(node.errors > 0 && node.opened > 0, "{node:?}");
    let replica = cluster
        .nodes()
        .iter()
        .position(|node| node.role == Role::ReplicaOf(2));
    let replica = node_row(&cache, &cluster, replica.expect("it has one"));
    assert!(replica.hits > 0, "its replica has the blocks: {replica:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_killed_leaves_the_origin() {
    let _alone = support::alone().await;
    let Some((files, cluster, cache)) = before_a_cluster(3, 0, hasty).await else {
        return;
    };
    let read = files.settled(&cache).await;
    for node in cluster.nodes() {
        kill(node.pid);
    }
    let met = read_for(&cache, &read, READERS, A_WHILE).await;
    assert!(met.longest < NO_HANG, "{met:?}");
    assert!(row(&cache.table(), Tier::Origin).hits > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_is_not_the_block_is_thrown_away_and_replaced() {
    let _alone = support::alone().await;
    let Some((files, cluster, cache)) = before_a_cluster(3, 0, patient).await else {
        return;
    };
    let read = files.settled(&cache).await;
    // Each key now holds the block of another key, or no block.
    for node in cluster.nodes() {
        let keys = ask(node.address, "KEYS cw:*");
        for (number, key) in keys
            .lines()
            .filter(|line| line.starts_with("cw:"))
            .enumerate()
        {
            let value = ["nonsense", "cwb1", ""][number % 3];
            let set = ask(node.address, &format!("SET {key} \"{value}\""));
            assert!(set.starts_with("+OK"), "{set}");
            if number % 2 == 0 {
                // No string at all: the node answers with an error, and is well.
                ask(node.address, &format!("DEL {key}"));
                let pushed = ask(node.address, &format!("LPUSH {key} {value}x"));
                assert!(pushed.starts_with(":1"), "{pushed}");
            }
        }
    }
    for (number, file) in read.iter().enumerate() {
        let bytes = cache.get(file, WHOLE).await.expect("the origin has it");
        assert_eq!(bytes, bytes_of(number, files.size), "file {number}");
    }
    let remote = row(&cache.table(), Tier::Remote);
    assert_eq!(remote.corrupt, 60, "each was noticed: {remote:?}");
    for row in cache.table().nodes {
        assert_eq!(row.opened, 0, "an answer is not a slow node: {row:?}");
    }
    cache.close().await.expect("fills end");
    let again = BlockCache::open(patient(&cluster.address()), files.origin())
        .await
        .expect("it opens");
    for (number, file) in read.iter().enumerate() {
        let bytes = again.get(file, WHOLE).await.expect("the cluster has it");
        assert_eq!(bytes, bytes_of(number, files.size), "file {number}");
    }
    assert_eq!(
        row(&again.table(), Tier::Origin).calls,
        0,
        "all were mended"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_node_takes_no_more_and_gives_what_it_has() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "a full node") {
        return;
    }
    let files = Files::new(80, BLOCK);
    let cluster = support::cluster(1, 0);
    let address = cluster.nodes()[0].address;
    for setting in ["maxmemory-policy noeviction", "maxmemory 4mb"] {
        assert!(ask(address, &format!("CONFIG SET {setting}")).starts_with("+OK"));
    }
    let cache = BlockCache::open(patient(&cluster.address()), files.origin())
        .await
        .expect("it opens");
    let warnings = cache.warnings().join("\n");
    assert!(
        warnings.contains("noeviction"),
        "it is said at the start: {warnings:?}"
    );
    let read = files.settled(&cache).await;
    for _ in 0..2 {
        for (number, file) in read.iter().enumerate() {
            let bytes = cache.get(file, WHOLE).await.expect("the origin has it");
            assert_eq!(bytes, bytes_of(number, files.size), "file {number}");
        }
    }
    cache.close().await.expect("it closes");
    let table = cache.table();
    assert!(
        table.totals.dropped_fills > 0,
        "5 MiB are too much for it: {table:?}"
    );
    assert!(
        row(&table, Tier::Remote).hits > 0,
        "what it took it gives: {table:?}"
    );
    assert_eq!(table.nodes[0].opened, 0, "a full node answers: {table:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_dead_node_makes_all_refuse_where_full_coverage_is_required() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "a cluster that is down") {
        return;
    }
    let files = Files::new(30, BLOCK);
    let cluster = DevCluster::start(&cachewise_tier::dev_cluster::DevClusterOptions {
        nodes: 3,
        node_timeout: Duration::from_millis(500),
        ..Default::default()
    })
    .expect("redis-server starts");
    for node in cluster.nodes() {
        let set = ask(node.address, "CONFIG SET cluster-require-full-coverage yes");
        assert!(set.starts_with("+OK"), "{set}");
    }
    support::fill(&files, &cluster.address()).await;
    let cache = BlockCache::open(hasty(&cluster.address()), files.origin())
        .await
        .expect("it opens");
    let warnings = cache.warnings().join("\n");
    assert!(
        warnings.contains("CONFIG SET cluster-require-full-coverage no"),
        "what to do is said: {warnings:?}"
    );
    let read = files.settled(&cache).await;
    kill(cluster.nodes()[0].pid);
    until("the others refuse", || {
        ask(cluster.nodes()[1].address, "GET x").contains("CLUSTERDOWN")
    })
    .await;
    let met = read_for(&cache, &read, READERS, A_WHILE).await;
    assert!(met.longest < NO_HANG, "{met:?}");
    assert!(
        row(&cache.table(), Tier::Origin).hits > 0,
        "the origin has them"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_while_they_are_read_are_followed() {
    let _alone = support::alone().await;
    let Some((files, cluster, cache)) = before_a_cluster(3, 0, patient).await else {
        return;
    };
    if !support::has("redis-cli", "resharding") {
        return;
    }
    let read = files.settled(&cache).await;
    let addresses: Vec<String> = (0..3)
        .map(|number| cluster.nodes()[number].address.to_string())
        .collect();
    let id = |number: usize| {
        let said = ask(cluster.nodes()[number].address, "CLUSTER MYID");
        said.lines().nth(1).expect("an id").to_owned()
    };
    let mut reshard = tokio::process::Command::new("redis-cli");
    reshard.args(["--cluster", "reshard", &addresses[0], "--cluster-yes"]);
    reshard.args(["--cluster-from", &id(0), "--cluster-to", &id(1)]);
    reshard.args(["--cluster-slots", "4000"]);
    let moving = reshard.output();
    let reading = read_for(&cache, &read, 8, A_WHILE);
    let (moved, met) = tokio::join!(moving, reading);
    let moved = moved.expect("redis-cli runs");
    let said = String::from_utf8_lossy(&moved.stdout);
    assert!(moved.status.success(), "{said}");
    assert!(met.longest < NO_HANG, "{met:?}");
    let before = row(&cache.table(), Tier::Origin).calls;
    let gave = node_row(&cache, &cluster, 1).hits;
    for (number, file) in read.iter().enumerate() {
        let bytes = cache
            .get(file, WHOLE)
            .await
            .expect("it is at its new place");
        assert_eq!(bytes, bytes_of(number, files.size), "file {number}");
    }
    let table = cache.table();
    assert_eq!(
        row(&table, Tier::Origin).calls,
        before,
        "nothing was lost: {table:?}"
    );
    assert!(
        node_row(&cache, &cluster, 1).hits - gave > 20,
        "it has half of them by now"
    );
}

//! A cache before single servers that do not know each other: Redis and memcached, by rendezvous hashing.

mod black_hole;
mod given_up;
mod growing;
mod loading;
mod tls;

use std::time::Duration;

use crate::support::server::Server;
use crate::support::{
    self, BLOCK, Files, WHOLE, bytes_of, forgetful, freeze, hasty, kill, read_for, row,
};
use cachewise_tier::dev_cluster::{DevCluster, DevClusterOptions, Topology};
use cachewise_tier::{BlockCache, BreakerState, Tier};

/// A read that takes longer would have hung.
const NO_HANG: Duration = Duration::from_secs(4);

/// Nodes of one engine, with the text that names them.
enum Nodes {
    Redis(DevCluster),
    Memcached(Vec<Server>),
}

impl Nodes {
    fn engine(&self) -> String {
        match self {
            Self::Redis(nodes) => nodes.address(),
            Self::Memcached(nodes) => {
                let nodes: Vec<String> =
                    nodes.iter().map(|node| node.address.to_string()).collect();
                format!("memcached://{}", nodes.join(","))
            }
        }
    }

    fn pid_and_name(&self, number: usize) -> (u32, String) {
        match self {
            Self::Redis(nodes) => {
                let node = nodes.nodes()[number];
                (node.pid, node.address.to_string())
            }
            Self::Memcached(nodes) => (nodes[number].pid(), nodes[number].address.to_string()),
        }
    }
}

/// Four nodes of each engine that is installed.
fn engines() -> Vec<Nodes> {
    let mut engines = Vec::new();
    if support::has("redis-server", "single Redis nodes") {
        let options = DevClusterOptions {
            nodes: 4,
            topology: Topology::Standalone,
            ..DevClusterOptions::default()
        };
        engines.push(Nodes::Redis(
            DevCluster::start(&options).expect("they start"),
        ));
    }
    if support::has("memcached", "memcached nodes") {
        engines.push(Nodes::Memcached(
            (0..4).map(|_| Server::memcached()).collect(),
        ));
    }
    engines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_machine_read_another_gets_from_the_nodes() {
    let _alone = support::alone().await;
    for nodes in engines() {
        let engine = nodes.engine();
        let files = Files::new(80, BLOCK + 77);
        support::fill(&files, &engine).await;
        let other = BlockCache::open(forgetful(Some(&engine)), files.origin())
            .await
            .expect("it opens");
        assert_eq!(other.warnings(), Vec::<String>::new());
        for (number, file) in files.settled(&other).await.iter().enumerate() {
            let bytes = other.get(file, WHOLE).await.expect("the nodes have it");
            assert_eq!(bytes, bytes_of(number, files.size), "{engine}");
        }
        let table = other.table();
        assert_eq!(row(&table, Tier::Origin).calls, 0, "{table:?}");
        assert!(
            table.nodes.iter().all(|node| node.hits > 10),
            "each has a share: {table:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_node_is_away_the_next_in_rank_takes_its_blocks() {
    let _alone = support::alone().await;
    for nodes in engines() {
        let engine = nodes.engine();
        let files = Files::new(80, BLOCK);
        support::fill(&files, &engine).await;
        let cache = BlockCache::open(hasty(&engine), files.origin())
            .await
            .expect("it opens");
        let read = files.settled(&cache).await;
        let (pid, name) = nodes.pid_and_name(1);
        let frozen = freeze(pid);
        let met = read_for(&cache, &read, 24, Duration::from_millis(1_500)).await;
        assert!(met.longest < NO_HANG, "{engine}: {met:?}");
        let table = cache.table();
        let node = table
            .nodes
            .iter()
            .find(|node| node.node == name)
            .expect("it is known");
        assert!(node.opened > 0, "it is left out: {table:?}");
        assert!(table.totals.fills > 0, "others took its blocks: {table:?}");
        // All of its blocks are at others by now, so the origin is not needed any more.
        let before = row(&table, Tier::Origin).calls;
        read_for(&cache, &read, 24, Duration::from_millis(300)).await;
        let after = row(&cache.table(), Tier::Origin).calls;
        let more = after - before;
        assert!(
            more < 40,
            "{engine}: {more} more of hundreds, from probes and late ones"
        );
        drop(frozen);

        kill(pid);
        let met = read_for(&cache, &read, 24, Duration::from_millis(500)).await;
        assert!(met.longest < NO_HANG, "{engine}: {met:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_are_not_there_yet_are_warned_of() {
    let _alone = support::alone().await;
    let files = Files::new(5, BLOCK);
    for scheme in ["redis", "memcached"] {
        let engine = format!("{scheme}://127.0.0.1:{}", support::server::free_port());
        let cache = BlockCache::open(forgetful(Some(&engine)), files.origin())
            .await
            .expect("a cache works without its engine");
        let warnings = cache.warnings().join("\n");
        assert!(warnings.contains("does not answer"), "{warnings:?}");
        for (number, file) in files.settled(&cache).await.iter().enumerate() {
            let bytes = cache.get(file, WHOLE).await.expect("the origin has it");
            assert_eq!(bytes, bytes_of(number, files.size));
        }
        let table = cache.table();
        assert_eq!(table.nodes[0].breaker, BreakerState::Open, "{table:?}");
    }
}

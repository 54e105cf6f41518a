//! A node that is started again and has much to load: it answers, and refuses until it has.

use std::process::Command;
use std::time::Duration;

use cachewise_tier::{BreakerState, Tier};

use super::faults::{A_WHILE, NO_HANG, READERS, before_a_cluster, node_row};
use crate::support::server::Server;
use crate::support::{self, ask, hasty, kill, read_for, row};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_loads_is_left_out_and_taken_back() {
    let _alone = support::alone().await;
    let Some((files, cluster, cache)) = before_a_cluster(3, 0, hasty).await else {
        return;
    };
    let read = files.settled(&cache).await;
    read_for(&cache, &read, READERS, A_WHILE / 3).await;
    let node = cluster.nodes()[0];
    assert!(ask(node.address, "SAVE").starts_with("+OK"));
    let bus = ask(node.address, "CLUSTER NODES");
    let own = bus.lines().find(|line| line.contains("myself"));
    let own = own.and_then(|line| line.split_once('@'));
    let bus: String = own
        .map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect())
        .expect("it says where it talks to the others");
    kill(node.pid);
    support::until("its port is free", || {
        std::net::TcpListener::bind(node.address).is_ok()
    })
    .await;

    // It takes a tenth of a second for each block, and looks at what it is asked after each.
    let server = Server::again(node.address, |port| {
        let mut command = Command::new("redis-server");
        command.current_dir(cluster.directory().join("node-1"));
        command.args(["--port", &port.to_string(), "--cluster-port", &bus]);
        command.args(["--bind", "127.0.0.1", "--save", ""]);
        command.args(["--cluster-enabled", "yes"]);
        command.args(["--cluster-require-full-coverage", "no"]);
        command.args(["--key-load-delay", "100000"]);
        command.args(["--loading-process-events-interval-bytes", "1024"]);
        command
    });
    // A node of a cluster says CLUSTERDOWN of keys meanwhile, and LOADING of all else.
    let said = ask(server.address, "PING");
    if !said.contains("LOADING") {
        println!("skipped: a node that loads: this redis-server loads at once ({said:?})");
        return;
    }
    let before = node_row(&cache, &cluster, 0);
    let met = read_for(&cache, &read, READERS, A_WHILE / 2).await;
    assert!(met.longest < NO_HANG, "{met:?}");
    let during = node_row(&cache, &cluster, 0);
    assert!(
        during.errors + during.deadline_misses > before.errors + before.deadline_misses,
        "it refuses: {during:?}"
    );
    assert!(
        row(&cache.table(), Tier::Origin).hits > 0,
        "the origin has them"
    );
    let end = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        let node = node_row(&cache, &cluster, 0);
        if node.breaker == BreakerState::Closed && node.hits > during.hits + 20 {
            break;
        }
        assert!(
            std::time::Instant::now() < end,
            "it is asked again: {node:?}"
        );
        read_for(&cache, &read, READERS, A_WHILE / 10).await;
    }
}

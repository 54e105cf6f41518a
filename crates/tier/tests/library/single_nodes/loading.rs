//! A server that is started again and has much to load: it answers each question by `-LOADING` until it has.

use std::process::Command;
use std::time::Duration;

use cachewise_tier::{BlockCache, BreakerState, Tier};

use super::NO_HANG;
use crate::support::server::Server;
use crate::support::{self, BLOCK, Files, ask, hasty, read_for, row};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_loads_is_left_out_and_taken_back() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "a server that loads") {
        return;
    }
    let directory = tempfile::tempdir().expect("made");
    let redis = |port: u16, more: &[&str]| {
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--dir"]);
        command.arg(directory.path());
        command.args(["--port", &port.to_string()]).args(more);
        command
    };
    let files = Files::new(30, BLOCK);
    let first = Server::start(std::net::Ipv4Addr::LOCALHOST, |port| redis(port, &[]));
    let engine = format!("redis://{}", first.address);
    support::fill(&files, &engine).await;
    let cache = BlockCache::open(hasty(&engine), files.origin())
        .await
        .expect("it opens");
    let read = files.settled(&cache).await;
    assert!(ask(first.address, "SAVE").starts_with("+OK"));
    let address = first.address;
    drop(first);

    // It takes a tenth of a second for each block, and looks at what it is asked after each.
    let slowly = [
        "--key-load-delay",
        "100000",
        "--loading-process-events-interval-bytes",
        "1024",
    ];
    let _server = Server::again(address, |port| redis(port, &slowly));
    let said = ask(address, "GET x");
    if !said.contains("LOADING") {
        println!("skipped: a server that loads: this redis-server loads at once ({said:?})");
        return;
    }
    // A cache opened now gets a warning, and works.
    let late = BlockCache::open(hasty(&engine), files.origin());
    let late = late.await.expect("a cache works without its engine");
    let warnings = late.warnings().join("\n");
    assert!(warnings.contains("does not answer"), "{warnings:?}");
    let met = read_for(&cache, &read, 12, Duration::from_millis(700)).await;
    assert!(met.longest < NO_HANG, "{met:?}");
    let during = cache.table();
    let node = &during.nodes[0];
    assert!(
        node.errors + node.deadline_misses >= 3 && node.opened >= 1,
        "it refuses, and is left out: {during:?}"
    );
    assert!(row(&during, Tier::Origin).hits > 0, "{during:?}");
    let hits = node.hits;
    let end = std::time::Instant::now() + Duration::from_secs(60);
    loop {
        let table = cache.table();
        let node = &table.nodes[0];
        if node.breaker == BreakerState::Closed && node.hits > hits + 20 {
            break;
        }
        assert!(
            std::time::Instant::now() < end,
            "it is asked again: {table:?}"
        );
        read_for(&cache, &read, 12, Duration::from_millis(100)).await;
    }
}

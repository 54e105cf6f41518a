//! Tests on a healthy cluster.

use cachewise_tier::{BlockCache, BreakerState, Tier, WarmFrom};
use cachewise_units::ByteRange;

use crate::support::{self, BLOCK, Files, WHOLE, bytes_of, forgetful, row};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_machine_read_another_gets_from_the_cluster() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "a cluster of real servers") {
        return;
    }
    let files = Files::new(120, BLOCK + 1_000);
    let cluster = support::cluster(5, 0);
    support::fill(&files, &cluster.address()).await;

    let other = BlockCache::open(forgetful(Some(&cluster.address())), files.origin())
        .await
        .expect("it opens");
    assert_eq!(other.warnings(), Vec::<String>::new(), "nothing will hurt");
    for (number, file) in files.settled(&other).await.iter().enumerate() {
        let bytes = other.get(file, WHOLE).await.expect("the cluster has it");
        assert_eq!(bytes, bytes_of(number, files.size), "file {number}");
        let part = ByteRange {
            start: BLOCK - 10,
            len: 500,
        };
        let bytes = other.get(file, part).await.expect("so it has a part");
        let from = usize::try_from(part.start).expect("small");
        assert_eq!(bytes, bytes_of(number, files.size)[from..from + 500]);
    }
    let table = other.table();
    assert_eq!(
        row(&table, Tier::Origin).calls,
        0,
        "no one asked the origin: {table:?}"
    );
    let remote = row(&table, Tier::Remote);
    assert_eq!((remote.misses, remote.errors), (0, 0), "{table:?}");
    assert!(remote.hits >= 240, "two blocks each: {table:?}");
    assert_eq!(table.nodes.len(), 5);
    let calls: u64 = table.nodes.iter().map(|node| node.calls).sum();
    for node in &table.nodes {
        assert_eq!(node.breaker, BreakerState::Closed, "{node:?}");
        // 240 keys: a fair share of 48 would be off by 14 in one of a hundred tests, and off by
        // more than half of it in none.
        let share = node.calls * 100 / calls;
        assert!(
            (8..=32).contains(&share),
            "{share} % of the keys: {table:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_warmed_at_once_lose_no_block() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "many files warmed at once") {
        return;
    }
    // As much as one step may be under way, or as four.
    for steps in [1, 4] {
        let cluster = support::cluster(3, 0);
        let files = Files::new(12, 40 * BLOCK);
        let settings = cachewise_tier::Settings {
            fills_in_flight: cachewise_units::Bytes(steps << 23),
            ..forgetful(Some(&cluster.address()))
        };
        let cache = BlockCache::open(settings, files.origin())
            .await
            .expect("it opens");
        let settled = files.settled(&cache).await;
        let warms = settled
            .iter()
            .map(|file| cache.warm(file.clone(), WarmFrom::Nearest));
        for warmed in futures_util::future::join_all(warms).await {
            assert_eq!(
                (warmed.blocks, warmed.failed_blocks),
                (40, 0),
                "{:?}",
                warmed.why
            );
        }
        let totals = cache.table().totals;
        assert_eq!(
            (totals.fills, totals.dropped_fills),
            (12 * 40, 0),
            "{totals:?}"
        );
        let keys = cluster.nodes().iter().map(|node| {
            let keys = crate::support::redis::RawRedis::connect(node.address).keys();
            keys.iter()
                .filter(|key| !key.starts_with(b"cw:lease:"))
                .count()
        });
        assert_eq!(keys.sum::<usize>(), 12 * 40, "and they are there");
    }
}

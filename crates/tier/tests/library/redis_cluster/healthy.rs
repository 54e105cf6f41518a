//! Tests on a healthy cluster.

use cachewise_tier::{BlockCache, BreakerState, Tier};
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

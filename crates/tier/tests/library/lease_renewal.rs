//! Origins that take longer than a lease, and clients that die or fail while they read them.

use std::io::{BufReader, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cachewise_tier::dev_cluster::DevCluster;
use cachewise_tier::{BlockCache, Http, NetworkOptions};
use cachewise_units::ByteRange;

use crate::leases::{
    BLOCK, BLOCKS, LEASE, line_with, open, read, reads_of, server, settings, start,
};
use crate::support::http::{Act, HttpServer, Object};
use crate::support::redis::{RawRedis, Reply};
use crate::support::server::Server;
use crate::support::{self, WHOLE, bytes_of};

/// Blocks that clients of a slow origin read.
const FEW: u64 = 2;

/// Opens a cache that sends each request to the origin once, however long it takes.
async fn patient(engine: &str, origin: &HttpServer) -> BlockCache {
    let options = NetworkOptions {
        read_deadline: Duration::from_secs(60),
        ..NetworkOptions::default()
    };
    let origin = Http::open(&origin.url("/"), &options).expect("a URL");
    let cache = BlockCache::open(settings(engine, "renewed"), Arc::new(origin));
    cache.await.expect("it opens")
}

/// Returns the lease that the engine has, and its time in milliseconds.
fn lease(redis: &mut RawRedis) -> Option<(Vec<u8>, i64)> {
    let mut keys = redis.keys().into_iter();
    let key = keys.find(|key| key.starts_with(b"cw:lease:{cw:"))?;
    let Reply::Line(left) = redis.ask(&[b"PTTL", &key]) else {
        panic!("PTTL is answered by a number");
    };
    Some((key, left[1..].parse().expect("a number")))
}

/// Waits until a lease lasts longer than before.
async fn is_renewed(redis: &mut RawRedis) -> Vec<u8> {
    let mut before = i64::MAX;
    let mut renewed = None;
    support::until("the lease is renewed", || {
        let Some((key, left)) = lease(redis) else {
            return false;
        };
        let is_longer = left > std::mem::replace(&mut before, left);
        renewed = Some(key);
        is_longer
    })
    .await;
    renewed.expect("there is one")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn origin_that_takes_longer_than_a_lease_is_read_once_a_block() {
    let _alone = support::alone().await;
    let object = Object::new(bytes_of(0, BLOCK * BLOCKS));
    let origin = HttpServer::start(move |asked| {
        if asked.method == "GET" {
            std::thread::sleep(2 * LEASE);
        }
        object.answer(asked)
    });
    let server = server();
    let memcached = support::has("memcached", "renewals in memcached").then(Server::memcached);
    let engines = [
        server.as_ref().map(DevCluster::address),
        memcached
            .as_ref()
            .map(|node| format!("memcached://{}", node.address)),
    ];
    for (number, engine) in engines.into_iter().flatten().enumerate() {
        let name = format!("file{number}");
        let mut clients = Vec::new();
        for _ in 0..50 {
            clients.push(patient(&engine, &origin).await);
        }
        let readers = clients.iter().map(|cache| {
            let (cache, name) = (cache.clone(), name.clone());
            tokio::spawn(async move {
                let file = cache.stat(Path::new(&name)).await.expect("it is there");
                let few = ByteRange {
                    start: 0,
                    len: FEW * BLOCK,
                };
                let bytes = cache.get(&file, few).await.expect("the origin has it");
                assert!(bytes == bytes_of(0, BLOCK * BLOCKS)[..bytes.len()]);
                cache.table().totals
            })
        });
        let (mut leases, mut in_vain) = (0, 0);
        for reader in readers.collect::<Vec<_>>() {
            let totals = reader.await.expect("no reader fails");
            leases += totals.leases;
            in_vain += totals.lease_waits_in_vain;
        }
        let reads = reads_of(&origin, &name);
        assert_eq!((reads, leases, in_vain), (FEW, FEW, 0), "{engine}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_take_over_from_a_client_that_was_killed_while_the_origin_hung() {
    let _alone = support::alone().await;
    let Some(server) = server() else { return };
    let object = Object::new(bytes_of(0, BLOCK * BLOCKS));
    let is_first = AtomicBool::new(true);
    let origin = HttpServer::start(move |asked| {
        if asked.method == "GET" && is_first.swap(false, Ordering::AcqRel) {
            return Act::Hang(Vec::new());
        }
        object.answer(asked)
    });
    let (engine, url) = (server.address(), origin.url("/"));
    let mut redis = RawRedis::connect(server.nodes()[0].address);
    let mut holder = start(&engine, &url, "file", "renewed", 1);
    let mut output = BufReader::new(holder.stdout.take().expect("piped"));
    line_with(&mut output, "ready");
    let mut input = holder.stdin.take().expect("piped");
    input.write_all(b"go\n").expect("it reads");
    support::until("the holder reads", || reads_of(&origin, "file") == 1).await;
    is_renewed(&mut redis).await;
    let mut caches = Vec::new();
    for _ in 0..20 {
        caches.push(open(&engine, &url, "renewed").await);
    }
    let readers: Vec<_> = caches
        .iter()
        .map(|cache| {
            let cache = cache.clone();
            tokio::spawn(async move { read(&cache, "file").await })
        })
        .collect();
    let waits = || -> u64 {
        let totals = caches.iter().map(|cache| cache.table().totals);
        totals.map(|totals| totals.lease_waits).sum()
    };
    support::until("all wait", || waits() == 20).await;
    holder.kill().expect("it is ours");
    holder.wait().expect("it ends");
    for reader in readers {
        reader.await.expect("no reader fails");
    }
    for cache in &caches {
        let totals = cache.table().totals;
        let failures = (totals.failed_reads, totals.lease_waits_in_vain);
        assert_eq!(failures, (0, 0), "the lease ended before: {totals:?}");
    }
    let file = caches[0]
        .stat(Path::new("file"))
        .await
        .expect("it is there");
    let bytes = caches[0].get(&file, WHOLE).await.expect("it is cached");
    assert!(bytes == bytes_of(0, BLOCK * BLOCKS));
}

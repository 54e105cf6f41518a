//! Copies of blocks that many clients read at once, on real servers.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cachewise_tier::dev_cluster::DevCluster;
use cachewise_tier::{BlockCache, EngineKey, Http, NetworkOptions, Settings, Tier, Totals};
use cachewise_units::Bytes;

use crate::leases;
use crate::support::http::{HttpServer, Object};
use crate::support::redis::{RawRedis, Reply};
use crate::support::server::Server;
use crate::support::{self, WHOLE, bytes_of, freeze, hasty, row};

const BLOCK: u64 = leases::BLOCK;

/// Files of one block each: as many as a client tries copies of when it starts.
const FILES: usize = 8;

const COPIES: usize = 8;

fn name(number: usize) -> String {
    format!("copied{number}")
}

/// An origin with a latency, as leases and so copies need one.
fn origin() -> HttpServer {
    let object = Object::new(bytes_of(0, BLOCK));
    HttpServer::start(move |asked| {
        std::thread::sleep(Duration::from_millis(10));
        object.answer(asked)
    })
}

fn settings(engine: &str, copies: usize) -> Settings {
    Settings {
        copies,
        ..leases::settings(engine, "patient")
    }
}

async fn open(origin: &HttpServer, settings: Settings) -> BlockCache {
    let options = NetworkOptions {
        // Keys do not depend on the port, so that the same servers have the copies each time.
        identity: Some("copies".to_owned()),
        ..NetworkOptions::default()
    };
    let origin = Http::open(&origin.url("/"), &options).expect("a URL");
    let cache = BlockCache::open(settings, Arc::new(origin));
    cache.await.expect("it opens")
}

/// Reads files and compares them.
async fn read(cache: &BlockCache, numbers: impl Iterator<Item = usize>) {
    for number in numbers {
        let file = cache.stat(Path::new(&name(number))).await;
        let bytes = cache.get(&file.expect("it is there"), WHOLE).await;
        assert!(
            bytes.expect("it can be read") == bytes_of(0, BLOCK),
            "{number}"
        );
    }
}

/// Starts clients at once, which read all files. Returns the sums of what they count, when all is stored.
async fn start(origin: &HttpServer, clients: usize, settings: &Settings) -> (Totals, u64) {
    let mut caches = Vec::new();
    for _ in 0..clients {
        caches.push(open(origin, settings.clone()).await);
    }
    let readers = caches.iter().map(|cache| {
        let cache = cache.clone();
        tokio::spawn(async move { read(&cache, 0..FILES).await })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.expect("no reader fails");
    }
    let (mut all, mut corrupt) = (Totals::default(), 0);
    for cache in &caches {
        cache.close().await.expect("it closes");
        let table = cache.table();
        corrupt += row(&table, Tier::Remote).corrupt;
        let totals = table.totals;
        assert_eq!(
            (totals.dropped_fills, totals.failed_reads),
            (0, 0),
            "{totals:?}"
        );
        all.fills += totals.fills;
        all.leases += totals.leases;
        all.copies += totals.copies;
        all.copy_hits += totals.copy_hits;
    }
    (all, corrupt)
}

/// Returns how often the origin was read.
fn reads(origin: &HttpServer) -> u64 {
    let asked = origin.asked().into_iter();
    let reads = asked.filter(|asked| asked.method == "GET");
    u64::try_from(reads.count()).expect("few")
}

/// The keys of blocks on a node: those that stay, and those that expire.
fn keys(node: SocketAddrV4) -> [Vec<Vec<u8>>; 2] {
    let mut redis = RawRedis::connect(node);
    let mut keys = redis.keys();
    keys.retain(|key| !key.starts_with(b"cw:lease:"));
    let (expires, stays) = keys.into_iter().partition(|key| {
        let Reply::Line(time) = redis.ask(&[b"PTTL", key]) else {
            panic!("a number");
        };
        let time: i64 = time[1..].parse().expect("a number");
        assert!((-1..=60_000).contains(&time), "a minute at most: {time}");
        time >= 0
    });
    [stays, expires]
}

/// The same, of all nodes.
fn counts(cluster: &DevCluster) -> [u64; 2] {
    let nodes = cluster.nodes().iter().map(|node| keys(node.address));
    nodes.fold([0; 2], |[stay, expire], [stays, expires]| {
        [stay + stays.len() as u64, expire + expires.len() as u64]
    })
}

/// Returns the bytes that each node has sent.
fn sent(cluster: &DevCluster) -> Vec<u64> {
    let nodes = cluster.nodes().iter();
    let sent = nodes.map(|node| {
        let info = support::ask(node.address, "INFO stats");
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("total_net_output_bytes:"));
        line.expect("a number").trim().parse().expect("a number")
    });
    sent.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hot_block_is_read_from_many_servers_and_once_from_the_origin() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "copies of hot blocks") {
        return;
    }
    let mut shares = Vec::new();
    for copies in [1, 16] {
        let cluster = support::cluster(5, 0);
        let origin = origin();
        let settings = settings(&cluster.address(), copies);
        let mut caches = Vec::new();
        for _ in 0..100 {
            caches.push(open(&origin, settings.clone()).await);
        }
        let before = sent(&cluster);
        let readers = caches.iter().map(|cache| {
            let cache = cache.clone();
            tokio::spawn(async move { read(&cache, 0..1).await })
        });
        for reader in readers.collect::<Vec<_>>() {
            reader.await.expect("no reader fails");
        }
        let after = sent(&cluster);
        let sent: Vec<u64> = after
            .iter()
            .zip(before)
            .map(|(after, before)| after - before)
            .collect();
        let all: u64 = sent.iter().sum();
        assert!(all > 99 * BLOCK, "each client has the block: {sent:?}");
        shares.push(*sent.iter().max().expect("five") as f64 / all as f64);
        assert_eq!(reads(&origin), 1, "with up to {copies} copies");
        println!("{copies} copies: bytes sent by each server {sent:?}");
    }
    assert!(
        shares[0] > 0.9,
        "without copies one server sends nearly all: {shares:?}"
    );
    assert!(shares[1] < 0.6, "with copies none sends most: {shares:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_are_counted_and_expire_and_cost_no_reads_of_the_origin() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "copies that expire") {
        return;
    }
    let cluster = support::cluster(3, 0);
    let origin = origin();
    let settings = settings(&cluster.address(), COPIES);
    let (cold, _) = start(&origin, 40, &settings).await;
    let files = FILES as u64;
    assert_eq!((reads(&origin), cold.leases), (files, files), "{cold:?}");
    assert_eq!(counts(&cluster), [cold.fills, cold.copies], "{cold:?}");
    assert_eq!(cold.fills, files, "{cold:?}");
    assert!(
        cold.copies >= files && cold.copy_hits > cold.copies,
        "{cold:?}"
    );
    let (warm, _) = start(&origin, 40, &settings).await;
    assert_eq!(
        (reads(&origin), warm.leases, warm.fills),
        (files, 0, 0),
        "{warm:?}"
    );
    assert_eq!(
        counts(&cluster),
        [files, cold.copies + warm.copies],
        "{warm:?}"
    );
    // Without copies none is looked for and none made.
    let without = self::settings(&cluster.address(), 1);
    let (none, _) = start(&origin, 5, &without).await;
    assert_eq!((none.copies, none.copy_hits), (0, 0), "{none:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_alone_makes_few_copies_when_it_starts_and_then_none() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "copies of a client alone") {
        return;
    }
    let cluster = support::cluster(3, 0);
    let origin = origin();
    let cache = open(&origin, settings(&cluster.address(), 16)).await;
    read(&cache, 0..4 * FILES).await;
    cache.close().await.expect("it closes");
    let totals = cache.table().totals;
    assert!((1..=FILES as u64).contains(&totals.copies), "{totals:?}");
    assert_eq!(totals.copy_hits, 0, "{totals:?}");
    assert_eq!(
        counts(&cluster),
        [4 * FILES as u64, totals.copies],
        "{totals:?}"
    );
    assert_eq!(reads(&origin), 4 * FILES as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_or_swapped_copy_is_counted_and_made_again_from_the_first() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "forged copies") {
        return;
    }
    let secret = EngineKey::new(&[7; 32]);
    for engine_key in [None, Some(secret)] {
        let server = leases::server().expect("redis-server is there");
        let node = server.nodes()[0].address;
        let origin = origin();
        let settings = Settings {
            engine_key,
            ..settings(&server.address(), COPIES)
        };
        start(&origin, 40, &settings).await;
        let [_, copies] = keys(node);
        assert!(copies.len() >= FILES, "{}", copies.len());
        let mut redis = RawRedis::connect(node);
        let values: Vec<Vec<u8>> = copies.iter().map(|key| redis.value(b"GET", key)).collect();
        // Each has the value of another copy, and a few have no block at all.
        for (at, key) in copies.iter().enumerate() {
            match at % 5 {
                0 => redis.set(key, b"cwb1"),
                _ => redis.set(key, &values[(at + 1) % values.len()]),
            }
        }
        // One after the other: what one has fixed, the next one finds.
        let (mut corrupt, mut hits) = (0, 0);
        for _ in 0..40 {
            let (totals, of_client) = start(&origin, 1, &settings).await;
            corrupt += of_client;
            hits += totals.copy_hits;
        }
        assert!(
            (1..=copies.len() as u64).contains(&corrupt) && hits > corrupt,
            "each is found once: {corrupt} of {}, {hits} hits",
            copies.len()
        );
        assert_eq!(reads(&origin), FILES as u64, "the first copies are whole");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen_server_with_copies_costs_no_read_of_blocks_on_others() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "copies on a frozen server") {
        return;
    }
    let cluster = support::cluster(5, 0);
    let origin = origin();
    let frozen = &cluster.nodes()[0];
    // Which files have their block on the node that is going to freeze.
    let filler = open(&origin, settings(&cluster.address(), 1)).await;
    let mut on_frozen = HashSet::new();
    for number in 0..FILES {
        let [before, _] = keys(frozen.address);
        read(&filler, number..number + 1).await;
        filler.filled().await.expect("it is there");
        let [after, _] = keys(frozen.address);
        if after.len() > before.len() {
            on_frozen.insert(format!("/{}", name(number)));
        }
    }
    assert!(on_frozen.len() < FILES / 2, "{on_frozen:?}");
    let with_copies = settings(&cluster.address(), COPIES);
    start(&origin, 40, &with_copies).await;
    let [_, copies] = keys(frozen.address);
    assert!(!copies.is_empty(), "it has copies");
    let before = origin.asked().len();
    let frozen = freeze(frozen.pid);
    let hasty = hasty(&cluster.address());
    let settings = Settings {
        lease: hasty.lease,
        connect: hasty.connect,
        deadline: hasty.deadline,
        whole: hasty.whole,
        hedge_min: hasty.hedge_min,
        hedge: hasty.hedge,
        ..with_copies
    };
    let mut misses = 0;
    for _ in 0..8 {
        let cache = open(&origin, settings.clone()).await;
        read(&cache, 0..FILES).await;
        let totals = cache.table().totals;
        assert_eq!(totals.failed_reads, 0);
        misses += totals.deadline_misses;
    }
    drop(frozen);
    assert!(misses > 0, "copies there were asked for");
    let asked = &origin.asked()[before..];
    let reads = asked.iter().filter(|asked| asked.method == "GET");
    for read in reads {
        assert!(
            on_frozen.contains(&read.target),
            "{} of {on_frozen:?}",
            read.target
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memcached_has_copies_that_expire() {
    let _alone = support::alone().await;
    if !support::has("memcached", "copies in memcached") {
        return;
    }
    let nodes = [(); 3].map(|()| Server::memcached());
    let addresses = nodes.iter().map(|node| node.address.to_string());
    let engine = format!("memcached://{}", addresses.collect::<Vec<_>>().join(","));
    let origin = origin();
    let settings = Settings {
        in_flight: Bytes(1 << 20),
        ..settings(&engine, COPIES)
    };
    let (totals, _) = start(&origin, 40, &settings).await;
    assert_eq!(reads(&origin), FILES as u64, "{totals:?}");
    assert!(totals.copy_hits > totals.copies, "{totals:?}");
    // The lines of blocks, with the time at which each expires.
    let (mut stay, mut expire) = (0, 0);
    for node in &nodes {
        let mut stream = TcpStream::connect(node.address).expect("it listens");
        stream
            .write_all(b"lru_crawler metadump all\r\n")
            .expect("it reads");
        let lines = BufReader::new(stream)
            .lines()
            .map(|line| line.expect("text"));
        let lines = lines.take_while(|line| line != "END");
        for line in lines.filter(|line| !line.contains("lease")) {
            match line.contains(" exp=-1 ") {
                true => stay += 1,
                false => expire += 1,
            }
        }
    }
    assert_eq!((stay, expire), (totals.fills, totals.copies), "{totals:?}");
}

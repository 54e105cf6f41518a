//! Many clients, also in other processes, that read the same blocks at once from a slow origin.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cachewise_tier::dev_cluster::{DevCluster, DevClusterOptions, Topology};
use cachewise_tier::{BlockCache, Http, NetworkOptions, Settings, Totals};
use cachewise_units::{ByteRange, Bytes};

use crate::support::http::{HttpServer, Object};
use crate::support::redis::RawRedis;
use crate::support::server::Server;
use crate::support::{self, bytes_of, forgetful};

pub const BLOCK: u64 = 16 << 10;
pub const BLOCKS: u64 = 48;
/// The lease of clients that renew it.
pub const LEASE: Duration = Duration::from_secs(3);
const PROCESSES: usize = 4;
const CLIENTS: usize = 60;

/// Variable with the work of a process of clients: engine, URL, file, settings and number of clients, each in a line.
const WORK: &str = "CACHEWISE_TEST_LEASES";

/// Settings of a client.
pub fn settings(engine: &str, kind: &str) -> Settings {
    let patient = forgetful(Some(engine));
    let settings = Settings {
        block: Bytes(BLOCK),
        memory: Bytes(4 * BLOCK),
        ..patient
    };
    match kind {
        "never" => Settings {
            lease: Duration::ZERO,
            ..settings
        },
        "default" => settings,
        // The default deadlines of 20 ms, which each node exceeds in the instant of the start.
        "busy" => Settings {
            connect: Settings::default().connect,
            deadline: Settings::default().deadline,
            whole: Settings::default().whole,
            hedge: Settings::default().hedge,
            lease: Duration::from_secs(20),
            ..settings
        },
        "short" => Settings {
            lease: Duration::from_millis(100),
            read_deadline: Duration::from_secs(2),
            ..settings
        },
        "renewed" => Settings {
            lease: LEASE,
            ..settings
        },
        // Waits that a busy machine does not exceed: the number of reads does not depend on its speed.
        _ => Settings {
            lease: Duration::from_secs(20),
            ..settings
        },
    }
}

pub async fn open(engine: &str, url: &str, kind: &str) -> BlockCache {
    let origin = Http::open(url, &NetworkOptions::default()).expect("a URL");
    BlockCache::open(settings(engine, kind), Arc::new(origin))
        .await
        .expect("it opens")
}

/// Reads a file block by block and compares it.
pub async fn read(cache: &BlockCache, name: &str) {
    let file = cache.stat(Path::new(name)).await.expect("it is there");
    let expected = bytes_of(0, BLOCK * BLOCKS);
    for number in 0..BLOCKS {
        let range = ByteRange {
            start: number * BLOCK,
            len: BLOCK,
        };
        let bytes = cache.get(&file, range).await.expect("the origin has it");
        let start = usize::try_from(range.start).expect("small");
        assert!(bytes == expected[start..start + BLOCK as usize], "{number}");
    }
}

/// Clients of one process; a test only where a parent started it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_of_clients() {
    let Ok(work) = std::env::var(WORK) else {
        return;
    };
    let work: Vec<&str> = work.lines().collect();
    let [engine, url, name, kind, clients] = work[..] else {
        panic!("five lines");
    };
    let mut caches = Vec::new();
    for _ in 0..clients.parse().expect("a number") {
        caches.push(open(engine, url, kind).await);
    }
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the start");
    let readers = caches.iter().map(|cache| {
        let (cache, name) = (cache.clone(), name.to_owned());
        tokio::spawn(async move { read(&cache, &name).await })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.await.expect("no reader fails");
    }
    let mut all = Totals::default();
    for cache in &caches {
        let totals = cache.table().totals;
        all.leases += totals.leases;
        all.lease_waits += totals.lease_waits;
        all.lease_waits_in_vain += totals.lease_waits_in_vain;
    }
    let (leases, waits, in_vain) = (all.leases, all.lease_waits, all.lease_waits_in_vain);
    println!("done {leases} {waits} {in_vain}");
}

pub fn start(engine: &str, url: &str, name: &str, kind: &str, clients: usize) -> Child {
    let test = std::env::current_exe().expect("this program");
    Command::new(test)
        .args(["--exact", "leases::process_of_clients", "--nocapture"])
        .env(WORK, format!("{engine}\n{url}\n{name}\n{kind}\n{clients}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts")
}

/// Returns the rest of the first line with this word.
pub fn line_with(output: &mut impl BufRead, word: &str) -> String {
    loop {
        let mut line = String::new();
        let read = output.read_line(&mut line).expect("it writes text");
        assert!(read > 0, "a process ended before {word:?}");
        // The test harness writes on the same line.
        if let Some((_, rest)) = line.split_once(word) {
            return rest.trim().to_owned();
        }
    }
}

/// Starts all clients at once on a cold file; returns leases, waits, and waits in vain.
fn storm(engine: &str, url: &str, name: &str, kind: &str) -> [u64; 3] {
    let mut processes: Vec<Child> = (0..PROCESSES)
        .map(|_| start(engine, url, name, kind, CLIENTS))
        .collect();
    let mut outputs: Vec<_> = processes
        .iter_mut()
        .map(|process| BufReader::new(process.stdout.take().expect("piped")))
        .collect();
    for output in &mut outputs {
        line_with(output, "ready");
    }
    for process in &mut processes {
        let mut input = process.stdin.take().expect("piped");
        input.write_all(b"go\n").expect("it reads");
    }
    let mut all = [0; 3];
    for (process, output) in processes.iter_mut().zip(&mut outputs) {
        let counts = line_with(output, "done ");
        for (sum, count) in all.iter_mut().zip(counts.split(' ')) {
            *sum += count.parse::<u64>().expect("a number");
        }
        let status = process.wait().expect("it ends");
        assert!(status.success(), "a reader failed");
    }
    all
}

pub fn server() -> Option<DevCluster> {
    support::has("redis-server", "leases").then(|| {
        DevCluster::start(&DevClusterOptions {
            nodes: 1,
            topology: Topology::Standalone,
            ..DevClusterOptions::default()
        })
        .expect("it starts")
    })
}

pub fn reads_of(origin: &HttpServer, name: &str) -> u64 {
    let asked = origin.asked().into_iter();
    let reads = asked.filter(|asked| asked.method == "GET" && asked.target.ends_with(name));
    u64::try_from(reads.count()).expect("few")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_start_at_once_read_each_block_from_the_origin_once() {
    let _alone = support::alone().await;
    let Some(server) = server() else { return };
    let object = Object::new(bytes_of(0, BLOCK * BLOCKS));
    let origin = HttpServer::start(move |asked| {
        // The latency of a distant origin.
        std::thread::sleep(Duration::from_millis(30));
        object.answer(asked)
    });
    let url = origin.url("/");
    // `CACHEWISE_TABLE` prints what clients do without leases, and with the default settings on this machine.
    let kinds: &[&str] = match std::env::var_os("CACHEWISE_TABLE") {
        Some(_) => &["never", "default", "never", "default", "patient"],
        None => &["patient"],
    };
    for (round, kind) in kinds.iter().enumerate() {
        let name = format!("{kind}{round}");
        let [leases, waits, in_vain] = storm(&server.address(), &url, &name, kind);
        let reads = reads_of(&origin, &name);
        println!(
            "{} clients in {PROCESSES} processes, leases {kind}: {reads} origin reads of {BLOCKS} blocks ({:.2} per block), \
             {leases} leases, {waits} waits, {in_vain} in vain",
            PROCESSES * CLIENTS,
            reads as f64 / BLOCKS as f64
        );
        if *kind == "patient" {
            assert!(reads >= BLOCKS, "each block is cold: {reads}");
            assert!(
                reads * 100 <= BLOCKS * 105,
                "{reads} origin reads of {BLOCKS} blocks"
            );
            assert_eq!((leases, in_vain), (reads, 0), "each read under a lease");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_start_at_once_wait_for_a_busy_node_beyond_its_deadline() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "clients that start at once") {
        return;
    }
    let cluster = support::cluster(3, 0);
    let object = Object::new(bytes_of(0, BLOCK * BLOCKS));
    let origin = HttpServer::start(move |asked| {
        std::thread::sleep(Duration::from_millis(30));
        object.answer(asked)
    });
    let [leases, waits, in_vain] = storm(&cluster.address(), &origin.url("/"), "file", "busy");
    let reads = reads_of(&origin, "file");
    println!(
        "{reads} origin reads of {BLOCKS} blocks, {leases} leases, {waits} waits, {in_vain} in vain"
    );
    assert!(
        reads * 100 <= BLOCKS * 105,
        "{reads} origin reads of {BLOCKS} blocks"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_engine_has_leases() {
    let _alone = support::alone().await;
    let object = Object::new(bytes_of(0, BLOCK * BLOCKS));
    let origin = HttpServer::start(move |asked| {
        std::thread::sleep(Duration::from_millis(30));
        object.answer(asked)
    });
    let cluster =
        support::has("redis-server", "leases in a cluster").then(|| support::cluster(3, 0));
    let memcached = support::has("memcached", "leases in memcached").then(Server::memcached);
    let engines = [
        cluster.as_ref().map(DevCluster::address),
        memcached
            .as_ref()
            .map(|node| format!("memcached://{}", node.address)),
    ];
    for (number, engine) in engines.into_iter().flatten().enumerate() {
        let name = format!("file{number}");
        let mut clients = Vec::new();
        for _ in 0..20 {
            clients.push(open(&engine, &origin.url("/"), "patient").await);
        }
        let readers = clients.iter().map(|cache| {
            let (cache, name) = (cache.clone(), name.clone());
            tokio::spawn(async move { read(&cache, &name).await })
        });
        for reader in readers.collect::<Vec<_>>() {
            reader.await.expect("no reader fails");
        }
        let leases: u64 = clients
            .iter()
            .map(|cache| cache.table().totals.leases)
            .sum();
        let reads = reads_of(&origin, &name);
        assert_eq!((reads, leases), (BLOCKS, BLOCKS), "{engine}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_does_not_wait_for_leases_that_are_never_followed_by_a_block() {
    let _alone = support::alone().await;
    let Some(server) = server() else { return };
    let object = Object::new(bytes_of(0, BLOCK * BLOCKS));
    let origin = HttpServer::start(move |asked| {
        std::thread::sleep(Duration::from_millis(10));
        object.answer(asked)
    });
    let (engine, url) = (server.address(), origin.url("/"));
    // The names of all leases, taken from a client that read the file.
    let first = open(&engine, &url, "default").await;
    read(&first, "file").await;
    first.filled().await.expect("they are written");
    let mut redis = RawRedis::connect(server.nodes()[0].address);
    let blocks: Vec<Vec<u8>> = redis
        .keys()
        .into_iter()
        .filter(|key| key.len() == 35)
        .collect();
    assert_eq!(blocks.len(), 48, "cw: and 32 digits each");
    for key in &blocks {
        redis.set(&[b"cw:lease:{", key.as_slice(), b"}"].concat(), b"1");
        redis.ask(&[b"DEL", key]);
    }
    let cache = open(&engine, &url, "short").await;
    read(&cache, "file").await;
    let totals = cache.table().totals;
    println!("{totals:?}");
    assert_eq!((totals.failed_reads, totals.leases), (0, 0), "{totals:?}");
    assert_eq!(
        (totals.lease_waits, totals.lease_waits_in_vain),
        (8, 8),
        "after that many waits in vain there are no more"
    );
}

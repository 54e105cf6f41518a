//! A cluster that grows and shrinks under a mount that is read meanwhile.

use std::collections::HashMap;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::dev_cluster::{has_redis, servers as start_servers};
use crate::mounted::{Mounted, has_fuse, origin};
use crate::reader;
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![plain(
        "growing::nodes_come_and_go_under_readers",
        nodes_come_and_go,
    )]
}

const FILES: usize = 40;
const SIZE: usize = 1 << 20;
const READERS: usize = 24;

/// Far beyond what a read takes, and below what one takes that waits for a node for ever.
const WORST: Duration = Duration::from_secs(5);

fn nodes_come_and_go() {
    let what = "a cluster that grows under a mount";
    if !has_fuse(what) || !has_redis(what) {
        return;
    }
    if Command::new("redis-cli").arg("--version").output().is_err() {
        println!("skipped: {what}: redis-cli is not installed");
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, FILES, SIZE);
    let (_servers, document) = start_servers(&["--nodes", "3"]);
    let engine = document["engine"].as_str().expect("an address");
    let first = document["nodes"][0]["address"]
        .as_str()
        .expect("an address");
    let second = document["nodes"][1]["address"]
        .as_str()
        .expect("an address");
    // Next to no memory: blocks come from the servers.
    let with = ["--engine", engine, "--memory", "1M", "--block", "64K"];
    let mut warm = cachewise(["warm", "--engine", engine, "--block", "64K"]);
    Ended::of(warm.arg(&origin)).expect(0, "the servers have all of it");
    let mounted = Mounted::new(&scratch, &origin, &with);
    let readers: Vec<Started> = (0..READERS)
        .map(|seed| reader::start(&mounted.directory, FILES, SIZE, seed))
        .collect();
    let shares = |reads: u64| shares(&mounted, reads);
    shares(200);

    // One more, with a quarter of the slots.
    let node = Node::start(&scratch);
    cluster(&["add-node", &node.address, first]);
    until("all know each other", || {
        let nodes = [first, second, &node.address].map(|at| ask(at, &["CLUSTER", "NODES"]));
        let is_known = nodes.iter().all(|known| known.lines().count() == 4);
        // Before that the new one refuses what is moved to it.
        let is_in = ask(&node.address, &["CLUSTER", "INFO"]).contains("cluster_state:ok");
        (is_known && is_in).then_some(())
    });
    cluster(&["rebalance", first, "--cluster-use-empty-masters"]);
    let grown = shares(600);
    let share = grown.get(&node.address).copied().unwrap_or_default();
    assert!(
        (0.1..0.45).contains(&share),
        "a fair share of four is a quarter: {grown:?}"
    );

    // One node less: one of those named to the mount.
    let id = ask(first, &["CLUSTER", "MYID"]);
    let id = id.trim();
    let weight = format!("{id}=0");
    cluster(&["rebalance", second, "--cluster-weight", &weight]);
    cluster(&["del-node", second, id]);
    // Requests under way to it end, and no others follow.
    shares(200);
    let shrunk = shares(600);
    let left = shrunk.get(first).copied().unwrap_or_default();
    assert!(left < 0.01, "it is not asked any more: {shrunk:?}");
    assert_eq!(
        shrunk.values().filter(|share| **share > 0.15).count(),
        3,
        "the others have what it had: {shrunk:?}"
    );

    let met: Vec<reader::Met> = readers.into_iter().map(reader::end).collect();
    let worst = met.iter().map(|met| met.worst).max().expect("some");
    let reads: u64 = met.iter().map(|met| met.reads).sum();
    println!("{reads} reads while a node came and a node went; the worst took {worst:?}");
    for met in met {
        assert_eq!((met.errors, met.wrong), (0, 0), "no error, no wrong byte");
    }
    assert!(worst < WORST, "nobody waited for slots to move: {worst:?}");
    mounted.end().expect(0, "unmounted");
}

/// Returns each node's share of the hits of the next `reads` reads.
fn shares(mounted: &Mounted, reads: u64) -> HashMap<String, f64> {
    let hits = || -> HashMap<String, u64> {
        let report = mounted.report();
        let nodes = report["cache"]["nodes"].as_array().expect("nodes").iter();
        let hits = |node: &Value| {
            let name = node["name"].as_str().expect("an address").to_owned();
            (name, node["hits_total"].as_u64().expect("a number"))
        };
        nodes.map(hits).collect()
    };
    let before = hits();
    until("there are more reads", || {
        let now = hits();
        let more: HashMap<String, u64> = now
            .into_iter()
            .map(|(name, hits)| {
                let before = before.get(&name).copied().unwrap_or_default();
                (name, hits - before)
            })
            .collect();
        let all: u64 = more.values().sum();
        let part = |(name, more): (String, u64)| (name, more as f64 / all as f64);
        (all >= reads).then(|| more.into_iter().map(part).collect())
    })
}

/// A server that is in no cluster yet; killed when this is dropped.
struct Node {
    address: String,
    _server: Started,
}

impl Node {
    fn start(scratch: &Scratch) -> Node {
        let directory = scratch.directory().join("node");
        std::fs::create_dir(&directory).expect("made");
        // Both at once, or they could be the same.
        let free = [0; 2].map(|_| TcpListener::bind(("127.0.0.1", 0)).expect("loopback is there"));
        let [port, bus] = free
            .each_ref()
            .map(|free| free.local_addr().expect("it is bound").port().to_string());
        drop(free);
        let mut command = Command::new("redis-server");
        command
            .args(["--port", &port, "--cluster-port", &bus])
            .args(["--bind", "127.0.0.1", "--save", "", "--cluster-enabled"])
            .args(["yes", "--cluster-require-full-coverage", "no", "--dir"])
            .arg(&directory)
            .stdin(Stdio::null());
        let server = Started::of(&mut command);
        let address = format!("127.0.0.1:{port}");
        until("it answers", || {
            (ask(&address, &["PING"]).trim() == "PONG").then_some(())
        });
        Node {
            address,
            _server: server,
        }
    }
}

/// Returns a server's reply to a command.
fn ask(address: &str, words: &[&str]) -> String {
    let (host, port) = address.rsplit_once(':').expect("HOST:PORT");
    let mut command = Command::new("redis-cli");
    let output = command.args(["-h", host, "-p", port]).args(words).output();
    String::from_utf8_lossy(&output.expect("redis-cli is there").stdout).into_owned()
}

/// Changes a cluster. Changes spread slowly on a busy machine: a half-done change is fixed and
/// tried again.
fn cluster(words: &[&str]) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let mut command = Command::new("redis-cli");
        command
            .arg("--cluster")
            .args(words)
            .args(["--cluster-yes", "--cluster-pipeline", "8"]);
        let ended = Ended::of(&mut command);
        if ended.code() == 0 {
            return;
        }
        assert!(
            Instant::now() < until,
            "{words:?}: {} {}",
            ended.out(),
            ended.err()
        );
        // A new node alone would be given all slots.
        if let [what, known, ..] = words
            && *what != "add-node"
        {
            let mut fix = Command::new("redis-cli");
            fix.args(["--cluster", "fix", known, "--cluster-yes"]);
            Ended::of(&mut fix);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

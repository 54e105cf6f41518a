//! `tier dev-cluster`: servers that are there when they are said to be, and gone afterwards.

use std::net::TcpStream;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain("dev_cluster::runs_until_a_signal", runs_until_a_signal),
        plain(
            "dev_cluster::kill_9_leaves_no_server",
            kill_9_leaves_no_server,
        ),
        plain("dev_cluster::what_cannot_be_is_refused", what_cannot_be),
    ]
}

/// Whether there is a server to start; says so if not.
pub fn has_redis(what: &str) -> bool {
    let version = std::process::Command::new("redis-server")
        .arg("--version")
        .output();
    let is_there = version.is_ok_and(|output| output.status.success());
    if !is_there {
        println!("skipped: {what}: redis-server is not installed");
    }
    is_there
}

/// A cluster that runs, and its document.
fn start(arguments: &[&str]) -> (Started, Value) {
    let mut command = cachewise(["dev-cluster", "-o", "jsonl"]);
    let mut started = Started::of(command.args(arguments));
    let line = started.line().expect("a document when it is whole");
    let document = serde_json::from_slice(&line).expect("JSON");
    (started, document)
}

/// Servers for other tests: dropped, they end by themselves, and leave nothing.
pub struct Servers(Option<Started>);

impl Drop for Servers {
    fn drop(&mut self) {
        if let Some(started) = self.0.take() {
            started.signal(Signal::TERM);
            // A test that failed already reports its own failure.
            if !std::thread::panicking() {
                started.wait();
            }
        }
    }
}

/// Starts such servers, and returns their document.
pub fn servers(arguments: &[&str]) -> (Servers, Value) {
    let (started, document) = start(arguments);
    (Servers(Some(started)), document)
}

fn nodes(document: &Value) -> Vec<(u32, String)> {
    let nodes = document["nodes"].as_array().expect("nodes");
    let node = |node: &Value| {
        let pid = node["pid"].as_u64().expect("a pid");
        let address = node["address"].as_str().expect("an address");
        (u32::try_from(pid).expect("a pid"), address.to_owned())
    };
    nodes.iter().map(node).collect()
}

fn gone(pid: u32) {
    until(&format!("process {pid} is gone"), || {
        // Orphans may wait for a reaper that never comes; their sockets and memory are gone.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.map_or(true, |stat| stat.contains(") Z "))
            .then_some(())
    });
}

fn runs_until_a_signal() {
    if !has_redis("dev-cluster") {
        return;
    }
    let (started, document) = start(&["--nodes", "3", "--replicas", "1"]);
    let nodes = nodes(&document);
    assert_eq!(nodes.len(), 6, "three masters, a replica each: {document}");
    let engine = document["engine"].as_str().expect("an address");
    for (place, (_, address)) in nodes.iter().enumerate() {
        TcpStream::connect(address).expect("it listens");
        assert_eq!(
            engine.contains(address.as_str()),
            place < 3,
            "masters: {engine}"
        );
    }
    let directory = document["directory"]
        .as_str()
        .expect("a directory")
        .to_owned();
    started.signal(Signal::TERM);
    let ended = started.wait();
    assert_eq!(ended.code(), 128 + 15, "as shells have it: {}", ended.err());
    for (pid, _) in nodes {
        gone(pid);
    }
    assert!(!Path::new(&directory).exists(), "its own directory is gone");
}

fn kill_9_leaves_no_server() {
    if !has_redis("dev-cluster and kill -9") {
        return;
    }
    let scratch = Scratch::new();
    let directory = scratch.directory().join("servers");
    let arguments = ["--nodes", "1", "--standalone", "--dir"];
    let mut arguments: Vec<&str> = arguments.into();
    arguments.push(directory.to_str().expect("ours"));
    let (started, document) = start(&arguments);
    started.signal(Signal::KILL);
    started.wait();
    for (pid, _) in nodes(&document) {
        gone(pid);
    }
    let (started, _) = start(&arguments);
    let ended = started.interrupt_until_ended();
    assert_eq!(ended.code(), 128 + 2, "the directory is used again");
    assert!(
        directory.join("node-1/redis.log").exists(),
        "logs stay where it was named"
    );
}

fn what_cannot_be() {
    Ended::of(&mut cachewise(["dev-cluster", "--nodes", "0"]))
        .expect(2, "no nodes")
        .says("from 1 to 100", "what could be");
    Ended::of(&mut cachewise([
        "dev-cluster",
        "--server",
        "/no/such/program",
    ]))
    .expect(2, "no such program")
    .says("apt-get install -y redis-server", "what to install");
    Ended::of(&mut cachewise([
        "dev-cluster",
        "--port",
        "65535",
        "--nodes",
        "2",
    ]))
    .expect(2, "no such port")
    .says("no ports", "why");
    Ended::of(&mut cachewise(["dev-cluster", "-o", "openmetrics"]))
        .expect(2, "nothing to scrape")
        .says("-o json", "what there is");
}

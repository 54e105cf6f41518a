//! `tier dev-cluster`: servers that are there when they are said to be, and gone afterwards.

use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::redis::{RawRedis, Reply};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain("dev_cluster::runs_until_a_signal", runs_until_a_signal),
        plain(
            "dev_cluster::kill_9_leaves_no_server",
            kill_9_leaves_no_server,
        ),
        plain("dev_cluster::what_cannot_be_is_refused", what_cannot_be),
        plain(
            "dev_cluster::server_of_others_on_the_port_is_left_alone",
            port_in_use,
        ),
        plain(
            "dev_cluster::answer_of_another_process_is_not_readiness",
            foreign_answer,
        ),
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

    let (started, document) = start(&["--nodes", "1", "--standalone"]);
    started.signal(Signal::KILL);
    started.wait();
    for (pid, _) in nodes(&document) {
        gone(pid);
    }
    let directory = document["directory"].as_str().expect("a directory");
    std::fs::remove_dir_all(directory).expect("a temporary one remains, as the help says");
    let help = Ended::of(&mut cachewise(["dev-cluster", "--help"])).expect(0, "always");
    let help = help.out().split_whitespace().collect::<Vec<_>>().join(" ");
    let remains = "kill -9 ends dev-cluster: then the temporary directory remains";
    assert!(help.contains(remains), "{help}");
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
    Ended::of(&mut cachewise(["dev-cluster", "--server", "/bin/true"]))
        .expect(2, "no server")
        .says("/bin/true ended at once", "which program");
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

/// Returns the connections that a server has accepted.
fn connections(redis: &mut RawRedis) -> String {
    let Reply::Value(Some(info)) = redis.ask(&[b"INFO", b"stats"]) else {
        panic!("INFO is answered by a text");
    };
    let info = String::from_utf8(info).expect("a text");
    let line = info
        .lines()
        .find(|line| line.starts_with("total_connections_received:"));
    line.expect("it counts them").to_owned()
}

fn port_in_use() {
    if !has_redis("dev-cluster and a port in use") {
        return;
    }
    for kind in [&["--nodes", "1", "--standalone"][..], &["--nodes", "1"]] {
        let (_servers, document) = servers(kind);
        let (_, address) = nodes(&document).remove(0);
        let address: SocketAddrV4 = address.parse().expect("an address");
        let mut redis = RawRedis::connect(address);
        let before = connections(&mut redis);
        let port = address.port().to_string();
        for arguments in [kind, &["--nodes", "1"]] {
            let mut command = cachewise(["dev-cluster", "--port", &port]);
            let ended = Ended::of(command.args(arguments)).expect(2, "another server is there");
            let why = format!("port {port} of 127.0.0.1 is in use by another program");
            ended
                .says(&why, "cause")
                .says("choose another --port", "fix");
        }
        assert_eq!(connections(&mut redis), before, "no connection was made");
    }
}

/// Ends the process whose id is in a file.
struct EndedAtLast(PathBuf);

impl Drop for EndedAtLast {
    fn drop(&mut self) {
        let pid = std::fs::read_to_string(&self.0).unwrap_or_default();
        if let Ok(pid) = pid.trim().parse() {
            signal(pid, Signal::KILL);
        }
    }
}

/// Another process takes the port after it was found free.
fn foreign_answer() {
    if !has_redis("dev-cluster and a server of another process") {
        return;
    }
    let scratch = Scratch::new();
    let program = scratch.path("program");
    let pid = scratch.path("pid");
    let _foreign = EndedAtLast(pid.clone());
    let script = format!(
        "#!/bin/sh\nredis-server \"$@\" &\necho $! >{}\nexec sleep 600\n",
        pid.display()
    );
    std::fs::write(&program, script).expect("written");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&program, mode).expect("ours");
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("bound");
    drop(free);
    let port = address.port().to_string();
    let mut command = cachewise(["dev-cluster", "--nodes", "1", "--port", &port, "--server"]);
    Ended::of(command.arg(&program))
        .expect(2, "the child does not answer")
        .says(&format!("port {port} of 127.0.0.1 is in use"), "cause");
    let foreign = std::fs::read_to_string(&pid).expect("it was started");
    let foreign: u32 = foreign.trim().parse().expect("a process id");
    assert!(
        Path::new(&format!("/proc/{foreign}")).exists(),
        "the other server goes on"
    );
    let mut redis = RawRedis::connect(address.to_string().parse().expect("IPv4"));
    let slots = redis.ask(&[b"CLUSTER", b"SLOTS"]);
    assert_eq!(slots, Reply::List(Vec::new()), "it gets no slots");
}

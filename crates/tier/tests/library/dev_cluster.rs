//! A cluster of real servers: whole when it is said to be, and gone afterwards.

use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cachewise_tier::dev_cluster::{DevCluster, DevClusterError, DevClusterOptions, Role, Topology};

/// Says so if there is no server to start.
fn has_redis(what: &str) -> bool {
    let is_there = Command::new("redis-server").arg("--version").output();
    let is_there = is_there.is_ok_and(|output| output.status.success());
    if !is_there {
        println!("skipped: {what}: redis-server is not installed");
    }
    is_there
}

/// Sends a line and returns what comes until the connection is closed by QUIT.
fn ask(address: SocketAddrV4, line: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("not zero");
    write!(stream, "{line}\r\nQUIT\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

fn is_running(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn it_is_whole_and_leaves_nothing() {
    if !has_redis("a cluster of real servers") {
        return;
    }
    let options = DevClusterOptions {
        nodes: 3,
        replicas: 1,
        ..DevClusterOptions::default()
    };
    let cluster = DevCluster::start(&options).expect("a cluster");
    let nodes = cluster.nodes().to_vec();
    let directory = cluster.directory().to_owned();
    assert_eq!(nodes.len(), 6, "three masters, a replica each: {nodes:?}");
    for node in &nodes {
        assert!(node.address.ip().is_loopback(), "loopback only: {node:?}");
        let info = ask(node.address, "CLUSTER INFO");
        for line in [
            "cluster_state:ok",
            "cluster_slots_ok:16384",
            "cluster_size:3",
        ] {
            assert!(info.contains(line), "{line}: {info}");
        }
        let setting = ask(node.address, "CONFIG GET cluster-require-full-coverage");
        assert!(
            setting.contains("$2\r\nno"),
            "one lost node is not all: {setting}"
        );
        let setting = ask(node.address, "CONFIG GET cluster-node-timeout");
        assert!(
            setting.contains("$5\r\n15000\r\n"),
            "Redis's own again: {setting}"
        );
        if node.role == Role::Master {
            let slots = ask(node.address, "CLUSTER SLOTS");
            let listed = slots.matches("127.0.0.1\r\n").count();
            assert_eq!(listed, 6, "clients learn of all replicas: {slots}");
        }
        let role = ask(node.address, "ROLE");
        let expected = match node.role {
            Role::Master => "master",
            Role::ReplicaOf(_) => "slave",
        };
        assert!(role.contains(expected), "{node:?}: {role}");
    }
    for (place, node) in nodes.iter().enumerate() {
        if let Role::ReplicaOf(master) = node.role {
            let port = format!(":{}\r\n", nodes[master].address.port());
            assert!(
                ask(node.address, "ROLE").contains(&port),
                "replica {place} copies master {master}"
            );
        }
    }
    assert!(
        cluster.address().starts_with("redis-cluster://127.0.0.1:"),
        "{}",
        cluster.address()
    );
    assert_eq!(
        cluster.address().matches(':').count(),
        4,
        "the masters alone"
    );
    assert!(cluster.ended().is_empty(), "all of them run");
    drop(cluster);
    for node in nodes {
        assert!(!is_running(node.pid), "{node:?} is stopped");
    }
    assert!(!directory.exists(), "its own directory is gone");
}

#[test]
fn a_stopped_node_is_ended_too_and_a_killed_one_is_told_once() {
    if !has_redis("nodes that are stopped and killed") {
        return;
    }
    let options = DevClusterOptions {
        nodes: 2,
        topology: Topology::Standalone,
        ..DevClusterOptions::default()
    };
    let cluster = DevCluster::start(&options).expect("two servers");
    let [frozen, killed] = cluster.nodes() else {
        panic!("two: {:?}", cluster.nodes());
    };
    let (frozen, killed) = (*frozen, *killed);
    let signal = |pid: u32, signal| {
        let pid = rustix::process::Pid::from_raw(pid.try_into().expect("a pid")).expect("not 0");
        rustix::process::kill_process(pid, signal).expect("it is ours");
    };
    signal(frozen.pid, rustix::process::Signal::STOP);
    signal(killed.pid, rustix::process::Signal::KILL);
    let mut ended = Vec::new();
    for _ in 0..6000 {
        ended = cluster.ended();
        if !ended.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(ended.len(), 1, "one of them ended: {ended:?}");
    assert_eq!(ended[0].0, killed, "{ended:?}");
    assert!(cluster.ended().is_empty(), "told once");
    drop(cluster);
    assert!(!is_running(frozen.pid), "stopped or not");
}

#[test]
fn what_cannot_be_is_refused_with_what_to_do() {
    let refused = |options: DevClusterOptions, part: &str| {
        let error = DevCluster::start(&options).expect_err(part).to_string();
        assert!(error.contains(part), "should say {part:?}: {error}");
    };
    let usual = DevClusterOptions::default;
    refused(
        DevClusterOptions {
            nodes: 0,
            ..usual()
        },
        "from 1 to 100",
    );
    refused(
        DevClusterOptions {
            nodes: usize::MAX,
            replicas: 1,
            ..usual()
        },
        "from 1 to 100",
    );
    let topology = Topology::Standalone;
    refused(
        DevClusterOptions {
            replicas: 1,
            topology,
            ..usual()
        },
        "no replicas",
    );
    let server = "/no/such/redis-server".into();
    refused(DevClusterOptions { server, ..usual() }, "apt-get install");
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("mine"), "").expect("it is ours");
    let asked = Some(directory.path().to_owned());
    refused(
        DevClusterOptions {
            dir: asked,
            ..usual()
        },
        "mine is in it",
    );
    assert!(directory.path().join("mine").exists(), "and is left alone");
    // A program that is none of it: what it says is passed on.
    refused(
        DevClusterOptions {
            server: "false".into(),
            ..usual()
        },
        "ended at once",
    );
}

#[test]
fn a_directory_has_one_cluster_at_a_time_and_can_be_used_again() {
    if !has_redis("a directory of a cluster") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let options = DevClusterOptions {
        nodes: 1,
        dir: Some(directory.path().join("deep/er")),
        ..DevClusterOptions::default()
    };
    let cluster = DevCluster::start(&options).expect("one node is a cluster");
    let error = DevCluster::start(&options).expect_err("it is in use");
    assert!(error.to_string().contains("another dev-cluster"), "{error}");
    assert!(is_running(cluster.nodes()[0].pid), "which is left alone");
    drop(cluster);
    assert!(
        directory.path().join("deep/er/node-1/redis.log").exists(),
        "logs stay"
    );
    let again = DevCluster::start(&options).expect("used again");
    drop(again);
    let interrupted = DevCluster::start_unless(&options, &AtomicBool::new(true));
    assert!(
        matches!(interrupted, Err(DevClusterError::Interrupted)),
        "{interrupted:?}"
    );
}

//! A node whose packets vanish: no reset, no refusal, nothing. Its network is taken down.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::time::Duration;

use cachewise_tier::BlockCache;

use super::NO_HANG;
use crate::support::server::Server;
use crate::support::{self, BLOCK, Files, hasty, read_for};

/// A network namespace with one link to this one; gone when this is dropped.
struct Namespace {
    name: String,
    link: String,
    ip: Ipv4Addr,
}

fn run(command: &[&str]) -> bool {
    Command::new(command[0])
        .args(&command[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

impl Namespace {
    /// Makes it, where that is allowed.
    fn new() -> Option<Self> {
        let pid = std::process::id();
        // Of 198.18.0.0/15, which is for measuring networks and routed nowhere; a net of its own
        // for each process.
        let third = u8::try_from(pid % 250).ok()?;
        let namespace = Self {
            name: format!("cachewise-{pid}"),
            link: format!("cw{pid}"),
            ip: Ipv4Addr::new(198, 18, third, 2),
        };
        let (name, link) = (namespace.name.as_str(), namespace.link.as_str());
        let inside = format!("{link}i");
        let (here, there) = (
            format!("198.18.{third}.1/24"),
            format!("{}/24", namespace.ip),
        );
        let steps: [&[&str]; 7] = [
            &["ip", "netns", "add", name],
            &[
                "ip", "link", "add", link, "type", "veth", "peer", "name", &inside,
            ],
            &["ip", "link", "set", &inside, "netns", name],
            &["ip", "addr", "add", &here, "dev", link],
            &["ip", "link", "set", link, "up"],
            &["ip", "-n", name, "addr", "add", &there, "dev", &inside],
            &["ip", "-n", name, "link", "set", &inside, "up"],
        ];
        // Dropping it takes back what was done before a step that failed.
        steps.iter().all(|step| run(step)).then_some(namespace)
    }

    /// Takes the link down at its far end, so that packets vanish without an error.
    fn cut(&self) {
        let inside = format!("{}i", self.link);
        assert!(run(&[
            "ip", "-n", &self.name, "link", "set", &inside, "down"
        ]));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The link goes with the namespace; before that, if it was not moved yet.
        run(&["ip", "link", "del", &self.link]);
        run(&["ip", "netns", "del", &self.name]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_black_hole_is_left_out_like_any_other_node_that_does_not_answer() {
    let _alone = support::alone().await;
    if !support::has("redis-server", "a node in a black hole") {
        return;
    }
    let Some(namespace) = Namespace::new() else {
        println!("skipped: a node in a black hole: no network namespace can be made (not root?)");
        return;
    };
    let redis = |ip: Ipv4Addr, port: u16, mut command: Command| {
        command.args([
            "--save",
            "",
            "--protected-mode",
            "no",
            "--bind",
            &ip.to_string(),
        ]);
        command.args(["--port", &port.to_string()]);
        command
    };
    let near = Server::start(Ipv4Addr::LOCALHOST, |port| {
        redis(Ipv4Addr::LOCALHOST, port, Command::new("redis-server"))
    });
    let far = Server::start(namespace.ip, |port| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &namespace.name, "redis-server"]);
        redis(namespace.ip, port, command)
    });
    let engine = format!("redis://{},{}", near.address, far.address);
    let files = Files::new(60, BLOCK);
    support::fill(&files, &engine).await;
    let cache = BlockCache::open(hasty(&engine), files.origin())
        .await
        .expect("it opens");
    let read = files.settled(&cache).await;
    read_for(&cache, &read, 24, Duration::from_millis(300)).await;
    namespace.cut();
    let met = read_for(&cache, &read, 24, Duration::from_millis(1_500)).await;
    assert!(met.longest < NO_HANG, "{met:?}");
    let table = cache.table();
    let name = far.address.to_string();
    let node = table
        .nodes
        .iter()
        .find(|node| node.node == name)
        .expect("it is known");
    assert!(node.hits > 0, "it was well before: {node:?}");
    assert!(
        node.deadline_misses >= 3 && node.opened > 0,
        "it is left out: {node:?}"
    );
    // A cache that is opened now is not held up either.
    let late = tokio::time::timeout(
        Duration::from_secs(10),
        BlockCache::open(hasty(&engine), files.origin()),
    );
    let late = late.await.expect("it does not hang").expect("it opens");
    let warnings = late.warnings().join("\n");
    assert!(warnings.contains(&name), "{warnings:?}");
}

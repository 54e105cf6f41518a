//! Runs the `tier` and `mount` commands of README.md as they stand there.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::dev_cluster::has_redis;
use crate::mounted::{Mounted, bytes_of, has_fuse, is_mounted, origin};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![plain(
        "walkthrough::commands_of_the_readme_mount_alone_and_with_servers",
        walkthrough,
    )]
}

/// The commands of each `console` block of the README that has this word.
fn blocks(word: &str) -> Vec<Vec<String>> {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let text = fs::read_to_string(readme).expect("there is a README.md");
    let blocks = text.split("```console\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split_once("```").map(|(block, _)| block));
    blocks
        .filter(|block| block.contains(word))
        .map(|block| {
            let lines = block.lines().filter_map(|line| line.strip_prefix("$ "));
            lines.map(str::to_owned).collect()
        })
        .collect()
}

/// Types them in a shell of its own, until `mnt` is a mount; returns the shell.
fn type_in(lines: &[String], scratch: &Scratch) -> Started {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    // Servers take the next nine, too.
    let port = port.expect("a free port").port().min(60_000);
    let script: Vec<String> = lines
        .iter()
        .map(|line| line.replace("7001", &port.to_string()))
        .collect();
    let [cachewise, ..] = programs();
    let path = cachewise.parent().expect("it has one");
    let others = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("sh");
    command
        // The last one runs until Ctrl-C.
        .args(["-c", &format!("{} & wait", script.join("\n"))])
        .current_dir(scratch.directory())
        .env("PATH", format!("{}:{others}", path.display()))
        .stdin(Stdio::null());
    let started = Started::of(&mut command);
    until("it is mounted", || {
        is_mounted(&scratch.directory().join("mnt")).then_some(())
    });
    started
}

/// Ends whatever the shell has started.
fn end(shell: Started) {
    let children = format!("/proc/{0}/task/{0}/children", shell.pid());
    let children = fs::read_to_string(children).unwrap_or_default();
    for child in children.split_whitespace() {
        signal(child.parse().expect("a pid"), Signal::TERM);
    }
    shell.wait();
}

fn walkthrough() {
    if !has_fuse("the README's commands") || !has_redis("the README's commands") {
        return;
    }
    let alone = blocks("cachewise mount data mnt\n");
    assert_eq!(
        alone.len(),
        1,
        "the embedded default is shown once: {alone:?}"
    );
    let with_servers = blocks("tier dev-cluster");
    assert_eq!(
        with_servers.len(),
        1,
        "servers are shown once: {with_servers:?}"
    );
    assert_eq!(with_servers[0].len(), 2, "two commands: {with_servers:?}");
    assert_eq!(alone[0][0], "mkdir mnt", "its mount point is made first");
    for mut lines in [alone[0].clone(), with_servers[0].clone()] {
        let scratch = Scratch::new();
        let made = origin(&scratch, 1, 100_000);
        fs::rename(made, scratch.directory().join("data")).expect("ours");
        // The second block goes on from the first one.
        if !lines.iter().any(|line| line.starts_with("mkdir")) {
            lines.insert(0, "mkdir mnt".to_owned());
        }
        // Takes away what is left when something fails.
        let mounted = Mounted {
            started: None,
            directory: scratch.directory().join("mnt"),
        };
        let shell = type_in(&lines, &scratch);
        let read = fs::read(mounted.path("f/0")).expect("it can be read");
        assert!(read == bytes_of(0, 100_000), "the bytes");
        end(shell);
        assert!(!is_mounted(&mounted.directory), "it is unmounted");
    }
}

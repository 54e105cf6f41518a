//! Where less is to be had than usual: one CPU, a part of a CPU's time, no information on caches.

use std::fs;
use std::process::Command;

use crate::support::*;
use crate::{cpu, document};

/// A CPU that this process may use.
fn own_cpu() -> String {
    let status = fs::read_to_string("/proc/self/status").expect("proc is there");
    let cpus = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .expect("a list");
    let cpus = cpus.trim().chars();
    cpus.take_while(char::is_ascii_digit).collect()
}

/// The command by another one, which gets it as its last arguments.
fn by(program: &str, arguments: &[&str], command: &Command) -> Ended {
    let mut other = Command::new(program);
    other.args(arguments).arg(command.get_program());
    Ended::of(other.args(command.get_args()))
}

pub fn one_cpu() {
    if Command::new("taskset").arg("--version").output().is_err() {
        println!("skipped: one CPU: there is no taskset");
        return;
    }
    let own = own_cpu();
    let pinned = |arguments: &[&str]| by("taskset", &["-c", &own], &cpu(arguments));
    let json = document(
        &pinned(&["table", "--json", "--largest", "1M", "--time", "0.1"]).expect(0, "it measures"),
    );
    assert_eq!(
        json["cpu"].to_string(),
        own,
        "the one that there is: {json}"
    );
    let other = if own == "0" { "1" } else { "0" };
    pinned(&["table", "--cpu", other])
        .expect(2, "another one cannot be had")
        .says(&format!("may use only CPU {own}"), "it says which may");
    let text = pinned(&["lab", "sharing"]).expect(0, "no error").out();
    assert!(
        text.contains("two CPUs are needed"),
        "what is missing: {text}"
    );
    pinned(&["topology"]).expect(0, "the machine is the same");
    let ended = pinned(&["run", "--sample", "page-faults", "--", "true"]);
    let text = String::from_utf8_lossy(&ended.err).into_owned();
    assert!(
        text.contains("page faults, by line") || text.contains("cannot be sampled"),
        "one is enough: {text}"
    );
}

/// A mount namespace of its own in which the directories of caches are empty.
pub fn no_information_on_caches() {
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let empty = scratch.path().to_str().expect("a temporary name is text");
    let script = "for cpu in /sys/devices/system/cpu/cpu[0-9]*; do \
                  if [ -d $cpu/cache ]; then mount --bind \"$0\" $cpu/cache || exit 99; fi; done; exec \"$@\"";
    let hidden = |arguments: &[&str]| {
        let how = ["--mount", "sh", "-c", script, empty];
        by("unshare", &how, &cpu(arguments))
    };
    let text = hidden(&["topology"]);
    if [1, 99].contains(&text.code()) {
        println!("skipped: no information on caches: it cannot be hidden here");
        return;
    }
    let text = text.expect(0, "the rest is shown").out();
    assert!(text.contains("note: no cache information"), "{text}");
    assert!(!text.contains("L1d"), "nothing is made up: {text}");
    let json = document(
        &hidden(&["table", "--json", "--largest", "1M", "--time", "0.1"]).expect(0, "it measures"),
    );
    assert_eq!(json["levels"][0]["name"], "level 1", "by number: {json}");
    assert!(json["levels"][0]["told_size_bytes"].is_null(), "{json}");
    hidden(&["lab", "branches"]).expect(0, "it needs none");
    if Command::new("valgrind").arg("--version").output().is_ok() {
        hidden(&["run", "--simulate", "--", "true"])
            .expect(0, "it is simulated")
            .says("as callgrind guesses", "by whose caches");
    }
    hidden(&["sharing", "--rounds", "3", "--", "true"])
        .expect(0, "it is compared")
        .says("false sharing: ?", "as far as that goes");
}

pub fn a_part_of_a_cpus_time() {
    let Some(group) = Group::with_quota(20_000) else {
        println!("skipped: a quota: no control group that limits CPU time can be made");
        return;
    };
    let procs = group.path().join("cgroup.procs");
    let procs = procs.to_str().expect("its name is text");
    let limited = |arguments: &[&str]| {
        let how = ["-c", "echo $$ > \"$0\" && exec \"$@\"", procs];
        by("sh", &how, &cpu(arguments))
    };
    let json = document(
        &limited(&["table", "--json", "--largest", "4M", "--time", "1"]).expect(0, "it measures"),
    );
    let notes = json["notes"].to_string();
    assert!(notes.contains("a limit of 0.20 CPUs"), "it is told: {json}");
    let json = document(&limited(&["lab", "--json", "branches"]).expect(0, "it is done"));
    assert!(json.to_string().contains("a limit of 0.20 CPUs"), "{json}");
    limited(&["topology"]).expect(0, "nothing is measured");
}

//! `cpu topology`, `table` and `lab`: what the machine is, and what it measures.

use std::fs;

use serde_json::Value;

use crate::support::*;
use crate::{cpu, document};

pub fn topology() {
    let text = Ended::of(&mut cpu(&["topology"]))
        .expect(0, "sysfs is there")
        .out();
    assert!(
        text.starts_with("machine: "),
        "the whole comes first: {text}"
    );
    let json = document(&Ended::of(&mut cpu(&["topology", "--json"])).expect(0, "as JSON"));
    let cpus = json["cpus"].as_array().map_or(0, Vec::len);
    assert!(cpus >= 1, "at least the one that this runs on: {json}");
    assert!(
        json["page_size_bytes"].is_u64(),
        "as every document: {json}"
    );
    let csv = Ended::of(&mut cpu(&["topology", "-o", "csv"]))
        .expect(0, "as CSV")
        .out();
    let caches = json["caches"].as_array().map_or(0, Vec::len);
    assert_eq!(csv.lines().count(), caches + 1, "a line a cache: {csv}");
    let table = Ended::of(&mut cpu(&["topology", "--columns", "level,SIZE,cpus"]))
        .expect(0, "a table of these columns")
        .out();
    assert!(
        table.starts_with("LEVEL")
            && table
                .lines()
                .next()
                .is_some_and(|head| head.ends_with("CPUS")),
        "instead of the tree: {table}"
    );
    Ended::of(&mut cpu(&["topology", "--columns", "syze"]))
        .expect(2, "no column")
        .says("`SIZE`", "the nearest");
}

pub fn topology_of_another_machine() {
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let cpus = scratch.path().join("devices/system/cpu");
    fs::create_dir_all(&cpus).expect("it is ours");
    fs::write(cpus.join("online"), "0-127\n").expect("it is ours");
    let root = scratch.path().to_str().expect("a temporary name is text");
    let ended =
        Ended::of(&mut cpu(&["topology", "--sys", root])).expect(0, "no caches is no error");
    let text = ended.out();
    assert!(text.contains("128 cores"), "what is known is shown: {text}");
    assert!(
        text.contains("note: no cache information for CPU 0-127"),
        "and what is not: {text}"
    );
}

pub fn topology_refused() {
    Ended::of(&mut cpu(&["topology", "--sys", "/nowhere/at/all"]))
        .expect(2, "there is no such directory")
        .says("/nowhere/at/all", "the message names it");
    Ended::of(&mut cpu(&["topology", "-o", "openmetrics"]))
        .expect(2, "there are no metrics")
        .says("-o json", "and says what there is");
    Ended::of(&mut cpu(&[]))
        .expect(2, "cpu alone is not enough")
        .says("topology", "it lists the commands");
}

pub fn table() {
    let scratch = tempfile::tempdir().expect("a temporary directory can be made");
    let plot = scratch.path().join("curve.svg");
    let path = plot.to_str().expect("a temporary name is text");
    let arguments = [
        "table",
        "--json",
        "--largest",
        "96M",
        "--time",
        "1",
        "--plot",
        path,
    ];
    let json = document(&Ended::of(&mut cpu(&arguments)).expect(0, "it can be measured"));
    let levels = json["levels"].as_array().expect("a list");
    let named = |name: &str| levels.iter().find(|level| level["name"] == name);
    let memory = named("memory").expect("memory is there");
    let first = &levels[0];
    let latency = |level: &Value| level["local_low_seconds"].as_f64();
    match latency(memory) {
        Some(memory) => assert!(
            Some(memory) > latency(first).map(|first| 2.0 * first),
            "what is farther takes longer: {json}"
        ),
        None => assert_eq!(memory["read_at"], "not_reached", "a larger cache: {memory}"),
    }
    assert!(
        memory["size_bytes"].is_null(),
        "memory has no end here: {memory}"
    );
    for level in levels
        .iter()
        .filter(|level| level["read_at"] != "not_reached")
    {
        let trust = level["local_trust"].as_str().unwrap_or_default();
        assert!(
            ["good", "fair", "contended"].contains(&trust),
            "each figure says how far it is to be trusted: {level}"
        );
    }
    let svg = fs::read_to_string(&plot).expect("the plot was written");
    assert!(
        svg.contains("page-local") && svg.trim_end().ends_with("</svg>"),
        "it is whole"
    );

    let csv = Ended::of(&mut cpu(&[
        "table",
        "--csv",
        "--largest",
        "1M",
        "--time",
        "0.1",
    ]));
    let csv = csv.expect(0, "as CSV").out();
    assert!(csv.starts_with("name,told_size_bytes,"), "{csv}");
}

pub fn table_refused() {
    for (arguments, says) in [
        (&["table", "--cpu", "60000"][..], "CPU 60000"),
        (&["table", "--largest", "1K"], "at least"),
        (&["table", "--largest", "1E"], "cannot allocate"),
        (
            &[
                "table",
                "--largest",
                "1M",
                "--time",
                "0.1",
                "--plot",
                "/nowhere/x.svg",
            ],
            "/nowhere/x.svg",
        ),
        (&["table", "--csv", "--json"], "--json"),
        (&["table", "--sys", "/nowhere"], "/nowhere"),
    ] {
        Ended::of(&mut cpu(arguments))
            .expect(2, "that cannot be done")
            .says(says, "the message says on what");
    }
}

pub fn lab() {
    let list = Ended::of(&mut cpu(&["lab", "--list"]))
        .expect(0, "a list")
        .out();
    let json = document(
        &Ended::of(&mut cpu(&["lab", "--json", "rows", "branches"])).expect(0, "they can be done"),
    );
    let experiments = json["experiments"].as_array().expect("a list");
    assert_eq!(experiments.len(), 2, "those that were asked for: {json}");
    for one in experiments {
        let name = one["name"].as_str().expect("a name");
        assert!(list.contains(name), "{name} is in the list: {list}");
        assert!(
            one["checks"][0]["holds"] == true,
            "the same sum in every way: {one}"
        );
        let effects = one["effects"].as_array().expect("a list");
        assert!(
            effects.iter().any(|effect| effect["control"] == true),
            "{name} has a control: {one}"
        );
        // How large it is depends on the neighbours; that it is there does not.
        assert!(
            effects[0]["ratio"].as_f64() > Some(1.2),
            "{name} shows its effect: {one}"
        );
    }
    let text = Ended::of(&mut cpu(&["lab", "branches"]))
        .expect(0, "for people")
        .out();
    for part in ["branches:", "why:", "do:", "holds:"] {
        assert!(text.contains(part), "{part} is told: {text}");
    }
}

pub fn lab_refused() {
    Ended::of(&mut cpu(&["lab", "branchs"]))
        .expect(2, "there is no such experiment")
        .says("branches", "it says what there is");
}

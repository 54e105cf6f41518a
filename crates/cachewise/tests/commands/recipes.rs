//! The recipes of docs/labels.md for Kafka, Elasticsearch and Lucene, in directories laid out as these programs do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Ended, Scratch, Trial, cachewise, plain};

pub fn trials() -> Vec<Trial> {
    vec![
        plain("kafka_partitions_have_their_names", kafka),
        plain(
            "elasticsearch_shards_have_the_names_of_their_indices",
            elasticsearch,
        ),
        plain("lucene_segments_have_their_names", lucene),
    ]
}

/// The recipe of the page behind this mark, with `place` instead of the directory `usual`.
fn recipe(mark: &str, usual: &str, place: &Path) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/labels.md");
    let page = fs::read_to_string(page).expect("the page can be read");
    let mark = format!("run by the test labels::{mark} -->\n```sh\n");
    let (_, block) = page.split_once(&mark).expect("it has the recipe");
    let (recipe, _) = block.split_once("```").expect("the block ends");
    assert!(recipe.contains(usual), "{recipe}");
    recipe.replace(usual, place.to_str().expect("tests make ordinary names"))
}

/// Makes these files, runs the recipe, and compares the label of each file.
fn check(scratch: &Scratch, (mark, usual): (&str, &str), files: &[(&str, Option<&str>)]) {
    let data = scratch.directory().join("data");
    for (name, _) in files {
        let path = data.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory for the test");
        fs::write(path, "data").expect("a file for the test");
    }
    let mut shell = Command::new("sh");
    shell.args(["-euc", &recipe(mark, usual, &data)]);
    let own = scratch.directory().join("programs");
    let path = std::env::var("PATH").expect("there is a path");
    shell.env("PATH", format!("{}:{path}", own.display()));
    Ended::of(shell.current_dir(scratch.directory())).expect(0, "the recipe makes a list");
    let mut command = cachewise(["files", "--label", "labels.tsv", "data", "-o", "jsonl"]);
    let ended = Ended::of(command.current_dir(scratch.directory())).expect(0, "they are listed");
    let rows: Vec<Value> = ended
        .out()
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is a document"))
        .collect();
    for (name, label) in files {
        let row = rows.iter().find(|row| {
            row["path"]
                .as_str()
                .is_some_and(|path| path.ends_with(name))
        });
        let row = row.unwrap_or_else(|| panic!("{name} is in {}", ended.out()));
        assert_eq!(row["label"].as_str(), *label, "{name}");
    }
}

fn kafka() {
    check(
        &Scratch::new(),
        ("kafka", "/var/lib/kafka/data"),
        &[
            ("orders-0/00000000000000000000.log", Some("orders-0")),
            ("orders-0/00000000000000000000.index", Some("orders-0")),
            ("orders-0/00000000000000000000.timeindex", Some("orders-0")),
            ("orders-10/00000000000000368769.log", Some("orders-10")),
            (
                "__consumer_offsets-12/leader-epoch-checkpoint",
                Some("__consumer_offsets-12"),
            ),
            (
                "shop.events-v2-3/00000000000000000000.log",
                Some("shop.events-v2-3"),
            ),
            ("recovery-point-offset-checkpoint", None),
            ("meta.properties", None),
        ],
    );
}

fn elasticsearch() {
    let scratch = Scratch::new();
    let programs = scratch.directory().join("programs");
    fs::create_dir(&programs).expect("a directory for the test");
    // The answer of a server with two indices.
    let curl = programs.join("curl");
    fs::write(&curl, "#!/bin/sh\necho 'f3Xq_8ZkT2-uFzX0b7d3Jg orders'\necho '9mLlUd2hQyWnRk1Zc0aV4w logs-2024.05'\n")
        .expect("a program for the test");
    fs::set_permissions(&curl, fs::Permissions::from_mode(0o755)).expect("it can be started");
    check(
        &scratch,
        ("elasticsearch", "/var/lib/elasticsearch"),
        &[
            (
                "indices/f3Xq_8ZkT2-uFzX0b7d3Jg/0/index/_0.cfs",
                Some("orders shard 0"),
            ),
            (
                "indices/f3Xq_8ZkT2-uFzX0b7d3Jg/1/index/_5_Lucene90_0.dvd",
                Some("orders shard 1"),
            ),
            (
                "indices/9mLlUd2hQyWnRk1Zc0aV4w/0/index/segments_4",
                Some("logs-2024.05 shard 0"),
            ),
            (
                "indices/9mLlUd2hQyWnRk1Zc0aV4w/0/translog/translog-3.tlog",
                None,
            ),
            ("indices/9mLlUd2hQyWnRk1Zc0aV4w/_state/state-2.st", None),
        ],
    );
}

fn lucene() {
    check(
        &Scratch::new(),
        ("lucene", "/srv/index"),
        &[
            ("products/_1.si", Some("products segment _1")),
            ("products/_1.cfs", Some("products segment _1")),
            ("products/_1_Lucene90_0.dvd", Some("products segment _1")),
            ("products/_1a.si", Some("products segment _1a")),
            ("products/_1a.fdt", Some("products segment _1a")),
            ("reviews/_1.si", Some("reviews segment _1")),
            ("products/segments_3", None),
            ("products/write.lock", None),
        ],
    );
}

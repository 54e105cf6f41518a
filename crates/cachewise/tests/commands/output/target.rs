//! Where it goes, and what it begins with.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::*;

/// A command that leaves a mark.
fn marking(mark: &Path) -> [String; 3] {
    [
        "sh".into(),
        "-c".into(),
        format!("echo ran > '{}'", mark.display()),
    ]
}

pub fn missing_directory() {
    let scratch = Scratch::new();
    let target = scratch.path("missing/report.json");
    let mark = scratch.path("mark");
    let mut command = cachewise(["run", "-o"]);
    Ended::of(command.arg(&target).arg("--").args(marking(&mark)))
        .expect(2, "the report could not be kept")
        .says(&target.to_string_lossy(), "the message names the file");
    assert!(!mark.exists(), "nothing is run whose report would be lost");
    Ended::of(cachewise(["stat", "0.01", "1", "-o"]).arg(&target))
        .expect(2, "neither could rows")
        .says(&target.to_string_lossy(), "the message names the file");
}

pub fn directory() {
    let scratch = Scratch::new();
    let mark = scratch.path("mark");
    let target = format!("json={}", scratch.directory().display());
    Ended::of(cachewise(["run", "-o", &target, "--"]).args(marking(&mark)))
        .expect(2, "a directory is no file")
        .says(
            &scratch.directory().to_string_lossy(),
            "the message names it",
        );
    assert!(!mark.exists(), "nothing is run");
}

pub fn mistyped_format() {
    let scratch = Scratch::new();
    let mark = scratch.path("mark");
    let mut command = cachewise(["run", "-o", "jsno", "--"]);
    Ended::of(
        command
            .args(marking(&mark))
            .current_dir(scratch.directory()),
    )
    .expect(2, "that is no format")
    .says("jsno", "the message names it")
    .says("json", "and those that there are");
    assert!(!mark.exists(), "nothing is run");
    assert!(
        !scratch.path("jsno").exists(),
        "and no file of that name is made"
    );
}

pub fn a_file_for_each_format() {
    let scratch = Scratch::new();
    for (name, begins) in [
        ("a.json", "{"),
        ("a.jsonl", "{"),
        ("a.ndjson", "{"),
        ("a.csv", ""),
        ("a.prom", "# "),
        ("a.om", "# "),
        ("a.openmetrics", "# "),
        ("A.PROM", "# "),
        ("a.txt", "true"),
        ("a.log", "true"),
        ("./a", "true"),
    ] {
        let target = scratch.path(name);
        let ended = Ended::of(cachewise(["run", "-o"]).arg(&target).args(["--", "true"]));
        let ended = ended.expect(0, "true succeeds");
        assert_eq!(
            ended.complaints(),
            "",
            "{name}: the report is in the file alone"
        );
        let text = fs::read_to_string(&target).expect("the report is there");
        assert!(
            text.starts_with(begins) && text.ends_with('\n'),
            "{name} by its ending: {text}"
        );
        assert!(!text.contains('\x1b'), "{name}: no colour in a file");
        match name.rsplit('.').next() {
            Some("json") => drop(serde_json::from_str::<Value>(&text).expect("it is JSON")),
            Some("jsonl" | "ndjson") => text.lines().for_each(|line| {
                serde_json::from_str::<Value>(line).expect("each line is JSON");
            }),
            Some("prom" | "PROM" | "om" | "openmetrics") => {
                assert!(text.ends_with("# EOF\n"), "{name} has an end: {text}")
            }
            Some("csv") => {
                let mut rows = csv::Reader::from_reader(text.as_bytes());
                let header = rows.headers().expect("it has a header").len();
                assert!(header > 10, "{name} has a column a field: {text}");
                for row in rows.records() {
                    assert_eq!(
                        row.expect("a row is whole").len(),
                        header,
                        "{name}: each cell"
                    );
                }
            }
            _ => {}
        }
    }
}

pub fn unknown_ending() {
    let scratch = Scratch::new();
    let target = scratch.path("report.foo");
    Ended::of(cachewise(["run", "-o"]).arg(&target).args(["--", "true"]))
        .expect(0, "true succeeds")
        .says("report.foo has the ending of no format", "it is said")
        .says("table", "what it gets")
        .says("json=", "and how another is had");
    let text = fs::read_to_string(&target).expect("the report is there");
    assert!(text.starts_with("true\n"), "which is the table: {text}");
    let mut given = std::ffi::OsString::from("csv=");
    given.push(&target);
    let ended = Ended::of(cachewise(["stat", "0.01", "1", "-o"]).arg(given));
    assert!(
        !ended.err().contains("ending"),
        "a format that was given is no guess: {}",
        ended.err()
    );
}

pub fn json_head() {
    let ended = Ended::of(&mut cachewise(["run", "--json", "--", "true"])).expect(0, "it succeeds");
    let document: Value = serde_json::from_slice(&ended.err).expect("--json is one document");
    let members = document.as_object().expect("an object");
    let first: Vec<&str> = members.keys().take(4).map(String::as_str).collect();
    assert_eq!(
        first,
        ["schema_version", "timestamp", "hostname", "page_size_bytes"],
        "every document begins with these"
    );
    assert_eq!(document["schema_version"], 1, "the version of the form");
    assert_eq!(document["page_size_bytes"], page_size(), "what a page is");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("the kernel says it");
    assert_eq!(document["hostname"], host.trim_end(), "whose numbers");
    let time = document["timestamp"].as_str().expect("a text");
    assert!(
        time.ends_with('Z') && time.as_bytes()[10] == b'T',
        "RFC 3339: {time}"
    );
    assert_eq!(
        document["command"],
        serde_json::json!(["true"]),
        "what was run"
    );
    assert_eq!(document["exit"]["code"], 0, "and how it ended");
}

/// A table on the screen, JSON and Markdown in files.
pub fn several_at_once_hold_the_same_numbers() {
    let scratch = Scratch::new();
    let file = scratch.file("data", 8 << 12);
    let (json, ticket) = (scratch.path("all.json"), scratch.path("ticket.md"));
    let mut command = cachewise(["files", "-o", "table", "-o"]);
    command.arg(&json).arg("-o").arg(&ticket).arg(&file);
    let table = Ended::of(&mut command).expect(0, "all three").out();
    let json: Value = serde_json::from_str(&fs::read_to_string(&json).expect("it was written"))
        .expect("one document");
    let pages = json["rows"][0]["file_pages"].as_u64().expect("a number");
    let ticket = fs::read_to_string(&ticket).expect("it was written");
    let row = ticket.lines().nth(2).expect("a header, a rule, a row");
    assert!(ticket.starts_with("| SIZE | PAGES |"), "{ticket}");
    assert!(
        row.starts_with(&format!("| 32.0 KiB | {pages} |")),
        "{ticket}"
    );
    let line = table.lines().nth(1).expect("a header and a row");
    assert!(
        line.trim().starts_with("32.0 KiB") && line.contains(&format!("  {pages}  ")),
        "numbers look the same everywhere: {table}"
    );
}

pub fn every_command_refuses_two_on_one_stream() {
    let scratch = Scratch::new();
    let file = scratch.file("data", 1 << 12);
    let file = file.to_str().expect("a name");
    let mark = scratch.path("mark");
    let [program, option, script] = marking(&mark);
    let of_run = [&program[..], &option, &script];
    for (name, rest) in [
        ("run", &of_run[..]),
        ("stat", &["0.01", "1"]),
        ("top", &["-b", "-n", "1"]),
        ("files", &[file]),
        ("evict", &[file]),
        ("warm", &[file]),
        ("order", &[file]),
        ("doctor", &["--capabilities"]),
        ("drop", &["--dry-run"]),
    ] {
        let mut command = cachewise([name, "-o", "table", "-o", "json"]);
        if name == "run" {
            command.arg("--");
        }
        Ended::of(command.args(rest))
            .expect(2, name)
            .says("-o table -o json=FILE", "what to write");
        let mut command = cachewise([name, "-o", "json=same", "-o", "csv=same"]);
        if name == "run" {
            command.arg("--");
        }
        Ended::of(command.args(rest).current_dir(scratch.directory()))
            .expect(2, name)
            .says("same", "the file");
    }
    assert!(!mark.exists(), "nothing is run");
}

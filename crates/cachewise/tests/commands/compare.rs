//! `report --compare`: what changed between two reports.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("runs::cold_and_warm", cold_and_warm),
        needs_root("runs::repeats_have_statistics", repeats_have_statistics),
        needs_root("recordings::with_a_run", recording_with_a_run),
        plain("matrix::arms", arms_of_a_matrix),
        plain("refused::what_does_not_compare", refused),
    ]
}

const MIB: u64 = 1 << 20;

fn compared(old: &Path, new: &Path, format: &str) -> Ended {
    let mut report = cachewise(["report", "-o", format, "--compare"]);
    Ended::of(report.arg(old).arg(new))
}

fn json_of(old: &Path, new: &Path) -> Value {
    let ended = compared(old, new, "json").expect(0, "they compare");
    serde_json::from_slice(&ended.out).expect("JSON")
}

/// The report of a read of this file, in a file.
fn report_of_cat(scratch: &Scratch, name: &str, file: &Path) -> PathBuf {
    let report = scratch.path(name);
    let mut target = std::ffi::OsString::from("jsonl=");
    target.push(&report);
    let mut run = cachewise(["run", "-o"]);
    run.arg(target).args(["--", "cat"]).arg(file);
    Ended::of(&mut run).expect(0, "it is read");
    report
}

fn change<'a>(json: &'a Value, kind: &str, name: &str, field: &str) -> Option<&'a Value> {
    let changes = json["changes"].as_array().expect("a list");
    changes
        .iter()
        .find(|change| change["kind"] == kind && change["name"] == name && change["field"] == field)
}

fn mean(change: &Value, of: &str) -> f64 {
    change[of]["mean"].as_f64().expect("a number")
}

fn cold_and_warm() {
    let scratch = Scratch::new();
    let (file, other) = (scratch.file("file", 8 * MIB), scratch.file("other", MIB));
    evict(&file);
    let old = report_of_cat(&scratch, "old.json", &file);
    let _pinned = pin(&file, pages_of(&file));
    let new = report_of_cat(&scratch, "new.json", &file);
    let json = json_of(&old, &new);
    let name = file.to_str().expect("an ordinary name");
    let of_file = change(&json, "file", name, "fetched_bytes").expect("it was cold");
    assert_eq!(
        (mean(of_file, "old"), mean(of_file, "new")),
        ((8 * MIB) as f64, 0.0),
        "{of_file}"
    );
    let mut chosen = cachewise([
        "report",
        "--columns",
        "subject,change_factor,p_adjusted",
        "-o",
    ]);
    chosen.args(["csv", "--compare"]).arg(&old).arg(&new);
    let csv = Ended::of(&mut chosen)
        .expect(0, "rows of these columns")
        .out();
    assert!(
        csv.starts_with("name,change_factor,p_adjusted,reasons,"),
        "{csv}"
    );
    let totals = change(&json, "totals", "", "fetched_bytes").expect("in all");
    assert!(mean(totals, "old") >= (8 * MIB) as f64, "{totals}");
    assert!(totals["p"].is_null(), "one run each says nothing of chance");
    assert!(
        change(&json, "file", name, "read_requested_pages").is_none(),
        "both read all of it"
    );
    assert!(
        change(&json, "process", "cat", "fetched_bytes").is_some(),
        "by the program's name: {json}"
    );
    // A file that only one of them reads.
    evict(&other);
    let only = report_of_cat(&scratch, "only.json", &other);
    let json = json_of(&old, &only);
    let of_other = change(
        &json,
        "file",
        other.to_str().expect("a name"),
        "fetched_bytes",
    );
    let of_other = of_other.expect("it was not read before");
    assert_eq!(mean(of_other, "old"), 0.0, "not used is 0");
    let table = compared(&old, &new, "table").expect(0, "as text").out();
    assert!(
        table
            .lines()
            .next()
            .is_some_and(|line| line.contains("fetched (x0.0")),
        "the verdict comes first: {table}"
    );
    assert!(
        table.contains("files, by bytes fetched") && table.contains(name),
        "{table}"
    );
    let csv = compared(&old, &new, "csv").expect(0, "as CSV").out();
    assert!(
        csv.contains(&format!(
            "file,{name},fetched_bytes,bytes,1,1,8388608.0,0.0,"
        )),
        "{csv}"
    );
    let markdown = compared(&old, &new, "markdown")
        .expect(0, "as Markdown")
        .out();
    assert!(
        markdown.contains("### totals\n\n| FIGURE | OLD | NEW |")
            && markdown.contains("| --- | ---: |"),
        "{markdown}"
    );
    let same = compared(&new, &new, "table").expect(0, "with itself");
    assert!(same.out().starts_with("nothing changed"), "{}", same.out());
}

fn repeats_have_statistics() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 4 * MIB);
    let repeats = |name: &str, is_cold: bool| {
        let mut text = Vec::new();
        for repeat in 0..3 {
            if is_cold {
                evict(&file);
            }
            let report = report_of_cat(&scratch, &format!("{name}-{repeat}"), &file);
            text.extend(fs::read(report).expect("it was written"));
        }
        let all = scratch.path(name);
        fs::write(&all, text).expect("there is room");
        all
    };
    let cold = repeats("cold.jsonl", true);
    let _pinned = pin(&file, pages_of(&file));
    let warm = repeats("warm.jsonl", false);
    let json = json_of(&cold, &warm);
    assert_eq!(json["old"]["reports"], 3, "repeats: {json}");
    let name = file.to_str().expect("an ordinary name");
    let of_file = change(&json, "file", name, "fetched_bytes").expect("it was cold");
    assert_eq!(of_file["old"]["values"].as_array().map(Vec::len), Some(3));
    assert_eq!(of_file["is_significant"], true, "{of_file}");
}

fn recording_with_a_run() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 4 * MIB);
    evict(&file);
    let recording = scratch.path("a.rec");
    let mut record = cachewise(["record", "--only"]);
    Ended::of(record.arg(&recording).args(["--", "cat"]).arg(&file)).expect(0, "it is recorded");
    let run = report_of_cat(&scratch, "run.json", &file);
    let json = json_of(&recording, &run);
    let name = file.to_str().expect("an ordinary name");
    let of_file = change(&json, "file", name, "fetched_bytes").expect("it was cold");
    assert_eq!(mean(of_file, "old"), (4 * MIB) as f64, "{of_file}");
}

/// A report of `bench matrix` with these values of one arm.
fn matrix(values: &str) -> String {
    format!(
        "{{\"schema_version\": 1, \"page_size_bytes\": 4096, \"comparisons\": [], \"samples\": [{{\"workload\": \"w\", \
         \"arm\": \"a\", \"measure\": \"useful_bytes_per_second\", \"values\": [{values}]}}]}}"
    )
}

fn arms_of_a_matrix() {
    let scratch = Scratch::new();
    let (old, new) = (scratch.path("old.json"), scratch.path("new.json"));
    fs::write(&old, matrix("100, 101, 99, 100, 100")).expect("there is room");
    fs::write(&new, matrix("200, 201, 199, 200, 200")).expect("there is room");
    let json = json_of(&old, &new);
    let arm = change(&json, "arm", "w with a", "useful_bytes_per_second");
    let arm = arm.unwrap_or_else(|| panic!("the arm: {json}"));
    assert_eq!(arm["change_ratio"], 1.0, "twice: {arm}");
    assert_eq!(arm["is_significant"], true, "{arm}");
}

fn refused() {
    let scratch = Scratch::new();
    let file = |name: &str, text: &str| {
        let path = scratch.path(name);
        fs::write(&path, text).expect("there is room");
        path
    };
    let report = |version: u32, page: u32| {
        format!("{{\"schema_version\": {version}, \"page_size_bytes\": {page}, \"totals\": {{}}}}")
    };
    let good = file("good.json", &report(1, 4096));
    compared(&good, &good, "json").expect(0, "it is a report");
    for (name, text, part) in [
        (
            "cut.json",
            "{\"schema_version\": 1, ".to_owned(),
            "not complete JSON",
        ),
        (
            "other.json",
            "{\"a\": 1}".to_owned(),
            "no report of `cachewise run`",
        ),
        ("newer.json", report(2, 4096), "schema version 2"),
        (
            "large.json",
            report(1, 16384),
            "page sizes of 4096 and 16384 bytes",
        ),
        ("matrix.json", matrix("1"), "only one of them"),
        ("text", "no recording".to_owned(), "not a recording"),
        ("empty", String::new(), "empty"),
    ] {
        compared(&good, &file(name, &text), "table")
            .expect(2, "it does not compare")
            .says(part, "why")
            .says(name, "which file");
    }
    compared(&good, &scratch.path("absent"), "table").expect(2, "there is none");
    compared(&good, &good, "openmetrics").expect(2, "there are no metrics of it");
    Ended::of(&mut cachewise(["report"])).expect(2, "nothing to report");
    Ended::of(cachewise(["report"]).arg(&good))
        .expect(2, "it is no recording")
        .says("--compare OLD NEW", "what it is good for");
}

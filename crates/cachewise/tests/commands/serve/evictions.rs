//! Evicted pages by process, in recordings and on every face of `serve`, against the residency of the victim.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::counted::name_of;
use super::site::{Site, value_of};
use crate::support::*;

const MIB: u64 = 1 << 20;

/// Ends with an error if the control group cannot be entered.
const ENTER: &str = r#"echo $$ > "$0/cgroup.procs" && exec "$@" >/dev/null"#;

fn within(group: &Group, words: &[&Path]) {
    let mut command = Command::new("sh");
    command.args(["-c", ENTER]).arg(group.path());
    Ended::of(command.args(words)).expect(0, "a program in the group");
}

/// Pages of the file that dd evicted at the group's limit, and those that anyone evicted for any cause.
fn evicted(rows: &Value, file: &Path) -> (u64, u64) {
    let rows = rows.as_array().expect("a list");
    let of_file = rows
        .iter()
        .filter(|row| row["path"].as_str() == file.to_str());
    let mut sums = (0, 0);
    for row in of_file {
        let pages = number(row, "evicted_pages");
        let is_stream = row["culprit"]["command"] == "dd" && row["cause"] == "group_limit";
        if is_stream && row["culprit_uses_file"] == false {
            sums.0 += pages;
        }
        sums.1 += pages;
    }
    sums
}

pub fn every_face_names_the_stream_and_its_victim() {
    let Some(group) = Group::new() else {
        println!("skipped: evictions on every face: no control group can be made here");
        return;
    };
    let scratch = Scratch::new();
    let index = scratch.file("index", 24 * MIB);
    let stream = scratch.file("stream", 128 * MIB);
    evict(&stream);
    if group.limit_memory(48 * MIB).is_none() {
        println!("skipped: evictions on every face: no memory limit can be set here");
        return;
    }
    let recording = scratch.path("recording");
    let mut record = cachewise(["record", "-q", "--interval", "200ms"]);
    let record = Started::of(record.arg(&recording).stdin(Stdio::null()));
    let site = Site::new(&["--top-n", "1000"]);
    until("the recorder has a sample", || {
        let report = Ended::of(cachewise(["report", "-o", "json"]).arg(&recording));
        (report.code() == 0).then_some(())
    });
    evict(&index);
    within(&group, &["cat".as_ref(), index.as_ref()]);
    let before = resident(&index);
    let mut input = std::ffi::OsString::from("if=");
    input.push(&stream);
    within(&group, &["dd".as_ref(), input.as_ref(), "bs=64K".as_ref()]);
    let lost = before - resident(&index);
    assert!(
        lost * 2 > pages_of(&index),
        "the stream evicts the index: {lost} of {before}"
    );
    within(&group, &["cat".as_ref(), index.as_ref()]);

    let metrics = site.get("/metrics").body;
    let of =
        |series: &str| value_of(&metrics, series).unwrap_or_else(|| panic!("{series}: {metrics}"));
    let by_cause = |cause: &str| {
        of(&format!(
            "cachewise_page_cache_evicted_by_cause_total{{cause=\"{cause}\"}}"
        ))
    };
    assert!(
        by_cause("group_limit") >= lost as f64,
        "the machine's counter has them"
    );
    let name = name_of(&group);
    let as_culprit = |cgroup: &str| {
        of(&format!(
            "cachewise_cgroup_page_cache_evicted_as_culprit_total{{cgroup=\"{cgroup}\",cause=\"group_limit\"}}"
        ))
    };
    assert!(
        as_culprit(&name) >= lost as f64,
        "its own processes evicted them: {name}"
    );
    let all: f64 = metrics
        .lines()
        .filter(|line| line.starts_with("cachewise_cgroup_page_cache_evicted_as_culprit_total{"))
        .filter(|line| line.contains("cause=\"group_limit\""))
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
        .sum();
    assert_eq!(all, by_cause("group_limit"), "groups add up to the machine");
    let lost_by_group = of(&format!(
        "cachewise_cgroup_page_cache_evicted_total{{cgroup=\"{name}\"}}"
    ));
    assert!(lost_by_group >= lost as f64, "they were charged to it");
    let rows = until("the interval with the stream has passed", || {
        let json = site.json("/api/v1/evictions?seconds=60&limit=5000");
        // Its pages left before as well, by evict() above.
        (evicted(&json["evictions"], &index).0 * 100 >= lost * 95).then_some(json)
    });
    let (by_dd, all) = evicted(&rows["evictions"], &index);
    // The second cat evicts others.
    assert!(by_dd <= all, "dd is the culprit: {by_dd} of {lost}");
    let finding = until("serve finds it", || {
        let json = site.json("/api/v1/findings");
        let found = json["findings"].as_array()?.clone();
        found
            .into_iter()
            .find(|one| one["id"] == "evicted_by_other")
    });
    assert!(
        finding["cause"]
            .as_str()
            .is_some_and(|cause| cause.contains("reads data once")),
        "{finding}"
    );

    record.signal(Signal::INT);
    record.wait().expect(0, "a signal ends it");
    let report = Ended::of(cachewise(["report", "-o", "json"]).arg(&recording));
    let json: Value = serde_json::from_slice(&report.expect(0, "a report").out).expect("JSON");
    let recorded = evicted(&json["evictions"], &index).0;
    assert_eq!(
        recorded, by_dd,
        "the recording has the same: {}",
        json["evictions"]
    );
    let rules = json["findings"].as_array().expect("a list");
    assert!(
        rules.iter().any(|one| one["id"] == "evicted_by_other"),
        "and the cause: {rules:?}"
    );
    let text = Ended::of(cachewise(["report"]).arg(&recording));
    let text = text.expect(0, "a report").out();
    assert!(
        text.contains("dd, ") && text.contains("(group limit): "),
        "the process and the cause: {text}"
    );
}

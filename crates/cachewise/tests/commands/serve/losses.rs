//! Counts that are lost show on every face: more files are read at a time than there is room for.

use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use super::chromium::Chromium;
use super::site::{Site, TOKEN, value_of};
use crate::support::{Ended, Scratch, Started, cachewise, until};

/// More than the 32,768 rows of a probe.
const FILES: usize = 34_000;

fn files() -> Scratch {
    let scratch = Scratch::new();
    for number in 0..FILES {
        std::fs::write(scratch.path(number.to_string()), b"x").expect("the disk has room");
    }
    scratch
}

fn read_all(files: &Scratch) {
    for number in 0..FILES {
        std::fs::read(files.path(number.to_string())).expect("it is there");
    }
}

/// The sum over the kinds.
fn lost_events(metrics: &str) -> u64 {
    let lines = metrics.lines();
    let series = lines.filter(|line| line.starts_with("cachewise_lost_events_total"));
    series
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
        .sum::<f64>() as u64
}

fn is_lossy(lost: &Value) -> bool {
    let lost = lost.as_array().expect("a list");
    lost.iter().any(|lost| lost["count"].as_u64() > Some(0))
}

pub fn of_serve() {
    let files = files();
    // Longer than it takes to read them: each tick has a table of its own.
    let site = Site::new(&["--interval", "8"]);
    let before = site.get("/metrics").body;
    assert!(
        value_of(&before, "cachewise_lost_events_total{kind=\"rows\"}").is_some(),
        "the first loss will be an increase: {before}"
    );
    let machine = until("something is lost", || {
        read_all(&files);
        // A scrape ends the interval.
        site.get("/metrics");
        let machine = site.json("/api/v1/machine");
        is_lossy(&machine["lost"]).then_some(machine)
    });
    assert_eq!(machine["backend"]["exactness"], "incomplete", "{machine}");
    let metrics = site.get("/metrics").body;
    assert!(lost_events(&metrics) > 0, "/metrics: {metrics}");
    assert!(is_lossy(&site.json("/api/v1/totals")["lost"]), "totals");
    let page = site.get("/").body;
    assert!(
        page.contains("<p class=\"note\">incomplete, "),
        "the page without scripts"
    );
    assert!(!page.contains("exact to the page"), "and no contradiction");
    let Some(mut browser) = Chromium::start() else {
        println!("skipped: losses in a browser: needs chromium; scripts/setup test installs it");
        return;
    };
    browser.open(&format!("http://{}/login#token={TOKEN}", site.address));
    browser.until(
        "the page is live",
        "document.getElementById('state')?.dataset.live === 'true'",
    );
    let shown = browser.value(
        "[document.getElementById('lost').innerText, document.getElementById('exactness').dataset.exactness, \
         document.getElementById('lost').checkVisibility()]",
    );
    let text = shown[0].as_str().expect("text");
    assert!(text.starts_with("incomplete, "), "after a tick: {text}");
    assert_eq!(shown[1], "incomplete", "the badge agrees");
    assert_eq!(shown[2], true, "and it can be seen");
}

/// The output of `report` on a recording.
fn report(recording: &Path, arguments: &[&str]) -> Ended {
    Ended::of(cachewise(["report"]).arg(recording).args(arguments)).expect(0, "it is a recording")
}

pub fn of_recordings() {
    let files = files();
    let scratch = Scratch::new();
    let recording = scratch.path("recording");
    // No sample is taken before the command has ended.
    let mut record = cachewise(["record", "-q", "--interval", "300"]);
    record.arg(&recording).args(["--", "sh", "-c"]);
    record.args(["find \"$0\" -type f -print0 | xargs -0 cat >/dev/null"]);
    Ended::of(record.arg(files.directory())).expect(0, "all can be read");
    let text = report(&recording, &[]);
    assert!(text.out().contains("\nincomplete, "), "{}", text.out());
    assert!(!text.out().contains("exact to the page"), "{}", text.out());
    let json: Value =
        serde_json::from_slice(&report(&recording, &["-o", "json"]).out).expect("JSON");
    assert!(is_lossy(&json["lost"]), "{}", json["lost"]);
    assert_eq!(json["backend"]["exactness"], "incomplete");
    let metrics = report(&recording, &["-o", "openmetrics"]).out();
    assert!(lost_events(&metrics) > 0, "{metrics}");
    let page = report(&recording, &["--html", "-"]).out();
    assert!(page.contains("<p class=\"note\">incomplete, "), "the page");
    assert!(!page.contains("exact to the page"), "and no contradiction");
    for format in ["csv", "jsonl", "json"] {
        let series = report(&recording, &["--series", "-o", format]);
        assert!(
            series.out().contains("lost_events"),
            "{format}: {}",
            series.out()
        );
        series.says("incomplete, ", "standard error too");
    }
}

pub fn of_top() {
    let files = files();
    let formats = ["json", "openmetrics"];
    let tops = formats.map(|format| {
        let mut top = cachewise(["top", "-b", "300", "-o", format, "--top", "5"]);
        let mut top = Started::of(top.stdin(Stdio::null()));
        top.until_thread("signals");
        // Counting begins some time later.
        let probe = format!("/proc/{}/fd", top.pid());
        until("the probe is attached", || {
            let links = std::fs::read_dir(&probe).ok()?.flatten();
            let mut links = links.filter_map(|fd| std::fs::read_link(fd.path()).ok());
            links
                .any(|link| link.to_string_lossy().contains("bpf_link"))
                .then_some(())
        });
        top
    });
    read_all(&files);
    read_all(&files);
    for (format, top) in formats.into_iter().zip(tops) {
        top.signal(Signal::TERM);
        let ended = top.wait().expect(0, "a signal ends it");
        let out = ended.out();
        match format {
            "json" => {
                let json: Value = serde_json::from_slice(&ended.out).expect("JSON");
                assert!(is_lossy(&json["lost"]), "{}", json["lost"]);
            }
            _ => assert!(lost_events(&out) > 0, "{out}"),
        }
        ended.says("incomplete, ", "standard error too");
    }
}

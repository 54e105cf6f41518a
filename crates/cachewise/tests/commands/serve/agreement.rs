//! `top -b`, `record` and `serve` watch the same load: they agree with each other and with what was done, to
//! the page.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::site::{Site, value_of};
use crate::support::*;

/// The columns to compare.
const COLUMNS: &str = "read_requested_pages,read_hit_pages,read_missed_pages,direct_read_bytes";

const SIZE: u64 = 16 << 20;

/// Requests of one process.
#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
struct Asked {
    pages: u64,
    hits: u64,
    misses: u64,
    direct_bytes: u64,
}

impl Asked {
    /// The sum over the rows whose `id` is `name`.
    fn of(rows: &[Value], id: &str, name: &str) -> Asked {
        let mut sum = Asked::default();
        for row in rows.iter().filter(|row| row[id] == name) {
            let number = |id: &str| {
                row[id]
                    .as_u64()
                    .unwrap_or_else(|| panic!("{id} is known: {row}"))
            };
            sum.pages += number("read_requested_pages");
            sum.hits += number("read_hit_pages");
            sum.misses += number("read_missed_pages");
            sum.direct_bytes += number("direct_read_bytes");
        }
        sum
    }
}

fn lines(out: &[u8]) -> Vec<Value> {
    out.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("each line is JSON"))
        .collect()
}

/// `top -b` as a program that goes on, once it counts.
fn top(view: &str) -> Started {
    let name = if view == "file" { "path" } else { view };
    let mut command = cachewise(["top", "-b", "0.2", "-o", "jsonl", "--view", view]);
    command.args(["--columns", &format!("{COLUMNS},{name}")]);
    let mut started = Started::of(command.stdin(Stdio::null()));
    started.line().expect("somebody reads all the time");
    started
}

fn ended(started: Started) -> Vec<Value> {
    started.signal(Signal::TERM);
    lines(&started.wait().expect(0, "a signal ends it").out)
}

fn series(recording: &Path, of: &str, name: &str) -> Vec<Value> {
    let mut report = cachewise(["report", "--series", "-o", "jsonl", "--of", of]);
    report.args(["--columns", &format!("{COLUMNS},{name}")]);
    lines(&Ended::of(report.arg(recording)).out)
}

/// dd in a control group.
fn dd(group: &Path, file: &Path, more: &[&str]) -> Started {
    let script = r#"echo $$ > "$0/cgroup.procs" && exec dd of=/dev/null "$@""#;
    let mut input = std::ffi::OsString::from("if=");
    input.push(file);
    Started::of(
        Command::new("sh")
            .args(["-c", script])
            .arg(group)
            .arg(input)
            .args(more),
    )
}

pub fn to_the_page() {
    let Some(group) = Group::new() else {
        println!("skipped: agreement of top, record and serve: no control group can be made here");
        return;
    };
    let name = group.path().file_name().expect("it has a name");
    let name = format!("/{}", name.to_string_lossy());
    let scratch = Scratch::new();
    let [hit, missed, around, other] =
        ["hit", "missed", "around", "other"].map(|name| scratch.file(name, SIZE));
    let pages = pages_of(&hit);
    // No reclaimer takes what is locked.
    let _pinned = pin(&hit, pages);
    evict(&missed);
    evict(&around);

    let busy = Busy::with(&other);
    let (files, groups) = (top("file"), top("cgroup"));
    let recording = scratch.path("recording");
    let mut record = cachewise(["record", "-q", "--interval", "200ms", "-n", "1000"]);
    let record = Started::of(record.arg(&recording).stdin(Stdio::null()));
    let site = Site::new(&["--top-n", "1000"]);
    until("the recorder has a sample", || {
        (recording.exists() && !series(&recording, "machine", "time").is_empty()).then_some(())
    });

    let programs = [
        dd(group.path(), &hit, &["bs=64K"]),
        dd(group.path(), &missed, &["bs=64K"]),
        dd(group.path(), &around, &["bs=1M", "iflag=direct"]),
    ];
    for program in programs {
        program.wait().expect(0, "dd can read a file");
    }

    let path = |file: &Path| file.to_string_lossy().into_owned();
    // An interval may end in the middle of a program.
    let served = until("the server has all of each file", || {
        let json = site.json("/api/v1/files?seconds=60&limit=5000");
        let rows = json["files"].as_array().expect("a list").clone();
        let asked = [&hit, &missed, &around].map(|file| Asked::of(&rows, "path", &path(file)));
        let whole = [
            asked[0].pages,
            asked[1].pages,
            asked[2].direct_bytes / (SIZE / pages),
        ];
        whole.iter().all(|all| *all >= pages).then_some(rows)
    });
    let metrics = site.get("/metrics").body;
    let (files, groups) = (ended(files), ended(groups));
    record.signal(Signal::TERM);
    record.wait().expect(0, "a signal ends it");
    drop(busy);
    let recorded = series(&recording, "files", "path");

    for (who, rows) in [("top", &files), ("record", &recorded), ("serve", &served)] {
        let of = |file: &Path| Asked::of(rows, "path", &path(file));
        let all = Asked {
            pages,
            hits: pages,
            ..Asked::default()
        };
        assert_eq!(of(&hit), all, "{who}: every page was there");
        let cold = of(&missed);
        assert_eq!(cold.pages, pages, "{who}: every page was asked for once");
        assert_eq!(cold.hits + cold.misses, pages, "{who}: it adds up");
        assert!(cold.misses > 0, "{who}: and some were waited for");
        assert_eq!(
            cold,
            Asked::of(&files, "path", &path(&missed)),
            "{who}: as many misses as the others counted"
        );
        let direct = Asked {
            direct_bytes: SIZE,
            ..Asked::default()
        };
        assert_eq!(of(&around), direct, "{who}: every byte, and no page");
    }

    // Of the group, with what it took to start the programs.
    let counted = |what: &str| {
        let series = format!("cachewise_cgroup_{what}_total{{cgroup=\"{name}\"}}");
        value_of(&metrics, &series).unwrap_or_else(|| panic!("there is {series}")) as u64
    };
    let scraped = Asked {
        pages: counted("page_cache_requested"),
        hits: counted("page_cache_hits"),
        misses: counted("page_cache_misses"),
        direct_bytes: counted("direct_bytes"),
    };
    assert!(
        scraped.pages >= 2 * pages,
        "the group has what its members did: {scraped:?}"
    );
    assert_eq!(scraped.direct_bytes, SIZE, "and the direct bytes");
    assert_eq!(
        Asked::of(&groups, "cgroup", &name),
        scraped,
        "top says the same of the group as /metrics"
    );
    assert_eq!(
        Asked::of(&series(&recording, "cgroups", "cgroup"), "cgroup", &name),
        scraped,
        "and so does the recording"
    );
}

//! `run` names the process that evicted pages, and the cause.

use std::path::Path;

use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("json_names_process_and_cause", json_names_process_and_cause),
        needs_root("text_names_process_and_cause", text_names_process_and_cause),
        needs_root("dontcache_reads_are_advice", dontcache_reads_are_advice),
    ]
}

/// Reads a file, evicts its pages by advice, reads it again and cuts it off.
fn script(file: &Path) -> String {
    let file = file.display();
    format!(
        "cat {file} >/dev/null && dd if={file} iflag=nocache count=0 2>/dev/null && \
         cat {file} >/dev/null && truncate -s 0 {file}"
    )
}

fn json_names_process_and_cause() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 256 * page_size());
    let script = script(&file);
    let report = report_of(&[], ["sh", "-c", &script]);
    let evictions = report.json["evictions"].as_array().expect("a list");
    let of_file: Vec<&Value> = evictions
        .iter()
        .filter(|eviction| eviction["path"].as_str() == file.to_str())
        .collect();
    for (command, cause) in [("dd", "advice"), ("truncate", "truncation")] {
        let pages: u64 = of_file
            .iter()
            .filter(|eviction| {
                eviction["cause"] == cause && eviction["culprit"]["command"] == command
            })
            .map(|eviction| number(eviction, "evicted_pages"))
            .sum();
        assert_eq!(pages, 256, "{command}, {cause}: {evictions:?}");
    }
    let all: u64 = of_file
        .iter()
        .map(|eviction| number(eviction, "evicted_pages"))
        .sum();
    assert_eq!(
        all,
        number(report.file(&file), "evicted_pages"),
        "causes and processes add up to the file's evicted pages"
    );
    report.adds_up();
}

fn text_names_process_and_cause() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 256 * page_size());
    let ended = Ended::of(&mut cachewise(["run", "--", "sh", "-c", &script(&file)]));
    let text = String::from_utf8_lossy(&ended.err).into_owned();
    ended.expect(0, "the commands succeed");
    let name = file.display().to_string();
    let line = |begin: &str, end: &str| {
        text.lines().any(|line| {
            let line = line.trim_start();
            line.starts_with(begin) && line.ends_with(end) && line.contains(&name)
        })
    };
    assert!(text.contains("evicted by\n"), "the part has a head: {text}");
    assert!(
        line("dd, ", &format!("(advice): 256 pages of {name}")),
        "{text}"
    );
    assert!(
        line("truncate, ", &format!("(truncation): 256 pages of {name}")),
        "{text}"
    );
}

/// Reads a file without leaving pages of it; exits with 3 where the kernel or file system does not offer that.
const DONTCACHE: &str = "
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
buffer = bytearray(65536)
place = 0
while True:
    try:
        read = os.preadv(fd, [buffer], place, 0x80)
    except OSError:
        sys.exit(3)
    if read == 0:
        break
    place += read
";

fn dontcache_reads_are_advice() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 1024 * page_size());
    evict(&file);
    let report = report_of(
        &[],
        [
            "python3",
            "-c",
            DONTCACHE,
            file.to_str().expect("an ordinary name"),
        ],
    );
    if report.ended.code() == 3 {
        println!(
            "skipped: evictions by RWF_DONTCACHE: the kernel or the file system does not offer it"
        );
        return;
    }
    let evictions = report.json["evictions"].as_array().expect("a list");
    let of_file = evictions
        .iter()
        .filter(|eviction| eviction["path"].as_str() == file.to_str());
    let mut pages = 0;
    for eviction in of_file {
        assert_eq!(eviction["cause"], "advice", "{eviction}");
        assert_eq!(eviction["culprit"]["command"], "python3", "{eviction}");
        pages += number(eviction, "evicted_pages");
    }
    // Some are read ahead, dropped with their folio, and fetched again.
    let inserted = number(report.file(&file), "inserted_pages");
    assert_eq!(
        pages,
        inserted - resident(&file),
        "all that is not resident"
    );
    assert!(pages > 0, "reads drop what they fetched");
}

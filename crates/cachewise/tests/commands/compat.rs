//! Names of other tools: what is typed for them does the same.

use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain("the_table_names_every_tool", the_table_names_every_tool),
        plain("links_are_the_tools", links_are_the_tools),
        plain("fincore_and_pcstat_count", fincore_and_pcstat_count),
        plain("vmtouch_acts", vmtouch_acts),
        plain("cache_bench_prints_its_lines", cache_bench_prints_its_lines),
        plain(
            "unsupported_option_does_nothing",
            unsupported_option_does_nothing,
        ),
        plain("cachestat_and_cachetop_watch", cachestat_and_cachetop_watch),
    ]
}

const TOOLS: [&str; 6] = [
    "cachestat",
    "cachetop",
    "pcstat",
    "vmtouch",
    "cache-bench",
    "fincore",
];

fn the_table_names_every_tool() {
    let table = Ended::of(&mut cachewise(["compat"]))
        .expect(0, "it is a table")
        .out();
    for tool in TOOLS {
        assert!(
            table
                .lines()
                .any(|line| line.starts_with(&format!("{tool} ("))),
            "{tool} is in it: {table}"
        );
        let own = Ended::of(&mut cachewise(["compat", tool, "--help"]));
        let own = own.expect(0, "and by itself").out();
        assert!(table.contains(&own), "{tool} has the same lines: {own}");
    }
    Ended::of(&mut cachewise(["compat", "htop"]))
        .expect(2, "it is not known")
        .says("cachestat", "those that are, are named");
}

/// The binary under another name.
fn called(scratch: &Scratch, name: &str) -> Command {
    let link = scratch.path(name);
    if !link.exists() {
        symlink(env!("CARGO_BIN_EXE_cachewise"), &link).expect("the directory is ours");
    }
    Command::new(link)
}

fn links_are_the_tools() {
    let scratch = Scratch::new();
    for tool in TOOLS {
        for name in [tool.to_owned(), format!("cachewise-{tool}")] {
            let mut command = called(&scratch, &name);
            let ended = Ended::of(command.arg("--help")).expect(0, "by its name");
            assert!(ended.out().starts_with(&format!("{tool} (")), "{name}");
        }
    }
    let ended = Ended::of(called(&scratch, "something").arg("--version"));
    let said = ended.expect(0, "another name is none of theirs").out();
    assert!(said.starts_with("cachewise "), "{said}");
}

fn fincore_and_pcstat_count() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * page_size());
    let _pinned = pin(&file, 16);
    let json = |mut command: Command| -> Value {
        let ended = Ended::of(command.arg(&file)).expect(0, "it is our file");
        serde_json::from_slice(&ended.out).expect("it is JSON")
    };
    let mut command = called(&scratch, "fincore");
    command.args(["-J", "-o", "PAGES,SIZE,FILE"]);
    let of_fincore = json(command);
    let row = &of_fincore["rows"][0];
    assert_eq!(row["resident_pages"], 16, "all of it: {of_fincore}");
    assert_eq!(
        row.as_object()
            .map(|row| row.contains_key("resident_dirty_pages")),
        Some(false),
        "only what was asked for: {row}"
    );
    let mut command = called(&scratch, "pcstat");
    command.arg("-json");
    let of_pcstat = json(command);
    assert_eq!(of_pcstat["rows"][0]["resident_pages"], 16, "{of_pcstat}");
}

fn vmtouch_acts() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 64 * page_size());
    let resident = || {
        let ended = Ended::of(cachewise(["files", "--json"]).arg(&file)).expect(0, "it is ours");
        let document: Value = serde_json::from_slice(&ended.out).expect("it is JSON");
        document["rows"][0]["resident_pages"].as_u64()
    };
    let vmtouch = |arguments: &[&str]| {
        let mut command = called(&scratch, "vmtouch");
        Ended::of(command.args(arguments).arg(&file)).expect(0, "it is our file")
    };
    // Dirty pages would stay.
    rustix::fs::sync();
    vmtouch(&["-e"]);
    if resident() != Some(0) {
        println!("skipped: compat: the file system keeps pages (memory only?)");
        return;
    }
    let shown = vmtouch(&["-v"]).out();
    assert!(shown.contains("file"), "the file is shown: {shown}");
    assert_eq!(resident(), Some(0), "looking brings nothing in");
    let part = format!("0-{}", 16 * page_size());
    for (touch, pages) in [(&["-qt", "-p", &part][..], 16), (&["-vt"], 64)] {
        undisturbed(|| {
            vmtouch(&["-e"]);
            let said = vmtouch(touch);
            let is_quiet = touch[0].contains('q');
            assert_eq!(said.out.is_empty(), is_quiet, "{touch:?}: {}", said.out());
            (resident() == Some(pages)).then_some(())
        });
    }
}

fn cache_bench_prints_its_lines() {
    let scratch = Scratch::new();
    let mut command = called(&scratch, "cache-bench");
    let file = scratch.file("file", 1 << 20);
    command.arg("-f").arg(file).args(["-r", "2", "-c", "64"]);
    let ended = Ended::of(&mut command).expect(0, "it reads");
    let said = ended.out();
    assert!(said.contains("read"), "its lines: {said}");
    // The line of its own README, with its long names.
    let mut command = called(&scratch, "cache-bench");
    command.arg("--file").arg(scratch.path("file"));
    command.args("--read 2 --chunk 32 --mmap 1 --preread 1 --bloat 1".split(' '));
    let ended = Ended::of(&mut command).expect(0, "it knows --bloat");
    assert!(
        ended.out().contains("bloat: 1, chunk: 32 KiB"),
        "its head: {}",
        ended.out()
    );
}

fn unsupported_option_does_nothing() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 4 * page_size());
    for (tool, option, why) in [
        ("vmtouch", "-d", "as a service"),
        ("fincore", "-r", "--json"),
        ("pcstat", "-bname", "in full"),
        ("cachestat", "--nope", "unknown option"),
    ] {
        let mut command = called(&scratch, tool);
        let ended = Ended::of(command.arg(option).arg(&file));
        let ended = ended.expect(2, "it is not supported");
        assert!(ended.out.is_empty(), "{tool} {option} shows nothing");
        assert!(
            ended.err().contains(why),
            "{tool} {option}: {}",
            ended.err()
        );
    }
}

fn cachestat_and_cachetop_watch() {
    let scratch = Scratch::new();
    let mut command = called(&scratch, "cachestat");
    let ended = Ended::of(command.args(["-T", "0.05", "2"])).expect(0, "anybody may");
    assert!(
        ended.out().contains("HITS"),
        "rows of stat: {}",
        ended.out()
    );
    // Where standard output is no terminal `top` writes rows until it is interrupted.
    let link = called(&scratch, "cachetop").get_program().to_owned();
    let mut command = Command::new("timeout");
    command.args(["--preserve-status", "--signal=INT", "1"]);
    let ended = Ended::of(command.arg(link).arg("0.1")).expect(0, "Ctrl-C ends it");
    assert!(!ended.out().is_empty(), "rows of top: {}", ended.err());
}

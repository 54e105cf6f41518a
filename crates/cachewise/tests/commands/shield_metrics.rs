//! `shield`: metrics in a file while it runs, and the packaged service.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::shield::{MIB, Shielded, pages, taken_or_held, text};
use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain("interval::needs_a_file_and_running_programs", refused),
        needs_root("interval::the_file_is_replaced_whole", replaced),
        needs_root("interval::an_unwritable_file_ends_nothing", unwritable),
        needs_root("service::it_writes_its_metrics", service),
    ]
}

fn refused() {
    for (arguments, part) in [
        (&["--auto"][..], "-o openmetrics=FILE"),
        (&["--auto", "-o", "openmetrics"], "-o openmetrics=FILE"),
        (
            &["-o", "openmetrics=/tmp/x.prom", "--", "true"],
            "remove it",
        ),
    ] {
        let mut command = cachewise(["shield", "--interval", "1"]);
        let ended = Ended::of(command.args(arguments));
        ended.expect(2, "it is refused").says(part, "with the fix");
    }
    assert!(!Path::new("/tmp/x.prom").exists(), "nothing was written");
}

/// The value of a series without labels, or with these.
pub fn value(exposition: &str, series: &str) -> Option<u64> {
    let line = |line: &str| {
        line.strip_prefix(series)?
            .strip_prefix(' ')?
            .parse::<u64>()
            .ok()
    };
    exposition.lines().find_map(line)
}

const DROPPED: &str = "cachewise_shield_pages{fate=\"dropped\"}";

/// The whole file; `None` until there is one.
pub fn exposition(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    assert!(text.ends_with("# EOF\n"), "a part of a file: {text}");
    Some(text)
}

fn read(path: &Path) {
    let mut command = Command::new("cat");
    Ended::of(command.arg(path).stdout(Stdio::null())).expect(0, "it is read");
}

fn replaced() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 64 * MIB);
    let target = shielded.scratch.path("shield.prom");
    let option = format!("openmetrics={}", text(&target));
    let options = [
        "--auto",
        "--stream",
        "16M",
        "--interval",
        "50ms",
        "-o",
        &option,
    ];
    let mut shield = Started::of(&mut shielded.command(&options));
    shield.until_thread("shield");
    until("there are metrics from the start", || {
        exposition(&target).and_then(|text| value(&text, DROPPED))
    });
    let before = exposition(&target)
        .and_then(|text| value(&text, DROPPED))
        .expect("there are metrics");
    evict(&file);
    read(&file);
    until("dropped pages show up while it runs", || {
        let now = value(&exposition(&target)?, DROPPED)?;
        (now >= before + 32 * MIB / page_size()).then_some(())
    });
    let running = exposition(&target).expect("it is there");
    assert!(
        value(&running, "cachewise_shield_resident_pages").is_some(),
        "{running}"
    );
    let kept = "cachewise_shield_pages{fate=\"mapped\"}";
    assert_eq!(value(&running, kept), None, "not known so far: {running}");
    shield.signal(Signal::INT);
    shield.wait().expect(130, "Ctrl-C ends it");
    let last = exposition(&target).expect("it is there");
    let result = shielded.read();
    assert_eq!(value(&last, DROPPED), Some(pages(&result, "dropped")));
    assert!(value(&last, kept).is_some(), "known at the end: {last}");
}

fn unwritable() {
    let shielded = Shielded::new();
    let file = shielded.scratch.file("file", 32 * MIB);
    let directory = shielded.scratch.path("metrics");
    fs::create_dir(&directory).expect("it is ours");
    let target = directory.join("shield.prom");
    let option = format!("openmetrics={}", text(&target));
    evict(&file);
    let mut reader = Reader::of(&file);
    let pid = reader.pid().to_string();
    let options = ["-p", &pid, "--interval", "20ms", "-o", &option];
    let mut shield = Started::of(&mut shielded.command(&options));
    shield.until_thread("shield");
    until("there are metrics", || exposition(&target));
    fs::remove_dir_all(&directory).expect("it is ours");
    reader.read();
    let shield = shielded.until_dropped(&file, shield);
    reader.end();
    let ended = shield.wait();
    let complaints = ended.complaints();
    let said = complaints.matches("cannot write metrics to").count();
    assert_eq!(said, 1, "once: {complaints}");
    let result = shielded.read();
    let dropped = pages(&result, "dropped") + taken_or_held(&result);
    assert!(dropped >= 32 * MIB / page_size(), "{result:#}");
}

/// The command line of the unit, as systemd runs it, with a runtime directory of the test.
fn service() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging/shield/cachewise-shield.service");
    let unit = fs::read_to_string(unit).expect("it is in the repository");
    let setting = |name: &str| {
        let found = unit.lines().find_map(|line| line.strip_prefix(name));
        found.unwrap_or_else(|| panic!("it has {name}"))
    };
    let scratch = Scratch::new();
    let runtime = scratch.path(setting("RuntimeDirectory="));
    fs::create_dir(&runtime).expect("it is ours");
    let line = setting("ExecStart=").replace("%t", text(scratch.directory()));
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("/usr/bin/cachewise"));
    let words: Vec<&str> = words.filter(|word| !word.starts_with('$')).collect();
    let shield = Started::of(cachewise(&words).stdin(Stdio::null()));
    let metrics = until("it writes its metrics", || {
        let files = fs::read_dir(&runtime).ok()?.flatten();
        let mut files =
            files.filter(|file| file.path().extension().is_some_and(|end| end == "prom"));
        exposition(&files.next()?.path())
    });
    assert!(value(&metrics, DROPPED).is_some(), "{metrics}");
    shield.signal(Signal::INT);
    let ended = shield.wait().expect(130, "it is stopped by SIGINT");
    assert!(
        ended.out().contains("dropped "),
        "the journal has the result: {}",
        ended.out()
    );
}

//! `cachewise drop`: it asks, shows, and only then drops.
//!
//! Dropping disturbs every program of the machine, including the measurements of other tests: the
//! test that really drops runs only with `CACHEWISE_TEST_DROP` set.

use std::fs::{self, File};
use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain("refuses::unknown_arguments", refuses_what_there_is_not),
        plain("refuses::without_a_terminal", refuses_without_a_terminal),
        needs_root("refuses::users_other_than_root", refuses_others_than_root),
        plain("dry_run::changes_nothing", dry_run_changes_nothing),
        plain("dry_run::every_format", dry_run_in_every_format),
        needs_root("drops::only_after_yes", drops_what_was_agreed_to),
        needs_root("drops::the_page_cache", drops_really),
    ]
}

fn drop_caches(arguments: &[&str]) -> Command {
    let mut command = cachewise(["drop"]);
    command.args(arguments).stdin(Stdio::null());
    command
}

fn refuses_what_there_is_not() {
    for (arguments, said) in [
        (&["0"][..], "0"),
        (&["4"], "4"),
        (&["all"], "all"),
        (&["-1"], "-1"),
        (&["--dry-run", "--yes"], "--yes"),
        (&["--json", "-o", "csv"], "--output"),
    ] {
        Ended::of(&mut drop_caches(arguments))
            .expect(2, "that cannot be meant")
            .says(said, "the fault");
    }
}

/// Without a terminal there is no consent.
fn refuses_without_a_terminal() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 64 * page_size());
    let stays = undisturbed(|| {
        warm(&file);
        let ended = Ended::with_input(cachewise(["drop"]).stdin(Stdio::piped()), b"y\n");
        (resident(&file) == pages_of(&file)).then_some(ended)
    });
    let ended = stays.expect(2, "a pipe is no consent");
    if rustix::process::geteuid().is_root() {
        ended
            .says("--yes", "the option to use")
            .says("--dry-run", "or to preview");
    } else {
        ended.says("root", "the required user");
    }
}

fn refuses_others_than_root() {
    let scratch = Scratch::new();
    Ended::of(cachewise_as_nobody(&scratch).args(["drop", "--yes"]))
        .expect(2, "it needs root")
        .says("/proc/sys/vm/drop_caches", "the file")
        .says("Permission denied", "the reason")
        .says("cachewise evict", "and the alternative");
    Ended::of(cachewise_as_nobody(&scratch).args(["drop", "--dry-run"]))
        .expect(0, "everybody may look")
        .says("nothing was dropped", "it is reported")
        .says(
            "without --dry-run: cannot drop anything",
            "and that it would be refused",
        );
}

fn dry_run_changes_nothing() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 64 * page_size());
    for what in ["1", "2", "3"] {
        let ended = undisturbed(|| {
            warm(&file);
            let ended = Ended::of(&mut drop_caches(&["--dry-run", what]));
            (resident(&file) == pages_of(&file)).then_some(ended)
        });
        let ended = ended
            .expect(0, "looking is free")
            .says("nothing was dropped", "it is reported");
        assert_eq!(
            ended.out().lines().count(),
            2,
            "a header and the current state: {}",
            ended.out()
        );
        let of = if what == "2" {
            "names and inodes"
        } else {
            "page cache"
        };
        let ended = ended.says(of, "the caches");
        assert!(
            !ended.err().contains("dirty"),
            "pages written first do not stay: {}",
            ended.err()
        );
    }
    Ended::of(&mut drop_caches(&["--dry-run", "--no-sync"]))
        .expect(0, "looking is free")
        .says("dirty", "with --no-sync they stay");
}

fn dry_run_in_every_format() {
    let run = |format: &str| {
        let ended = Ended::of(&mut drop_caches(&["--dry-run", "-o", format]));
        ended.expect(0, "looking is free")
    };
    let json: Value = serde_json::from_slice(&run("json").out).expect("JSON");
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 1, "only the current state: {json}");
    assert_eq!(rows[0]["note"], "before", "as its note says");
    assert!(number(&rows[0], "cached_bytes") > 0, "which is not empty");
    assert_eq!(run("jsonl").out().lines().count(), 1, "one line");
    assert_eq!(run("csv").out().lines().count(), 2, "with a header");
    assert!(
        run("openmetrics").out().ends_with("# EOF\n"),
        "an exposition"
    );
}

/// Runs a shell script with one of our files mounted over drop_caches, in a mount namespace of its
/// own; returns the text written to it.
fn written(scratch: &Scratch, script: &str) -> (Ended, String) {
    let stand_in = scratch.path("drop_caches");
    fs::write(&stand_in, "").expect("a file can be made");
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-ec"])
        .arg(format!(
            "mount --bind \"$1\" /proc/sys/vm/drop_caches; {script}"
        ))
        .arg(env!("CARGO_BIN_EXE_cachewise"))
        .arg(&stand_in)
        .stdin(Stdio::null());
    let ended = Ended::of(&mut command);
    let written = fs::read_to_string(&stand_in).expect("it is there");
    (ended, written)
}

fn drops_what_was_agreed_to() {
    let scratch = Scratch::new();
    for (script, expected) in [
        ("\"$0\" drop --yes", "1"),
        ("\"$0\" drop -y 1", "1"),
        ("\"$0\" drop --yes 2", "2"),
        ("\"$0\" drop --yes --no-sync 3", "3"),
        ("\"$0\" drop --dry-run 3", ""),
        ("! \"$0\" drop 3", ""),
        ("\"$0\" drop -N 1", ""),
    ] {
        let (ended, written) = written(&scratch, script);
        ended.expect(0, script);
        assert_eq!(written, expected, "{script}: that and nothing else");
    }
    if !has_terminals("drop asks at a terminal") {
        return;
    }
    for (answer, expected) in [("y", "1"), ("yes", "1"), ("n", ""), ("", ""), ("maybe", "")] {
        // `script` gives it a terminal, and types.
        let script = format!("echo {answer} | script -qec \"'$0' drop\" /dev/null");
        let (ended, written) = written(&scratch, &script);
        let code = i32::from(expected.is_empty());
        let ended = ended.expect(code, "the exit status reports the answer no");
        assert_eq!(written, expected, "answered {answer:?}");
        let shown = ended.out();
        assert!(
            shown.contains("[y/N]") && shown.contains("of the whole machine"),
            "the question comes first: {shown}"
        );
        assert_eq!(
            shown.contains("nothing was dropped"),
            expected.is_empty(),
            "{answer:?}: and the result is reported: {shown}"
        );
    }
}

fn drops_really() {
    const ALLOWED: &str = "CACHEWISE_TEST_DROP";
    if std::env::var_os(ALLOWED).is_none() {
        return println!(
            "skipped: dropping the page cache: it disturbs the machine; {ALLOWED}=1 allows it"
        );
    }
    let scratch = Scratch::new();
    let file = scratch.file("file", 1024 * page_size());
    warm(&file);
    let ended = Ended::of(&mut drop_caches(&["--yes", "--json"]));
    let left = resident(&file);
    let ended = ended
        .expect(0, "root may")
        .says("dropped ", "the dropped amount");
    assert_eq!(left, 0, "a clean unmapped file is dropped completely");
    let json: Value = serde_json::from_slice(&ended.out).expect("JSON");
    let rows = json["rows"].as_array().expect("rows");
    assert_eq!(
        rows.iter().map(|row| &row["note"]).collect::<Vec<_>>(),
        ["before", "after"],
        "before and after"
    );
    assert!(
        number(&rows[1], "cached_bytes") < number(&rows[0], "cached_bytes"),
        "which is less: {json}"
    );
    let mut content = Vec::new();
    File::open(&file)
        .and_then(|mut file| file.read_to_end(&mut content))
        .expect("it is there as before");
    assert_eq!(content.len() as u64, 1024 * page_size(), "nothing is lost");
}

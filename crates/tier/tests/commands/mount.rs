//! `mount` where nothing is wrong, and what it refuses.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::dev_cluster::{has_redis, servers as start_servers};
use crate::mounted::{Mounted, bytes_of, has_fuse, is_mounted, origin, settle, write};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain("mount::shows_what_the_origin_has", shows_the_origin),
        plain("mount::lookup_and_open_ask_no_server", lookup_and_open),
        plain("mount::a_change_is_seen_after_revalidation", change_is_seen),
        plain("mount::an_open_file_is_one_state", open_file_is_one_state),
        plain("mount::refuses_what_would_hurt", refused),
        plain("mount::ends_when_somebody_unmounts", ends_when_unmounted),
        plain("mount::settings_come_from_a_file_too", settings_file),
        plain("mount::stat_has_every_format", stat_formats),
        plain("mount::stat_of_periods_adds_up_to_stat", stat_of_periods),
    ]
}

fn shows_the_origin() {
    if !has_fuse("a mount of a directory") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 3, 300_000);
    fs::create_dir(origin.join("empty")).expect("made");
    let mounted = Mounted::new(&scratch, &origin, &[]);
    let mut names: Vec<String> = fs::read_dir(&mounted.directory)
        .expect("listed")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("ours")
        })
        .collect();
    names.sort();
    assert_eq!(
        names,
        ["empty", "f"],
        "what is there, and nothing of its own"
    );
    assert_eq!(
        fs::read_dir(mounted.path("empty")).expect("listed").count(),
        0
    );
    for number in 0..3 {
        let path = mounted.path(&format!("f/{number}"));
        let bytes = fs::read(&path).expect("it can be read");
        assert!(bytes == bytes_of(number, 300_000), "the bytes of {number}");
        let found = fs::metadata(&path).expect("it is there");
        let true_one = fs::metadata(origin.join(format!("f/{number}"))).expect("it is there");
        assert_eq!(found.len(), 300_000);
        assert_eq!(
            found.mtime_nsec(),
            true_one.mtime_nsec(),
            "to the nanosecond"
        );
        assert_eq!(found.permissions().mode() & 0o222, 0, "nobody may write");
    }
    let missing = fs::read(mounted.path("f/none")).expect_err("there is none");
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    let refused = fs::write(mounted.path("new"), "x").expect_err("read-only");
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert!(
        fs::remove_file(mounted.path("f/0")).is_err(),
        "nothing is removed"
    );
    let directory = mounted.directory.clone();
    mounted.end().expect(0, "a signal is the usual end");
    assert!(!is_mounted(&directory), "it is unmounted");
    assert_eq!(fs::read_dir(&directory).expect("as before").count(), 0);
}

fn lookup_and_open() {
    if !has_fuse("what a lookup asks") || !has_redis("what a lookup asks") {
        return;
    }
    let scratch = Scratch::new();
    let files = 50;
    let origin = origin(&scratch, files, 10_000);
    let (_servers, document) = start_servers(&["--nodes", "3"]);
    let engine = document["engine"].as_str().expect("an address");
    let mounted = Mounted::new(&scratch, &origin, &["--engine", engine, "--pin", "0"]);
    let all = || {
        for number in 0..files {
            let path = mounted.path(&format!("f/{number}"));
            fs::metadata(&path).expect("it is there");
            fs::File::open(&path).expect("it can be opened");
        }
    };
    all();
    let asked = mounted.of_operation("lookup", "origin_calls");
    assert!(
        (files as u64..=files as u64 + 1).contains(&asked),
        "the origin is asked once for each name, its directory included: {asked}"
    );
    all();
    assert_eq!(
        mounted.of_operation("lookup", "origin_calls"),
        asked,
        "and then no more"
    );
    assert!(
        mounted.of_operation("open", "calls") <= 1,
        "opening asks nobody"
    );
    assert_eq!(
        mounted.of_operation("open", "origin_calls"),
        0,
        "not even the origin"
    );
    assert_eq!(
        mounted.calls_of_tier("remote"),
        0,
        "no server was asked by 100 lookups and opens"
    );
    let calls = |report: &Value| -> u64 {
        let nodes = report["cache"]["nodes"].as_array().expect("nodes").clone();
        nodes
            .iter()
            .map(|node| node["calls_total"].as_u64().expect("a number"))
            .sum()
    };
    assert_eq!(calls(&mounted.report()), 0, "none of them");
    let bytes = fs::read(mounted.path("f/7")).expect("it can be read");
    assert!(bytes == bytes_of(7, 10_000), "the bytes");
    assert_eq!(
        mounted.calls_of_tier("remote"),
        1,
        "reading asks for its block"
    );
}

fn change_is_seen() {
    if !has_fuse("a change at the origin") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 100_000);
    let mounted = Mounted::new(&scratch, &origin, &["--revalidate", "0"]);
    let path = mounted.path("f/0");
    assert!(
        fs::read(&path).expect("read") == bytes_of(0, 100_000),
        "what was there"
    );
    // The same size, as that alone gives nothing away.
    write(&origin.join("f/0"), &bytes_of(1, 100_000));
    assert!(
        fs::read(&path).expect("read") == bytes_of(1, 100_000),
        "what is there now"
    );
    write(&origin.join("f/0"), &bytes_of(2, 200_000));
    assert!(
        fs::read(&path).expect("read") == bytes_of(2, 200_000),
        "longer"
    );
    write(&origin.join("f/0"), b"short");
    assert_eq!(fs::read(&path).expect("read"), b"short");
    fs::remove_file(origin.join("f/0")).expect("ours");
    assert!(fs::read(&path).is_err(), "it is gone");
    write(&origin.join("f/new"), b"new");
    assert_eq!(fs::read(mounted.path("f/new")).expect("read"), b"new");
}

fn open_file_is_one_state() {
    if !has_fuse("an open file of a changing origin") {
        return;
    }
    const SIZE: usize = 4 << 20;
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, SIZE);
    let mounted = Mounted::new(&scratch, &origin, &["--revalidate", "0"]);
    let old = fs::File::open(mounted.path("f/0")).expect("opened");
    let mut part = vec![0; 65_536];
    old.read_exact_at(&mut part, 0).expect("read");
    write(&origin.join("f/0"), &bytes_of(1, SIZE));
    settle(&origin);
    let new = fs::File::open(mounted.path("f/0")).expect("opened");
    let mut is_stale = false;
    for place in (0..SIZE).step_by(part.len()) {
        match old.read_exact_at(&mut part, place as u64) {
            Ok(()) => assert!(
                part[..] == bytes_of(0, SIZE)[place..place + part.len()],
                "who opened the old file reads the old file, at {place}"
            ),
            Err(error) => {
                assert_eq!(
                    error.raw_os_error(),
                    Some(rustix::io::Errno::STALE.raw_os_error())
                );
                is_stale = true;
            }
        }
        new.read_exact_at(&mut part, place as u64)
            .expect("it is there");
        assert!(
            part[..] == bytes_of(1, SIZE)[place..place + part.len()],
            "new at {place}"
        );
    }
    assert!(
        is_stale,
        "what was not read before is gone, and that is said"
    );
}

fn mount_of(origin: &Path, directory: &Path) -> Command {
    let mut command = cachewise(["mount"]);
    command.arg(origin).arg(directory);
    command
}

fn refused() {
    if !has_fuse("what a mount refuses") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 10);
    let full = scratch.directory().join("full");
    fs::create_dir(&full).expect("made");
    write(&full.join("mine"), b"x");
    Ended::of(&mut mount_of(&origin, &full))
        .expect(2, "not empty")
        .says("not empty", "why");
    assert!(
        !is_mounted(&full) && full.join("mine").exists(),
        "nothing was done"
    );
    Ended::of(&mut mount_of(&origin, &full.join("mine")))
        .expect(2, "a file")
        .says("not a directory", "why");
    Ended::of(&mut mount_of(&origin, &scratch.directory().join("none")))
        .expect(2, "not there")
        .says("mkdir -p", "what to do");
    Ended::of(&mut mount_of(&scratch.directory().join("none"), &full))
        .expect(2, "no origin")
        .says("cannot open the origin", "what");
    let inside = origin.join("inside");
    fs::create_dir(&inside).expect("made");
    Ended::of(&mut mount_of(&origin, &inside))
        .expect(2, "it would read through itself")
        .says("read through itself", "why");
    for (arguments, part) in [
        (["--memory", "1K"], "memory"),
        (["--block", "100K"], "power of two"),
        (
            ["--engine", "redis://:secret@h"],
            "the URL contains a user or password",
        ),
        (["--disk-size", "1G"], "--disk DIRECTORY"),
        (["--hedge", "soon"], "not an interval"),
    ] {
        let mut command = mount_of(&origin, &full);
        let ended = Ended::of(command.args(arguments))
            .expect(2, part)
            .says(part, "why");
        assert!(
            !ended.err().contains("secret"),
            "no password is shown: {}",
            ended.err()
        );
    }
    let mounted = Mounted::new(&scratch, &origin, &[]);
    Ended::of(&mut mount_of(&origin, &mounted.directory))
        .expect(2, "mounted already")
        .says("already mounted", "why");
    assert_eq!(
        fs::read(mounted.path("f/0")).expect("still served"),
        bytes_of(0, 10)
    );
}

fn ends_when_unmounted() {
    if !has_fuse("an unmount by somebody else") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 10);
    let mut mounted = Mounted::new(&scratch, &origin, &[]);
    let by = Command::new("umount").arg(&mounted.directory).status();
    let by = by.or_else(|_| {
        Command::new("fusermount3")
            .arg("-u")
            .arg(&mounted.directory)
            .status()
    });
    assert!(by.expect("one of them is there").success(), "unmounted");
    let ended = mounted.started.take().expect("it runs").wait();
    ended.expect(0, "it is over");
}

fn settings_file() {
    if !has_fuse("a settings file") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 100_000);
    let file = scratch.directory().join("cache.toml");
    write(
        &file,
        b"memory = \"8M\"\nblock = \"32K\"\norigin-reads = 2\n",
    );
    let file = file.to_str().expect("ours");
    let mounted = Mounted::new(&scratch, &origin, &["--settings", file, "--block", "16K"]);
    assert!(
        fs::read(mounted.path("f/0")).expect("read") == bytes_of(0, 100_000),
        "the bytes"
    );
    assert_eq!(
        mounted.calls_of_tier("origin"),
        7,
        "blocks of 16 KiB: a flag comes before the file"
    );
    drop(mounted);
    write(Path::new(file), b"memmory = \"8M\"\n");
    let mut command = mount_of(&origin, scratch.directory());
    Ended::of(command.args(["--settings", file]))
        .expect(2, "no such setting")
        .says(
            "memmory: no such setting; there are memory,",
            "which there are",
        );
}

fn stat_formats() {
    if !has_fuse("stat of a mount") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 100_000);
    let mounted = Mounted::new(&scratch, &origin, &[]);
    fs::read(mounted.path("f/0")).expect("read");
    let stat = |arguments: &[&str]| {
        let mut command = cachewise(["stat"]);
        command.arg(&mounted.directory).args(arguments);
        Ended::of(&mut command).expect(0, "it is a mount").out()
    };
    let table = stat(&[]);
    for part in ["OF", "P99", "lookup", "memory", "origin", "process"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let document: Value = serde_json::from_str(&stat(&["--json"])).expect("JSON");
    assert_eq!(
        document["totals"]["read_bytes_total"], 100_000,
        "{document}"
    );
    let columns = Ended::of(&mut cachewise(["columns"])).expect(0, "always");
    let (columns, ids) = (columns.out(), |object: &Value| -> Vec<String> {
        let object = object.as_object().expect("an object");
        object.keys().cloned().collect()
    });
    let rows = ids(&document["rows"][0]).into_iter();
    for id in rows.chain(ids(&document["totals"])) {
        let is_listed = columns
            .lines()
            .any(|line| line.split_whitespace().next() == Some(&id));
        assert!(
            is_listed || id == "reasons" || id == "reason_codes",
            "`cachewise columns` has {id}: {columns}"
        );
    }
    assert!(document["schema_version"].is_number() && document["hostname"].is_string());
    let csv = stat(&["-o", "csv"]);
    assert!(csv.starts_with("of,name,calls_total,hits_total"), "{csv}");
    let metrics = stat(&["-o", "openmetrics"]);
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    assert!(
        metrics.contains("cachewise_tier_read_bytes_total{of=\"tier\",name=\"origin\"} 100000"),
        "{metrics}"
    );
    let mut command = cachewise(["stat"]);
    Ended::of(command.arg(&origin))
        .expect(2, "a directory like any other")
        .says("not a mount", "why");
    let mut command = cachewise(["stat"]);
    Ended::of(command.arg(origin.join("f/0")))
        .expect(2, "a file")
        .says("name the mount point of `cachewise mount`", "what to name");
}

/// Reads a file of known size while periods pass: all periods together have what the whole has.
fn stat_of_periods() {
    if !has_fuse("stat of a mount, by period") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 2, 100_000);
    let mounted = Mounted::new(&scratch, &origin, &[]);
    fs::read(mounted.path("f/0")).expect("read before the first period");
    let out = scratch.directory().join("periods.jsonl");
    let mut command = cachewise(["stat"]);
    command
        .arg(&mounted.directory)
        .args(["50ms", "-o"])
        .arg(&out);
    let started = Started::of(&mut command);
    let periods = || fs::read_to_string(&out).unwrap_or_default().lines().count();
    until("a period has passed", || (periods() > 0).then_some(()));
    fs::read(mounted.path("f/1")).expect("read");
    let before = periods();
    // The period in which the read ended may be under way still.
    until("two more have", || (periods() > before + 1).then_some(()));
    started.signal(Signal::INT);
    started.wait().expect(0, "Ctrl-C ends it");
    let with_column = |column: &str| {
        let mut command = cachewise(["stat"]);
        command.arg(&mounted.directory);
        Ended::of(command.args(["10ms", "1", "-c", column]))
    };
    with_column("p50_seconds")
        .expect(2, "a period has no percentiles")
        .says(
            "-c p50_seconds with PERIOD: a period has no such column; it has of, name,",
            "why",
        );
    let shown = with_column("calls_total")
        .expect(0, "a period has it")
        .out();
    assert!(shown.contains("CALLS"), "{shown}");

    let text = fs::read_to_string(&out).expect("written");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let total: u64 = lines
        .map(|line| {
            line["totals"]["read_bytes_total"]
                .as_u64()
                .expect("a number")
        })
        .sum();
    assert_eq!(
        total, 100_000,
        "the file that was read meanwhile, once: {text}"
    );

    let stat = |arguments: &[&str]| {
        let mut command = cachewise(["stat"]);
        Ended::of(command.arg(&mounted.directory).args(arguments))
    };
    let table = stat(&["10ms", "2"]).expect(0, "two periods").out();
    assert_eq!(table.matches("MEAN-TIME").count(), 2, "{table}");
    assert!(
        !table.contains("P99"),
        "percentiles are of no period: {table}"
    );
    stat(&["10ms", "-o", "csv"])
        .expect(2, "there is no time in its rows")
        .says("use -o jsonl", "and the way out");
}

//! How it is shown.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::stand::*;
use crate::support::*;

/// A tree of files with 1, 2, 4, 8 and 0 pages, all of them written a moment ago.
fn tree_of_files() -> (Scratch, Vec<(PathBuf, u64)>) {
    let scratch = Scratch::new();
    for directory in ["a", "a/b", "c"] {
        fs::create_dir(scratch.path(directory)).expect("a directory can be made");
    }
    let files = [
        ("a/one", 1),
        ("a/b/two", 2),
        ("a/b/three", 4),
        ("c/four", 8),
        ("none", 0),
    ];
    let files = files.map(|(name, pages)| (scratch.file(name, pages * page_size()), pages));
    (scratch, files.to_vec())
}

/// Runs until all that was written is resident during the run.
fn while_resident(files: &[(PathBuf, u64)], mut run: impl FnMut() -> Ended) -> Ended {
    undisturbed(|| {
        files.iter().for_each(|(path, _)| warm(path));
        let ended = run();
        files
            .iter()
            .all(|(path, pages)| resident(path) == *pages)
            .then_some(ended)
    })
}

/// Path and resident pages of each row.
fn told(document: &Value) -> Vec<(String, u64)> {
    let rows = document["rows"].as_array().expect("rows");
    rows.iter()
        .map(|row| {
            let path = row["path"].as_str().expect("a path").to_owned();
            (path, number(row, "resident_pages"))
        })
        .collect()
}

pub fn formats() {
    let (scratch, known) = tree_of_files();
    let expected: BTreeMap<String, u64> = known
        .iter()
        .map(|(path, pages)| (path.display().to_string(), *pages))
        .collect();
    let run = |format: &str| {
        while_resident(&known, || {
            let ended = Ended::of(files([scratch.directory()]).args(["-o", format]));
            ended.expect(0, "all of it can be looked at")
        })
    };
    let json = document(&run("json"));
    assert_eq!(
        told(&json).into_iter().collect::<BTreeMap<_, _>>(),
        expected,
        "JSON"
    );
    assert_eq!(json["total"]["resident_pages"], 15, "with a total");
    let lines = run("jsonl").out();
    let lines: BTreeMap<String, u64> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .map(|row| {
            assert!(
                row["timestamp"].is_string(),
                "each line stands alone: {row}"
            );
            let path = row["path"].as_str().expect("a path").to_owned();
            (path, number(&row, "resident_pages"))
        })
        .collect();
    assert_eq!(lines, expected, "JSON lines");
    let csv = run("csv");
    let mut reader = csv::Reader::from_reader(&csv.out[..]);
    let headers = reader.headers().expect("a header").clone();
    let place = |id: &str| {
        headers
            .iter()
            .position(|header| header == id)
            .expect("a column")
    };
    let (path, pages) = (place("path"), place("resident_pages"));
    let records: BTreeMap<String, u64> = reader
        .records()
        .map(|record| record.expect("a record"))
        .map(|record| {
            (
                record[path].to_owned(),
                record[pages].parse().expect("a number"),
            )
        })
        .collect();
    assert_eq!(records, expected, "CSV");
    let metrics = run("openmetrics").out();
    assert!(
        metrics.contains("\ncachewise_resident_pages 15\n") && metrics.ends_with("# EOF\n"),
        "OpenMetrics has the total: {metrics}"
    );
    let table = run("table").out();
    for (path, pages) in &expected {
        let line = table
            .lines()
            .find(|line| line.ends_with(path))
            .expect("a line each");
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells[2], pages.to_string(), "the table: {line}");
    }
}

pub fn order() {
    let (scratch, known) = tree_of_files();
    let names = |arguments: &[&str]| -> Vec<String> {
        let ended = while_resident(&known, || {
            let mut command = files([scratch.directory()]);
            Ended::of(command.args(arguments).arg("--json")).expect(0, "it can be shown")
        });
        let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let rows = told(&document(&ended)).into_iter();
        rows.map(|(path, _)| name(&path)).collect()
    };
    let largest = ["four", "three", "two", "one", "none"];
    assert_eq!(
        names(&["--sort", "resident"]),
        largest,
        "by what is resident"
    );
    assert_eq!(names(&["--sort", "size"]), largest, "by size");
    assert_eq!(
        names(&["--top", "2"]),
        largest[..2],
        "the first of that order"
    );
    assert_eq!(
        names(&["--sort", "resident", "--reverse", "--top", "2"]),
        ["none", "one"],
        "or the last"
    );
    assert_eq!(
        names(&["--sort", "path"]),
        ["three", "two", "one", "four", "none"],
        "by path"
    );
    assert_eq!(
        names(&["--only-cached", "--sort", "size", "-r"]),
        ["one", "two", "three", "four"],
        "without what is not resident"
    );
    assert_eq!(
        names(&[
            "--include",
            "t*",
            "--include",
            "c/*",
            "--exclude",
            "two",
            "--sort",
            "size"
        ]),
        ["four", "three"],
        "and by name"
    );
    // Named files keep their order, unless --sort is given.
    let paths: Vec<&PathBuf> = known.iter().map(|(path, _)| path).collect();
    let ended = Ended::of(&mut files(&paths)).expect(0, "it can be shown");
    let places: Vec<Option<usize>> = paths
        .iter()
        .map(|path| ended.out().find(&path.display().to_string()))
        .collect();
    assert!(places.is_sorted(), "as typed: {}", ended.out());

    let ended = Ended::of(files([scratch.directory()]).args(["-n", "4"]));
    ended
        .expect(0, "it can be shown")
        .says("1 more file is not shown", "a table that is cut says so");
}

pub fn once() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 2 * page_size());
    let link = scratch.path("hard");
    fs::hard_link(&file, &link).expect("a link can be made");
    let known = [(file.clone(), 2)];
    for (paths, rows) in [
        (vec![scratch.directory()], 1),
        (vec![scratch.directory(), scratch.directory(), &file], 1),
        (vec![&file, &file, &link], 3),
    ] {
        let ended = while_resident(&known, || {
            Ended::of(files(&paths).arg("--json")).expect(0, "it can be shown")
        });
        let document = document(&ended);
        assert_eq!(told(&document).len(), rows, "{paths:?}: rows: {document}");
        assert_eq!(
            document["total"]["resident_pages"], 2,
            "{paths:?}: it has its pages once: {document}"
        );
    }
}

pub fn columns() {
    let scratch = Scratch::new();
    let path = scratch.file("file", page_size());
    let wanted = "inode,links,device,path,note,time";
    for target in [&path as &Path, scratch.directory()] {
        let ended = Ended::of(files([target]).args(["--columns", wanted, "--json"]));
        let document = document(&ended.expect(0, "files have these"));
        let row = row_of(&document, &path);
        use std::os::unix::fs::MetadataExt;
        let metadata = fs::metadata(&path).expect("it is there");
        assert_eq!(row["inode"], metadata.ino(), "who it is: {row}");
        assert_eq!(row["links"], 1, "with one name: {row}");
        assert!(row["time"].is_string(), "and when it was looked at: {row}");
        assert_eq!(
            row.as_object()
                .expect("a row")
                .keys()
                .take(6)
                .cloned()
                .collect::<Vec<_>>(),
            wanted.split(',').collect::<Vec<_>>(),
            "in the order asked for"
        );
    }
}

pub fn tree() {
    let (scratch, known) = tree_of_files();
    let run = |arguments: &[&str]| {
        let ended = while_resident(&known, || {
            let mut command = files([scratch.directory()]);
            command.args(["--tree", "--json"]).args(arguments);
            Ended::of(&mut command).expect(0, "it can be summed up")
        });
        document(&ended)
    };
    let root = scratch.directory().display().to_string();
    let at = |below: &str, pages: u64| (format!("{root}{below}"), pages);
    assert_eq!(told(&run(&["--depth", "0"])), [at("", 15)], "all of it");
    assert_eq!(
        told(&run(&[])),
        [at("", 15), at("/a", 7), at("/c", 8)],
        "a directory has what is below it"
    );
    assert_eq!(
        told(&run(&["--depth", "9"])),
        [at("", 15), at("/a", 7), at("/a/b", 6), at("/c", 8)],
        "at any depth"
    );
    assert_eq!(
        told(&run(&["--depth", "9", "--sort", "resident", "--top", "3"])),
        [at("", 15), at("/c", 8), at("/a", 7)],
        "or the fullest first"
    );
    let document = run(&[]);
    assert_eq!(document["rows"][0]["files"], 5, "how many files that are");
    assert_eq!(
        document["total"]["resident_pages"], 15,
        "and what they come to"
    );
}

/// Leaves of ncdu's format: path, apparent size, disk usage.
pub fn leaves(tree: &Value, above: &str, found: &mut Vec<(String, u64, u64)>) {
    let [directory, entries @ ..] = &tree.as_array().expect("a directory is a list")[..] else {
        panic!("a directory begins with itself: {tree}");
    };
    let path = format!("{above}{}", directory["name"].as_str().expect("a name"));
    for entry in entries {
        let below = format!("{}/", path.trim_end_matches('/'));
        match entry {
            Value::Array(_) => leaves(entry, &below, found),
            _ => found.push((
                format!("{below}{}", entry["name"].as_str().expect("a name")),
                entry["asize"].as_u64().expect("a size"),
                entry["dsize"].as_u64().expect("a size"),
            )),
        }
    }
}

pub fn ncdu() {
    let (scratch, known) = tree_of_files();
    let ended = while_resident(&known, || {
        let ended = Ended::of(files([scratch.directory()]).arg("--ncdu"));
        ended.expect(0, "it can be exported")
    });
    let document = document(&ended);
    assert_eq!(
        (&document[0], &document[1]),
        (&1.into(), &2.into()),
        "the format's version, 1.2: {document}"
    );
    let mut found = Vec::new();
    leaves(&document[3], "", &mut found);
    found.sort();
    let mut expected: Vec<(String, u64, u64)> = known
        .iter()
        .map(|(path, pages)| {
            (
                path.display().to_string(),
                pages * page_size(),
                pages * page_size(),
            )
        })
        .collect();
    expected.sort();
    assert_eq!(found, expected, "each file once, in its directory");

    // Names that are hard to write, read back by ncdu itself.
    use std::os::unix::ffi::OsStrExt;
    for name in [&b"new\nline"[..], b"\xff\xfe", b"\x1b[31m\"red\"\\"] {
        fs::write(scratch.path(std::ffi::OsStr::from_bytes(name)), "x").expect("any name will do");
    }
    let export = scratch.path("export");
    let ended = Ended::of(
        files([scratch.directory()])
            .args(["--ncdu", "-o"])
            .arg(format!("json={}", export.display())),
    );
    ended.expect(0, "it can be exported");
    let read = Command::new("ncdu")
        .env("HOME", scratch.directory())
        .env("XDG_CONFIG_HOME", scratch.directory())
        .arg("-0")
        .args(["-o", "-", "-f"])
        .arg(&export)
        .output();
    match read {
        Err(error) => println!("skipped: ncdu reads it: {error}"),
        Ok(output) => {
            assert!(output.status.success(), "ncdu reads it: {output:?}");
            let text = &output.stdout;
            for name in [&b"new\\nline"[..], b"\xff\xfe", b"four"] {
                assert!(
                    text.windows(name.len()).any(|part| part == name),
                    "ncdu has seen {}: {}",
                    String::from_utf8_lossy(name),
                    String::from_utf8_lossy(text)
                );
            }
        }
    }
}

pub fn fail_below() {
    let scratch = Scratch::new();
    let path = scratch.file("file", 4 * page_size());
    for (loaded, least, code) in [
        (4, "1", 0),
        (4, "100%", 0),
        (2, "0.5", 0),
        (2, "50%", 0),
        (2, "0.51", 1),
        (0, "0.01", 1),
        (0, "0", 0),
    ] {
        undisturbed(|| {
            load(&path, &(0..loaded).collect());
            let ended = Ended::of(files([&path]).args(["--fail-below", least]));
            (resident(&path) == loaded).then(|| {
                ended.expect(
                    code,
                    &format!("{loaded} of 4 pages, and {least} are asked for"),
                )
            })
        });
    }
    fs::write(&path, "").expect("it is ours");
    Ended::of(files([&path]).args(["--fail-below", "1"])).expect(0, "nothing of it is missing");
    Ended::of(files([&path, &scratch.path("missing")]).args(["--fail-below", "0"]))
        .expect(2, "what cannot be looked at may be missing");
}

pub fn watch() {
    let scratch = Scratch::new();
    let path = scratch.file("file", page_size());
    let again = |format: &str| {
        let mut command = files([&path]);
        Started::of(command.args(["--watch", "50ms", "-o", format]))
    };
    let mut lines = again("jsonl");
    let mut times = Vec::new();
    for _ in 0..3 {
        let line = lines.line().expect("it goes on");
        let row: Value = serde_json::from_slice(&line).expect("a line of JSON");
        times.push(row["timestamp"].as_str().expect("a time").to_owned());
    }
    assert!(
        times.is_sorted_by(|one, next| one < next),
        "each look has its own time: {times:?}"
    );
    lines
        .interrupt_until_ended()
        .expect(0, "Ctrl-C ends it, and nothing is wrong with that");

    let mut rows = again("csv");
    let header = rows.line().expect("a header");
    assert!(header.starts_with(b"time,"), "with the time in front");
    for _ in 0..3 {
        let row = rows.line().expect("it goes on");
        assert!(
            row.starts_with(b"20"),
            "rows, and no second header: {row:?}"
        );
    }
    rows.interrupt_until_ended().expect(0, "Ctrl-C ends it");

    let mut one = again("json");
    for _ in 0..3 {
        one.line().expect("it goes on");
    }
    let ended = one.interrupt_until_ended().expect(0, "Ctrl-C ends it");
    let document = document(&ended);
    assert!(
        document["rows"].as_array().expect("rows").len() >= 2 && document["total"].is_object(),
        "all of it is one document: {document}"
    );

    let mut table = again("table");
    let mut headers = 0;
    while headers < 2 {
        let line = table.line().expect("it goes on");
        assert!(
            !line.contains(&0x1b),
            "a pipe gets no cursor codes: {line:?}"
        );
        headers += usize::from(line.windows(8).any(|part| part == b"RESIDENT"));
    }
    table.signal(Signal::TERM);
    table.wait().expect(0, "SIGTERM ends it too");
}

pub fn watch_says_things_once() {
    let scratch = Scratch::new();
    let path = scratch.file("file", page_size());
    let mut command = files([&path, &scratch.path("missing")]);
    let mut started = Started::of(command.args(["--watch", "20ms", "-o", "jsonl"]));
    for _ in 0..5 {
        started.line().expect("it goes on");
    }
    let ended = started
        .interrupt_until_ended()
        .expect(2, "one of two could not be looked at, the last time too");
    assert_eq!(
        ended.err().matches("missing").count(),
        1,
        "nobody wants to be told with each look: {}",
        ended.err()
    );
}

/// The reader of our output has seen enough: that is no failure.
pub fn nobody_reads() {
    let (scratch, _) = tree_of_files();
    for number in 0..2000 {
        fs::write(scratch.path(format!("{number}")), "x").expect("a file can be made");
    }
    for arguments in [
        &["-o", "jsonl"][..],
        &["-o", "csv"],
        &["-n", "0"],
        &["--ncdu"],
        &["--watch", "10ms"],
    ] {
        let mut started = Started::of(files([scratch.directory()]).args(arguments));
        started.line().expect("it begins");
        started.close_output();
        started
            .wait()
            .expect(0, "a closed pipe is none of our faults");
    }
}

/// The threads of a process by their names.
fn has_thread(pid: u32, name: &str) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let mut tasks = tasks.into_iter().flatten().flatten();
    tasks.any(|task| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    })
}

pub fn an_interrupt_shows_what_was_found() {
    // More than the threads of a walk queue: 16 times 256.
    const FILES: usize = 20_000;
    let scratch = Scratch::new();
    for number in 0..FILES {
        fs::write(scratch.path(format!("{number:0>200}")), "x").expect("a file can be made");
    }
    let mut command = files([scratch.directory()]);
    command.args(["-o", "jsonl"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("it starts");
    let pid = child.id();
    // Without a reader it waits once the pipe is full, so the signal comes in the middle.
    until("the pipe is full", || {
        let out = child.stdout.as_ref().expect("it was asked for");
        let waiting = rustix::io::ioctl_fionread(out).expect("it is a pipe");
        (waiting >= 60 << 10).then_some(())
    });
    assert!(has_thread(pid, "signals"), "it catches signals");
    signal(pid, Signal::INT);
    until("it has heard the signal", || {
        has_thread(pid, "interrupted").then_some(())
    });
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!(ended.status.code(), Some(130), "by the signal");
    let err = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(err.contains("interrupted"), "which is said: {err}");
    let out = String::from_utf8_lossy(&ended.stdout).into_owned();
    for line in out.lines() {
        serde_json::from_str::<Value>(line).expect("each row is whole");
    }
    let rows = out.lines().count();
    assert!(
        (100..FILES).contains(&rows),
        "what was found is shown, and not more: {rows} rows"
    );
}

pub fn an_interrupt_ends_each_way_to_look() {
    for arguments in [
        &["files", "--all", "-n", "0"][..],
        &["files", "--tree", "/usr"],
        &["order", "/usr"],
        &["snapshot", "save", "-", "/usr"],
    ] {
        let mut started = Started::of(cachewise(arguments).stdin(Stdio::null()));
        started.until_thread("signals");
        started.signal(Signal::INT);
        started
            .wait()
            .expect(130, "by the signal")
            .says("interrupted", "which is said");
    }
}

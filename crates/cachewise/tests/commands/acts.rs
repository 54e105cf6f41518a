//! `warm` and `evict`: what really changed, what stayed and why, and whatever may be typed at them.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain("usage::ranges", ranges),
        plain("usage::rates", rates),
        plain("usage::exit_statuses", exit_statuses),
        plain("paths::without_pages", paths_without_pages),
        plain("paths::nothing_matches", nothing_matches),
        plain("paths::patterns", patterns),
        plain("range::beyond_the_end", beyond_the_end),
        plain("range::of_a_file", range_of_a_file),
        plain("warm::reads_what_is_missing", reads_what_is_missing),
        plain("warm::leaves_holes_out", leaves_holes_out),
        plain("warm::dry_run", dry_run),
        plain("evict::dirty_and_mapped", dirty_and_mapped),
        plain("evict::in_memory_only", in_memory_only),
        plain("format::json_csv_and_lines", formats),
        plain("end::interrupted", interrupted),
        plain("end::terminated", terminated),
        plain("end::closed_pipe", closed_pipe),
        plain("terminal::bar_and_width", bar_and_width),
        needs_root("nobody::is_told_so", nobody_is_told_so),
    ]
}

fn act(verb: &str, arguments: &[&str], path: &Path) -> Command {
    let mut command = cachewise([verb]);
    command.args(arguments).arg(path).stdin(Stdio::null());
    command
}

/// The rows and the rest of a document.
fn json(command: &mut Command) -> (Vec<Value>, Ended) {
    let ended = Ended::of(command.arg("--json")).expect(0, "it can be done");
    let document: Value = serde_json::from_slice(&ended.out).expect("it is JSON");
    let rows = document["rows"].as_array().expect("it has rows");
    (rows.clone(), ended)
}

/// Pages before and after, of the only row.
fn change(command: &mut Command) -> ((u64, u64), Ended) {
    let (rows, ended) = json(command);
    let [row] = &rows[..] else {
        panic!("one file has one row: {rows:?}");
    };
    let pages = |id| number(row, id);
    let change = (
        pages("resident_before_pages"),
        pages("resident_after_pages"),
    );
    (change, ended)
}

fn ranges() {
    for (value, why) in [
        ("1M:0", "invalid length 0"),
        ("18446744073709551615:2", "largest offset"),
        ("18446744073709551616", "18446744073709551616"),
        ("9223372036854775808", "largest offset"),
        ("-1:5", "-1"),
        ("a:b", "a"),
        ("", "RANGE"),
    ] {
        let range = format!("--range={value}");
        Ended::of(&mut act("evict", &[&range], Path::new("/nonexistent")))
            .expect(2, "that is no part of any file")
            .says(&format!("'{value}'"), "the message names the value")
            .says(why, "and says what is wrong with it");
    }
    for arguments in [["evict", "--range", "-1:5"], ["warm", "--rate", "-1"]] {
        let ended = Ended::of(cachewise(arguments).arg("/nonexistent"))
            .expect(2, "nothing is negative")
            .says(&format!("'{}'", arguments[2]), "the value is what is wrong");
        assert!(
            !ended.err().contains("--help' -- ") && !ended.err().contains("use '-- "),
            "and not where it stands: {}",
            ended.err()
        );
    }
}

fn exit_statuses() {
    for (command, says) in [
        ("warm", "2 something could not be read"),
        ("evict", "0 done, also if pages remain"),
        ("lock", "0 unlocked by a signal"),
        ("snapshot", "2 something could not be done"),
        ("files", "1 the resident share is below"),
        ("drop", "1 you said no"),
        ("stat", "0 done"),
    ] {
        let help = Ended::of(&mut cachewise([command, "--help"])).expect(0, "it is help");
        let help = help.out().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            help.contains("Exit status: ") && help.contains(says),
            "{command}: {help}"
        );
    }
    let help = Ended::of(&mut cachewise(["--help"])).expect(0, "it is help");
    assert!(
        help.out().contains("1 a check failed"),
        "the first page has all of them: {}",
        help.out()
    );
}

fn rates() {
    for value in ["0", "0/s", "fast", "-1", ""] {
        let rate = format!("--rate={value}");
        Ended::of(&mut act("warm", &[&rate], Path::new("/nonexistent")))
            .expect(2, "that is no rate")
            .says("--rate <BYTES>", "the message names the option")
            .says(&format!("'{value}'"), "and the value");
    }
}

fn paths_without_pages() {
    let scratch = Scratch::new();
    let good = scratch.file("good", 8 * page_size());
    let pipe = FullPipe::new(&scratch);
    let links = scratch.path("loop");
    std::os::unix::fs::symlink(&links, &links).expect("a link can be made");
    let no_file = scratch.path("gone");
    for verb in ["warm", "evict"] {
        for (path, why) in [
            (pipe.path.as_path(), "a FIFO has no page cache"),
            (Path::new("/dev/null"), "a character device"),
            (Path::new("/proc/self/status"), "generates this file"),
            (no_file.as_path(), "No such file"),
            (links.as_path(), "symbolic link"),
        ] {
            let alone = Ended::of(&mut act(verb, &[], path))
                .expect(2, "of that nothing can be cached")
                .says(&path.display().to_string(), "the message names it")
                .says(why, "and the reason");
            assert_eq!(alone.out(), "", "{verb}: and there is no table of nothing");
            let ended = Ended::of(act(verb, &[], path).arg(&good))
                .expect(2, "one of two could not be done")
                .says(why, "which is said");
            assert!(
                ended.out().contains("total of 1 file"),
                "{verb}: the other one was: {}",
                ended.out()
            );
        }
    }
}

fn nothing_matches() {
    let scratch = Scratch::new();
    scratch.file("a", page_size());
    for verb in ["warm", "evict"] {
        let ended = Ended::of(&mut act(
            verb,
            &["--include", "*.none"],
            scratch.directory(),
        ))
        .expect(2, "a script would take it for done")
        .says("--include", "the message says why there is nothing")
        .says(&scratch.directory().display().to_string(), "and where");
        assert_eq!(ended.out(), "", "{verb}: there is no table of nothing");
    }
    Ended::of(&mut act("warm", &["--include", "["], scratch.directory()))
        .expect(2, "that is no pattern")
        .says("\"[\"", "the message names it");
    Ended::of(&mut act("evict", &[], &scratch.file("empty", 0)))
        .expect(0, "an empty file is a file");
}

fn patterns() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("in")).expect("a directory can be made");
    for name in ["in/a.idx", "in/b.idx", "in/c.dat", "odd\nname.idx"] {
        scratch.file(name, 2 * page_size());
    }
    let directory = scratch.directory();
    let (rows, _) = json(&mut act(
        "warm",
        &["--include", "*.idx", "-j", "3"],
        directory,
    ));
    assert_eq!(rows.len(), 3, "those that match: {rows:?}");
    let (rows, _) = json(&mut act("evict", &["--sync", "--exclude", "in"], directory));
    assert_eq!(
        rows.len(),
        1,
        "a directory is left out as a whole: {rows:?}"
    );
    let path = rows[0]["path"].as_str().expect("a path");
    assert!(
        path.ends_with("odd\nname.idx"),
        "any name is a name: {path:?}"
    );
}

fn beyond_the_end() {
    let scratch = Scratch::new();
    let file = scratch.file("short", 2 * page_size());
    let long = scratch.file("long", 6 * page_size());
    let range = format!("--range={}:", 2 * page_size());
    for verb in ["warm", "evict"] {
        let ended = Ended::of(&mut act(verb, &[&range], &file))
            .expect(2, "the file has no such part")
            .says(&file.display().to_string(), "the message names the file")
            .says(&(2 * page_size()).to_string(), "and where it ends");
        assert_eq!(ended.out(), "", "{verb}: nothing was done");
        let ended = Ended::of(&mut act(verb, &[&range], scratch.directory()))
            .expect(0, "in a tree, some files are shorter than others")
            .says("1 file ends before", "those are counted");
        assert!(
            ended.out().contains(&*long.to_string_lossy()),
            "{verb}: and the others done: {}",
            ended.out()
        );
    }
}

fn range_of_a_file() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * page_size());
    undisturbed(|| {
        evict(&file);
        // From within a page to within another: each is meant as a whole.
        let range = format!("--range={}:{}", page_size() + 5, 2 * page_size());
        let (warmed, _) = change(&mut act("warm", &[&range], &file));
        (resident(&file) == 3).then(|| assert_eq!(warmed, (0, 3), "three pages were brought in"))
    });
    let range = format!("--range={}:{}", page_size() + 5, 2 * page_size());
    let (evicted, _) = change(&mut act("evict", &[&range], &file));
    assert!(
        evicted.0 <= 3 && evicted.1 == 0,
        "those, and they go again: {evicted:?}"
    );
    assert_eq!(resident(&file), 0, "and the kernel says so too");
}

fn reads_what_is_missing() {
    let scratch = Scratch::new();
    // Half of it and then all are pinned: any user may lock 8 MiB.
    const SIZE: u64 = 4 << 20;
    let file = scratch.file("half", SIZE);
    let pages = pages_of(&file);
    let _half = undisturbed(|| {
        evict(&file);
        let (half, first) = change(&mut act("warm", &["--range", "0:2M"], &file));
        (resident(&file) == pages / 2).then(|| {
            assert_eq!(half, (0, pages / 2), "the range, and no more");
            first.says("read 2.0 MiB", "as many bytes");
        })?;
        let pinned = pin(&file, pages / 2);
        (resident(&file) == pages / 2).then_some(pinned)
    });
    let (all, second) = change(&mut act("warm", &["-j", "2"], &file));
    assert_eq!(all.0, pages / 2, "pinned pages are there");
    second.says("read 2.0 MiB", "the missing half alone");
    let pinned = pin(&file, pages);
    let (again, third) = change(&mut act("warm", &[], &file));
    assert_eq!(again, (pages, pages), "nothing is missing any more");
    third.says("read 0 B", "so nothing is read");
    drop(pinned);
}

fn leaves_holes_out() {
    let scratch = Scratch::new();
    let path = scratch.path("sparse");
    let file = fs::File::create(&path).expect("a file can be made");
    file.set_len(1 << 40).expect("file systems know holes");
    for arguments in [&["--dry-run"][..], &[]] {
        let (change, ended) = change(&mut act("warm", arguments, &path));
        assert_eq!(change, (0, 0), "there is nothing to bring in");
        ended.says("read 0 B", "and a terabyte of nothing takes no time");
    }
}

fn dry_run() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * page_size());
    evict(&file);
    let (none, ended) = change(&mut act("warm", &["-N"], &file));
    ended.says(
        &format!("would read {}", cachewise_units::Bytes(16 * page_size())),
        "what is missing",
    );
    assert_eq!(
        (none, resident(&file)),
        ((0, 0), 0),
        "nothing was read for a question"
    );
    let pinned = pin(&file, 16);
    let (all, ended) = change(&mut act("evict", &["-N"], &file));
    ended.says("nothing was evicted", "it says so");
    assert_eq!(
        (all, resident(&file)),
        ((16, 16), 16),
        "a dry run evicts nothing"
    );
    let ended = Ended::of(&mut act("evict", &["-N"], &file)).expect(0, "it can be asked");
    let by = "would stay: 16 locked by commands";
    assert!(
        ended.out().contains(by) && ended.out().contains(&format!("({})", std::process::id())),
        "who holds it is known before: {}",
        ended.out()
    );
    ended.says(
        "cannot predict pages that are in use",
        "and it says what is unknown",
    );
    drop(pinned);
    undisturbed(|| {
        dirty(&file);
        let stays = Ended::of(&mut act("evict", &["-N"], &file)).expect(0, "it can be asked");
        let synced = Ended::of(&mut act("evict", &["-N", "--sync"], &file));
        let synced = synced.expect(0, "it can be asked").out();
        // Pages are written, and none becomes dirty by itself.
        (states(&file).dirty.0 == 16).then(|| {
            assert!(
                stays
                    .out()
                    .contains("would stay: 16 dirty (--sync writes them)"),
                "dirty pages stay: {}",
                stays.out()
            );
            assert!(
                synced.contains("16 dirty pages would be written first")
                    && !synced.contains("stay"),
                "unless they are written first: {synced}"
            );
        })
    });
}

/// The pages of a file, as the kernel counts them.
fn states(path: &Path) -> cachewise_sys::CacheStat {
    let file = fs::File::open(path).expect("it is there");
    cachewise_sys::cachestat(std::os::fd::AsFd::as_fd(&file), None).expect("root may ask")
}

/// Writes to all pages, and has nothing of it on the disk.
fn dirty(path: &Path) {
    let file = OpenOptions::new().write(true).open(path);
    let file = file.expect("it is ours");
    let size = file.metadata().expect("it is open").len();
    file.write_all_at(&vec![7; size as usize], 0)
        .expect("the disk has room");
}

fn dirty_and_mapped() {
    const SIZE: u64 = 32 << 20;
    let scratch = Scratch::new();
    let file = scratch.file("file", SIZE);
    undisturbed(|| {
        warm(&file);
        let mut holder = Started::of(program("mapped", &file).stdin(Stdio::piped()));
        assert_eq!(
            holder.line().as_deref(),
            Some(&b"mapped\n"[..]),
            "it maps all of it"
        );
        // Two write all the time, page after page: a disk may be fast.
        dirty(&file);
        let pages = File::options().write(true).open(&file);
        let pages = pages.expect("it is ours");
        let begun = states(&file);
        let is_done = AtomicBool::new(false);
        let (stayed, unwritten) = std::thread::scope(|scope| {
            for half in [0, SIZE / 2] {
                let (pages, is_done) = (&pages, &is_done);
                scope.spawn(move || {
                    let page = vec![7; page_size() as usize];
                    let offsets = (half..half + SIZE / 2).step_by(page.len()).cycle();
                    for offset in offsets.take_while(|_| !is_done.load(Ordering::Relaxed)) {
                        pages.write_all_at(&page, offset).expect("there is room");
                    }
                });
            }
            let stayed = Ended::of(&mut act("evict", &[], &file));
            let unwritten = states(&file);
            is_done.store(true, Ordering::Relaxed);
            (stayed, unwritten)
        });
        let stayed = stayed.expect(0, "what stays is no failure");
        let synced =
            Ended::of(&mut act("evict", &["--sync"], &file)).expect(0, "what stays is no failure");
        let kept = resident(&file);
        let by = format!("({})", holder.pid());
        drop(holder);
        let ended = Ended::of(&mut act("evict", &["--sync"], &file)).expect(0, "it can be done");
        let (stayed, synced) = (stayed.out(), synced.out());
        // By the counts of the kernel: pages were dirty, and no other program reclaimed them.
        let lasted = [begun, unwritten]
            .iter()
            .all(|states| states.dirty.0 + states.writeback.0 > 0)
            && kept > 0;
        lasted.then(|| {
            assert!(
                ["dirty", "being written"]
                    .iter()
                    .any(|state| stayed.contains(state))
                    && synced.contains("mapped"),
                "why it stayed is said: {stayed}{synced}"
            );
            assert!(
                stayed.contains("--sync"),
                "what would help is said: {stayed}"
            );
            assert!(
                stayed.contains(&by) && synced.contains(&by),
                "the process {by} is named: {stayed}{synced}"
            );
            assert!(
                !synced.contains("dirty"),
                "what is written is dirty no more: {synced}"
            );
            assert!(
                ended.out().contains(" 0 stayed"),
                "nothing stays once it has ended: {}",
                ended.out()
            );
        })
    });
}

fn in_memory_only() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        println!("skipped: files in memory: there is no /dev/shm to write to");
        return;
    };
    let path = directory.path().join("file");
    fs::write(&path, vec![1; 4 * page_size() as usize]).expect("it can be written");
    let ended = Ended::of(&mut act("evict", &["--sync"], &path)).expect(0, "it is no failure");
    assert!(
        ended.out().contains("4 in memory only")
            && ended.out().contains("0 pages evicted, 4 stayed"),
        "there is no other place for it: {}",
        ended.out()
    );
}

fn formats() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 3 * page_size());
    let (rows, ended) = json(&mut act("warm", &[], &file));
    let row = &rows[0];
    assert_eq!(number(row, "file_pages"), 3, "numbers are numbers: {row}");
    assert_eq!(
        row["path"],
        file.to_str().expect("an ordinary name"),
        "{row}"
    );
    ended.says("read ", "what is no row goes to standard error");
    for format in ["jsonl", "csv", "openmetrics"] {
        let ended =
            Ended::of(&mut act("evict", &["-o", format], &file)).expect(0, "it can be done");
        assert!(
            ended.out().contains("resident_before_pages"),
            "{format}: {}",
            ended.out()
        );
        ended.says("stayed", "what is no row goes to standard error");
    }
    let out = Ended::of(&mut act("evict", &["-c", "path,note"], &file))
        .expect(0, "columns can be chosen")
        .out();
    assert!(out.starts_with("PATH"), "and come in that order: {out}");
}

/// Warms so slowly that it is still at it.
fn slowly(scratch: &Scratch) -> (Started, PathBuf) {
    let file = scratch.file("file", 32 << 20);
    evict(&file);
    let mut started = Started::of(&mut act("warm", &["--rate", RATE], &file));
    started.until_thread("signals");
    until("it has begun", || (resident(&file) > 0).then_some(()));
    (started, file)
}

const RATE: &str = "64k";

fn interrupted() {
    let scratch = Scratch::new();
    let begun = Instant::now();
    let (started, file) = slowly(&scratch);
    started.signal(Signal::INT);
    let ended = started
        .wait()
        .expect(130, "Ctrl-C ends it")
        .says("interrupted", "which is said");
    let elapsed = begun.elapsed();
    let bytes = resident(&file) * page_size();
    let out = ended.out();
    assert!(
        out.contains("interrupted") && out.contains("read "),
        "with what was done until then: {out}"
    );
    // An eighth of a second's worth is read at a time, and the first of them at once.
    let rate: cachewise_units::Bytes = RATE.parse().expect("it is one");
    let allowed = (elapsed.as_secs_f64() + 1.0) * rate.0 as f64;
    assert!(
        bytes as f64 <= allowed,
        "no more came in than the rate allows: {bytes} of {allowed} bytes in {elapsed:?}"
    );
    let row = out.lines().nth(1).expect("a header and a row");
    let after: u64 = row
        .split_whitespace()
        .nth(4)
        .expect("a size with its unit, and three numbers")
        .replace(',', "")
        .parse()
        .expect("it is known");
    let said = format!("read {}", cachewise_units::Bytes(after * page_size()));
    assert!(out.contains(&said), "{said:?} adds up with the row: {out}");
}

fn terminated() {
    let scratch = Scratch::new();
    let (started, _) = slowly(&scratch);
    started.signal(Signal::TERM);
    started.wait().expect(143, "as shells have it");
}

fn closed_pipe() {
    let scratch = Scratch::new();
    for number in 0..600 {
        scratch.file(format!("{number:0200}"), 1);
    }
    for format in ["table", "jsonl", "csv", "json"] {
        let mut command = act("warm", &["-o", format, "-n", "0"], scratch.directory());
        let mut started = Started::of(&mut command);
        assert!(started.line().is_some(), "{format}: there is a first line");
        started.close_output();
        let ended = started.wait().expect(0, "`| head -1` is not a failure");
        assert!(!ended.err().contains("panicked"), "{format}: nor a crash");
    }
}

fn bar_and_width() {
    if !has_terminals("a bar on a terminal") {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file(format!("a-name-{}", "x".repeat(60)), 4 << 20);
    let shown = |arguments: &str| {
        let binary = env!("CARGO_BIN_EXE_cachewise");
        let line = format!(
            "stty cols 60; exec '{binary}' {arguments} {}",
            file.display()
        );
        let ended = Ended::of(&mut on_terminal(&line));
        // 2 where a reclaimer takes away pages as they come.
        assert!([0, 2].contains(&ended.code()), "it can be done: {ended:?}");
        ended.out()
    };
    for line in shown("evict --sync").lines() {
        let width = line.trim_end().chars().count();
        assert!(
            width <= 60,
            "no row is wrapped: {line:?} has {width} columns"
        );
    }
    evict(&file);
    let shown = shown("warm --rate 3M");
    assert!(
        shown.contains("MiB of 4.00 MiB"),
        "what takes longer than a moment has a bar: {shown:?}"
    );
}

fn nobody_is_told_so() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 8 * page_size());
    let binary = copy_for_everyone(scratch.directory());
    let nobody =
        |arguments: &[&str]| Ended::of(as_nobody().arg(&binary).args(arguments).arg(&file));
    let ended = nobody(&["evict"]).expect(2, "that it went nobody can say");
    assert!(
        ended.out().contains('?')
            && ended
                .out()
                .contains("asked the kernel to evict 1 file; the result is unknown"),
        "0 would be a lie, and 100 % too: {}",
        ended.out()
    );
    let size = cachewise_units::Bytes(8 * page_size()).to_string();
    for (arguments, says) in [
        (&["warm"][..], format!("requested {size} of 1 file")),
        (&["warm", "-N"], format!("would request {size} of 1 file")),
        (&["evict", "-N"], "residency is unknown".into()),
    ] {
        let ended = nobody(arguments).expect(2, "residency is unknown");
        assert!(
            ended.out().contains(&says),
            "{arguments:?}: {}",
            ended.out()
        );
        let total = ended.out();
        let total = total
            .lines()
            .find(|line| line.ends_with("(all)"))
            .expect("a total");
        assert!(
            total.contains('?') && total.contains("without 1 unknown"),
            "{arguments:?}: what the parts do not tell, the total cannot: {total}"
        );
    }
    let ended = nobody(&["warm", "--json"]).expect(2, "the same in JSON");
    let document: Value = serde_json::from_slice(&ended.out).expect("it is JSON");
    for row in [&document["rows"][0], &document["total"]] {
        for id in ["resident_before_pages", "resident_after_pages"] {
            assert!(
                row[id].is_null()
                    && row["reasons"][id]
                        .as_str()
                        .is_some_and(|reason| reason.contains("users who own")),
                "{id} has the reason: {row}"
            );
        }
    }
}

//! `snapshot`: what was resident comes back, and no file is lost over it.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain("restore::the_same_ranges", the_same_ranges),
        plain("restore::changed_and_gone", changed_and_gone),
        plain("restore::cut", cut),
        plain("restore::dry_run", dry_run),
        needs_root("restore::unknown_to_others", unknown_to_others),
        plain("diff::without_differences", without_differences),
        plain("diff::of_two", of_two),
        plain("diff::by_another_name", by_another_name),
        plain("save::any_name", any_name),
        plain("save::beside_itself", beside_itself),
        plain("save::in_the_way", in_the_way),
        plain("save::as_the_old_one", as_the_old_one),
        plain("save::killed", killed),
        plain("save::streams", streams),
        plain("save::nothing", nothing),
        plain("save::no_place", no_place),
        plain("save::interrupted", interrupted),
        plain("read::damaged", damaged),
        plain("read::no_file", no_file),
        plain("read::one_signal", one_signal),
        plain("save::a_second_ctrl_c", a_second_ctrl_c),
        needs_root("save::disk_full", disk_full),
    ]
}

fn snapshot(arguments: &[&str], paths: &[&Path]) -> Command {
    let mut command = cachewise(["snapshot"]);
    command.args(arguments).args(paths).stdin(Stdio::null());
    command
}

/// The resident ranges of files, by another command.
fn ranges(paths: &[&Path]) -> Value {
    let mut command = cachewise(["files", "--map", "--json"]);
    let ended = Ended::of(command.args(paths)).expect(0, "files of our own can be looked at");
    let document: Value = serde_json::from_slice(&ended.out).expect("it is JSON");
    document["rows"].clone()
}

/// Repeats the check only if the kernel shows that pages of these files were reclaimed meanwhile: reclaim leaves shadow
/// entries, eviction by advice does not.
fn unless_taken(paths: &[&Path], mut check: impl FnMut() -> Result<(), String>) {
    let taken = |path: &&Path| {
        let told = cachewise_sys::resident(path).expect("root may ask");
        told.evicted.0 > 0
    };
    undisturbed(|| match check() {
        Ok(()) => Some(()),
        Err(_) if paths.iter().any(taken) => None,
        Err(wrong) => panic!("{wrong}"),
    });
}

fn the_same_ranges() {
    let scratch = Scratch::new();
    let files = [
        scratch.file("a", 4 << 20),
        scratch.file("b", 100 * page_size() + 7),
        scratch.file("c", 50 * page_size()),
    ];
    let paths: Vec<&Path> = files.iter().map(AsRef::as_ref).collect();
    let saved = scratch.path("saved.snap");
    let part = |range: &str, path: &Path| {
        Ended::of(cachewise(["warm", "--range", range]).arg(path)).expect(0, "it can be warmed");
    };
    unless_taken(&paths, || {
        files.iter().for_each(|file| evict(file));
        part("1M:1M", &files[0]);
        part("3M:100k", &files[0]);
        part("40000:", &files[1]);
        let before = ranges(&paths);
        let ended = Ended::of(&mut snapshot(&["save"], &[&saved, scratch.directory()]));
        ended.expect(0, "it can be saved");
        // Before the eviction, which removes shadow entries.
        let saved_from = ranges(&paths);
        if before.as_array().map_or(0, Vec::len) != 3 || saved_from != before {
            return Err(format!(
                "three ranges, and the same when they have been saved: {before}, {saved_from}"
            ));
        }
        let put_out = Ended::of(cachewise(["evict", "--sync"]).args(&files));
        put_out.expect(0, "they can be put out");
        let between: u64 = files.iter().map(|file| resident(file)).sum();
        let ended =
            Ended::of(&mut snapshot(&["restore"], &[&saved])).expect(0, "they can be brought back");
        let after = ranges(&paths);
        let is_right = between == 0 && after == before && ended.err().contains("of 2 files");
        is_right.then_some(()).ok_or_else(|| {
            format!(
                "of two files the same ranges again: {before}, {between} pages meanwhile, {after}: {}",
                ended.err()
            )
        })
    });
}

fn changed_and_gone() {
    let scratch = Scratch::new();
    let files = ["kept", "changed", "gone"].map(|name| scratch.file(name, 4 * page_size()));
    let saved = scratch.path("saved.snap");
    let paths: Vec<&Path> = [&saved]
        .into_iter()
        .chain(&files)
        .map(AsRef::as_ref)
        .collect();
    let pinned = files.each_ref().map(|file| pin(file, 4));
    Ended::of(&mut snapshot(&["save"], &paths))
        .expect(0, "it can be saved")
        .says("of 3 files", "all are in it");
    drop(pinned);
    fs::write(&files[1], b"new").expect("it is ours");
    fs::remove_file(&files[2]).expect("it is ours");
    for arguments in [&["restore"][..], &["restore", "--dry-run"]] {
        Ended::of(&mut snapshot(arguments, &[&saved]))
            .expect(2, "two could not be done")
            .says("1 gone", "one of them is not there")
            .says("1 changed (--anyway", "one is another now")
            .says("it has changed", "with its name");
    }
    Ended::of(&mut snapshot(&["restore", "--anyway"], &[&saved]))
        .expect(2, "what is gone is gone")
        .says("not restored: 1 file: 1 gone", "what has changed is taken");
    let diff = Ended::of(&mut snapshot(&["diff"], &[&saved])).expect(0, "it can be told");
    let diff = diff.out();
    assert!(diff.contains("gone") && diff.contains("changed"), "{diff}");
}

fn cut() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * page_size());
    let saved = scratch.path("saved.snap");
    let pinned = pin(&file, 16);
    Ended::of(&mut snapshot(&["save"], &[&saved, &file]))
        .expect(0, "it can be saved")
        .says("16 pages", "all of it");
    drop(pinned);
    let shorter = fs::File::options().write(true).open(&file);
    let cut = shorter.and_then(|file| file.set_len(10 * page_size()));
    cut.expect("it is ours");
    evict(&file);
    Ended::of(&mut snapshot(&["restore", "--anyway", "-N"], &[&saved]))
        .expect(0, "it can be asked")
        .says("would read 10 of 16 pages", "no more can be read")
        .says("6 are beyond the end", "for this reason");
    let _pinned = pin(&file, 10);
    Ended::of(&mut snapshot(&["restore", "--anyway"], &[&saved]))
        .expect(0, "what is there is there")
        .says(
            "10 of 16 pages resident",
            "the snapshot has as many as before",
        )
        .says("6 are beyond the end", "and where the others are is said");
}

fn dry_run() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * page_size());
    let saved = scratch.path("saved.snap");
    let pinned = pin(&file, 16);
    Ended::of(&mut snapshot(&["save"], &[&saved, &file]))
        .expect(0, "it can be saved")
        .says("16 pages", "all of it");
    drop(pinned);
    evict(&file);
    Ended::of(&mut snapshot(&["restore", "-N"], &[&saved]))
        .expect(0, "it can be asked")
        .says("would read 16 of 16 pages", "all of it");
    assert_eq!(resident(&file), 0, "and nothing was read for it");
}

/// Another user may read a file, and may not know what of it is resident.
fn unknown_to_others() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * page_size());
    let saved = scratch.path("saved.snap");
    let _pinned = pin(&file, 16);
    Ended::of(&mut snapshot(&["save"], &[&saved, &file])).expect(0, "it can be saved");
    fs::set_permissions(&saved, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let as_nobody = |arguments: &[&str]| {
        let mut command = cachewise_as_nobody(&scratch);
        let ended = Ended::of(command.arg("snapshot").args(arguments).arg(&saved));
        ended.expect(2, "what is resident is not known")
    };
    let diff = as_nobody(&["diff"]).says("users who own", "and why").out();
    assert!(
        diff.contains("16 resident then, ? now") && diff.contains("? pages gained, ? lost"),
        "what was is known, what is is not: {diff}"
    );
    for arguments in [&["restore"][..], &["restore", "-N"]] {
        as_nobody(arguments)
            .says("of 16 pages", "what was wanted is known")
            .says("users who own", "what is resident is not, and why")
            .says("as root", "nor what to do about it");
    }
    as_nobody(&["restore"]).says("? of 16 pages resident again, ? were before", "not 0");
}

fn without_differences() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * page_size());
    let saved = scratch.path("saved.snap");
    let _pinned = pin(&file, 16);
    Ended::of(&mut snapshot(&["save"], &[&saved, &file])).expect(0, "it can be saved");
    for paths in [&[&*saved][..], &[&saved, &saved]] {
        let ended = Ended::of(&mut snapshot(&["diff"], paths)).expect(0, "it can be compared");
        let out = ended.out();
        assert!(
            out.starts_with("0 of 1 file differ: 0 pages gained, 0 lost; 16 resident then, 16"),
            "nothing changed: {out}"
        );
        assert_eq!(out.lines().count(), 1, "a line, and no empty table: {out}");
    }
}

fn of_two() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * page_size());
    let (first, second) = (scratch.path("1.snap"), scratch.path("2.snap"));
    let other = scratch.file("other", page_size());
    let pinned = [pin(&file, 16), pin(&other, 1)];
    Ended::of(&mut snapshot(&["save"], &[&first, &file, &other]))
        .expect(0, "it can be saved")
        .says("17 pages", "all of both");
    drop(pinned);
    evict(&file);
    Ended::of(cachewise(["warm", "--range=0:1"]).arg(&file)).expect(0, "a page");
    let _pinned = pin(&file, 1);
    Ended::of(&mut snapshot(&["save"], &[&second, &file]))
        .expect(0, "it can be saved")
        .says("1 page ", "that one");
    let diff = Ended::of(&mut snapshot(&["diff", "--json"], &[&first, &second]));
    let document: Value = serde_json::from_slice(&diff.out).expect("it is JSON");
    let rows = document["rows"].as_array().expect("it has rows");
    let notes: Vec<&str> = rows.iter().filter_map(|row| row["note"].as_str()).collect();
    assert!(
        notes.contains(&"-15") && notes.contains(&"gone, -1"),
        "what went, and what is not in the other: {rows:?}"
    );
}

fn by_another_name() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * page_size());
    let link = scratch.path("link");
    fs::hard_link(&file, &link).expect("it is ours");
    let (first, second) = (scratch.path("1.snap"), scratch.path("2.snap"));
    let _pinned = pin(&file, 16);
    for (saved, name) in [(&first, &file), (&second, &link)] {
        Ended::of(&mut snapshot(&["save"], &[saved, name])).expect(0, "it can be saved");
    }
    let diff = Ended::of(&mut snapshot(&["diff"], &[&first, &second])).expect(0, "it can be told");
    assert_eq!(
        diff.out(),
        "0 of 1 file differ: 0 pages gained, 0 lost; 16 resident then, 16 in the other\n",
        "it is one file"
    );
}

fn any_name() {
    let scratch = Scratch::new();
    let names: [&[u8]; 3] = [b"a\nb", b"\xff\xfe", b"100% \"quoted\""];
    let files = names.map(|name| scratch.file(std::ffi::OsStr::from_bytes(name), page_size()));
    let paths = files.each_ref().map(AsRef::as_ref);
    let saved = scratch.path("saved.snap");
    let pinned = paths.map(|path| pin(path, 1));
    Ended::of(&mut snapshot(&["save"], &[&saved, scratch.directory()]))
        .expect(0, "it can be saved")
        .says("of 3 files", "all of them");
    drop(pinned);
    unless_taken(&paths, || {
        files.iter().for_each(|file| evict(file));
        Ended::of(&mut snapshot(&["restore"], &[&saved])).expect(0, "by any name");
        match files.iter().map(|file| resident(file)).sum() {
            3 => Ok(()),
            back => Err(format!("{back} of 3 pages are there again")),
        }
    });
}

fn as_the_old_one() {
    let scratch = Scratch::new();
    let file = scratch.file("file", page_size());
    let (saved, link) = (scratch.path("saved.snap"), scratch.path("link"));
    let mode = || {
        let found = fs::symlink_metadata(&saved).expect("it is there");
        assert!(found.is_file(), "it is a file: {found:?}");
        found.permissions().mode() & 0o777
    };
    let save = |path: &Path| {
        Ended::of(&mut snapshot(&["save"], &[path, &file])).expect(0, "it can be saved");
    };
    save(&saved);
    assert_eq!(mode(), 0o600, "paths are not for everybody");
    std::os::unix::fs::symlink("saved.snap", &link).expect("it is ours");
    for bits in [0o640, 0o600] {
        fs::set_permissions(&saved, fs::Permissions::from_mode(bits)).expect("it is ours");
        for path in [&saved, &link] {
            save(path);
            assert_eq!(mode(), bits, "as it was");
        }
        assert!(link.is_symlink(), "the link is one");
    }
    fs::remove_file(&saved).expect("it is ours");
    save(&link);
    assert_eq!(mode(), 0o600, "made where the link leads to");
}

/// Killed while it writes, it leaves nothing.
fn killed() {
    let scratch = Scratch::new();
    let saved = scratch.path("saved.snap");
    let mut save = Started::of(&mut snapshot(
        &["save", "-j1"],
        &[&saved, Path::new("/usr")],
    ));
    let descriptors = format!("/proc/{}/fd", save.pid());
    until("it writes", || {
        if let Ok(Some(status)) = save.child.try_wait() {
            panic!("it has ended already, with {status}");
        }
        let mut open = fs::read_dir(&descriptors).ok()?.flatten();
        open.find(|open| {
            fs::read_link(open.path()).is_ok_and(|path| path.starts_with(scratch.directory()))
        })
    });
    save.signal(Signal::KILL);
    save.wait().expect(-9, "it was killed in the middle");
    let left: Vec<_> = fs::read_dir(scratch.directory())
        .expect("it is ours")
        .flatten()
        .collect();
    assert!(left.is_empty(), "nothing is left: {left:?}");
}

fn streams() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * page_size());
    let _pinned = pin(&file, 16);
    let mut save = cachewise(["snapshot", "save", "-"]);
    save.current_dir(scratch.directory()).arg(&file);
    let saved = Ended::of(&mut save)
        .expect(0, "it can be written")
        .says("16 pages", "all of it");
    assert!(!scratch.path("-").exists(), "there is no file of this name");
    for (arguments, says) in [
        (&["restore", "-"][..], "16 of 16 pages resident again"),
        (&["restore", "-N", "-"], "would read 0 of 16 pages"),
        (&["diff", "-"], "0 of 1 file differ"),
    ] {
        let ended = Ended::with_input(cachewise(["snapshot"]).args(arguments), &saved.out);
        let ended = ended.expect(0, "it can be read");
        let said = ended.out() + &ended.err();
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
    let cut = &saved.out[..saved.out.len() - 9];
    Ended::with_input(&mut cachewise(["snapshot", "restore", "-"]), cut)
        .expect(2, "half of one is none")
        .says("cut off", "which is known before anything is done")
        .says("standard input", "and of what");
}

fn beside_itself() {
    let scratch = Scratch::new();
    let file = scratch.file("file", page_size());
    let saved = scratch.path("saved.snap");
    for time in ["first", "second"] {
        warm(&file);
        Ended::of(&mut snapshot(&["save"], &[&saved, scratch.directory()]))
            .expect(0, "it can be saved");
        let text = fs::read_to_string(&saved).expect("it is text");
        assert!(
            !text.contains(".snap") && !text.contains("/.cachewise"),
            "the {time} time it does not hold itself: {text}"
        );
    }
    let names = fs::read_dir(scratch.directory())
        .expect("it is ours")
        .count();
    assert_eq!(names, 2, "nothing else is left there");
}

fn in_the_way() {
    let scratch = Scratch::new();
    let database = scratch.file("database", 3 * page_size());
    let line = scratch.path("line");
    fs::write(&line, "one line without an end").expect("it is ours");
    let pipe = FullPipe::new(&scratch);
    let content = |path: &Path| fs::read(path).expect("it is there");
    let before = (content(&database), content(&line));
    for path in [&database, &line, &pipe.path, &scratch.directory().into()] {
        Ended::of(&mut snapshot(&["save"], &[path, &database]))
            .expect(
                2,
                "whoever forgets the snapshot's name should not lose a file",
            )
            .says(&path.display().to_string(), "the message names it")
            .says("left alone", "and says what became of it");
    }
    assert_eq!((content(&database), content(&line)), before, "as they were");
    assert!(pipe.path.exists(), "and so is the pipe");
    let empty = scratch.file("empty", 0);
    warm(&database);
    Ended::of(&mut snapshot(&["save"], &[&empty, &database]))
        .expect(0, "of an empty file nothing is lost");
}

fn nothing() {
    let scratch = Scratch::new();
    let file = scratch.file("file", page_size());
    let saved = scratch.path("saved.snap");
    let gone = scratch.path("gone");
    warm(&file);
    Ended::of(&mut snapshot(&["save"], &[&saved, &file])).expect(0, "it can be saved");
    let before = fs::read(&saved).expect("it is there");
    for arguments in [
        &[&*saved, &*gone][..],
        &[&saved, Path::new("--include=none"), scratch.directory()],
    ] {
        Ended::of(&mut snapshot(&["save"], arguments))
            .expect(2, "there is nothing to save")
            .says("was not written", "which is said");
    }
    let after = fs::read(&saved).expect("it is there");
    assert_eq!(after, before, "what was there is worth more than nothing");
}

fn no_place() {
    let scratch = Scratch::new();
    let file = scratch.file("file", page_size());
    for path in [
        &scratch.path("none/saved.snap"),
        Path::new("/proc/saved.snap"),
    ] {
        let ended = Ended::of(&mut snapshot(&["save"], &[path, &file]))
            .expect(2, "no file can be made there")
            .says(&path.display().to_string(), "the message names it");
        assert!(
            !ended.err().contains("/.cachewise"),
            "and no name that nobody gave: {}",
            ended.err()
        );
        assert!(
            !ended.err().contains("entity"),
            "nor words that mean nothing: {}",
            ended.err()
        );
    }
}

fn interrupted() {
    let scratch = Scratch::new();
    let files = ["1", "2", "3"].map(|name| scratch.file(name, 8 << 20));
    let saved = scratch.path("saved.snap");
    files.iter().for_each(|file| warm(file));
    Ended::of(&mut snapshot(&["save"], &[&saved, scratch.directory()]))
        .expect(0, "it can be saved");
    files.iter().for_each(|file| evict(file));
    // At this rate it takes minutes.
    let mut restore = Started::of(&mut snapshot(
        &["restore", "-j3", "--rate", "64k"],
        &[&saved],
    ));
    restore.until_thread("signals");
    until("some of it is read", || {
        let begun = files.iter().filter(|file| resident(file) > 0).count();
        (begun > 0).then_some(())
    });
    restore.signal(Signal::INT);
    let ended = restore.wait().expect(130, "it was interrupted");
    let ended = ended.says("pages resident again", "it says what was done until then");
    let err = ended.err();
    assert_eq!(err.matches("interrupted").count(), 1, "said once: {err}");
    assert!(!err.contains("cancelled"), "and not of each file: {err}");

    let before = fs::read(&saved).expect("it is there");
    let names = || {
        fs::read_dir(scratch.directory())
            .expect("it is ours")
            .count()
    };
    let had = names();
    // A tree that takes a while. If the command was faster than the signal, its snapshot is complete, and another
    // attempt is made.
    undisturbed(|| {
        fs::write(&saved, &before).expect("it is ours");
        let mut save = Started::of(&mut snapshot(&["save"], &[&saved, Path::new("/usr")]));
        save.until_thread("signals");
        save.signal(Signal::INT);
        let ended = save.wait();
        assert_eq!(names(), had, "nothing half-written is left there");
        let after = fs::read(&saved).expect("it is there");
        if ended.code() != 130 {
            Ended::of(&mut snapshot(&["diff"], &[&saved, &saved])).expect(0, "it is a whole one");
            return None;
        }
        assert_eq!(after, before, "the old one stays");
        ended.says("was not written", "which is said");
        Some(())
    });
}

fn damaged() {
    let scratch = Scratch::new();
    let file = scratch.file("file", page_size());
    let saved = scratch.path("saved.snap");
    let _pinned = pin(&file, 1);
    Ended::of(&mut snapshot(&["save"], &[&saved, &file]))
        .expect(0, "it can be saved")
        .says("1 page ", "its only one");
    let whole = fs::read_to_string(&saved).expect("it is text");
    let bad = scratch.path("bad.snap");
    let lines: Vec<&str> = whole.lines().collect();
    for (text, says) in [
        (String::new(), "empty"),
        ("hello\n".to_owned(), "no snapshot"),
        (whole.replace("\"version\":1", "\"version\":2"), "version 2"),
        (whole.replace("[[0,1]]", "[[5,1]]"), "line 2"),
        (format!("{}\n{}\n", lines[0], lines[1]), "cut off"),
        (whole[..whole.len() - 9].to_owned(), "cut off"),
    ] {
        fs::write(&bad, &text).expect("it is ours");
        for arguments in [&["restore"][..], &["restore", "-N"], &["diff"]] {
            Ended::of(&mut snapshot(arguments, &[&bad]))
                .expect(2, "that cannot be read")
                .says("bad.snap", "the message names it")
                .says(says, "and what is wrong");
        }
    }
    Ended::of(&mut snapshot(&["restore"], &[scratch.directory()]))
        .expect(2, "a directory is no snapshot")
        .says("directory", "the message says so");
    Ended::of(&mut snapshot(&["diff"], &[&saved, &scratch.path("gone")]))
        .expect(2, "there is no other")
        .says("gone", "the message names it");
}

fn no_file() {
    let scratch = Scratch::new();
    let pipe = scratch.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo is there");
    for (path, is) in [
        (&*pipe, "a FIFO, not a snapshot"),
        (Path::new("/dev/null"), "a character device, not a snapshot"),
        (scratch.directory(), "a directory, not a snapshot"),
    ] {
        for arguments in [&["restore"][..], &["restore", "-N"], &["diff"]] {
            Ended::of(&mut snapshot(arguments, &[path]))
                .expect(2, "that is refused at once")
                .says(is, "the message says what it is");
        }
    }
}

/// Its standard input never has data; the command reads all of it first.
fn one_signal() {
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15)] {
        let mut command = cachewise(["snapshot", "restore", "-"]);
        let mut restore = Started::of(command.stdin(Stdio::piped()));
        let mut input = restore.child.stdin.take().expect("it was asked for");
        // More than a pipe holds: once it is written, it is being read.
        input.write_all(&[b' '; 1 << 20]).expect("it is read");
        restore.signal(signal);
        restore.wait().expect(-number, "one is enough");
    }
}

fn a_second_ctrl_c() {
    let scratch = Scratch::new();
    let file = scratch.file("file", page_size());
    // A pipe without a reader: writing to it blocks.
    let pipe = FullPipe::new(&scratch);
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" snapshot save - \"$1\" >\"$2\""]);
    command.arg(env!("CARGO_BIN_EXE_cachewise"));
    let save = Started::of(command.arg(&file).arg(&pipe.path).stdin(Stdio::null()));
    let ended = save.interrupt_until_ended();
    ended.expect(130, "who interrupts twice has seen enough");
}

fn disk_full() {
    let scratch = Scratch::new();
    let file = scratch.file("file", page_size());
    let many = (0..300).map(|number| pin(&scratch.file(format!("{number:0200}"), 1), 1));
    let many: Vec<_> = many.collect();
    let small = scratch.path("small");
    fs::create_dir(&small).expect("a directory can be made");
    let mount = Mount::of_memory(&small, 8 * page_size());
    let saved = small.join("saved.snap");
    let one = pin(&file, 1);
    Ended::of(&mut snapshot(&["save"], &[&saved, &file])).expect(0, "there is room for one");
    let before = fs::read(&saved).expect("it is there");
    Ended::of(&mut snapshot(
        &["save", "-x"],
        &[&saved, scratch.directory()],
    ))
    .expect(2, "there is no room for that many")
    .says("No space left", "the message says so")
    .says(&saved.display().to_string(), "and names it");
    let after = fs::read(&saved).expect("it is there");
    assert_eq!(after, before, "the old one stays");
    let names = fs::read_dir(&small).expect("it is ours").count();
    assert_eq!(names, 1, "and nothing half-written beside it");
    drop((mount, many, one));
}

/// A tmpfs, taken away when dropped.
struct Mount<'a>(&'a Path);

impl Mount<'_> {
    fn of_memory(path: &Path, bytes: u64) -> Mount<'_> {
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "none"])
            .arg(path)
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "root may mount"
        );
        Mount(path)
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

//! `snapshot`: what was resident comes back, and no file is lost over it.

mod support;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use support::*;

fn main() -> ExitCode {
    run(
        "a disk that is full",
        vec![
            plain("restore::the_same_ranges", the_same_ranges),
            plain("restore::changed_and_gone", changed_and_gone),
            plain("restore::dry_run", dry_run),
            plain("diff::without_differences", without_differences),
            plain("diff::of_two", of_two),
            plain("save::any_name", any_name),
            plain("save::beside_itself", beside_itself),
            plain("save::in_the_way", in_the_way),
            plain("save::nothing", nothing),
            plain("save::no_place", no_place),
            plain("save::interrupted", interrupted),
            plain("read::damaged", damaged),
            plain("read::a_second_ctrl_c", a_second_ctrl_c),
            needs_root("save::disk_full", disk_full),
        ],
    )
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
    undisturbed(|| {
        files.iter().for_each(|file| evict(file));
        part("1M:1M", &files[0]);
        part("3M:100k", &files[0]);
        part("40000:", &files[1]);
        let before = ranges(&paths);
        Ended::of(&mut snapshot(&["save"], &[&saved, scratch.directory()]))
            .expect(0, "it can be saved");
        let put_out = Ended::of(cachewise(["evict", "--sync"]).args(&files));
        put_out.expect(0, "they can be put out");
        let between = ranges(&paths);
        let ended =
            Ended::of(&mut snapshot(&["restore"], &[&saved])).expect(0, "they can be brought back");
        let after = ranges(&paths);
        let rows = |value: &Value| value.as_array().map_or(0, Vec::len);
        // Ranges that were cut by somebody else are no question of ours.
        (rows(&before) == 3 && rows(&after) == 3).then(|| {
            assert_eq!(rows(&between), 0, "nothing was left meanwhile: {between}");
            assert_eq!(
                after,
                before,
                "the same ranges are resident: {}",
                ended.err()
            );
            ended.says("of 2 files", "what was not resident is not in it");
        })
    });
}

fn changed_and_gone() {
    let scratch = Scratch::new();
    let files = ["kept", "changed", "gone"].map(|name| scratch.file(name, 4 * page_size()));
    let saved = scratch.path("saved.snap");
    undisturbed(|| {
        for file in &files {
            fs::write(file, vec![1; 4 * page_size() as usize]).expect("they are ours");
        }
        let paths: Vec<&Path> = [&saved]
            .into_iter()
            .chain(&files)
            .map(AsRef::as_ref)
            .collect();
        let ended = Ended::of(&mut snapshot(&["save"], &paths)).expect(0, "it can be saved");
        fs::write(&files[1], b"new").expect("it is ours");
        fs::remove_file(&files[2]).expect("it is ours");
        let all_are_in = ended.err().contains("of 3 files");
        let restored = Ended::of(&mut snapshot(&["restore"], &[&saved]));
        let asked = Ended::of(&mut snapshot(&["restore", "--dry-run"], &[&saved]));
        let anyway = Ended::of(&mut snapshot(&["restore", "--anyway"], &[&saved]));
        let diff = Ended::of(&mut snapshot(&["diff"], &[&saved]));
        all_are_in.then(|| {
            for ended in [restored, asked] {
                ended
                    .expect(2, "two could not be done")
                    .says("1 gone", "one of them is not there")
                    .says("1 changed since (--anyway", "one is another now")
                    .says("it has changed", "with its name");
            }
            anyway
                .expect(2, "what is gone is gone")
                .says("left alone: 1 file: 1 gone", "what has changed is taken");
            let diff = diff.expect(0, "it can be told").out();
            assert!(diff.contains("gone") && diff.contains("changed"), "{diff}");
        })
    });
}

fn dry_run() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * page_size());
    let saved = scratch.path("saved.snap");
    undisturbed(|| {
        warm(&file);
        let ended =
            Ended::of(&mut snapshot(&["save"], &[&saved, &file])).expect(0, "it can be saved");
        evict(&file);
        let asked =
            Ended::of(&mut snapshot(&["restore", "-N"], &[&saved])).expect(0, "it can be asked");
        ended.err().contains("16 pages").then(|| {
            asked.says("would read 16 of 16 pages", "all of it");
            assert_eq!(resident(&file), 0, "and nothing was read for it");
        })
    });
}

fn without_differences() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * page_size());
    let saved = scratch.path("saved.snap");
    undisturbed(|| {
        warm(&file);
        Ended::of(&mut snapshot(&["save"], &[&saved, &file])).expect(0, "it can be saved");
        let ended = Ended::of(&mut snapshot(&["diff"], &[&saved])).expect(0, "it can be compared");
        let out = ended.out();
        out.starts_with("0 of 1 file differ").then(|| {
            assert_eq!(out.lines().count(), 1, "a line, and no empty table: {out}");
        })
    });
    let ended =
        Ended::of(&mut snapshot(&["diff"], &[&saved, &saved])).expect(0, "it is the same file");
    assert!(
        ended.out().starts_with("0 of 1 file differ"),
        "with itself: {}",
        ended.out()
    );
}

fn of_two() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * page_size());
    let (first, second) = (scratch.path("1.snap"), scratch.path("2.snap"));
    let other = scratch.file("other", page_size());
    undisturbed(|| {
        warm(&file);
        warm(&other);
        let one = Ended::of(&mut snapshot(&["save"], &[&first, &file, &other]));
        evict(&file);
        Ended::of(cachewise(["warm", "--range=0:1"]).arg(&file)).expect(0, "a page");
        let two = Ended::of(&mut snapshot(&["save"], &[&second, &file]));
        let diff = Ended::of(&mut snapshot(&["diff", "--json"], &[&first, &second]));
        let are_sound = one.err().contains("17 pages") && two.err().contains("1 page ");
        are_sound.then(|| {
            let document: Value = serde_json::from_slice(&diff.out).expect("it is JSON");
            let rows = document["rows"].as_array().expect("it has rows");
            let notes: Vec<&str> = rows.iter().filter_map(|row| row["note"].as_str()).collect();
            assert!(
                notes.contains(&"-15") && notes.contains(&"gone, -1"),
                "what went, and what is not in the other: {rows:?}"
            );
        })
    });
}

fn any_name() {
    let scratch = Scratch::new();
    let names: [&[u8]; 3] = [b"a\nb", b"\xff\xfe", b"100% \"quoted\""];
    let files = names.map(|name| scratch.file(std::ffi::OsStr::from_bytes(name), page_size()));
    let saved = scratch.path("saved.snap");
    undisturbed(|| {
        files.iter().for_each(|file| warm(file));
        let ended = Ended::of(&mut snapshot(&["save"], &[&saved, scratch.directory()]))
            .expect(0, "it can be saved");
        files.iter().for_each(|file| evict(file));
        Ended::of(&mut snapshot(&["restore"], &[&saved])).expect(0, "by any name");
        let back: u64 = files.iter().map(|file| resident(file)).sum();
        (ended.err().contains("of 3 files") && back == 3).then_some(())
    });
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
    }
}

fn interrupted() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 32 << 20);
    let saved = scratch.path("saved.snap");
    undisturbed(|| {
        warm(&file);
        Ended::of(&mut snapshot(&["save"], &[&saved, &file])).expect(0, "it can be saved");
        evict(&file);
        let mut restore = Started::of(&mut snapshot(&["restore", "--rate", "64k"], &[&saved]));
        restore.until_thread("interrupt");
        restore.signal(Signal::INT);
        let ended = restore.wait();
        (ended.code() == 130).then(|| {
            ended
                .says("interrupted", "it says so")
                .says("pages resident again", "and what was done until then");
        })
    });
    let before = fs::read(&saved).expect("it is there");
    // A tree that takes a while.
    let mut save = Started::of(&mut snapshot(&["save"], &[&saved, Path::new("/usr")]));
    save.until_thread("interrupt");
    save.signal(Signal::INT);
    let ended = save.wait();
    if ended.code() == 130 {
        let after = fs::read(&saved).expect("it is there");
        assert_eq!(after, before, "the old one stays");
        ended.says("was not written", "which is said");
    }
    let names = fs::read_dir(scratch.directory())
        .expect("it is ours")
        .count();
    assert_eq!(names, 2, "nothing half-written is left there");
}

fn damaged() {
    let scratch = Scratch::new();
    let file = scratch.file("file", page_size());
    let saved = scratch.path("saved.snap");
    undisturbed(|| {
        warm(&file);
        let ended = Ended::of(&mut snapshot(&["save"], &[&saved, &file]));
        ended.err().contains("1 page ").then_some(())
    });
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

fn a_second_ctrl_c() {
    let scratch = Scratch::new();
    let path = scratch.path("pipe");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo is there");
    // Nobody ever writes to it: opening it waits.
    let restore = Started::of(&mut snapshot(&["restore"], &[&path]));
    let ended = restore.interrupt_until_ended();
    ended.expect(130, "who interrupts twice has seen enough");
}

fn disk_full() {
    let scratch = Scratch::new();
    let file = scratch.file("file", page_size());
    for number in 0..300 {
        warm(&scratch.file(format!("{number:0200}"), 1));
    }
    let small = scratch.path("small");
    fs::create_dir(&small).expect("a directory can be made");
    let mount = Mount::of_memory(&small, 8 * page_size());
    let saved = small.join("saved.snap");
    warm(&file);
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
    drop(mount);
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

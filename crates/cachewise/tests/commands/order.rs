//! `order` and `cat`: what is resident comes first, and reading leaves the cache as it was.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain(
            "the_file_that_is_resident_comes_first",
            the_file_that_is_resident_comes_first,
        ),
        plain("ranges_cover_each_byte_once", ranges_cover_each_byte_once),
        plain(
            "cat_with_keep_writes_the_same_and_leaves_nothing_behind",
            cat_with_keep_writes_the_same_and_leaves_nothing_behind,
        ),
        plain(
            "missing_file_is_reported_and_the_rest_is_done",
            missing_file_is_reported_and_the_rest_is_done,
        ),
        plain(
            "a_simulation_reads_nothing_and_shows_the_bound",
            a_simulation_reads_nothing_and_shows_the_bound,
        ),
        plain(
            "a_reader_that_has_gone_is_no_failure",
            a_reader_that_has_gone_is_no_failure,
        ),
        plain(
            "unknown_files_keep_the_order_given_with_a_note",
            unknown_files_keep_the_order_given_with_a_note,
        ),
        plain(
            "cat_refuses_its_own_output_file",
            cat_refuses_its_own_output_file,
        ),
        plain(
            "cat_with_keep_says_what_it_cannot_keep",
            cat_with_keep_says_what_it_cannot_keep,
        ),
        plain(
            "cat_with_keep_leaves_nothing_behind_when_it_is_interrupted",
            cat_with_keep_leaves_nothing_behind_when_it_is_interrupted,
        ),
        plain(
            "path_that_is_not_a_file_is_named_by_its_kind",
            path_that_is_not_a_file_is_named_by_its_kind,
        ),
        plain(
            "cold_files_keep_the_order_given",
            cold_files_keep_the_order_given,
        ),
        plain(
            "a_terminal_gets_no_escape_sequence_and_a_pipe_gets_the_name",
            a_terminal_gets_no_escape_sequence_and_a_pipe_gets_the_name,
        ),
        plain(
            "plans_take_memory_for_what_is_resident_not_for_what_is_sparse",
            plans_take_memory_for_what_is_resident_not_for_what_is_sparse,
        ),
        plain(
            "holes_are_read_without_the_page_cache",
            holes_are_read_without_the_page_cache,
        ),
        plain("an_empty_file_has_no_range", an_empty_file_has_no_range),
        plain(
            "a_shuffle_of_whole_files_is_refused",
            a_shuffle_of_whole_files_is_refused,
        ),
        plain(
            "file_that_vanishes_during_a_walk_is_no_failure",
            file_that_vanishes_during_a_walk_is_no_failure,
        ),
    ]
}

/// Long enough for several chunks.
const SIZE: usize = 6 << 20;

fn done(arguments: &[&str], scratch: &Scratch) -> Ended {
    Ended::of(cachewise(arguments).current_dir(scratch.directory()))
}

/// A file of which nothing is resident, of content that names its place.
fn cold_file(path: &Path, seed: u8) {
    let content: Vec<u8> = (0..SIZE).map(|at| seed ^ (at >> 12) as u8).collect();
    fs::write(path, content).expect("it can be written");
    evict(path);
}

fn the_file_that_is_resident_comes_first() {
    let scratch = Scratch::new();
    let paths = ["a", "b\nc", "d"].map(|name| scratch.path(name));
    for (seed, path) in paths.iter().enumerate() {
        cold_file(path, seed as u8);
    }
    fs::read(&paths[1]).expect("it is brought in");
    let output = done(&["order", "-0", "a", "d", "b\nc"], &scratch);
    assert!(output.status.success(), "nothing went wrong");
    assert!(
        output.out.starts_with(b"b\nc\0"),
        "a newline is part of a name: {:?}",
        String::from_utf8_lossy(&output.out)
    );
    assert_eq!(
        output.out.split(|&byte| byte == 0).count(),
        4,
        "each file once"
    );
}

fn ranges_cover_each_byte_once() {
    let scratch = Scratch::new();
    for (seed, name) in ["a", "b"].into_iter().enumerate() {
        cold_file(&scratch.path(name), seed as u8);
    }
    let mut half = vec![0; SIZE / 2];
    File::open(scratch.path("b"))
        .and_then(|mut file| file.read_exact(&mut half))
        .expect("half of it is brought in");
    for arguments in [
        &["order", "--unit", "range", "-o", "json", "."][..],
        &[
            "order",
            "--unit",
            "range",
            "--shuffle",
            "7",
            "-o",
            "json",
            ".",
        ],
    ] {
        let output = done(arguments, &scratch);
        let document: Value = serde_json::from_slice(&output.out).expect("it is JSON");
        for name in ["./a", "./b"] {
            let mut ranges: Vec<(u64, u64)> = document["rows"]
                .as_array()
                .expect("rows")
                .iter()
                .filter(|row| row["path"] == name)
                .map(|row| {
                    (
                        row["offset"].as_u64().expect("a number"),
                        row["length"].as_u64().expect("a number"),
                    )
                })
                .collect();
            ranges.sort_unstable();
            let mut end = 0;
            for (offset, length) in ranges {
                assert_eq!(offset, end, "{name}: no gap and nothing twice");
                end += length;
            }
            assert_eq!(end, SIZE as u64, "{name}: to its end");
        }
    }
}

fn cat_with_keep_writes_the_same_and_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let path = scratch.path("file");
    cold_file(&path, 3);
    let begun = resident(&path);
    let kept = done(&["cat", "--keep", "file"], &scratch);
    let left = resident(&path);
    assert!(kept.status.success(), "nothing went wrong");
    assert_eq!(begun, 0, "it was cold");
    assert_eq!(left, 0, "and is again");
    let plain = done(&["cat", "file", "file"], &scratch);
    assert_eq!(plain.out.len(), 2 * SIZE, "as often as it is named");
    assert!(
        kept.out == fs::read(&path).expect("it is ours"),
        "byte for byte"
    );
    assert!(plain.out[..SIZE] == kept.out, "with and without");
}

fn missing_file_is_reported_and_the_rest_is_done() {
    let scratch = Scratch::new();
    cold_file(&scratch.path("file"), 1);
    for arguments in [
        &["cat", "nowhere", "file"][..],
        &["order", "nowhere", "file"],
    ] {
        let output = done(arguments, &scratch);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: something could not be done"
        );
        let told = String::from_utf8_lossy(&output.err).into_owned();
        assert!(told.contains("nowhere"), "{arguments:?} says what: {told}");
        assert!(!output.out.is_empty(), "{arguments:?} does the rest");
    }
    let nothing = done(&["cat"], &scratch);
    assert_eq!(nothing.status.code(), Some(2), "nothing to do is a mistake");
}

fn a_simulation_reads_nothing_and_shows_the_bound() {
    let scratch = Scratch::new();
    for (seed, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        cold_file(&scratch.path(name), seed as u8);
    }
    let memory = format!("{}", SIZE * 3);
    let output = done(
        &["order", "--simulate", &memory, "-o", "json", "."],
        &scratch,
    );
    let document: Value = serde_json::from_slice(&output.out).expect("it is JSON");
    let of = |strategy: &str| {
        document["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .find(|row| {
                row["note"]
                    .as_str()
                    .is_some_and(|note| note.starts_with(strategy))
            })
            .and_then(|row| row["device_read_bytes"].as_u64())
            .unwrap_or_else(|| panic!("a row for {strategy}"))
    };
    let beside = (2 << 20) + SIZE as u64 * 3 / 512;
    assert_eq!(
        of("the bound"),
        SIZE as u64 + beside,
        "a quarter does not fit, nor what a group charges beside files"
    );
    assert!(of("free") >= of("the bound"), "no order beats it");
    assert!(of("free") < of("as given"), "and ours beats the usual one");
    let read: u64 = ["a", "b", "c", "d"]
        .iter()
        .map(|name| resident(&scratch.path(name)))
        .sum();
    assert_eq!(read, 0, "nothing was brought in");
}

fn a_reader_that_has_gone_is_no_failure() {
    let scratch = Scratch::new();
    cold_file(&scratch.path("file"), 1);
    let mut command = cachewise(["cat", "file"]);
    let mut started = Started::of(command.current_dir(scratch.directory()));
    started.close_output();
    started.wait().expect(0, "as with cat(1) before head(1)");
}

/// Runs as another user, who may read these files and not see their residency; `None` if there is no other user.
fn done_as_nobody(arguments: &[&str], scratch: &Scratch) -> Option<Ended> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: order and cat of others' files: needs root");
        return None;
    }
    let mut command = cachewise_as_nobody(scratch);
    command.args(arguments).current_dir(scratch.directory());
    Some(Ended::of(&mut command))
}

fn unknown_files_keep_the_order_given_with_a_note() {
    let scratch = Scratch::new();
    for (seed, name) in ["a", "b"].into_iter().enumerate() {
        cold_file(&scratch.path(name), seed as u8);
    }
    let Some(ended) = done_as_nobody(&["order", "--explain", "a", "b"], &scratch) else {
        return;
    };
    let ended = (ended.expect(2, "as with `files`"))
        .says("unknown of 2 of 2 files", "of how many")
        .says("users who own", "why")
        .says("as root", "and what to do")
        .says("? of it resident", "it is not 0");
    assert_eq!(ended.out(), "a\nb\n", "the order given");
    let err = ended.err();
    assert!(
        !err.contains("not in the cache") && !err.contains("0 B"),
        "nothing is said to be missing: {err}"
    );
    let ended = done_as_nobody(&["order", "-o", "json", "a", "b"], &scratch).expect("as above");
    let document: Value = serde_json::from_slice(&ended.out).expect("it is JSON");
    for row in document["rows"].as_array().expect("rows") {
        assert!(
            row["resident_bytes"].is_null() && row["reasons"]["resident_bytes"].is_string(),
            "not known, for a reason: {row}"
        );
    }
}

fn cat_refuses_its_own_output_file() {
    let scratch = Scratch::new();
    fs::write(scratch.path("other"), "two\n").expect("it is ours");
    for option in ["--keep", "--"] {
        fs::write(scratch.path("f"), "one\n").expect("it is ours");
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$0\" cat \"$1\" f other >>f"])
            .arg(env!("CARGO_BIN_EXE_cachewise"))
            .arg(option)
            .current_dir(scratch.directory());
        Ended::of(&mut command)
            .expect(2, "one of two files is not written")
            .says("input file is output file", "in the words of cat(1)");
        assert_eq!(
            fs::read_to_string(scratch.path("f")).expect("it is ours"),
            "one\ntwo\n",
            "{option}: the other file alone"
        );
    }
}

fn cat_with_keep_says_what_it_cannot_keep() {
    let scratch = Scratch::new();
    let path = scratch.path("file");
    cold_file(&path, 5);
    let Some(ended) = done_as_nobody(&["cat", "--keep", "file"], &scratch) else {
        return;
    };
    let ended = (ended.expect(2, "what was promised cannot be kept"))
        .says("residency of file is unknown", "it says so")
        .says("its pages stay in the cache", "and what becomes of it")
        .says("as root", "and what to do");
    assert!(
        ended.out == fs::read(&path).expect("it is ours"),
        "it is written"
    );
}

fn cat_with_keep_leaves_nothing_behind_when_it_is_interrupted() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let scratch = Scratch::new();
        let path = scratch.path("file");
        cold_file(&path, 7);
        // A pipe without a reader.
        let pipe = FullPipe::new(&scratch);
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$0\" cat --keep \"$1\" >\"$2\""])
            .arg(env!("CARGO_BIN_EXE_cachewise"))
            .args([&path, &pipe.path])
            .stdin(Stdio::null());
        let cat = Started::of(&mut command);
        until("something is brought in", || {
            (resident(&path) > 0).then_some(())
        });
        cat.signal(signal);
        let ended = cat.wait().expect(code, "one signal ends it");
        ended.says("interrupted", "it says so");
        assert_eq!(resident(&path), 0, "the cache is as it was found");
    }
}

fn path_that_is_not_a_file_is_named_by_its_kind() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("d")).expect("it is ours");
    done(&["cat", "d"], &scratch)
        .expect(2, "it cannot be read")
        .says("d is a directory", "so it is said")
        .says("name a regular file", "and what to do");
}

/// An order that cannot be improved stays, as `--explain` reports.
fn cold_files_keep_the_order_given() {
    let scratch = Scratch::new();
    for (seed, name) in ["a", "b", "c"].into_iter().enumerate() {
        cold_file(&scratch.path(name), seed as u8);
    }
    let ended = done(&["order", "--explain", "b", "a", "c", "a"], &scratch)
        .expect(0, "all is known")
        .says("files keep the order given", "it says so");
    assert_eq!(ended.out(), "b\na\nc\n", "and so it does, each once");
}

fn a_terminal_gets_no_escape_sequence_and_a_pipe_gets_the_name() {
    if !has_terminals("names on a terminal") {
        return;
    }
    let scratch = Scratch::new();
    fs::write(scratch.path("a\x1b]0;title\x07b"), "content").expect("any byte may be in a name");
    let binary = env!("CARGO_BIN_EXE_cachewise");
    for unit in ["file", "range"] {
        let line = format!("exec '{binary}' order --unit {unit} .");
        let shown = Ended::of(on_terminal(&line).current_dir(scratch.directory()))
            .expect(0, "it succeeds on a terminal")
            .out();
        assert!(!shown.contains('\x1b'), "{unit}: {shown:?}");
        assert!(shown.contains(r"a\x1b]0;title\x07b"), "{unit}: {shown:?}");
        let piped = done(&["order", "--unit", unit, "."], &scratch).out();
        assert!(piped.contains("a\x1b]0;title\x07b"), "{unit}: {piped:?}");
    }
}

/// A file that is as large as the file system allows, with one page of content, resident, at 3 TiB.
fn huge(path: &Path) -> (File, u64) {
    use std::os::unix::fs::FileExt;
    let file = File::create(path).expect("a file can be made there");
    let sizes = [7 << 60, 15 << 40];
    let size = sizes.into_iter().find(|size| file.set_len(*size).is_ok());
    file.write_all_at(&[1; 4096], 3 << 40)
        .expect("there is room");
    (file, size.expect("file systems have files of 15 TiB"))
}

/// The binary with 1 GiB of addresses.
fn limited(arguments: &[&str], path: &Path) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", r#"ulimit -v 1048576; exec "$0" "$@""#])
        .arg(env!("CARGO_BIN_EXE_cachewise"))
        .args(arguments)
        .arg(path)
        .stdin(Stdio::null());
    command
}

fn plans_take_memory_for_what_is_resident_not_for_what_is_sparse() {
    let scratch = Scratch::new();
    let in_memory = tempfile::NamedTempFile::new_in("/dev/shm");
    let in_memory = in_memory.as_ref().map(|file| file.path());
    for path in in_memory.into_iter().chain([&*scratch.path("huge")]) {
        let (_file, size) = huge(path);
        let plain = Ended::of(&mut limited(&["order"], path)).expect(0, "it is planned");
        assert_eq!(
            plain.out.trim_ascii_end(),
            path.as_os_str().as_encoded_bytes()
        );
        let ended = Ended::of(&mut limited(
            &["order", "--unit", "range", "--explain"],
            path,
        ))
        .expect(0, "down to ranges");
        let out = ended.out();
        let ranges: Vec<(u64, u64, &str)> = out
            .lines()
            .map(|line| {
                let mut fields = line.split('\t').skip(1);
                let mut number = || fields.next().and_then(|text| text.parse().ok());
                let (start, len) = (number().expect("an offset"), number().expect("a length"));
                (start, len, fields.next().expect("a class"))
            })
            .collect();
        let (start, len, class) = ranges[0];
        assert_eq!(class, "partial", "what is resident comes first: {out}");
        assert!((start..start + len).contains(&(3 << 40)), "there: {out}");
        let all: u64 = ranges.iter().map(|(_, len, _)| len).sum();
        assert_eq!((ranges.len(), all), (3, size), "and all of the rest: {out}");
        Ended::of(&mut limited(
            &["order", "--unit=range", "--shuffle=1"],
            path,
        ))
        .expect(0, "in large pieces");
        Ended::of(&mut limited(&["order", "--simulate=1G"], path)).expect(0, "as any other");
        for keep in [&["cat"][..], &["cat", "--keep"]] {
            let mut child = limited(keep, path)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("it starts");
            let mut content = vec![1; 3 << 20];
            let mut out = child.stdout.take().expect("it was asked for");
            out.read_exact(&mut content).expect("it is read");
            assert!(content.iter().all(|byte| *byte == 0), "{keep:?}: zeros");
            drop(out);
            let ended = child.wait_with_output().expect("it ends");
            assert!(
                ended.status.success(),
                "{keep:?} ends with its reader: {}",
                String::from_utf8_lossy(&ended.stderr)
            );
        }
    }
}

fn holes_are_read_without_the_page_cache() {
    use std::os::unix::fs::FileExt;
    const SIZE: u64 = 256 << 20;
    let scratch = Scratch::new();
    let path = scratch.path("holes");
    let file = File::create(&path).expect("a file can be made there");
    file.set_len(SIZE).expect("it is sparse");
    for at in [0, SIZE / 2 + 5, SIZE - 1] {
        file.write_all_at(b"x", at).expect("there is room");
    }
    evict(&path);
    let output = done(&["cat", "holes"], &scratch).expect(0, "it is read");
    let expected = fs::read(&path).expect("it is ours");
    assert!(output.out == expected, "the same as any other reads");
    evict(&path);
    let output = done(&["cat", "holes"], &scratch).expect(0, "and again");
    assert_eq!(output.out.len() as u64, SIZE, "all of it");
    let (now, all) = (resident(&path), pages_of(&path));
    assert!(now * 4 < all, "{now} of {all} pages are resident");
}

fn an_empty_file_has_no_range() {
    let scratch = Scratch::new();
    scratch.file("empty", 0);
    cold_file(&scratch.path("file"), 1);
    for arguments in [
        &["order", "--unit", "range", "-o", "csv", "empty", "file"][..],
        &["order", "--unit", "range", "empty", "file"],
    ] {
        let out = done(arguments, &scratch).expect(0, "all is known").out();
        assert!(!out.contains("empty"), "there is nothing to read: {out}");
        assert!(out.contains("file"), "but of the other: {out}");
    }
}

fn a_shuffle_of_whole_files_is_refused() {
    let scratch = Scratch::new();
    cold_file(&scratch.path("file"), 1);
    done(&["order", "--shuffle", "3", "file"], &scratch)
        .expect(2, "it would do nothing")
        .says("--unit range", "it says what to add");
    done(
        &["order", "--shuffle", "3", "--unit", "range", "file"],
        &scratch,
    )
    .expect(0, "with it, it is done");
    done(
        &["order", "--shuffle", "3", "--simulate", "1M", "file"],
        &scratch,
    )
    .expect(0, "a simulation has a row for it");
}

fn file_that_vanishes_during_a_walk_is_no_failure() {
    let scratch = Scratch::new();
    cold_file(&scratch.path("stable"), 1);
    let outcomes: Vec<Ended> = std::thread::scope(|scope| {
        let orders = scope.spawn(|| (0..20).map(|_| done(&["order", "."], &scratch)).collect());
        let directory = scratch.path("churn");
        while !orders.is_finished() {
            fs::create_dir(&directory).expect("a directory can be made");
            for number in 0..100 {
                fs::write(directory.join(number.to_string()), "x").expect("a file, too");
            }
            fs::remove_dir_all(&directory).expect("it is ours");
        }
        orders.join().expect("it ends by itself")
    });
    for outcome in outcomes {
        let outcome = outcome.expect(0, "nobody asked for those by name");
        assert!(outcome.out().contains("stable"), "the rest is there");
    }
}

//! `order` and `cat`: what is resident comes first, and reading leaves the cache as it was.

mod support;

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use serde_json::Value;
use support::*;

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

#[test]
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

#[test]
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
                        row["offset"].as_u64().unwrap(),
                        row["length"].as_u64().unwrap(),
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

#[test]
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
    assert!(kept.out == fs::read(&path).unwrap(), "byte for byte");
    assert!(plain.out[..SIZE] == kept.out, "with and without");
}

#[test]
fn what_is_missing_is_said_and_the_rest_is_done() {
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

#[test]
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
    assert_eq!(of("the bound"), SIZE as u64, "a quarter does not fit");
    assert!(of("free") >= of("the bound"), "no order beats it");
    assert!(of("free") < of("as given"), "and ours beats the usual one");
    let read: u64 = ["a", "b", "c", "d"]
        .iter()
        .map(|name| resident(&scratch.path(name)))
        .sum();
    assert_eq!(read, 0, "nothing was brought in");
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let scratch = Scratch::new();
    cold_file(&scratch.path("file"), 1);
    let mut command = cachewise(["cat", "file"]);
    let mut started = Started::of(command.current_dir(scratch.directory()));
    started.close_output();
    started.wait().expect(0, "as with cat(1) before head(1)");
}

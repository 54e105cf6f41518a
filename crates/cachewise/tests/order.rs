//! `order` and `cat`: what is resident comes first, and reading leaves the cache as it was.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use rustix::fs::{Advice, fadvise};
use serde_json::Value;

/// Long enough for several chunks.
const SIZE: usize = 6 << 20;

fn cachewise(arguments: &[&str], directory: &Path) -> Command {
    let mut command = Command::cargo_bin("cachewise").expect("the binary was built");
    command.args(arguments).current_dir(directory);
    command
}

/// Where files are on a disk: `/tmp` may be a tmpfs, of which nothing can be put out.
fn directory() -> tempfile::TempDir {
    let place =
        std::env::var_os("CACHEWISE_TEST_DIR").map_or_else(|| "/var/tmp".into(), PathBuf::from);
    tempfile::tempdir_in(place).expect("a directory on a disk")
}

/// A file of which nothing is resident, of content that names its place.
fn cold_file(path: &Path, seed: u8) {
    let content: Vec<u8> = (0..SIZE).map(|at| seed ^ (at >> 12) as u8).collect();
    fs::write(path, content).expect("it can be written");
    let file = File::open(path).expect("it is there");
    file.sync_all().expect("the disk takes it");
    fadvise(&file, 0, None, Advice::DontNeed).expect("it is clean");
}

fn resident(path: &Path) -> u64 {
    let file = cachewise_residency::open(path).expect("our own file");
    let whole = cachewise_units::ByteRange::starting_at(0);
    cachewise_residency::query(file.as_fd(), whole)
        .expect("our own file")
        .cached
        .0
}

#[test]
fn the_file_that_is_resident_comes_first() {
    let directory = directory();
    let paths = ["a", "b\nc", "d"].map(|name| directory.path().join(name));
    for (seed, path) in paths.iter().enumerate() {
        cold_file(path, seed as u8);
    }
    fs::read(&paths[1]).expect("it is brought in");
    let output = cachewise(&["order", "-0", "a", "d", "b\nc"], directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "nothing went wrong");
    assert!(
        output.stdout.starts_with(b"b\nc\0"),
        "a newline is part of a name: {:?}",
        String::from_utf8_lossy(&output.stdout)
    );
    assert_eq!(
        output.stdout.split(|&byte| byte == 0).count(),
        4,
        "each file once"
    );
}

#[test]
fn ranges_cover_each_byte_once() {
    let directory = directory();
    for (seed, name) in ["a", "b"].into_iter().enumerate() {
        cold_file(&directory.path().join(name), seed as u8);
    }
    let mut half = vec![0; SIZE / 2];
    File::open(directory.path().join("b"))
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
        let output = cachewise(arguments, directory.path()).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
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
    let directory = directory();
    let path = directory.path().join("file");
    cold_file(&path, 3);
    let begun = resident(&path);
    let kept = cachewise(&["cat", "--keep", "file"], directory.path())
        .output()
        .unwrap();
    let left = resident(&path);
    assert!(kept.status.success(), "nothing went wrong");
    assert_eq!(begun, 0, "it was cold");
    assert_eq!(left, 0, "and is again");
    let plain = cachewise(&["cat", "file", "file"], directory.path())
        .output()
        .unwrap();
    assert_eq!(plain.stdout.len(), 2 * SIZE, "as often as it is named");
    assert!(kept.stdout == fs::read(&path).unwrap(), "byte for byte");
    assert!(plain.stdout[..SIZE] == kept.stdout, "with and without");
}

#[test]
fn what_is_missing_is_said_and_the_rest_is_done() {
    let directory = directory();
    cold_file(&directory.path().join("file"), 1);
    for arguments in [
        &["cat", "nowhere", "file"][..],
        &["order", "nowhere", "file"],
    ] {
        let output = cachewise(arguments, directory.path()).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(2),
            "{arguments:?}: something could not be done"
        );
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(told.contains("nowhere"), "{arguments:?} says what: {told}");
        assert!(!output.stdout.is_empty(), "{arguments:?} does the rest");
    }
    let nothing = cachewise(&["cat"], directory.path()).output().unwrap();
    assert_eq!(nothing.status.code(), Some(2), "nothing to do is a mistake");
}

#[test]
fn a_simulation_reads_nothing_and_shows_the_bound() {
    let directory = directory();
    for (seed, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        cold_file(&directory.path().join(name), seed as u8);
    }
    let memory = format!("{}", SIZE * 3);
    let output = cachewise(
        &["order", "--simulate", &memory, "-o", "json", "."],
        directory.path(),
    )
    .output()
    .unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
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
        .map(|name| resident(&directory.path().join(name)))
        .sum();
    assert_eq!(read, 0, "nothing was brought in");
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let directory = directory();
    cold_file(&directory.path().join("file"), 1);
    let binary = assert_cmd::cargo::cargo_bin("cachewise");
    let mut child = std::process::Command::new(binary)
        .args(["cat", "file"])
        .current_dir(directory.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0), "as with cat(1) before head(1)");
}

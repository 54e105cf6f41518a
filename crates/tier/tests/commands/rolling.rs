//! A rolling update: many readers of `NAME@latest` while it goes from one version to the next.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::{Mode, OFlags, openat};

use crate::mounted::{Mounted, has_fuse, write};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![plain(
        "rolling::a_hundred_readers_each_see_one_version_below_a_directory",
        readers,
    )]
}

const READERS: usize = 100;

/// Walks of each reader that see the second version.
const WALKS_AFTER: usize = 3;

/// Files of each directory.
const FILES: usize = 4;

struct Place {
    scratch: Scratch,
}

impl Place {
    fn at(&self, name: &str) -> PathBuf {
        self.scratch.directory().join(name)
    }

    /// Writes all files of a version, each with its mark, and publishes it.
    fn publish(&self, version: &str) {
        for directory in ["tree", "tree/a", "tree/a/b", "tree/a/b/c", "tree/d"] {
            let directory = self.at("origin").join(directory);
            fs::create_dir_all(&directory).expect("made");
            for number in 0..FILES {
                // Longer than a block, and than a file that is held when it is opened.
                let text = format!("{version} of {number} in {directory:?}\n").repeat(1_000);
                write(&directory.join(number.to_string()), text.as_bytes());
            }
        }
        write(&self.at("origin/tree").join(version), version.as_bytes());
        let mut command = cachewise(["publish", "--block", "16K", "--to"]);
        command
            .arg(self.at("store"))
            .arg("--key")
            .arg(self.at("key"));
        command.arg("--state").arg(self.at("publisher"));
        command
            .arg(self.at("origin"))
            .arg(format!("data@{version}"));
        Ended::of(&mut command).expect(0, "it is published");
        fs::remove_file(self.at("origin/tree").join(version)).expect("removed");
    }

    fn mounting(&self) -> Command {
        let mut command = cachewise(["mount", "data@latest", "--poll", "100ms", "--pin", "16K"]);
        command.arg("--store").arg(self.at("store"));
        command.arg("--trust").arg(self.at("key.pub"));
        command.arg("--state").arg(self.at("reader"));
        command
    }
}

/// Reads all files below an open directory by names relative to it, and adds the marks that they have.
fn walk(directory: impl AsFd, marks: &mut Vec<String>) {
    let listed = rustix::fs::Dir::read_from(&directory).expect("it is listed");
    for entry in listed {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_str().expect("ours").to_owned();
        if name == "." || name == ".." {
            continue;
        }
        let opened = openat(&directory, name.as_str(), OFlags::RDONLY, Mode::empty());
        let opened = opened.unwrap_or_else(|error| panic!("a listed name, {name}: {error}"));
        let mut file = File::from(opened);
        if file.metadata().expect("open").is_dir() {
            walk(&file, marks);
            continue;
        }
        let mut text = String::new();
        file.read_to_string(&mut text).expect("it is read");
        for line in text.lines() {
            let mark = line.split(' ').next().expect("a word");
            if marks.last().is_none_or(|last| last != mark) {
                marks.push(mark.to_owned());
            }
        }
    }
}

fn readers() {
    if !has_fuse("a rolling update") {
        return;
    }
    let place = Place {
        scratch: Scratch::new(),
    };
    Ended::of(cachewise(["key"]).arg(place.at("key"))).expect(0, "a pair of keys");
    // The same in both versions.
    let same = place.at("origin/tree/same/below");
    fs::create_dir_all(&same).expect("made");
    write(&same.join("empty"), b"");
    place.publish("v1");
    let directory = place.at("mnt");
    fs::create_dir(&directory).expect("made");
    let mounted = Mounted::by(place.mounting(), &directory);
    let tree = mounted.path("tree");

    let has_seen_second = AtomicBool::new(false);
    let (walked_first, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let reader = |number: usize| {
        let mut after = 0;
        let mut is_first = true;
        // Open over the switch: a directory, which is walked again then, and a file.
        let held = (
            File::open(&tree).expect("there"),
            File::open(tree.join("a/b/c/1")).expect("there"),
        );
        while after < WALKS_AFTER && !is_over.load(Ordering::Acquire) {
            let must_be_second = has_seen_second.load(Ordering::Acquire);
            let open = File::open(&tree).expect("there");
            let mut marks = Vec::new();
            walk(&open, &mut marks);
            assert_eq!(marks.len(), 1, "reader {number} sees a mix: {marks:?}");
            match marks[0].as_str() {
                "v2" => {
                    has_seen_second.store(true, Ordering::Release);
                    after += 1;
                }
                mark => assert!(
                    mark == "v1" && !must_be_second,
                    "reader {number} sees {mark} behind v2"
                ),
            }
            if is_first {
                is_first = false;
                walked_first.fetch_add(1, Ordering::AcqRel);
            }
        }
        let mut marks = Vec::new();
        walk(&held.0, &mut marks);
        assert_eq!(marks, ["v1"], "an open directory stays what it was");
        let mut bytes = [0; 10];
        held.1.read_exact_at(&mut bytes, 0).expect("it is open");
        assert!(bytes.starts_with(b"v1 of 1 "), "so does an open file");
    };
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|number| {
                let reader = &reader;
                scope.spawn(move || reader(number))
            })
            .collect();
        // One that fails ends the others, so that the test fails and does not wait.
        let has_failed = || {
            readers
                .iter()
                .any(|reader| reader.is_finished() && !has_seen_second.load(Ordering::Acquire))
        };
        until("each reader has walked the first version", || {
            (walked_first.load(Ordering::Acquire) == READERS || has_failed()).then_some(())
        });
        place.publish("v2");
        let failed = readers
            .into_iter()
            .filter_map(|reader| {
                let failed = reader.join().err();
                if failed.is_some() {
                    is_over.store(true, Ordering::Release);
                }
                failed
            })
            .count();
        assert_eq!(failed, 0, "readers that saw what they must not");
    });
    mounted.end().expect(0, "unmounted");
}

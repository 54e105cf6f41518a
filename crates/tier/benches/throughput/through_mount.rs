//! Warm reads through the mount beside a FUSE file system that passes reads on.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cachewise_tier::mount::{Mount, MountOptions, Operation};
use cachewise_tier::{BlockCache, Directory, Settings};
use cachewise_units::Bytes;
use rustix::fs::Advice;

use crate::support::{self, Goal, median};

const FILES: usize = 64;
const SIZE: usize = 4 << 20;
const READERS: usize = 4;
const TURNS: usize = 7;
const TURN: Duration = Duration::from_millis(1500);

pub fn run() {
    let scratch = tempfile::tempdir().expect("a directory can be made");
    let at = |name: &str| {
        let path = scratch.path().join(name);
        std::fs::create_dir(&path).expect("made");
        path
    };
    let (origin, ours, theirs) = (at("origin"), at("ours"), at("theirs"));
    for number in 0..FILES {
        let bytes = vec![number as u8; SIZE];
        std::fs::write(origin.join(number.to_string()), bytes).expect("room");
    }
    std::thread::sleep(Duration::from_millis(300));
    let runtime = support::runtime();
    let settings = Settings {
        memory: Bytes(1 << 30),
        ..Settings::default()
    };
    let directory = Arc::new(Directory::open(&origin).expect("it was just made"));
    let cache = runtime
        .block_on(BlockCache::open(settings, directory))
        .expect("it opens");
    let options = MountOptions::default();
    let mount = Mount::start(cache, runtime.handle().clone(), &ours, &options).expect("mounted");
    let pass_through = super::pass_through::mount(&origin, &theirs, options.threads);
    let asked = |operation| {
        let table = mount.report();
        let mut rows = table.operations.iter();
        let row = rows.find(|row| row.operation == operation);
        row.map_or((0, 0), |row| (row.calls, row.origin_calls))
    };
    let directories = [ours.as_path(), theirs.as_path()];
    for directory in directories {
        read(directory, 128 << 10, true, Duration::from_secs(3));
    }
    println!("\nWarm reads through the mount, {READERS} readers, medians of {TURNS} turns");
    for (what, size) in [
        ("memory, 256 KiB in a row", 256 << 10),
        ("memory, 128 KiB in a row", 128 << 10),
        ("memory, 4 KiB here and there", 4 << 10),
    ] {
        beside(what, directories, |directory| {
            read(directory, size, true, TURN)
        });
    }
    let mut reads = 0;
    beside(
        "the kernel's cache, 128 KiB in a row",
        directories,
        |directory| {
            fill_again(directory);
            let before = asked(Operation::Read).0;
            let rate = read(directory, 128 << 10, false, TURN);
            reads += asked(Operation::Read).0 - before;
            rate
        },
    );
    println!("    of the mount's reads {reads} reached the mount");
    for operation in [Operation::Lookup, Operation::Open] {
        let (calls, of_origin) = asked(operation);
        println!(
            "    {}: {calls} calls, {of_origin} of them asked the origin",
            operation.name()
        );
    }
    assert!(
        mount.unmount(Duration::from_secs(5)).expect("unmounted"),
        "nobody reads"
    );
    pass_through.umount_and_join().expect("unmounted");
}

/// The mount and the pass-through in turn, each first in every other turn.
fn beside(what: &str, directories: [&Path; 2], mut read: impl FnMut(&Path) -> f64) {
    let turns: Vec<[f64; 2]> = (0..TURNS)
        .map(|turn| {
            let mut rates = [0.0; 2];
            for at in [turn % 2, (turn + 1) % 2] {
                rates[at] = read(directories[at]);
            }
            rates
        })
        .collect();
    println!(
        "{what:<38} mount {:6.0} MB/s, pass-through {:6.0} MB/s",
        median(turns.iter().map(|[ours, _]| ours / 1e6)),
        median(turns.iter().map(|[_, theirs]| theirs / 1e6)),
    );
    let ratio = median(turns.iter().map(|[ours, theirs]| ours / theirs));
    Goal::AtLeast(0.8).beside(
        "the mount, of the pass-through (median of turns)",
        ratio,
        "",
    );
}

/// Has the kernel read all of it into other pages, so that it is not one choice of pages that all turns are about: copying
/// from them was a fifth slower in one run than in the next.
fn fill_again(directory: &Path) {
    for number in 0..FILES {
        let path = directory.join(number.to_string());
        let file = File::open(&path).expect("it is there");
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("advised");
        assert_eq!(std::fs::read(&path).expect("it can be read").len(), SIZE);
    }
}

/// Bytes a second of some readers, each with files of its own; `put_out` has the kernel forget what was read.
fn read(directory: &Path, size: usize, put_out: bool, time: Duration) -> f64 {
    let begun = Instant::now();
    let bytes: usize = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                scope.spawn(move || {
                    let mut buffer = vec![0; size];
                    let (mut bytes, mut number) = (0, reader);
                    // In a row up to 128 KiB; else every 16th part, in an order that is no order.
                    let parts = SIZE / size;
                    let taken = if size < 128 << 10 { parts / 16 } else { parts };
                    while begun.elapsed() < time {
                        let path = directory.join((number % FILES).to_string());
                        let file = File::open(path).expect("it is there");
                        for part in 0..taken {
                            let place = match taken == parts {
                                true => part,
                                false => (part * 16 * 7 + 3) % parts,
                            };
                            file.read_exact_at(&mut buffer, (place * size) as u64)
                                .expect("it can be read");
                            bytes += size;
                        }
                        if put_out {
                            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("advised");
                        }
                        number += READERS;
                    }
                    bytes
                })
            })
            .collect();
        let all = readers
            .into_iter()
            .map(|reader| reader.join().expect("no reader fails"));
        all.sum()
    });
    bytes as f64 / begun.elapsed().as_secs_f64()
}

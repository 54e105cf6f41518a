//! Readers of files that are replaced: they keep the state that they opened, or get an error.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::mounted::{Mounted, bytes_of, has_fuse, origin, write};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain(
            "mount_pins::an_open_small_file_keeps_its_bytes_when_it_is_replaced",
            small_file,
        ),
        plain(
            "mount_pins::an_open_large_file_gives_its_bytes_or_an_error",
            large_file,
        ),
        plain(
            "mount_pins::opening_a_file_that_was_replaced_opens_the_new_one",
            replaced_before,
        ),
        plain(
            "mount_pins::random_reads_of_a_changing_file_are_of_one_state",
            random_reads,
        ),
    ]
}

const SMALL: usize = 100_000;
const LARGE: usize = 1_000_000;

/// Replaces a file by another one of the same length.
fn replace(origin: &Path, name: &str, bytes: &[u8]) {
    let new = origin.join("new");
    write(&new, bytes);
    fs::rename(&new, origin.join(name)).expect("replaced");
}

fn small_file() {
    if !has_fuse("a small file that is replaced") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 3, SMALL);
    let mounted = Mounted::new(&scratch, &origin, &["--revalidate", "0"]);
    // Not one byte is read before the change.
    let mut open =
        [0, 1, 2].map(|number| File::open(mounted.path(&format!("f/{number}"))).expect("there"));
    replace(&origin, "f/0", &bytes_of(10, SMALL));
    fs::remove_file(origin.join("f/1")).expect("ours");
    write(&origin.join("f/2"), &bytes_of(12, SMALL));
    for (number, file) in open.iter_mut().enumerate() {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("the old bytes");
        assert!(bytes == bytes_of(number, SMALL), "all of {number}");
    }
    assert!(fs::read(mounted.path("f/0")).expect("read") == bytes_of(10, SMALL));
    fs::read(mounted.path("f/1")).expect_err("it is gone");
    assert!(fs::read(mounted.path("f/2")).expect("read") == bytes_of(12, SMALL));
    let [one, _, _] = open;
    let mut again = vec![0; SMALL];
    one.read_exact_at(&mut again, 0).expect("open still");
    assert!(again == bytes_of(0, SMALL), "the old one");
    assert_eq!(mounted.of_operation("read", "errors"), 0);
}

fn large_file() {
    if !has_fuse("a large file that is replaced") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, LARGE);
    let mounted = Mounted::new(&scratch, &origin, &["--revalidate", "0"]);
    let open = File::open(mounted.path("f/0")).expect("there");
    let mut start = vec![0; 1000];
    open.read_exact_at(&mut start, 0).expect("the first block");
    replace(&origin, "f/0", &bytes_of(10, LARGE));
    let old = bytes_of(0, LARGE);
    for at in (0..LARGE as u64).step_by(50_000) {
        let mut bytes = vec![0; 1000];
        match open.read_exact_at(&mut bytes, at) {
            Ok(()) => {
                let at = usize::try_from(at).expect("small");
                assert!(bytes == old[at..at + 1000], "of the old state, at {at}");
            }
            Err(error) => {
                let stale = rustix::io::Errno::STALE.raw_os_error();
                assert_eq!(error.raw_os_error(), Some(stale), "{error}");
            }
        }
    }
    open.read_exact_at(&mut start, 0).expect("it was cached");
    assert!(start == old[..1000]);
    // Larger files are pinned where that is set.
    drop((open, mounted));
    let directory = scratch.directory().join("other");
    fs::create_dir(&directory).expect("made");
    let mounted = Mounted::on(&directory, &origin, &["--revalidate", "0", "--pin", "1M"]);
    let open = File::open(mounted.path("f/0")).expect("there");
    replace(&origin, "f/0", &bytes_of(11, LARGE));
    let mut bytes = vec![0; LARGE];
    open.read_exact_at(&mut bytes, 0).expect("pinned");
    assert!(bytes == bytes_of(10, LARGE), "the state that was opened");
}

fn replaced_before() {
    if !has_fuse("a file that was replaced before it is opened") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 2, SMALL);
    let mounted = Mounted::new(&scratch, &origin, &["--revalidate", "1h"]);
    for number in 0..2 {
        fs::metadata(mounted.path(&format!("f/{number}"))).expect("its name is known");
    }
    replace(&origin, "f/0", &bytes_of(10, SMALL));
    fs::remove_file(origin.join("f/1")).expect("ours");
    assert!(
        fs::read(mounted.path("f/0")).expect("no error") == bytes_of(10, SMALL),
        "the new state, within the time for which names are cached"
    );
    let gone = File::open(mounted.path("f/1")).expect_err("it is gone");
    assert_eq!(gone.kind(), std::io::ErrorKind::NotFound);
}

/// Reads at random places, while the file is replaced, written in place, cut and grown; with one seed.
fn random_reads() {
    const TURNS: usize = 60;
    if !has_fuse("random reads of a changing file") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, SMALL);
    let mounted = Mounted::new(
        &scratch,
        &origin,
        &["--revalidate", "0", "--memory", "1M", "--block", "16K"],
    );
    let mut random = fastrand::Rng::with_seed(25);
    // All states that there were.
    let mut states = vec![bytes_of(0, SMALL)];
    let mut open: Vec<(File, Option<usize>)> = Vec::new();
    let (mut right, mut errors) = (0, 0);
    for turn in 1..TURNS {
        let size = random.usize(1..4 * SMALL);
        let state = bytes_of(turn, size);
        if random.bool() {
            replace(&origin, "f/0", &state);
        } else {
            write(&origin.join("f/0"), &state);
        }
        states.push(state);
        if let Ok(file) = File::open(mounted.path("f/0")) {
            open.push((file, None));
        }
        if open.len() > 5 {
            open.remove(random.usize(..open.len()));
        }
        for _ in 0..20 {
            let Some(at) = (!open.is_empty()).then(|| random.usize(..open.len())) else {
                break;
            };
            let (file, is_of) = &mut open[at];
            let (from, len) = (random.usize(..4 * SMALL), random.usize(1..50_000));
            let mut bytes = vec![0; len];
            let Ok(count) = file.read_at(&mut bytes, from as u64) else {
                errors += 1;
                continue;
            };
            bytes.truncate(count);
            if count == 0 {
                continue;
            }
            let part = |state: &Vec<u8>| state.get(from..from + count) == Some(&bytes);
            // Each byte tells its state: they are not alike.
            let found = states.iter().rposition(part).filter(|_| count >= 16);
            assert!(
                found.is_some() || count < 16,
                "turn {turn}: no state has these {count} bytes at {from}"
            );
            if let (Some(before), Some(found)) = (*is_of, found) {
                assert_eq!(before, found, "turn {turn}: an open file is of one state");
            }
            *is_of = found.or(*is_of);
            right += 1;
        }
    }
    assert!(right > TURNS, "{right} reads, and {errors} errors");
}

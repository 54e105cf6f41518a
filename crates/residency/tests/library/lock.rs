//! Locking pages, and what forbids it.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::support::{WHOLE, bytes, file, load, told, undisturbed};
use crate::unprivileged::{PublicDirectory, answer, looked_at};
use cachewise_residency::{
    Error, EvictOptions, Lock, LockOptions, Pick, Progress, Watch, evict, lock, open,
};
use cachewise_units::{ByteRange, Bytes, Pages};
use tempfile::TempDir;

/// Beside the build, because /tmp is in memory on many machines.
fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

const RESIDENT: LockOptions<'_> = LockOptions {
    pick: Pick::Resident,
    watch: Watch {
        cancel: None,
        progress: None,
    },
};

fn lock_all(path: &Path, options: &LockOptions<'_>) -> Lock {
    lock(open(path).unwrap(), WHOLE, options).unwrap()
}

/// Tests lock one after the other: the limit is the process's.
fn in_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this many pages may be locked here; prints a `skipped` line if not.
fn may_lock(what: &str, path: &Path) -> bool {
    match lock(open(path).unwrap(), WHOLE, &RESIDENT) {
        Err(Error::Memlock(limit)) => {
            println!("skipped: {what}: {limit}");
            false
        }
        _ => true,
    }
}

/// Pages of a file that eviction leaves.
fn left(path: &Path) -> Pages {
    let evicted = evict(open(path).unwrap(), WHOLE, &EvictOptions::default()).unwrap();
    evicted.after.unwrap().cached
}

#[test]
fn every_page_is_inserted_and_stays_until_the_lock_is_dropped() {
    let _turn = in_turn();
    let directory = directory();
    let path = file(directory.path(), "file", 500);
    crate::support::evict(&path);
    let held = lock_all(&path, &LockOptions::default());
    assert_eq!(held.before(), Ok(Pages::ZERO), "none was there");
    assert_eq!(held.pages(), Pages(500), "the whole file");
    assert_eq!(held.locked().unwrap(), Pages(500), "all of it");
    assert_eq!(left(&path), Pages(500), "no eviction takes it");
    drop(held);
    undisturbed(|| match left(&path) {
        Pages::ZERO => Ok(()),
        some => Err(format!("{some} pages, though nobody locks them")),
    });
}

#[test]
fn a_range_is_locked_and_no_more() {
    let _turn = in_turn();
    let directory = directory();
    let path = file(directory.path(), "file", 300);
    let range = ByteRange {
        start: bytes(100) + 1,
        len: bytes(10),
    };
    let held = lock(open(&path).unwrap(), range, &LockOptions::default()).unwrap();
    assert_eq!(held.pages(), Pages(11), "the pages that it touches");
    assert_eq!(held.locked().unwrap(), Pages(11), "and all of them");
    let found = told(&path).1;
    assert!(
        (100..111).all(|page| found.contains(page)),
        "they are there: {found:?}"
    );
}

#[test]
fn lock_resident_locks_resident_pages_and_reads_nothing() {
    let _turn = in_turn();
    let directory = directory();
    let path = file(directory.path(), "file", 500);
    let some = [3, 4, 5, 77, 200, 499].into();
    undisturbed(|| {
        crate::support::evict(&path);
        load(&path, &some);
        let held = lock_all(&path, &RESIDENT);
        assert!(
            held.locked().unwrap() <= Pages(6),
            "nothing else is brought in"
        );
        let counts = (held.before(), held.locked().unwrap(), left(&path));
        if counts != (Ok(Pages(6)), Pages(6), Pages(6)) {
            return Err(format!("six pages, not {counts:?}"));
        }
        load(&path, &[300, 301].into());
        assert_eq!(
            held.locked().unwrap(),
            Pages(6),
            "what comes later is not locked by itself"
        );
        match (held.extend(open(&path).unwrap()).unwrap(), left(&path)) {
            (Pages(8), Pages(8)) => Ok(()),
            other => Err(format!("but when it is asked for: {other:?}")),
        }
    });
}

#[test]
fn a_file_cut_short_while_it_is_locked_raises_no_signal() {
    let _turn = in_turn();
    let directory = directory();
    let path = file(directory.path(), "file", 100);
    let shrink = File::options().write(true).open(&path).unwrap();
    let opened = open(&path).unwrap();
    let held = lock_all(&path, &LockOptions::default());
    shrink.set_len(bytes(40)).unwrap();
    assert!(
        held.locked().unwrap() <= Pages(40),
        "no more than is left of it"
    );
    undisturbed(|| {
        load(&path, &(0..40).collect());
        // The remaining pages of a large folio were unlocked with the others.
        match held.extend(&opened).unwrap() {
            Pages(40) => Ok(()),
            other => Err(format!("{other}, not 40")),
        }
    });
    shrink.set_len(0).unwrap();
    assert_eq!(held.locked().unwrap(), Pages::ZERO, "and then nothing");
    drop(held);

    for options in [LockOptions::default(), RESIDENT] {
        let path = file(directory.path(), "again", 10_000);
        if !may_lock("truncation while locking", &path) {
            return;
        }
        let shrink = File::options().write(true).open(&path).unwrap();
        // Cut between two steps of the work.
        let progress = |progress| {
            if let Progress::Done(_) = progress {
                shrink.set_len(bytes(3000)).unwrap();
            }
        };
        let watch = Watch {
            progress: Some(&progress),
            ..Watch::default()
        };
        let held = lock_all(&path, &LockOptions { watch, ..options });
        assert_eq!(held.pages(), Pages(10_000), "what was asked for");
        let locked = held.locked().unwrap();
        assert!(
            locked <= Pages(3000) && locked >= Pages(2000),
            "what there is, but for a folio that was cut: {locked}"
        );
    }
}

#[test]
fn a_replaced_or_deleted_file_is_the_one_that_was_opened() {
    let _turn = in_turn();
    let directory = directory();
    let path = file(directory.path(), "file", 20);
    let opened = open(&path).unwrap();
    let held = lock(&opened, WHOLE, &LockOptions::default()).unwrap();
    let other = file(directory.path(), "other", 30);
    crate::support::evict(&other);
    std::fs::rename(&other, &path).unwrap();
    assert_eq!(held.locked().unwrap(), Pages(20), "the old one's pages");
    assert_eq!(
        told(&path).0.total,
        Pages(30),
        "while its name leads elsewhere"
    );
    undisturbed(|| match left(&path) {
        Pages::ZERO => Ok(()),
        some => Err(format!("{some} pages of the new one, which is not locked")),
    });
}

#[test]
fn cancelling_keeps_what_is_locked() {
    let _turn = in_turn();
    let directory = directory();
    let path = file(directory.path(), "file", 10_000);
    if !may_lock("cancelling", &path) {
        return;
    }
    let cancel = AtomicBool::new(false);
    let told = Mutex::new(Vec::new());
    let progress = |progress| {
        told.lock().unwrap().push(progress);
        if let Progress::Done(_) = progress {
            cancel.store(true, Ordering::Relaxed);
        }
    };
    let options = LockOptions {
        watch: Watch {
            cancel: Some(&cancel),
            progress: Some(&progress),
        },
        ..LockOptions::default()
    };
    let held = lock_all(&path, &options);
    let [Progress::Planned(planned), Progress::Done(done)] = told.into_inner().unwrap()[..] else {
        panic!("one step, and no more");
    };
    assert_eq!(planned, Bytes(bytes(10_000)), "all was planned");
    assert_eq!(
        held.locked().unwrap().bytes(cachewise_sys::page_size()),
        done,
        "what was done is locked"
    );
    assert!(done < planned, "and it ended early");
}

#[test]
fn lock_empty_input_locks_nothing() {
    let directory = directory();
    let path = directory.path().join("empty");
    File::create(&path).unwrap();
    let held = lock_all(&path, &LockOptions::default());
    assert_eq!(
        (held.pages(), held.locked().unwrap()),
        (Pages::ZERO, Pages::ZERO),
        "an empty file"
    );
    let path = file(directory.path(), "file", 3);
    let beyond = ByteRange::starting_at(u64::MAX - 5);
    let held = lock(open(&path).unwrap(), beyond, &RESIDENT).unwrap();
    assert_eq!(held.pages(), Pages::ZERO, "beyond the end");
    let error = lock(
        open(Path::new("/proc/self/maps")).unwrap(),
        WHOLE,
        &RESIDENT,
    )
    .unwrap_err();
    assert!(
        error.unknown().is_some(),
        "what the kernel makes up: {error}"
    );
    let only_written = File::options().write(true).open(&path).unwrap();
    let error = lock(only_written, WHOLE, &LockOptions::default()).unwrap_err();
    assert_eq!(
        error.kind(),
        cachewise_sys::ErrorKind::Denied,
        "not open for reading: {error}"
    );
}

#[test]
fn the_limit_is_said_with_what_to_set() {
    let place = PublicDirectory::new();
    let path = file(place.path(), "file", 100);
    std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    let page = bytes(1) >> 10;
    for (what, limit, wanted) in [
        ("too small", 50 * page, "limit, 0 locked"),
        ("none", 0, "limit, 0 locked"),
        ("just enough", 100 * page, "locked 100"),
    ] {
        let prepare = format!("ulimit -l {limit} &&");
        for test in ["lock::lock_as_nobody", "lock::lock_resident_as_nobody"] {
            load(&path, &(0..100).collect());
            if let Some(answer) = place.ask(test, &prepare, &path) {
                assert_eq!(answer, wanted, "{test}: {what}");
            }
        }
    }
}

fn try_to_lock(options: &LockOptions<'_>) {
    let Some(path) = looked_at() else { return };
    let file = open(&path).unwrap();
    // Loaded in this process, so that no other program intervenes.
    load(&path, &(0..100).collect());
    match lock(&file, WHOLE, options) {
        Ok(held) => answer(format_args!("locked {}", held.locked().unwrap())),
        Err(error @ Error::Memlock(limit)) => {
            assert_eq!(limit.wanted, Bytes(bytes(100)), "all that was asked for");
            assert!(
                error.to_string().contains("ulimit -l"),
                "what to set: {error}"
            );
            answer(format_args!("limit, {} locked", limit.locked.0));
        }
        Err(error) => answer(format_args!("{error}")),
    }
}

#[test]
#[ignore = "only run by the test above, as nobody"]
fn lock_as_nobody() {
    try_to_lock(&LockOptions::default());
}

#[test]
#[ignore = "only run by the test above, as nobody"]
fn lock_resident_as_nobody() {
    try_to_lock(&RESIDENT);
}

//! Prefetching missing pages, and no others.

use std::collections::BTreeSet;
use std::fs::File;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::*;
use cachewise_residency::{
    Error, Limiter, Progress, Unknown, WarmOptions, WarmShortfall, Warmed, Watch, open, warm,
};
use cachewise_units::{ByteRange, Bytes, Pages};
use tempfile::TempDir;

/// Beside the build, because /tmp is in memory on many machines.
fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn pages_of(start: u64, end: u64) -> ByteRange {
    ByteRange {
        start: bytes(start),
        len: bytes(end - start),
    }
}

fn warm_all(path: &Path, options: &WarmOptions<'_>) -> Warmed {
    warm(open(path).unwrap(), &[WHOLE], options).unwrap()
}

#[test]
fn only_what_is_missing_is_read() {
    let directory = directory();
    let path = file(directory.path(), "file", 3000);
    let loaded: BTreeSet<u64> = random(3, 3000).take(500).collect();
    undisturbed(|| {
        evict(&path);
        load(&path, &loaded);
        let warmed = warm_all(&path, &WarmOptions::default());
        let missing = 3000 - loaded.len() as u64;
        // The last page is a byte short.
        let read = bytes(missing) - u64::from(!loaded.contains(&2999));
        let told = (warmed.before, warmed.after, warmed.inserted, warmed.read);
        let wanted = (
            Ok(Pages(loaded.len() as u64)),
            Ok(Pages(3000)),
            Ok(Pages(missing)),
            Bytes(read),
        );
        match told == wanted && warmed.short.is_none() && warmed.pages == Pages(3000) {
            true => Ok(()),
            false => Err(format!("{wanted:?}, not {warmed:?}")),
        }
    });
    undisturbed(|| {
        warm_all(&path, &WarmOptions::default());
        let again = warm_all(&path, &WarmOptions::default());
        match (again.read, again.inserted) {
            (Bytes(0), Ok(Pages(0))) => Ok(()),
            _ => Err(format!("all was there: {again:?}")),
        }
    });
}

/// Larger than any usual readahead window, so that only a part of the file is read ahead.
const LARGE: u64 = 20_000;

#[test]
fn warm_range_reads_nothing_outside_it() {
    let directory = directory();
    let path = file(directory.path(), "file", LARGE);
    // The body of the second range is read with readahead, whose end must not show.
    let wanted = [(3, 4), (100, 9000), (9001, 9002), (15_000, 15_100)];
    undisturbed(|| {
        evict(&path);
        let ranges = wanted.map(|(start, end)| pages_of(start, end));
        let options = WarmOptions {
            threads: NonZeroUsize::new(3).unwrap(),
            ..WarmOptions::default()
        };
        let warmed = warm(open(&path).unwrap(), &ranges, &options).unwrap();
        let found: Vec<_> = told(&path).1.ranges;
        let found: Vec<_> = found.iter().map(|range| (range.start, range.end)).collect();
        match found == wanted && warmed.inserted == Ok(warmed.pages) {
            true => Ok(()),
            false => Err(format!("{found:?} after {warmed:?}")),
        }
    });
}

#[test]
fn threads_share_a_large_file() {
    let directory = directory();
    let path = file(directory.path(), "file", LARGE);
    undisturbed(|| {
        evict(&path);
        let readers = Mutex::new(BTreeSet::new());
        let (planned, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let progress = |progress| match progress {
            Progress::Planned(bytes) => _ = planned.fetch_add(bytes.0, Ordering::Relaxed),
            Progress::Done(bytes) => {
                let thread = format!("{:?}", std::thread::current().id());
                readers.lock().unwrap().insert(thread);
                done.fetch_add(bytes.0, Ordering::Relaxed);
            }
        };
        let warmed = warm_all(
            &path,
            &WarmOptions {
                threads: NonZeroUsize::new(4).unwrap(),
                watch: Watch {
                    progress: Some(&progress),
                    ..Watch::default()
                },
                ..WarmOptions::default()
            },
        );
        let size = bytes(LARGE) - 1;
        assert_eq!(planned.into_inner(), size, "all was planned");
        assert_eq!(done.into_inner(), size, "all was told");
        assert_eq!(warmed.read, Bytes(size), "and read, by all threads");
        assert!(
            readers.into_inner().unwrap().len() > 1,
            "of which there is more than one"
        );
        match warmed.after {
            Ok(Pages(LARGE)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

#[test]
fn a_limit_slows_down_and_cancelling_ends() {
    let directory = directory();
    let path = file(directory.path(), "file", 1000);
    evict(&path);
    // A page in 4096 seconds: who waits for the second one waits for ever.
    let limiter = Limiter::new(Bytes(1)).unwrap();
    let cancel = AtomicBool::new(false);
    let progress = |progress| {
        if let Progress::Done(_) = progress {
            cancel.store(true, Ordering::Relaxed);
        }
    };
    let warmed = warm_all(
        &path,
        &WarmOptions {
            limiter: Some(&limiter),
            watch: Watch {
                cancel: Some(&cancel),
                progress: Some(&progress),
            },
            ..WarmOptions::default()
        },
    );
    assert!(
        matches!(warmed.short, Some(WarmShortfall::Cancelled)),
        "it says why: {warmed:?}"
    );
    assert_eq!(warmed.read, Bytes(bytes(1)), "and what it did until then");
}

#[test]
fn a_file_that_shrinks_meanwhile_is_read_to_its_end() {
    let directory = directory();
    let path = file(directory.path(), "file", 1000);
    evict(&path);
    let shrink = File::options().write(true).open(&path).unwrap();
    let progress = |progress| {
        if let Progress::Planned(_) = progress {
            shrink.set_len(bytes(10)).unwrap();
        }
    };
    let options = WarmOptions {
        watch: Watch {
            progress: Some(&progress),
            ..Watch::default()
        },
        ..WarmOptions::default()
    };
    let warmed = warm_all(&path, &options);
    let Some(WarmShortfall::Shrank { size }) = warmed.short else {
        panic!("it says why: {warmed:?}");
    };
    assert_eq!(size, Bytes(bytes(10)), "and to what");
    assert_eq!(warmed.read, Bytes(bytes(10)), "what there was");
    assert_eq!(warmed.pages, Pages(1000), "of what was asked for");
}

#[test]
fn holes_are_left_out() {
    let directory = directory();
    let path = directory.path().join("sparse");
    let sparse = File::create(&path).unwrap();
    sparse.set_len(1 << 40).unwrap();
    for page in [0, 1, 5, 1 << 20] {
        sparse.write_all_at(&[1], bytes(page)).unwrap();
    }
    sparse.sync_all().unwrap();
    undisturbed(|| {
        evict(&path);
        let warmed = warm_all(&path, &WarmOptions::default());
        assert_eq!(warmed.pages, Pages((1 << 40) / bytes(1)), "of all pages");
        match (warmed.inserted, warmed.holes, &warmed.short) {
            (Ok(Pages(4)), Pages(holes), None) if holes == warmed.pages.0 - 4 => Ok(()),
            _ => Err(format!("{warmed:?}")),
        }
    });
    let offset = rustix::fs::tell(&sparse).unwrap();
    warm(&sparse, &[WHOLE], &WarmOptions::default()).unwrap();
    assert_eq!(
        rustix::fs::tell(&sparse).unwrap(),
        offset,
        "the caller's place in the file is its own"
    );
}

#[test]
fn unreadable_block_is_reported() {
    let directory = directory();
    let path = file(directory.path(), "file", 10);
    evict(&path);
    let only_written = File::options().write(true).open(&path).unwrap();
    let warmed = warm(only_written, &[WHOLE], &WarmOptions::default()).unwrap();
    match &warmed.short {
        Some(short @ WarmShortfall::Failed { at: 0, .. }) => {
            assert!(
                short.to_string().contains("pread"),
                "by which call: {short}"
            );
        }
        other => panic!("it is not open for reading: {other:?}"),
    }
    assert_eq!(warmed.read, Bytes::ZERO, "and so nothing was");
}

#[test]
fn ranges_may_be_any() {
    let directory = directory();
    let path = file(directory.path(), "file", 100);
    let ranges = [
        ByteRange::starting_at(bytes(99)),
        ByteRange { start: 5, len: 0 },
        pages_of(10, 12),
        pages_of(11, 13),
        ByteRange::starting_at(u64::MAX),
        ByteRange {
            start: bytes(50) - 1,
            len: 2,
        },
    ];
    undisturbed(|| {
        evict(&path);
        let warmed = warm(open(&path).unwrap(), &ranges, &WarmOptions::default()).unwrap();
        assert_eq!(
            warmed.pages,
            Pages(6),
            "each page once, none beyond the end"
        );
        match (warmed.after, told(&path).0.cached) {
            (Ok(Pages(6)), Pages(6)) => Ok(()),
            _ => Err(format!("{warmed:?}")),
        }
    });
    let none = warm(open(&path).unwrap(), &[], &WarmOptions::default()).unwrap();
    assert_eq!(none.pages, Pages::ZERO, "nothing was asked for");
}

#[test]
fn file_without_page_cache_is_refused() {
    let refused = |path: &str| -> Option<Unknown> {
        let file = open(Path::new(path)).unwrap();
        let error: Error = warm(file, &[WHOLE], &WarmOptions::default()).unwrap_err();
        error.unknown()
    };
    assert!(
        matches!(
            refused("/proc/self/status"),
            Some(Unknown::MadeUp | Unknown::NoPermission)
        ),
        "the kernel makes it up"
    );
}

#[test]
fn files_in_memory_are_there_already() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = file(directory.path(), "file", 100);
    let warmed = warm_all(&path, &WarmOptions::default());
    assert_eq!(
        (warmed.before, warmed.read),
        (Ok(Pages(100)), Bytes::ZERO),
        "tmpfs"
    );
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(bytes(200))
        .unwrap();
    let warmed = warm_all(&path, &WarmOptions::default());
    assert_eq!(warmed.holes, Pages(100), "a hole in it stays one");
    assert!(warmed.short.is_none(), "and that is no failure");
}

const WARM_IN_GROUP: &str = "CACHEWISE_WARM_IN_GROUP";

#[test]
fn warm_beyond_the_group_limit_reports_evicted_pages() {
    let directory = directory();
    let path = file(directory.path(), "file", LARGE);
    let group =
        Path::new("/sys/fs/cgroup/memory").join(format!("cachewise-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir(&group) {
        println!("skipped: too little memory: no memory control group can be made: {error}");
        return;
    }
    let limited = std::fs::write(group.join("memory.limit_in_bytes"), "16M");
    // A control group is emptied by its processes' end; the program is this one.
    let output = std::process::Command::new("sh")
        .args(["-c", "echo $$ > \"$0/tasks\" && exec \"$@\""])
        .arg(&group)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "warm::warm_in_group", "--ignored", "--nocapture"])
        .env(WARM_IN_GROUP, &path)
        .output();
    // Its pages keep it, where the kernel does not move them up.
    evict(&path);
    let removed = std::fs::remove_dir(&group);
    limited.unwrap();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    removed.unwrap();
}

#[test]
#[ignore = "only run by the test above, in its control group"]
fn warm_in_group() {
    let Some(path) = std::env::var_os(WARM_IN_GROUP) else {
        return;
    };
    let path = Path::new(&path);
    evict(path);
    let warmed = warm_all(path, &WarmOptions::default());
    let Some(WarmShortfall::Evicted(gone)) = warmed.short else {
        panic!("16 MiB do not hold {}: {warmed:?}", Bytes(bytes(LARGE)));
    };
    assert_eq!(warmed.read, Bytes(bytes(LARGE) - 1), "all was read");
    assert_eq!(
        Ok(warmed.pages.saturating_sub(gone)),
        warmed.after,
        "and the rest is there"
    );
}

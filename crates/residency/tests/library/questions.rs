//! Questions to which the answer is known, and those that make no sense.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::*;
use cachewise_residency::{Counts, Error, Unknown, map, open, query};
use cachewise_sys::{ErrorKind, FileKind};
use cachewise_units::{ByteRange, PageRange, Pages};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use tempfile::TempDir;

/// Beside the build, because /tmp is in memory on many machines.
fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn why(result: Result<Counts, Error>) -> Option<Unknown> {
    result.unwrap_err().unknown()
}

#[test]
fn ranges_are_clipped_and_never_wrap() {
    let directory = directory();
    let path = file(directory.path(), "file", 100);
    undisturbed(|| {
        load(&path, &(0..100).collect());
        let file = open(&path).unwrap();
        let count = |start, len| {
            let range = ByteRange { start, len };
            let counts = query(&file, range).unwrap();
            let map = map(&file, range).unwrap();
            if map.cached() != counts.cached || map.pages.len() != counts.total {
                return Err(format!("{counts:?} is not {map:?}"));
            }
            Ok((counts.cached.0, counts.total.0))
        };
        let wanted = [
            ((0, u64::MAX), (100, 100)),
            ((bytes(10), u64::MAX), (90, 90)),
            ((bytes(10), u64::MAX - bytes(10) + 1), (90, 90)),
            ((bytes(10) + 1, bytes(1)), (2, 2)),
            ((bytes(99), bytes(1)), (1, 1)),
            ((bytes(100) - 1, 1), (0, 0)),
            ((bytes(100), 1), (0, 0)),
            ((u64::MAX, u64::MAX), (0, 0)),
            ((u64::MAX - 1, 1), (0, 0)),
            ((bytes(5), 0), (0, 0)),
        ];
        for ((start, len), answer) in wanted {
            let found = count(start, len)?;
            if found != answer {
                return Err(format!("{start}+{len}: {answer:?}, not {found:?}"));
            }
        }
        Ok(())
    });
}

#[test]
fn ranges_add_up() {
    const TOTAL: u64 = 2000;
    let directory = directory();
    let path = file(directory.path(), "file", TOTAL);
    let loaded: BTreeSet<u64> = random(99, TOTAL).take(700).chain(1000..1300).collect();
    undisturbed(|| {
        evict(&path);
        load(&path, &loaded);
        let file = open(&path).unwrap();
        for (start, end) in random(5, TOTAL).zip(random(17, TOTAL)).take(300) {
            let pages = PageRange { start, end };
            let range = pages.bytes(cachewise_sys::page_size());
            let expected = loaded.iter().filter(|page| pages.contains(**page)).count();
            let counts = query(&file, range).unwrap();
            let map = map(&file, range).unwrap();
            let wanted: Vec<PageRange> = ranges(&loaded)
                .into_iter()
                .filter_map(|range| range.intersection(pages))
                .collect();
            if counts.cached.0 != expected as u64 || map.ranges != wanted {
                return Err(format!("{pages:?}: {expected}, not {counts:?}, {map:?}"));
            }
        }
        Ok(())
    });
}

#[test]
fn a_descriptor_without_noatime_is_mapped_by_cachestat_alone() {
    let directory = directory();
    let path = file(directory.path(), "file", 600);
    let loaded: BTreeSet<u64> = random(3, 600).take(200).collect();
    undisturbed(|| {
        evict(&path);
        load(&path, &loaded);
        let plain = File::open(&path).unwrap();
        match map(&plain, WHOLE).unwrap().ranges == ranges(&loaded) {
            true => Ok(()),
            false => Err("the same pages".to_owned()),
        }
    });
}

#[test]
fn looking_leaves_the_access_time_alone() {
    use std::os::unix::fs::MetadataExt;
    let directory = directory();
    let path = file(directory.path(), "file", 600);
    load(&path, &random(3, 600).take(200).collect());
    let old = std::fs::FileTimes::new().set_accessed(std::time::UNIX_EPOCH);
    let plain = File::options().write(true).open(&path).unwrap();
    plain.set_times(old).unwrap();
    told(&path);
    map(File::open(&path).unwrap(), WHOLE).unwrap();
    let atime = std::fs::metadata(&path).unwrap().atime();
    assert_eq!(atime, 0, "neither question counts as an access");
}

#[test]
fn a_hole_is_nothing_however_large() {
    let directory = directory();
    let path = directory.path().join("sparse");
    let file = File::create(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    for place in [1 << 39, 77 << 30] {
        file.write_all_at(&[1], place).unwrap();
    }
    undisturbed(|| {
        let (counts, map) = told(&path);
        assert_eq!(
            counts.total,
            Pages((1 << 40) / bytes(1)),
            "all of its pages"
        );
        match (counts.cached, map.ranges.len()) {
            (Pages(2), 2) => Ok(()),
            other => Err(format!("two pages apart, not {other:?}")),
        }
    });
    let starts: Vec<u64> = told(&path).1.ranges.iter().map(|r| r.start).collect();
    assert!(
        starts
            .iter()
            .all(|start| [(77 << 30) / bytes(1), (1 << 39) / bytes(1)].contains(start)),
        "where they were written: {starts:?}"
    );
}

#[test]
fn an_empty_file_has_no_pages() {
    let directory = directory();
    let path = directory.path().join("empty");
    File::create(&path).unwrap();
    let (counts, map) = told(&path);
    assert_eq!(counts, Counts::ZERO, "none of none");
    assert!(map.ranges.is_empty(), "and none is resident");
}

#[test]
fn a_file_that_shrinks_meanwhile_has_what_it_has() {
    let directory = directory();
    let path = file(directory.path(), "file", 500);
    load(&path, &(0..500).collect());
    let before = open(&path).unwrap();
    let shrink = File::options().write(true).open(&path).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for pages in (0..500).cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                shrink.set_len(bytes(pages)).unwrap();
            }
        });
        let _stop = StopOnDrop(&stop);
        for _ in 0..2000 {
            let counts = query(&before, WHOLE).unwrap();
            assert!(
                counts.cached <= counts.total && counts.total <= Pages(500),
                "never more than there is: {counts:?}"
            );
            let map = map(&before, WHOLE).unwrap();
            assert!(
                map.ranges.iter().all(|range| range.end <= map.pages.end),
                "nor beyond the end: {map:?}"
            );
            assert!(
                map.ranges.is_sorted_by(|one, two| one.end < two.start),
                "nor twice: {map:?}"
            );
        }
    });
    shrink.set_len(0).unwrap();
    assert_eq!(
        query(&before, WHOLE).unwrap(),
        Counts::ZERO,
        "nothing is left"
    );
}

#[test]
fn a_deleted_file_is_still_a_file() {
    let directory = directory();
    let path = file(directory.path(), "file", 10);
    load(&path, &(0..10).collect());
    let file = open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(
        query(&file, WHOLE).unwrap().total,
        Pages(10),
        "it goes with its last descriptor"
    );
}

#[test]
fn path_without_pages_is_refused_with_its_kind() {
    let directory = directory();
    let at = |name: &str| directory.path().join(name);
    mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    for (path, kind) in [
        (directory.path(), FileKind::Directory),
        (&at("fifo"), FileKind::Fifo),
        (&at("socket"), FileKind::Socket),
        (Path::new("/dev/null"), FileKind::CharacterDevice),
    ] {
        let error = open(path).unwrap_err();
        assert_eq!(
            error.unknown(),
            Some(Unknown::NotAFile(kind)),
            "{}: not even opened",
            path.display()
        );
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "with its name: {error}"
        );
    }
}

#[test]
fn descriptors_that_have_no_pages_are_refused_by_their_kind() {
    // cachestat itself says 0 pages, as of a file that is not cached.
    let (reader, _writer) = std::io::pipe().unwrap();
    assert_eq!(
        why(query(&reader, WHOLE)),
        Some(Unknown::NotAFile(FileKind::Fifo)),
        "a pipe"
    );
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    assert_eq!(
        why(query(&socket, WHOLE)),
        Some(Unknown::NotAFile(FileKind::Socket)),
        "a socket"
    );
    let directory = File::open("/").unwrap();
    assert_eq!(
        why(query(&directory, WHOLE)),
        Some(Unknown::NotAFile(FileKind::Directory)),
        "a directory"
    );
    let zero = File::open("/dev/zero").unwrap();
    assert_eq!(
        why(query(&zero, WHOLE)),
        Some(Unknown::NotAFile(FileKind::CharacterDevice)),
        "a device"
    );
    for path in [
        "/proc/self/status",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ] {
        let Ok(file) = open(Path::new(path)) else {
            continue;
        };
        assert!(
            // cachestat refuses an ordinary user the files that only root may write.
            matches!(
                why(query(&file, WHOLE)),
                Some(Unknown::MadeUp | Unknown::NoPermission)
            ),
            "{path}: the kernel makes it up"
        );
    }
    let path_only = rustix::fs::open("/etc/passwd", OFlags::PATH, Mode::empty()).unwrap();
    let error = query(&path_only, WHOLE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "not really open: {error}");
}

#[test]
fn paths_that_lead_nowhere_are_named() {
    let directory = directory();
    let path = directory.path().join("loop");
    symlink(&path, &path).unwrap();
    let error = open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "a loop: {error}");
    let error = open(&directory.path().join("missing")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "nothing there: {error}");
    assert!(error.to_string().contains("missing"), "named: {error}");
}

#[test]
fn huge_pages_are_not_said_to_be_cold() {
    use rustix::fs::{MemfdFlags, memfd_create};
    let Ok(huge) = memfd_create(c"huge", MemfdFlags::HUGETLB | MemfdFlags::CLOEXEC) else {
        println!("skipped: huge pages: this kernel has no hugetlbfs");
        return;
    };
    rustix::fs::ftruncate(&huge, 2 << 20).unwrap();
    assert_eq!(
        why(query(&huge, WHOLE)),
        Some(Unknown::HugePages),
        "they are not counted"
    );
}

#[test]
fn a_block_device_has_a_size_and_pages() {
    let directory = directory();
    let image = file(directory.path(), "image", 256);
    let losetup = std::process::Command::new("losetup")
        .args(["--find", "--show", "--read-only"])
        .arg(&image)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .output();
    let device = match losetup {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout).unwrap(),
        _ => {
            println!("skipped: pages of a block device: needs root and losetup");
            return;
        }
    };
    let device = Path::new(device.trim());
    // The kernel empties its cache when the last one closes it, so one of us has it open throughout.
    let held = open(device).unwrap();
    let checked = std::panic::catch_unwind(|| {
        reports_exactly(device, 256, &[0, 7, 8, 100].into());
    });
    drop(held);
    let detached = std::process::Command::new("losetup")
        .arg("--detach")
        .arg(device)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .status()
        .unwrap();
    assert!(detached.success(), "{} is let go", device.display());
    checked.unwrap();
}

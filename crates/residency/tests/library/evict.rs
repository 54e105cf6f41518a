//! Putting pages out, and the reasons of those that stay.

use std::fs::{File, Permissions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use crate::support::{WHOLE, bytes, file, load, told, undisturbed};
use crate::unprivileged::{PublicDirectory, answer, looked_at};
use cachewise_residency::{
    EvictOptions, Evicted, Stayed, Unknown, WarmOptions, evict, holders, open, warm,
};
use cachewise_sys::{Mapping, sync_data};
use cachewise_units::{ByteRange, PageRange, Pages};
use tempfile::TempDir;

/// Beside the build, because /tmp is in memory on many machines.
fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn pages(start: u64, end: u64) -> PageRange {
    PageRange { start, end }
}

fn span(start: u64, end: u64) -> ByteRange {
    pages(start, end).bytes(cachewise_sys::page_size())
}

const ASK_ALL: EvictOptions = EvictOptions {
    sync: false,
    holders: true,
};
const SYNC: EvictOptions = EvictOptions {
    sync: true,
    holders: true,
};

fn evict_all(path: &Path, options: &EvictOptions) -> Evicted {
    evict(open(path).unwrap(), WHOLE, options).unwrap()
}

/// How many pages stayed by all reasons together.
fn sum(stayed: &Stayed) -> Pages {
    stayed.only_copy
        + stayed.dirty
        + stayed.writeback
        + stayed.locked
        + stayed.mapped
        + stayed.edge
        + stayed.other
}

#[test]
fn clean_pages_go() {
    let directory = directory();
    let path = file(directory.path(), "file", 500);
    undisturbed(|| {
        load(&path, &(0..500).collect());
        let evicted = evict_all(&path, &EvictOptions::default());
        assert_eq!(evicted.pages, Pages(500), "of all pages");
        assert_eq!(evicted.stayed, Some(Stayed::default()), "none stays");
        match evicted.went() {
            Some(Pages(500)) => Ok(()),
            _ => Err(format!("{evicted:?}")),
        }
    });
    assert_eq!(told(&path).0.cached, Pages::ZERO, "and none is there");
}

#[test]
fn only_the_range_goes_with_the_pages_that_it_touches() {
    let directory = directory();
    let path = file(directory.path(), "file", 100);
    undisturbed(|| {
        crate::support::evict(&path);
        // One by one: no folio is larger than a page.
        load(&path, &(0..100).collect());
        let touched = ByteRange {
            start: bytes(11) - 1,
            len: bytes(3) + 2,
        };
        let evicted = evict(open(&path).unwrap(), touched, &ASK_ALL).unwrap();
        let left = told(&path).1.ranges;
        match evicted.went() == Some(Pages(5)) && left == [pages(0, 10), pages(15, 100)] {
            true => Ok(()),
            false => Err(format!("{left:?} after {evicted:?}")),
        }
    });
    undisturbed(|| {
        load(&path, &(0..100).collect());
        evict(
            open(&path).unwrap(),
            ByteRange::starting_at(bytes(99)),
            &ASK_ALL,
        )
        .unwrap();
        match told(&path).1.ranges == [pages(0, 99)] {
            true => Ok(()),
            false => Err("the last page, which the file does not fill, goes too".to_owned()),
        }
    });
    for nothing in [
        ByteRange { start: 5, len: 0 },
        ByteRange::starting_at(bytes(100)),
        ByteRange::starting_at(u64::MAX),
    ] {
        let evicted = evict(open(&path).unwrap(), nothing, &ASK_ALL).unwrap();
        assert_eq!(evicted.pages, Pages::ZERO, "{nothing:?} has no pages");
    }
    assert!(told(&path).0.cached > Pages::ZERO, "and nothing went by it");
}

#[test]
fn dirty_and_mapped_pages_stay_and_say_so() {
    let directory = directory();
    let path = file(directory.path(), "file", 200);
    let writable = File::options().read(true).write(true).open(&path).unwrap();
    undisturbed(|| {
        crate::support::evict(&path);
        load(&path, &(0..200).collect());
        writable
            .write_all_at(&vec![7; bytes(4) as usize], bytes(50))
            .unwrap();
        let mapping = Mapping::of_pages(writable.as_fd(), pages(100, 110)).unwrap();
        mapping.populate(pages(100, 110)).unwrap();

        let evicted = evict_all(&path, &ASK_ALL);
        let stayed = evicted.stayed.as_ref().unwrap();
        // Eviction itself sets off what is dirty, so the disk may be done at any moment.
        let unwritten = stayed.dirty + stayed.writeback;
        if unwritten > Pages(4) || stayed.mapped < Pages(10) || stayed.other > Pages(4) {
            return Err(format!("4 at most and 10 mapped, not {stayed:?}"));
        }
        let after = evicted.after.unwrap().cached;
        assert_eq!(
            sum(stayed),
            after,
            "all of them have one reason: {stayed:?}"
        );
        let found = stayed.holders.as_ref().unwrap();
        let me = found
            .holders
            .iter()
            .find(|holder| holder.pid == std::process::id());
        let me = me.expect("it is this process that maps them");
        assert!(me.mapped >= Pages(10) && me.locked == Pages::ZERO, "{me:?}");
        assert_eq!(found.holders.len(), 1, "and no other: {found:?}");

        writable
            .write_all_at(&vec![8; bytes(4) as usize], bytes(50))
            .unwrap();
        let evicted = evict_all(&path, &SYNC);
        let stayed = evicted.stayed.as_ref().unwrap();
        if (stayed.dirty, stayed.writeback, stayed.other) != Default::default() {
            return Err(format!("with sync only mapped pages stay: {stayed:?}"));
        }
        assert!(
            stayed.mapped >= Pages(10) && stayed.mapped <= Pages(48),
            "those, and what the kernel mapped around them: {stayed:?}"
        );
        drop(mapping);
        let evicted = evict_all(&path, &SYNC);
        match evicted.stayed == Some(Stayed::default()) {
            true => Ok(()),
            false => Err(format!("nothing keeps them any more: {evicted:?}")),
        }
    });
}

#[test]
fn dirty_pages_go_once_they_are_written() {
    let directory = directory();
    let path = file(directory.path(), "file", 300);
    let writable = File::options().write(true).open(&path).unwrap();
    undisturbed(|| {
        writable
            .write_all_at(&vec![7; bytes(300) as usize - 1], 0)
            .unwrap();
        let evicted = evict_all(&path, &SYNC);
        match evicted.went() == Some(Pages(300)) && evicted.stayed == Some(Stayed::default()) {
            true => Ok(()),
            false => Err(format!("{evicted:?}")),
        }
    });
    assert_eq!(
        std::fs::read(&path).unwrap(),
        vec![7; bytes(300) as usize - 1],
        "and nothing was lost"
    );
}

#[test]
fn locked_pages_stay_and_say_so() {
    let directory = directory();
    let path = file(directory.path(), "file", 100);
    undisturbed(|| {
        crate::support::evict(&path);
        load(&path, &(0..100).collect());
        let file = open(&path).unwrap();
        let mapping = Mapping::of_pages(file.as_fd(), pages(10, 14)).unwrap();
        mapping.lock(pages(10, 14)).unwrap();
        let evicted = evict_all(&path, &ASK_ALL);
        let stayed = evicted.stayed.unwrap();
        let found = holders(&file).unwrap();
        match (stayed.locked, sum(&stayed), found.holders[0].locked) {
            (Pages(4), Pages(4), Pages(4)) => Ok(()),
            _ => Err(format!("{stayed:?}, {found:?}")),
        }
    });
    undisturbed(|| {
        load(&path, &(0..100).collect());
        let mapping = Mapping::of_pages(open(&path).unwrap().as_fd(), pages(10, 11)).unwrap();
        mapping.lock(pages(10, 11)).unwrap();
        let evicted = evict_all(&path, &EvictOptions::default());
        let stayed = evicted.stayed.unwrap();
        assert_eq!(stayed.holders, None, "nobody asked");
        match (stayed.other, sum(&stayed)) {
            (Pages(1), Pages(1)) => Ok(()),
            _ => Err(format!("so nobody knows: {stayed:?}")),
        }
    });
}

#[test]
fn a_mapping_that_is_joined_with_the_one_that_looks_is_seen() {
    let directory = directory();
    let [path, other] = ["file", "other"].map(|name| file(directory.path(), name, 20));
    // The kernel gives out addresses downwards, once the gaps are filled, and joins mappings that follow on
    // each other both there and in the file.
    let other = open(&other).unwrap();
    let gaps = [(); 256].map(|()| Mapping::of_pages(other.as_fd(), pages(0, 1)).unwrap());
    let file = open(&path).unwrap();
    let mapping = Mapping::of_pages(file.as_fd(), pages(11, 20)).unwrap();
    undisturbed(|| {
        mapping.populate(pages(11, 20)).unwrap();
        let evicted = evict(&file, span(10, 20), &ASK_ALL).unwrap();
        let stayed = evicted.stayed.unwrap();
        let seen = stayed.holders.as_ref().map(|found| found.holders.len());
        match seen == Some(1) && stayed.mapped >= Pages(9) {
            true => Ok(()),
            false => Err(format!("it is ours, and holds them: {stayed:?}")),
        }
    });
    drop(gaps);
}

#[test]
fn a_large_folio_at_the_edge_stays_and_says_so() {
    let directory = directory();
    let path = file(directory.path(), "file", 4096);
    // One folio may end just there; that all of them do, in four places, is not to be expected.
    let cut = |start, end| -> Result<Option<Stayed>, String> {
        crate::support::evict(&path);
        warm(open(&path).unwrap(), &[WHOLE], &WarmOptions::default()).unwrap();
        let evicted = evict(open(&path).unwrap(), span(start, end), &ASK_ALL).unwrap();
        let stayed = evicted.stayed.unwrap();
        match stayed.other == Pages::ZERO && sum(&stayed) == stayed.edge {
            true => Ok((stayed.edge > Pages::ZERO).then_some(stayed)),
            false => Err(format!("{stayed:?}")),
        }
    };
    undisturbed(|| {
        let found = [(1001, 3001), (1501, 2501), (1, 4001), (2047, 2049)]
            .into_iter()
            .map(|(start, end)| cut(start, end))
            .collect::<Result<Vec<_>, _>>()?;
        if found.iter().all(Option::is_none) {
            println!("skipped: the edge of a folio: the file system makes no large ones");
        }
        Ok(())
    });
    undisturbed(|| {
        warm(open(&path).unwrap(), &[WHOLE], &WarmOptions::default()).unwrap();
        let evicted = evict_all(&path, &ASK_ALL);
        match evicted.stayed == Some(Stayed::default()) {
            true => Ok(()),
            false => Err(format!("a file as a whole has no edges: {evicted:?}")),
        }
    });
}

#[test]
fn files_in_memory_have_no_other_place() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = file(directory.path(), "file", 50);
    for options in [ASK_ALL, SYNC] {
        let evicted = evict_all(&path, &options);
        let stayed = evicted.stayed.unwrap();
        assert_eq!(
            (stayed.only_copy, sum(&stayed)),
            (Pages(50), Pages(50)),
            "all of them, for that reason"
        );
    }
}

#[test]
fn file_without_page_cache_is_refused() {
    let file = open(Path::new("/proc/self/status")).unwrap();
    let error = evict(file, WHOLE, &ASK_ALL).unwrap_err();
    assert!(
        matches!(
            error.unknown(),
            Some(Unknown::MadeUp | Unknown::NoPermission)
        ),
        "the kernel makes it up: {error}"
    );
}

#[test]
fn evict_by_another_user_works_with_unknown_counts() {
    let place = PublicDirectory::new();
    let path = file(place.path(), "file", 20);
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    if !rustix::process::geteuid().is_root() {
        println!("skipped: another user's file: needs root");
        return;
    }
    undisturbed(|| {
        load(&path, &(0..20).collect());
        let Some(answer) = place.ask("evict::evict_as_nobody", "", &path) else {
            return Ok(());
        };
        assert_eq!(
            answer, "no_permission, no_permission, None",
            "neither before nor after, nor why"
        );
        match told(&path).0.cached {
            Pages::ZERO => Ok(()),
            left => Err(format!("the advice was taken, but {left} are left")),
        }
    });
    undisturbed(|| {
        let Some(answer) = place.ask("evict::warm_as_nobody", "", &path) else {
            return Ok(());
        };
        assert_eq!(
            answer,
            format!("no_permission, no_permission, {}", bytes(20) - 1),
            "all was read, for nobody knows what was missing"
        );
        match told(&path).0.cached {
            Pages(20) => Ok(()),
            other => Err(format!("they are there, but {other} are")),
        }
    });
}

#[test]
#[ignore = "only run by the test above, as nobody"]
fn evict_as_nobody() {
    let Some(path) = looked_at() else { return };
    let evicted = evict_all(&path, &SYNC);
    let (before, after) = (evicted.before.unwrap_err(), evicted.after.unwrap_err());
    answer(format_args!(
        "{}, {}, {:?}",
        before.id(),
        after.id(),
        evicted.stayed
    ));
}

#[test]
#[ignore = "only run by the test above, as nobody"]
fn warm_as_nobody() {
    let Some(path) = looked_at() else { return };
    let warmed = warm(open(&path).unwrap(), &[WHOLE], &WarmOptions::default()).unwrap();
    let (before, after) = (warmed.before.unwrap_err(), warmed.after.unwrap_err());
    answer(format_args!(
        "{}, {}, {}",
        before.id(),
        after.id(),
        warmed.read.0
    ));
}

#[test]
fn others_processes_are_counted_where_they_cannot_be_seen() {
    let place = PublicDirectory::new();
    let path = file(place.path(), "file", 20);
    std::fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    sync_data(File::open(&path).unwrap().as_fd()).unwrap();
    let held = File::open(&path).unwrap();
    let mapping = Mapping::of_pages(held.as_fd(), pages(3, 5)).unwrap();
    if !rustix::process::geteuid().is_root() {
        println!("skipped: processes of others: needs root");
        return;
    }
    undisturbed(|| {
        load(&path, &(0..20).collect());
        mapping.populate(pages(3, 5)).unwrap();
        let Some(answer) = place.ask("evict::hidden_from_nobody", "", &path) else {
            return Ok(());
        };
        match answer.as_str() {
            "by 0 processes, others hidden: true; 0 mapped, rest other: true" => Ok(()),
            _ => Err(answer),
        }
    });
}

#[test]
#[ignore = "only run by the test above, as nobody"]
fn hidden_from_nobody() {
    let Some(path) = looked_at() else { return };
    let stayed = evict_all(&path, &ASK_ALL).stayed.unwrap();
    let found = stayed.holders.as_ref().unwrap();
    answer(format_args!(
        "by {} processes, others hidden: {}; {} mapped, rest other: {}",
        found.holders.len(),
        found.hidden > 0,
        stayed.mapped,
        stayed.other > Pages::ZERO && stayed.other == sum(&stayed),
    ));
}

//! Stable files are found while inodes and file systems come and go.
//!
//! On the kernel's list, stable files lie between others that are deleted. With few inodes per run the walk stops at
//! many positions, and has to find each of them again.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use cachewise_kstat::Device;
use cachewise_probe::census::{Options, Summary};

use crate::stand::{Stand, as_root, command, resident, utf8, write_pages};

const CENSUSES: u32 = 20;
const STABLE: u32 = 2000;
/// Files that are deleted, around each that is not.
const VICTIMS: u32 = 9;
/// A wave that is the last.
const STOP: u32 = u32::MAX;

/// Makes the stable files, and those that are in the way; returns the first by their inode numbers.
fn make_files(directory: &Path) -> HashMap<u64, PathBuf> {
    (0..STABLE)
        .map(|number| {
            for victim in 0..VICTIMS {
                drop(write_pages(
                    &directory.join(format!("victim-{number}-{victim}")),
                    1,
                ));
            }
            let path = directory.join(format!("stable-{number}"));
            let stable = write_pages(&path, 1);
            (stable.metadata().expect("fstat works").ino(), path)
        })
        .collect()
}

fn device_of(directory: &Path) -> Device {
    let stat = fs::metadata(directory).expect("it is there");
    Device::from_stat(stat.dev())
}

/// Takes a census; returns how often each inode of the file system was listed. `begun` is called when the
/// walk comes to it.
fn count(
    stand: &mut Stand,
    device: Device,
    inodes_per_run: u32,
    begun: impl Fn(),
) -> (HashMap<u64, u32>, Summary) {
    let options = Options {
        names: false,
        inodes_per_run,
        ..Options::default()
    };
    let mut times = HashMap::new();
    let each = |inode: cachewise_probe::census::CachedInode| {
        if inode.device == device {
            if times.is_empty() {
                begun();
            }
            *times.entry(inode.id.inode).or_insert(0) += 1;
        }
    };
    let summary = stand
        .census
        .stream(&options, each)
        .expect("a census can be taken");
    assert!(!summary.is_partial(), "it is whole: {summary:?}");
    (times, summary)
}

/// Checks that each file is listed once. One that is not and has no pages any more was evicted by then;
/// returns how many those are.
fn check(times: &HashMap<u64, u32>, files: &HashMap<u64, PathBuf>, summary: &Summary) -> usize {
    let is_cached = |path: &Path| File::open(path).is_ok_and(|file| resident(file) > 0);
    let wrong: Vec<_> = files
        .iter()
        .filter(|(inode, path)| match times.get(inode) {
            Some(1) => false,
            Some(_) => true,
            None => is_cached(path),
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "each of {} files is listed once, but for {}: {:?}: {summary:?}",
        files.len(),
        wrong.len(),
        wrong.first()
    );
    let listed = files
        .keys()
        .filter(|inode| times.contains_key(inode))
        .count();
    assert!(
        listed > files.len() / 2,
        "most of them stay cached: {listed}"
    );
    files.len() - listed
}

/// At each wave deletes a part of what is in the way, from the front of the list on, as the walk goes; until
/// the next one makes and deletes other files.
fn create_and_unlink(directory: &Path, wave: &AtomicU32) {
    let mut last = 0;
    loop {
        let now = wave.load(Ordering::Relaxed);
        if now == STOP {
            return;
        }
        if now != last {
            last = now;
            for number in (0..STABLE).rev() {
                for victim in (0..VICTIMS).rev() {
                    if (number * VICTIMS + victim) % CENSUSES == now - 1 {
                        let path = directory.join(format!("victim-{number}-{victim}"));
                        fs::remove_file(path).expect("it can be deleted");
                    }
                }
            }
        }
        let paths = [0, 1, 2, 3].map(|number| directory.join(format!("new-{number}")));
        for path in &paths {
            drop(File::create(path).expect("a file can be made"));
        }
        for path in &paths {
            fs::remove_file(path).expect("and deleted");
        }
    }
}

fn mount_and_unmount(place: &Path, wave: &AtomicU32) -> u32 {
    let mut times = 0;
    while wave.load(Ordering::Relaxed) != STOP {
        rustix::mount::mount(
            "none",
            place,
            "tmpfs",
            rustix::mount::MountFlags::empty(),
            None,
        )
        .expect("a tmpfs can be mounted");
        drop(write_pages(&place.join("file"), 1));
        rustix::mount::unmount(place, rustix::mount::UnmountFlags::empty()).expect("and unmounted");
        times += 1;
    }
    times
}

fn survive_churn(stand: &mut Stand, directory: &Path) {
    let stable = make_files(directory);
    let device = device_of(directory);
    let place = stand.path("come-and-go");
    fs::create_dir(&place).expect("make a mount point");
    let wave = AtomicU32::new(0);
    let (mut total, mut evicted) = (Summary::default(), 0);
    let mounts = std::thread::scope(|scope| {
        let mounts = scope.spawn(|| mount_and_unmount(&place, &wave));
        scope.spawn(|| create_and_unlink(directory, &wave));
        // Stops the threads, also when an assertion fails.
        let stopper = Stopper(&wave);
        for number in 0..CENSUSES {
            // From many stops to few.
            let inodes_per_run = [30, 300, Options::MOST_INODES_PER_RUN][number as usize % 3];
            // No other process reads them, and proactive reclaim evicts unused pages.
            for path in stable.values() {
                fs::read(path).expect("it can be read");
            }
            let (times, summary) = count(stand, device, inodes_per_run, || {
                wave.store(number + 1, Ordering::Relaxed);
            });
            evicted += check(&times, &stable, &summary);
            total.recoveries += summary.recoveries;
            total.restarts += summary.restarts;
            total.duplicates += summary.duplicates;
            total.runs += summary.runs;
        }
        drop(stopper);
        mounts.join().expect("the thread that mounts works")
    });
    println!(
        "{CENSUSES} censuses in {} runs, {mounts} mounts meanwhile: went back {} times, began anew {} times, \
         {} duplicates left out; {evicted} files were evicted",
        total.runs, total.recoveries, total.restarts, total.duplicates
    );
    assert!(
        total.runs > u64::from(CENSUSES),
        "it stopped on the way, and went on"
    );
}

struct Stopper<'a>(&'a AtomicU32);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.store(STOP, Ordering::Relaxed);
    }
}

#[test]
fn stable_files_of_tmpfs_are_always_found() {
    as_root("churn on tmpfs", |stand| {
        let memory = stand.tmpfs("memory");
        survive_churn(stand, memory.path());
    });
}

#[test]
fn stable_files_of_ext4_are_always_found() {
    as_root("churn on ext4", |stand| {
        if let Some(disk) = stand.disk("ext4") {
            survive_churn(stand, disk.path());
        }
    });
}

/// The place where the walk has stopped is deleted before it goes on, again and again: without a race,
/// since a record is passed on between two runs.
#[test]
fn the_walk_goes_on_when_its_place_is_deleted() {
    as_root("deleted places", |stand| {
        let memory = stand.tmpfs("memory");
        let mut victims = HashMap::new();
        let mut stable = HashMap::new();
        for number in 0..600 {
            let path = memory.path().join(number.to_string());
            let file = write_pages(&path, 1);
            let inode = file.metadata().expect("fstat works").ino();
            // All at the front of the list, where it begins; then some of the others.
            if number > 500 || number % 3 == 0 {
                victims.insert(inode, path);
            } else {
                stable.insert(inode, path);
            }
        }
        let device = device_of(memory.path());
        let options = Options {
            inodes_per_run: 1,
            ..Options::default()
        };
        let mut times = HashMap::new();
        let summary = stand
            .census
            .stream(&options, |inode| {
                if inode.device == device {
                    *times.entry(inode.id.inode).or_insert(0) += 1;
                    if let Some(path) = victims.get(&inode.id.inode) {
                        fs::remove_file(path).expect("it can be deleted");
                    }
                }
            })
            .expect("a census can be taken");
        assert!(!summary.is_partial(), "it is whole: {summary:?}");
        let evicted = check(&times, &stable, &summary);
        assert_eq!(evicted, 0, "tmpfs has nowhere to evict them to");
        let met = victims
            .keys()
            .filter(|inode| times.get(inode) == Some(&1))
            .count();
        assert_eq!(met, victims.len(), "a file is listed before it is deleted");
        assert!(
            summary.restarts >= 90,
            "with nothing left before it, the walk began anew: {summary:?}"
        );
        assert!(
            summary.duplicates > 0,
            "later it went back to where it had been: {summary:?}"
        );
    });
}

/// The file system on which the walk has stopped is unmounted before it goes on.
#[test]
fn the_walk_goes_on_when_its_file_system_is_unmounted() {
    as_root("unmounted file systems", |stand| {
        let going = stand.tmpfs("going");
        for number in 0..50 {
            drop(write_pages(&going.path().join(number.to_string()), 1));
        }
        let device = device_of(going.path());
        let staying = stand.tmpfs("staying");
        let stays = write_pages(&staying.path().join("file"), 1);
        let stays = (
            device_of(staying.path()),
            stays.metadata().expect("fstat works").ino(),
        );
        let options = Options {
            inodes_per_run: 1,
            ..Options::default()
        };
        let (mut going_found, mut staying_found) = (0, 0);
        let summary = stand
            .census
            .stream(&options, |inode| {
                if inode.device == device {
                    going_found += 1;
                    if going_found == 10 {
                        command("umount", &[utf8(going.path())]);
                    }
                }
                staying_found += u32::from((inode.device, inode.id.inode) == stays);
            })
            .expect("a census can be taken");
        assert!(
            !summary.is_partial(),
            "nothing that is there was missed: {summary:?}"
        );
        assert_eq!(going_found, 10, "what was unmounted was left");
        assert_eq!(staying_found, 1, "what came after it was not");
    });
}

//! Small disks, other sizes, and ends without a close: what is on the disk stays there, or is gone as a whole.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cachewise_tier::{BlockCache, Error, Settings, Table, Tier};
use cachewise_units::{ByteRange, Bytes};

use super::{all_files, on_disk, open};
use crate::support::{
    BLOCK, Files, WHOLE, bytes_of, forgetful, name_of, read_through, row, settled,
};

/// 40 MiB, which fit into the smallest disk.
const BLOCKS: u64 = 640;

fn of_size(directory: &Path, mebibytes: u64) -> Settings {
    Settings {
        disk: Some(directory.to_owned()),
        disk_size: Bytes(mebibytes << 20),
        disk_deadline: Duration::from_secs(30),
        ..forgetful(None)
    }
}

/// One start: opens the directory with that size, reads all of the file, closes, and tells what it did.
async fn start(directory: &Path, mebibytes: u64, files: &Files) -> Table {
    let settings = of_size(directory, mebibytes);
    let cache = BlockCache::open(settings, files.origin()).await;
    let cache = cache.expect("it opens");
    let file = settled(&cache, &name_of(0)).await;
    let bytes = cache.get(&file, WHOLE).await.expect("it can be read");
    assert!(bytes == bytes_of(0, files.size), "the right bytes");
    cache.close().await.expect("it closes");
    let table = cache.table();
    assert_eq!(table.totals.dropped_disk_writes, 0, "{table:?}");
    assert_eq!(row(&table, Tier::Disk).errors, 0, "{table:?}");
    table
}

fn segments(directory: &Path) -> Vec<PathBuf> {
    let mut files = all_files(&directory.join("blocks"));
    files.retain(|file| !file.ends_with("format"));
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starts_that_only_read_throw_nothing_away() {
    let files = Files::new(1, BLOCKS * BLOCK);
    let directory = tempfile::tempdir().expect("made");
    start(directory.path(), 64, &files).await;
    all_are_found_five_times(directory.path(), &files).await;
}

async fn all_are_found_five_times(directory: &Path, files: &Files) {
    for number in 0..5 {
        let table = start(directory, 64, files).await;
        assert_eq!(row(&table, Tier::Disk).hits, BLOCKS, "{number}: {table:?}");
        assert_eq!(row(&table, Tier::Origin).calls, 0, "{number}: {table:?}");
    }
}

/// As a mount has them that little is read through: each is written before the next one comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_that_come_one_by_one_take_no_more_room() {
    const STARTS: u64 = 5;
    let files = Files::new(1, BLOCKS * BLOCK);
    let directory = tempfile::tempdir().expect("made");
    for start in 0..STARTS {
        let settings = of_size(directory.path(), 64);
        let cache = BlockCache::open(settings, files.origin()).await;
        let cache = cache.expect("it opens");
        let file = settled(&cache, &name_of(0)).await;
        for number in (start..BLOCKS).step_by(STARTS as usize) {
            let range = ByteRange {
                start: number * BLOCK,
                len: BLOCK,
            };
            cache.get(&file, range).await.expect("it can be read");
            cache.filled().await.expect("the disk takes it");
        }
        cache.close().await.expect("it closes");
        let table = cache.table();
        let read = row(&table, Tier::Origin).hits;
        assert_eq!(read, BLOCKS / STARTS, "each once: {table:?}");
    }
    all_are_found_five_times(directory.path(), &files).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_size_is_no_error_and_leaves_no_files() {
    let files = Files::new(1, BLOCKS * BLOCK);
    let directory = tempfile::tempdir().expect("made");
    let path = directory.path();
    start(path, 2 << 10, &files).await;
    assert_eq!(segments(path).len(), 128);
    // Segments are of the same size from 1 GiB on, so that what is in those that stay is found.
    let table = start(path, 1 << 10, &files).await;
    assert!(row(&table, Tier::Disk).hits > 0, "{table:?}");
    assert_eq!(segments(path).len(), 64, "the others take no room");
    // Below they are smaller: it begins anew.
    for size in [64, 1 << 10] {
        let table = start(path, size, &files).await;
        assert_eq!(row(&table, Tier::Disk).hits, 0, "{size}: {table:?}");
        let table = start(path, size, &files).await;
        assert_eq!(row(&table, Tier::Disk).hits, BLOCKS, "{size}: {table:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_as_they_were_made_before_are_taken_for_none() {
    let files = Files::new(1, BLOCKS * BLOCK);
    let directory = tempfile::tempdir().expect("made");
    start(directory.path(), 64, &files).await;
    // With blocks in them, and of another size: an offset leads elsewhere.
    for path in segments(directory.path()) {
        let file = std::fs::OpenOptions::new().write(true).open(path);
        file.expect("ours").set_len(16 << 20).expect("sparse");
    }
    let table = start(directory.path(), 64, &files).await;
    assert_eq!(row(&table, Tier::Disk).hits, 0, "{table:?}");
    let len = |path: PathBuf| std::fs::metadata(path).expect("there").len();
    let room: u64 = segments(directory.path()).into_iter().map(len).sum();
    assert!(room <= 64 << 20, "{room}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_filled_is_on_the_disk() {
    let files = Files::new(40, BLOCK);
    let directory = tempfile::tempdir().expect("made");
    let cache = open(directory.path(), &files).await;
    read_through(&cache, &files).await;
    cache.filled().await.expect("the disk takes it");
    // As kill -9 would leave it now.
    let copy = tempfile::tempdir().expect("made");
    let blocks = copy.path().join("blocks");
    std::fs::create_dir(&blocks).expect("made");
    for path in segments(directory.path()) {
        let name = path.file_name().expect("it has one");
        std::fs::copy(&path, blocks.join(name)).expect("copied");
    }
    let second = open(copy.path(), &files).await;
    read_through(&second, &files).await;
    let table = second.table();
    assert_eq!(row(&table, Tier::Disk).hits, 40, "{table:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_close_holds_the_directory_until_all_is_written() {
    let files = Files::new(40, BLOCK);
    let directory = tempfile::tempdir().expect("made");
    let first = open(directory.path(), &files).await;
    read_through(&first, &files).await;
    drop(first);
    let mut tries = 0;
    let second = loop {
        match BlockCache::open(on_disk(directory.path()), files.origin()).await {
            Ok(cache) => break cache,
            Err(Error::Locked { .. }) if tries < 6_000 => tries += 1,
            Err(error) => panic!("after {tries}: {error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    read_through(&second, &files).await;
    let table = second.table();
    assert_eq!(row(&table, Tier::Disk).hits, 40, "{table:?}");
}

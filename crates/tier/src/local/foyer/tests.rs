use std::path::Path;

use super::*;

/// Settings with a disk in MiB and a block size in KiB.
fn settings(directory: &Path, disk: u64, block: u64) -> Settings {
    let capacity = cachewise_units::Bytes(disk << 20);
    Settings {
        block: cachewise_units::Bytes(block << 10),
        memory: cachewise_units::Bytes(4 * (block << 10)),
        disk: Some(directory.to_owned()),
        disk_size: capacity,
        ..Settings::default()
    }
}

fn key(number: u64) -> BlockKey {
    BlockKey::from_bytes((u128::from(number) << 64).to_le_bytes())
}

fn keep(local: &Foyer, number: u64, bytes: &Bytes) {
    local.keep(key(number), Block::seal(&key(number), bytes.clone()));
}

/// Starts, and tells how many of these blocks are found on the disk.
async fn found(settings: &Settings, numbers: std::ops::Range<u64>) -> u64 {
    let local = Foyer::open(settings).await.unwrap();
    let is_there = |number: &u64| local.cache.storage().may_contains(&key(*number));
    numbers.filter(is_there).count() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_many_keep_at_once_is_found_after_a_start() {
    /// Of a few bytes, so that most of the time is spent where one might overtake another.
    const BLOCKS: u64 = 5_000;
    const ROUNDS: u64 = 6;
    const THREADS: u64 = 4;
    let scratch = tempfile::tempdir().unwrap();
    let settings = settings(scratch.path(), 256, 16);
    let local = Arc::new(Foyer::open(&settings).await.unwrap());
    for round in 0..ROUNDS {
        let threads = (0..THREADS).map(|thread| {
            let local = Arc::clone(&local);
            std::thread::spawn(move || {
                let numbers = round * BLOCKS..(round + 1) * BLOCKS;
                for number in numbers.skip(thread as usize).step_by(THREADS as usize) {
                    keep(&local, number, &Bytes::from_static(b"bytes"));
                }
            })
        });
        for thread in threads.collect::<Vec<_>>() {
            thread.join().unwrap();
        }
        local.written().await.unwrap();
    }
    local.written().await.unwrap();
    assert_eq!(local.dropped(), 0);
    drop(local);
    let all = ROUNDS * BLOCKS;
    let found = found(&settings, 0..all).await;
    assert_eq!(found, all, "120 MiB fit into 256");
}

/// On a full disk, the blocks of all segments are found, except one empty segment and the segments being written,
/// however many blocks come at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_has_all_that_its_segments_have_room_for() {
    const DISK: u64 = 64;
    for kibibytes in [64, 128, 1 << 10] {
        let blocks = (DISK << 10) / kibibytes;
        let bytes = Bytes::from(vec![7; usize::try_from(kibibytes << 10).unwrap()]);
        for at_once in [1, blocks / 4] {
            let scratch = tempfile::tempdir().unwrap();
            let settings = settings(scratch.path(), DISK, kibibytes);
            let local = Foyer::open(&settings).await.unwrap();
            for number in 0..blocks {
                keep(&local, number, &bytes);
                if (number + 1) % at_once == 0 {
                    local.written().await.unwrap();
                }
            }
            local.written().await.unwrap();
            assert_eq!(local.dropped(), 0);
            drop(local);
            let segments = Segments::for_capacity(DISK << 20, kibibytes << 10);
            let full = segments.capacity() / segments.size - segments.flushers as u64 - 1;
            let room = full * (segments.size / ((kibibytes + 4) << 10));
            assert!(room * 100 >= blocks * 90, "{room} of {blocks}");
            let found = found(&settings, 0..blocks).await;
            assert!(
                found >= room,
                "{kibibytes} KiB, {at_once} at once: {found} of {room}"
            );
        }
    }
}

#[tokio::test]
async fn what_came_from_the_disk_is_checked_before_anybody_gets_it() {
    let local = Foyer::open(&Settings::default()).await.unwrap();
    let (right, wrong) = (BlockKey::from_bytes([1; 16]), BlockKey::from_bytes([2; 16]));
    let block = Block::seal(&right, Bytes::from_static(b"bytes"));
    for key in [right, wrong] {
        // As foyer has it in memory, when it has read it.
        local.cache.insert(key, Kept::new(block.clone(), false));
    }
    assert_eq!(
        local.memory(&wrong),
        Err(CORRUPT.to_owned()),
        "another key's"
    );
    assert_eq!(local.memory(&wrong), Ok(None), "which is taken out");
    for _ in 0..2 {
        assert_eq!(local.memory(&right), Ok(Some(block.clone())));
    }
    let entry = local.cache.memory().get(&right).expect("kept");
    assert!(entry.value().is_checked.load(Ordering::Relaxed), "once");
}

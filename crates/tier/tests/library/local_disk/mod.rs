//! The tier on the local disk: what is in it stays, what is broken is a miss, and it is one process's.

mod failing;
mod planted;
mod small;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{self, BLOCK, Files, WHOLE, bytes_of, forgetful, read_through, row};
use cachewise_tier::{BlockCache, Error, Settings, Tier};
use cachewise_units::Bytes;

/// By this the test's program knows that it is to be the one that is killed.
const CHILD: &str = "CACHEWISE_TEST_CACHE_DIRECTORY";

fn on_disk(directory: &Path) -> Settings {
    Settings {
        disk: Some(directory.to_owned()),
        disk_size: Bytes(256 << 20),
        // Other tests keep the disk busy meanwhile, and a late block would come from the origin.
        disk_deadline: std::time::Duration::from_secs(30),
        ..forgetful(None)
    }
}

async fn open(directory: &Path, files: &Files) -> BlockCache {
    BlockCache::open(on_disk(directory), files.origin())
        .await
        .expect("it opens")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_survive_a_restart() {
    let files = Files::new(40, BLOCK);
    let directory = tempfile::tempdir().expect("made");
    let first = open(directory.path(), &files).await;
    read_through(&first, &files).await;
    assert_eq!(row(&first.table(), Tier::Origin).hits, 40);
    first.close().await.expect("it closes");
    drop(first);

    let second = open(directory.path(), &files).await;
    read_through(&second, &files).await;
    let table = second.table();
    assert_eq!(row(&table, Tier::Origin).calls, 0, "{table:?}");
    assert_eq!(row(&table, Tier::Disk).hits, 40, "{table:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_is_written_whole() {
    let files = Files::new(1, 2_000 * BLOCK);
    let directory = tempfile::tempdir().expect("made");
    let cache = open(directory.path(), &files).await;
    let file = support::settled(&cache, &support::name_of(0)).await;
    let expected = bytes_of(0, files.size);
    let read = |from: u64, len: u64| {
        let range = cachewise_units::ByteRange { start: from, len };
        let (cache, file) = (cache.clone(), file.clone());
        async move { cache.get(&file, range).await.expect("it can be read") }
    };
    let half = 1_000 * BLOCK;
    for from in [0, half] {
        let bytes = read(from, half.min(cachewise_tier::LONGEST_READ)).await;
        let at = usize::try_from(from).expect("small");
        assert_eq!(bytes, expected[at..at + bytes.len()]);
    }
    cache.close().await.expect("it closes");
    let dropped = cache.table().totals.dropped_disk_writes;
    assert_eq!(dropped, 0, "125 MiB at once fit into the queue");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_queue_has_no_room_for_is_counted() {
    let files = Files::new(1, 900 * BLOCK);
    let directory = tempfile::tempdir().expect("made");
    let mut settings = on_disk(directory.path());
    settings.disk_queue = Some(Bytes(8 * BLOCK));
    let cache = BlockCache::open(settings, files.origin())
        .await
        .expect("it opens");
    let file = support::settled(&cache, &support::name_of(0)).await;
    let bytes = cache.get(&file, WHOLE).await.expect("it can be read");
    assert_eq!(
        bytes,
        bytes_of(0, files.size),
        "drops are no loss to readers"
    );
    cache.close().await.expect("it closes");
    let dropped = cache.table().totals.dropped_disk_writes;
    drop(cache);
    let again = open(directory.path(), &files).await;
    let bytes = again.get(&file, WHOLE).await.expect("it can be read");
    assert_eq!(bytes, bytes_of(0, files.size));
    let kept = row(&again.table(), Tier::Disk).hits;
    assert!(dropped > 0, "56 MiB do not go through half a MiB at once");
    assert_eq!(kept + dropped, 900, "each block is on the disk or counted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_corrupt_block_is_a_miss() {
    let files = Files::new(40, BLOCK);
    let directory = tempfile::tempdir().expect("made");
    let first = open(directory.path(), &files).await;
    read_through(&first, &files).await;
    first.close().await.expect("it closes");
    drop(first);
    // One byte of sixteen thousand is another in all that was written.
    let mut broken = 0;
    for path in all_files(directory.path()) {
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .expect("ours");
        let len = file.metadata().expect("open").len();
        for at in (5_000..len).step_by(16 << 10) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).expect("read");
            if byte != [0] {
                file.write_all_at(&[!byte[0]], at).expect("written");
                broken += 1;
            }
        }
    }
    assert!(broken >= 100, "four in each block: {broken}");
    let second = open(directory.path(), &files).await;
    read_through(&second, &files).await;
    let table = second.table();
    assert!(
        row(&table, Tier::Origin).hits >= 35,
        "nearly all are broken: {table:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_nonsense_in_the_directory_are_no_blocks() {
    let files = Files::new(10, BLOCK);
    let directory = tempfile::tempdir().expect("made");
    let first = open(directory.path(), &files).await;
    read_through(&first, &files).await;
    first.close().await.expect("it closes");
    drop(first);
    let mut segments = all_files(directory.path());
    segments.retain(|path| !path.ends_with("format"));
    for (number, path) in segments.iter().enumerate() {
        let len = std::fs::metadata(path).expect("there").len();
        std::fs::write(path, bytes_of(number, len.min(20 << 20))).expect("written");
    }
    let second = open(directory.path(), &files).await;
    read_through(&second, &files).await;
    assert_eq!(row(&second.table(), Tier::Origin).hits, 10);
}

fn all_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("there") {
        let path = entry.expect("read").path();
        if path.is_dir() {
            found.extend(all_files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_is_one_cache_s_at_a_time() {
    let files = Files::new(1, BLOCK);
    let directory = tempfile::tempdir().expect("made");
    let first = open(directory.path(), &files).await;
    let error = BlockCache::open(on_disk(directory.path()), files.origin())
        .await
        .expect_err("it is in use");
    let Error::Locked { pid, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(
        *pid,
        Some(std::process::id()),
        "who has it is said: {error}"
    );
    first.close().await.expect("it closes");
    drop(first);
    open(directory.path(), &files).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_9_loses_nothing_that_was_written() {
    if let Some(directory) = std::env::var_os(CHILD) {
        // The origin's files are the parent's; this is the one that is killed, and leaves what it has made.
        let origin = std::env::var_os("CACHEWISE_TEST_ORIGIN").expect("the parent names it");
        fill_until_killed(Path::new(&directory), Path::new(&origin)).await;
        return;
    }
    let files = Files::new(40, BLOCK);
    let directory = tempfile::tempdir().expect("made");
    let mut child = Command::new(std::env::current_exe().expect("this runs"))
        .args([
            "--exact",
            "local_disk::kill_9_loses_nothing_that_was_written",
            "--nocapture",
        ])
        .env(CHILD, directory.path())
        .env("CACHEWISE_TEST_ORIGIN", files.directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program can be started");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let written = lines
        .map_while(Result::ok)
        .any(|line| line.contains("all is written"));
    assert!(written, "the child says when it is done");
    child.kill().expect("it is ours");
    child.wait().expect("it ends");

    let cache = open(directory.path(), &files).await;
    read_through(&cache, &files).await;
    let table = cache.table();
    assert_eq!(row(&table, Tier::Disk).hits, 40, "{table:?}");
}

async fn fill_until_killed(directory: &Path, origin: &Path) {
    let origin = cachewise_tier::Directory::open(origin).expect("the parent made it");
    let cache = BlockCache::open(on_disk(directory), std::sync::Arc::new(origin))
        .await
        .expect("it opens");
    for number in 0..40 {
        let file = support::settled(&cache, &support::name_of(number)).await;
        cache.get(&file, WHOLE).await.expect("it can be read");
    }
    cache.close().await.expect("what waits is written");
    println!("all is written");
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_cannot_be_made_is_said() {
    let files = Files::new(1, BLOCK);
    let occupied = tempfile::NamedTempFile::new().expect("made");
    let error = BlockCache::open(on_disk(&occupied.path().join("cache")), files.origin())
        .await
        .expect_err("a file is in the way");
    assert!(matches!(error, Error::Directory { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("cache directory"), "{said}");
}

//! A disk that is full, and one that fails: right bytes, in bounded time, and never a hang.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use cachewise_tier::{BlockCache, Error, Tier};

use super::{all_files, on_disk, open};
use crate::support::{BLOCK, Files, read_through, row};

/// Far beyond what closing takes.
const CLOSES: Duration = Duration::from_secs(60);

/// Runs a command that may not be allowed here.
fn can(program: &str, arguments: &[&str], path: &Path) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).arg(path);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// A file system of its own that is soon full; unmounted when this is dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn new(size: &str) -> Option<Self> {
        let directory = tempfile::tempdir().expect("made");
        let arguments = ["-t", "tmpfs", "-o", size, "cachewise-test"];
        can("mount", &arguments, directory.path()).then_some(Self(directory))
    }

    fn resize(&self, size: &str) {
        let remount = format!("remount,{size}");
        assert!(can("mount", &["-o", &remount], self.0.path()), "{size}");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Its files may be open for a moment longer, by threads of a cache that is closing.
        can("umount", &["-l"], self.0.path());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_no_error_of_a_read() {
    let Some(small) = Small::new("size=2m") else {
        println!("skipped: a full disk: tmpfs cannot be mounted (not root?)");
        return;
    };
    let files = Files::new(100, BLOCK);
    let cache = open(small.0.path(), &files).await;
    for _ in 0..3 {
        read_through(&cache, &files).await;
    }
    let origin = row(&cache.table(), Tier::Origin);
    assert!(origin.hits > 100, "6 MiB do not fit into 2: {origin:?}");
    let closed = tokio::time::timeout(CLOSES, cache.close()).await;
    assert!(matches!(closed, Ok(Ok(()))), "{closed:?}");
    let table = cache.table();
    assert_eq!(table.totals.dropped_disk_writes, origin.hits, "{table:?}");
    let said = cache.warnings().join(" ");
    assert!(said.contains("has room for"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_full_already_is_opened() {
    let Some(small) = Small::new("size=2m") else {
        println!("skipped: a disk that is full: tmpfs cannot be mounted (not root?)");
        return;
    };
    let directory = small.0.path().join("cache");
    std::fs::create_dir(&directory).expect("there is room");
    let error = std::fs::write(small.0.path().join("all"), vec![1; 4 << 20]);
    let error = error.expect_err("2 MiB are all there is");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
    let files = Files::new(4, BLOCK);
    let cache = open(&directory, &files).await;
    read_through(&cache, &files).await;
    // That its blocks are written nowhere is no error of a read.
    let closed = tokio::time::timeout(CLOSES, cache.close()).await;
    assert!(matches!(closed, Ok(Ok(()))), "{closed:?}");
    assert_eq!(cache.table().totals.dropped_disk_writes, 4);
    let said = cache.warnings().join(" ");
    assert!(said.contains("has room for"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_disk_refuses_is_counted() {
    let Some(small) = Small::new("size=400m") else {
        println!("skipped: a disk that refuses: tmpfs cannot be mounted (not root?)");
        return;
    };
    let files = Files::new(20, BLOCK);
    let cache = open(small.0.path(), &files).await;
    assert_eq!(cache.warnings(), [""; 0], "there is room for all of it");
    // Too few blocks come after this for the room to be looked at again.
    small.resize("size=128k");
    read_through(&cache, &files).await;
    let closed = tokio::time::timeout(CLOSES, cache.close()).await;
    assert!(matches!(closed, Ok(Ok(()))), "{closed:?}");
    let dropped = cache.table().totals.dropped_disk_writes;
    assert!(
        (19..=20).contains(&dropped),
        "one has room at most: {dropped}"
    );
}

/// A file system on a loop device whose medium can be taken away: each transfer is an I/O error then. Unmounted when
/// this is dropped.
struct Failing {
    directory: tempfile::TempDir,
    image: PathBuf,
}

impl Failing {
    fn new() -> Option<Self> {
        let directory = tempfile::tempdir().expect("made");
        let memory = directory.path().join("memory");
        let failing = Self {
            image: memory.join("image"),
            directory,
        };
        for made in [&memory, &failing.mounted()] {
            std::fs::create_dir(made).expect("made");
        }
        let arguments = ["-t", "tmpfs", "-o", "size=120m", "cachewise-test"];
        let is_made = can("mount", &arguments, &memory)
            && can("truncate", &["-s", "96M"], &failing.image)
            // Without a journal: one that fails would have it read-only, which is another fault.
            && can("mkfs.ext4", &["-q", "-O", "^has_journal"], &failing.image)
            && failing.mount();
        is_made.then_some(failing)
    }

    fn mounted(&self) -> PathBuf {
        self.directory.path().join("mounted")
    }

    fn mount(&self) -> bool {
        let image = self.image.to_str().expect("ours");
        let options = ["-o", "loop,errors=continue", image];
        can("mount", &options, &self.mounted())
    }

    /// From now on nothing can be read that is not in the kernel's memory, and nothing written.
    fn fail(&self) {
        assert!(can("truncate", &["-s", "0"], &self.image), "it is ours");
        let memory = self.image.parent().expect("it has one");
        let smallest = ["-o", "remount,size=4k"];
        assert!(can("mount", &smallest, memory), "it is empty");
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        can("umount", &["-l"], &self.mounted());
        can(
            "umount",
            &["-l"],
            self.image.parent().unwrap_or(&self.image),
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_fails_is_no_error_of_a_read() {
    let Some(failing) = Failing::new() else {
        println!("skipped: a disk that fails: no loop device can be mounted (not root?)");
        return;
    };
    let files = Files::new(60, BLOCK);
    let directory = failing.mounted().join("cache");
    let mut settings = on_disk(&directory);
    settings.disk_size = cachewise_units::Bytes(64 << 20);
    let open = || BlockCache::open(settings.clone(), files.origin());
    let first = open().await.expect("it opens");
    read_through(&first, &files).await;
    first.close().await.expect("it closes");
    drop(first);
    let cache = open().await.expect("it opens");
    // Evicts the files from the page cache, so that reads reach the disk.
    for path in all_files(&directory) {
        let file = std::fs::File::open(path).expect("ours");
        file.sync_all().expect("it is still well");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("advised");
    }
    failing.fail();
    for _ in 0..2 {
        read_through(&cache, &files).await;
    }
    let table = cache.table();
    let disk = row(&table, Tier::Disk);
    assert!(disk.errors > 0, "that is told: {table:?}");
    assert!(row(&table, Tier::Origin).hits > 0, "{table:?}");
    let closed = tokio::time::timeout(CLOSES, cache.close()).await;
    assert!(closed.is_ok(), "closing does not hang");
    drop(cache);
    // A cache opened now reports the failure, or works without the disk.
    let late = tokio::time::timeout(CLOSES, open()).await;
    match late.expect("it does not hang") {
        Ok(cache) => read_through(&cache, &files).await,
        Err(error) => {
            let is_said = matches!(error, Error::Directory { .. } | Error::Locked { .. });
            assert!(is_said, "{error:?}");
        }
    }
}

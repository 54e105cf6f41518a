//! Files on a disk, and their residency.

#![expect(clippy::unwrap_used, reason = "where a call fails, the test does")]

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// Files in a directory that goes with this value.
pub struct Files {
    directory: tempfile::TempDir,
}

impl Files {
    /// An empty directory on a disk.
    pub fn new() -> Files {
        let place = std::env::var_os("CACHEWISE_TEST_DIR").map_or("/var/tmp".into(), PathBuf::from);
        Files {
            directory: tempfile::tempdir_in(place).unwrap(),
        }
    }

    /// A file on the disk, of which no page is resident.
    pub fn cold(&self, name: &str, bytes: usize) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, vec![7; bytes]).unwrap();
        let file = fs::File::open(&path).unwrap();
        file.sync_all().unwrap();
        evict(&file);
        assert_eq!(resident(&path), 0, "a clean file is evicted completely");
        path
    }
}

/// Evicts what can be evicted of a file.
pub fn evict(file: &fs::File) {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

/// Pages of a file in the cache, by cachestat(2).
pub fn resident(path: &Path) -> u64 {
    let file = fs::File::open(path).unwrap();
    let found = cachewise_sys::cachestat(file.as_fd(), None).unwrap();
    found.cached.0
}

//! Files of known content and residency.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cachewise_sys::Mapping;
use cachewise_units::PageRange;
use tempfile::TempDir;

use super::command::until;

/// A directory on a disk, open to every user, gone when dropped. (`/tmp` is often a tmpfs, whose
/// files never come from anywhere.) `CACHEWISE_TEST_DIR` says where it is to be.
pub struct Scratch(TempDir);

impl Scratch {
    /// Makes it.
    pub fn new() -> Scratch {
        let place = std::env::var_os("CACHEWISE_TEST_DIR").unwrap_or_else(|| "/var/tmp".into());
        let directory = tempfile::Builder::new()
            .prefix("cachewise-e2e-")
            .tempdir_in(place)
            .expect("a scratch directory can be made; CACHEWISE_TEST_DIR names another place");
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))
            .expect("it is ours");
        Scratch(directory)
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        self.0.path()
    }

    /// The path of a file in it, made or not.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a file that no compression makes smaller, and has it on the disk.
    pub fn file(&self, name: impl AsRef<Path>, bytes: u64) -> PathBuf {
        let path = self.path(name);
        let mut file = File::create(&path).expect("a file can be made in the scratch directory");
        let mut block = random_block(bytes);
        for start in (0..bytes).step_by(block.len()) {
            // No page is like the one at its place in another block.
            for page in block.chunks_exact_mut(4 << 10) {
                page[..8].copy_from_slice(&start.to_le_bytes());
            }
            let length = (bytes - start).min(block.len() as u64);
            file.write_all(&block[..length as usize])
                .expect("the disk has room");
        }
        file.sync_all().expect("the disk takes it");
        path
    }
}

/// Random bytes for a file of this size, at most 1 MiB of them; the size is the seed.
fn random_block(bytes: u64) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ bytes;
    let mut block = vec![0; bytes.next_multiple_of(8).clamp(8, 1 << 20) as usize];
    for word in block.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    block
}

/// The size of this machine's pages.
pub fn page_size() -> u64 {
    cachewise_sys::page_size().get()
}

/// How many pages a file has.
pub fn pages_of(path: &Path) -> u64 {
    path.metadata()
        .expect("the file is there")
        .len()
        .div_ceil(page_size())
}

/// How many pages of a file the kernel says are in the page cache.
pub fn resident(path: &Path) -> u64 {
    cachewise_sys::resident(path)
        .expect("root may ask")
        .cached
        .0
}

/// Puts a file, or what is cached of a block device, out of the page cache.
pub fn evict(path: &Path) {
    let file = File::open(path).expect("it can be opened");
    // Pages on their way through a processor's batch stay at first.
    until(
        &format!("nothing of {} is resident", path.display()),
        || {
            cachewise_sys::sync_data(file.as_fd()).expect("the disk takes it");
            cachewise_sys::fadvise_dont_need(file.as_fd()).expect("the kernel takes the advice");
            let left = cachewise_sys::cachestat(file.as_fd(), None)
                .expect("root may ask")
                .cached;
            (left.0 == 0).then_some(())
        },
    );
}

/// Reads a file, so that all of it is in the page cache.
pub fn warm(path: &Path) {
    let mut file = File::open(path).expect("it can be opened");
    let mut buffer = vec![0; 1 << 20];
    while file.read(&mut buffer).expect("it can be read") > 0 {}
}

/// Inserts the first pages of a file, or of a block device, and locks them until the mapping is dropped: no reclaimer
/// evicts them, so counts of them must be exact at once.
#[must_use]
pub fn pin(path: &Path, pages: u64) -> Mapping {
    let file = File::open(path).expect("it can be opened");
    let pages = PageRange {
        start: 0,
        end: pages,
    };
    let mapping = Mapping::of_pages(file.as_fd(), pages).expect("it can be mapped");
    mapping.lock(pages).expect("root may lock what it likes");
    mapping
}

/// Repeats a measurement that reclaim by another program (a proactive reclaimer) disturbed: `measure` returns `None` if
/// the counts of the kernel show that the conditions did not last.
pub fn undisturbed<T>(mut measure: impl FnMut() -> Option<T>) -> T {
    const ATTEMPTS: u32 = 10;
    (0..ATTEMPTS)
        .find_map(|attempt| {
            // A reclaimer works by strokes, which last.
            std::thread::sleep(Duration::from_millis(100) * attempt);
            measure()
        })
        .unwrap_or_else(|| panic!("pages vanished under the measurement, {ATTEMPTS} times in turn"))
}

/// A full named pipe: a writer blocks until it is removed.
pub struct FullPipe {
    /// Its path.
    pub path: PathBuf,
    _ends: File,
}

impl FullPipe {
    /// Makes one.
    pub fn new(scratch: &Scratch) -> FullPipe {
        let path = scratch.path("full");
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(
            made.is_ok_and(|status| status.success()),
            "mkfifo can make a pipe"
        );
        // Both ends, so that opening it does not block.
        let mut ends = File::options()
            .read(true)
            .write(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
            .open(&path)
            .expect("it is ours");
        let full = loop {
            if let Err(error) = ends.write(&[0; 512]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock, "it is full");
        FullPipe { path, _ends: ends }
    }
}

/// A block device over a file, detached when dropped.
pub struct LoopDevice {
    /// Its path.
    pub path: PathBuf,
    /// The cache of a block device lasts as long as it is open: the kernel empties it at the last close. A disk with a
    /// mounted partition is always open; this one is kept open by us.
    held: Option<File>,
}

impl LoopDevice {
    /// Attaches one.
    pub fn over(image: &Path) -> LoopDevice {
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(image)
            .output()
            .expect("losetup is there");
        assert!(
            output.status.success(),
            "a loop device can be had: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let held = File::open(&path).ok();
        let device = LoopDevice { path, held };
        assert!(
            device.held.is_some(),
            "{} can be opened",
            device.path.display()
        );
        device
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        self.held = None;
        let _ = Command::new("losetup")
            .arg("--detach")
            .arg(&self.path)
            .status();
    }
}

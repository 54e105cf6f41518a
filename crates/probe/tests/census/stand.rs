//! Where the tests take place.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use cachewise_kstat::{Device, Kernel, Mounts};
use cachewise_probe::ErrorKind;
use cachewise_probe::census::{CachedInode, Census, Options, Report};
use rustix::thread::UnshareFlags;
use tempfile::TempDir;

/// The sums of one test would be changed by the files of another.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs a test as root, alone, in a mount namespace of its own.
pub fn as_root(what: &str, test: impl FnOnce(&mut Stand) + Send) {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: census: {what}: needs root");
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            // SAFETY: the thread is new, and NEWNS only takes a working directory and a root of its own:
            // nothing that std shares between threads is used otherwise.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
                .expect("root may have a mount namespace");
            command("mount", &["--make-rprivate", "/"]);
            let census = match Census::open() {
                Ok(census) => census,
                Err(error) if error.kind() == ErrorKind::Denied => {
                    println!("skipped: census: {what}: {error}: CAP_BPF or CAP_PERFMON is missing");
                    return;
                }
                Err(error) => panic!("the census can be opened: {error:?}"),
            };
            let parent = std::env::var_os("CACHEWISE_TEST_DIR")
                .map_or_else(std::env::temp_dir, PathBuf::from);
            let directory = tempfile::Builder::new()
                .prefix("cachewise-census-")
                .tempdir_in(parent)
                .expect("there is a temporary directory");
            test(&mut Stand { census, directory });
        });
        if let Err(panic) = run.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// A loaded census, and a directory to work in.
pub struct Stand {
    pub census: Census,
    directory: TempDir,
}

impl Stand {
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A census of everything.
    pub fn take(&mut self) -> Report {
        self.take_with(&Options::default())
    }

    pub fn take_with(&mut self, options: &Options) -> Report {
        let report = self.census.take(options).expect("a census can be taken");
        assert!(
            !report.summary.is_partial(),
            "and is whole: {:?}",
            report.summary
        );
        report
    }

    /// Mounts a tmpfs.
    pub fn tmpfs(&self, name: &str) -> Mounted {
        let place = self.path(name);
        fs::create_dir(&place).expect("make a mount point");
        command("mount", &["-t", "tmpfs", "cachewise-test", utf8(&place)]);
        Mounted(place)
    }

    /// Makes and mounts a file system of this type on a disk image, or says why not.
    pub fn disk(&self, kind: &str) -> Option<Mounted> {
        let mkfs = format!("mkfs.{kind}");
        let options: &[&str] = match kind {
            // Inodes enough for many small files.
            "ext4" => &["-q", "-F", "-N", "32768"],
            _ => &["-q", "-f"],
        };
        let installed = Command::new(&mkfs).env("PATH", SEARCHED).arg("-V").output();
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if installed.is_err() || !known.contains(kind) {
            println!(
                "skipped: census on {kind}: {mkfs} is not installed, or the kernel has no {kind}"
            );
            return None;
        }
        let (image, place) = (self.path(&format!("{kind}.image")), self.path(kind));
        fs::create_dir(&place).expect("make a mount point");
        let file = File::create_new(&image).expect("make an image");
        file.set_len(IMAGE_BYTES).expect("it is sparse");
        command(&mkfs, &[options, &[utf8(&image)]].concat());
        command("mount", &["-o", "loop", utf8(&image), utf8(&place)]);
        Some(Mounted(place))
    }
}

/// mkfs.xfs refuses less than 300 MB.
const IMAGE_BYTES: u64 = 320 << 20;

/// A mounted file system; dropping it takes it down.
pub struct Mounted(PathBuf);

impl Mounted {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The namespace takes with it what is still in use.
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// mkfs and losetup live where an ordinary user's PATH does not look.
const SEARCHED: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs a program of the system; returns what it printed.
pub fn command(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .env("PATH", SEARCHED)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{program} can be started: {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?} works: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub fn utf8(path: &Path) -> &str {
    path.to_str().expect("the test's own names are text")
}

/// A page of this machine, in bytes.
pub fn page() -> u64 {
    cachewise_sys::page_size().get()
}

/// Creates a file, fills it with this number of pages, and leaves it open.
pub fn write_pages(path: &Path, pages: u64) -> File {
    let mut file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .unwrap_or_else(|error| panic!("{} can be made: {error}", path.display()));
    fill(&mut file, pages);
    file
}

pub fn fill(file: &mut File, pages: u64) {
    for number in 0..pages {
        let content = vec![number as u8 | 1; page() as usize];
        file.write_all(&content)
            .expect("there is room for a test's file");
    }
}

/// How many pages cachestat(2) sees.
pub fn resident(file: impl AsFd) -> u64 {
    let stat = cachewise_sys::cachestat(file.as_fd(), None);
    stat.expect("cachestat works on the test's files").cached.0
}

/// The inode of an open file in a census.
pub fn find<'r>(report: &'r Report, file: &File) -> Option<&'r CachedInode> {
    let stat = file.metadata().expect("fstat works");
    let device = Device::from_stat(stat.dev());
    report.inodes.iter().find(|inode| {
        (inode.id.major, inode.id.minor, inode.id.inode) == (device.major, device.minor, stat.ino())
    })
}

/// The mounts as this thread sees them.
pub fn mounts(kernel: &Kernel) -> Mounts {
    let thread = rustix::thread::gettid().as_raw_pid().unsigned_abs();
    kernel.mounts(Some(thread)).expect("its mounts can be read")
}

//! File systems made for the tests: a sparse file, a file system in it, mounted over a loop device.
//!
//! Nothing is left behind, even by `kill -9`: the mounts live in a mount namespace that only this
//! process has, the loop devices let go of their file when the last mount goes, and the image has no
//! name any more once it is mounted. An ordinary end, a panic included, undoes all of it in `Drop`.

use std::cell::RefCell;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use rustix::fs::StatFs;
use rustix::thread::UnshareFlags;
use tempfile::TempDir;

use crate::problem::{Context, Problem, Result};

/// mkfs.xfs refuses less than 300 MB. The image is sparse: what the tests write is a tenth of it.
const IMAGE_BYTES: u64 = 320 << 20;

/// A file system that is soon full.
const TINY_BYTES: u64 = 16 << 20;

/// A bare device for the cases that read the device itself.
const DEVICE_BYTES: u64 = 16 << 20;

/// The file systems that the definitions are tested on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileSystem {
    /// Large folios since 6.16, buffered reads by the generic code.
    Ext4,
    /// Ext4 with blocks of 1 KiB, as mke2fs makes them for small disks.
    Ext4SmallBlocks,
    /// Ext4 on a few MiB, for what needs no space left.
    Ext4Tiny,
    /// Ext4 that keeps small files in their inodes.
    Ext4Inline,
    /// Large folios, iomap, reflinks.
    Xfs,
    /// XFS with blocks of four pages: each folio has that many pages at least (6.12 and later).
    XfsLargeBlocks,
    /// Its own device numbers per subvolume, reflinks, direct writes that are not.
    Btrfs,
    /// Pages that are not a cache of anything: nothing is to be counted.
    Tmpfs,
}

/// Whether this kernel has the better oracle. Before 6.5 there is mincore(2), which does not tell of pages on
/// their way from the disk: then file systems stand on memory, where none are.
pub fn has_cachestat() -> bool {
    static HAS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *HAS.get_or_init(|| {
        let here = std::fs::File::open("/proc/self/exe");
        here.is_ok_and(|file| {
            cachewise_sys::cachestat(std::os::fd::AsFd::as_fd(&file), None).is_ok()
        })
    })
}

impl FileSystem {
    /// All of them.
    pub const ALL: [FileSystem; 4] = [
        FileSystem::Ext4,
        FileSystem::Xfs,
        FileSystem::Btrfs,
        FileSystem::Tmpfs,
    ];

    /// Those that keep their data on a device and can miss.
    pub const CACHED: [FileSystem; 3] = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];

    /// The type that mount(8) takes.
    fn mount_type(self) -> &'static str {
        match self {
            FileSystem::XfsLargeBlocks => "xfs",
            FileSystem::Ext4Inline | FileSystem::Ext4SmallBlocks | FileSystem::Ext4Tiny => "ext4",
            kind => kind.name(),
        }
    }

    /// The name in labels and trials.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Ext4SmallBlocks => "ext4-1k",
            FileSystem::Ext4Tiny => "ext4-tiny",
            FileSystem::Ext4Inline => "ext4-inline",
            FileSystem::Xfs => "xfs",
            FileSystem::XfsLargeBlocks => "xfs-large-blocks",
            FileSystem::Btrfs => "btrfs",
            FileSystem::Tmpfs => "tmpfs",
        }
    }

    /// Whether copy_file_range shares the blocks instead of copying, and so touches no page.
    pub fn has_reflinks(self) -> bool {
        matches!(
            self,
            FileSystem::Xfs | FileSystem::XfsLargeBlocks | FileSystem::Btrfs
        )
    }

    /// Whether O_DIRECT bypasses the page cache, and is not done through it after all.
    pub fn bypasses_cache(self) -> bool {
        !matches!(self, FileSystem::Btrfs | FileSystem::Ext4Inline)
    }

    /// The command that makes one, and the Debian package that has it.
    fn mkfs(self) -> Option<(&'static str, &'static [&'static str], &'static str)> {
        match self {
            // Blocks of a page, as a disk has them: mke2fs takes 1 KiB for small images, and blocks
            // smaller than a page go other ways through the kernel.
            FileSystem::Ext4 => {
                // Nothing is put off, so that no kernel thread writes to it during the cases.
                const OPTIONS: [&str; 6] = [
                    "-q",
                    "-F",
                    "-b",
                    "4096",
                    "-E",
                    "lazy_itable_init=0,lazy_journal_init=0",
                ];
                Some(("mkfs.ext4", &OPTIONS, "e2fsprogs"))
            }
            FileSystem::Ext4SmallBlocks => Some((
                "mkfs.ext4",
                &[
                    "-q",
                    "-F",
                    "-b",
                    "1024",
                    "-E",
                    "lazy_itable_init=0,lazy_journal_init=0",
                ],
                "e2fsprogs",
            )),
            FileSystem::Ext4Tiny => Some((
                "mkfs.ext4",
                &["-q", "-F", "-b", "4096", "-m", "0"],
                "e2fsprogs",
            )),
            FileSystem::Ext4Inline => Some((
                "mkfs.ext4",
                &["-q", "-F", "-b", "4096", "-O", "inline_data", "-I", "256"],
                "e2fsprogs",
            )),
            FileSystem::Xfs => Some(("mkfs.xfs", &["-q", "-f"], "xfsprogs")),
            FileSystem::XfsLargeBlocks => {
                Some(("mkfs.xfs", &["-q", "-f", "-b", "size=16384"], "xfsprogs"))
            }
            FileSystem::Btrfs => Some(("mkfs.btrfs", &["-q", "-f"], "btrfs-progs")),
            FileSystem::Tmpfs => None,
        }
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Why there is no file system.
#[derive(Debug)]
pub enum NotMounted {
    /// This machine has no such thing: a reason to skip.
    Missing(String),
    /// It should have worked: a reason to fail.
    Failed(Problem),
}

impl From<Problem> for NotMounted {
    fn from(problem: Problem) -> Self {
        NotMounted::Failed(problem)
    }
}

/// Takes this process, and what it starts, into a mount namespace of its own.
///
/// Called before there is any other thread: a namespace belongs to a thread.
pub fn enter_own_mount_namespace() -> Result<()> {
    // SAFETY: no thread shares file descriptors or a working directory with this one yet, and
    // NEWNS touches neither; only FILES and the like can break the promises that std relies on.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }
        .context("unshare the mount namespace")?;
    run("mount", &["--make-rprivate".as_ref(), "/".as_ref()])
}

/// Runs a program of the system; its output is only shown if it fails.
fn run(program: &str, arguments: &[&Path]) -> Result<()> {
    let output = command(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .context(format_args!("run {program}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Problem::new(format!(
        "{program}: {}: {}",
        output.status,
        said.trim()
    )))
}

/// mkfs and losetup live where an ordinary user's PATH does not look.
fn command(program: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command
        .env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"))
        .env("LC_ALL", "C");
    command
}

fn is_installed(program: &str) -> bool {
    let started = command(program)
        .arg("-V")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    !matches!(started, Err(error) if error.kind() == io::ErrorKind::NotFound)
}

/// Whether this kernel is Linux `major.minor` or later.
pub fn is_linux(major: u32, minor: u32) -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || {
        numbers
            .next()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    };
    (number(), number()) >= (major, minor)
}

/// A mount that failed: whether this kernel mounts no file system of the kind.
fn refused(kind: FileSystem, problem: Problem) -> NotMounted {
    if kind == FileSystem::XfsLargeBlocks {
        NotMounted::Missing("this kernel mounts no xfs with blocks larger than a page".into())
    } else if is_known_to_kernel(kind.mount_type()) {
        NotMounted::Failed(problem)
    } else {
        NotMounted::Missing(format!("this kernel has no {kind}"))
    }
}

/// Block devices of this size or more that may be overwritten, by their paths: file systems are made on
/// them, and not on loop devices. For a kernel without cachestat(2) they are to be RAM disks (brd).
pub const DISKS: &str = "CACHEWISE_TEST_DISKS";

/// The directory on a disk under which everything is made.
#[derive(Debug)]
pub struct Workshop {
    directory: TempDir,
    /// Those that no file system is on.
    disks: RefCell<Vec<PathBuf>>,
}

impl Workshop {
    /// Opens one in `CACHEWISE_TEST_DIR`, or else in the first usual place that is on a disk. A run of the
    /// same name that was killed has left its directory there: it is removed.
    pub fn open(what: &str) -> Result<Self> {
        let named = std::env::var_os("CACHEWISE_TEST_DIR").map(PathBuf::from);
        let usual = [
            std::env::temp_dir(),
            "/var/tmp".into(),
            env!("CARGO_TARGET_TMPDIR").into(),
        ];
        let parent = match named {
            Some(named) => named,
            None => usual
                .into_iter()
                .find(|place| is_on_disk(place))
                .ok_or_else(|| {
                    Problem::new("no temporary directory on a disk: name one in CACHEWISE_TEST_DIR")
                })?,
        };
        remove_leftovers(&parent, &format!("cachewise-{what}-"));
        let directory = tempfile::Builder::new()
            .prefix(&format!("cachewise-{what}-{}-", process::id()))
            .tempdir_in(&parent)
            .context(format_args!("make a directory in {}", parent.display()))?;
        let disks = std::env::var(DISKS).unwrap_or_default();
        let disks = disks.split_whitespace().map(PathBuf::from).collect();
        Ok(Workshop {
            directory,
            disks: RefCell::new(disks),
        })
    }

    /// Makes and mounts a file system.
    pub fn mount(&self, kind: FileSystem) -> Result<Mounted, NotMounted> {
        let directory = self.directory.path().join(kind.name());
        fs::create_dir(&directory).context("make a mount point")?;
        let Some((mkfs, options, package)) = kind.mkfs() else {
            let source = kind.name().as_ref();
            run(
                "mount",
                &[
                    "-t".as_ref(),
                    source,
                    "-o".as_ref(),
                    "size=64m".as_ref(),
                    source,
                    &directory,
                ],
            )?;
            return Ok(Mounted { directory });
        };
        if !is_installed(mkfs) {
            return Err(NotMounted::Missing(format!(
                "{mkfs} is not installed (apt-get install {package})"
            )));
        }
        if kind == FileSystem::Btrfs && !has_cachestat() {
            return Err(NotMounted::Missing(
                "its reads end later than they return, and without cachestat(2) pages on their way \
                 cannot be seen"
                    .into(),
            ));
        }
        if kind == FileSystem::Ext4Inline && !has_cachestat() {
            return Err(NotMounted::Missing(
                "there is no disk in memory for it".into(),
            ));
        }
        let disk = self.disks.borrow_mut().pop();
        if let Some(disk) = disk {
            let mut arguments: Vec<&Path> = options.iter().map(Path::new).collect();
            arguments.push(&disk);
            run(mkfs, &arguments)?;
            let mounted = run(
                "mount",
                &["-t".as_ref(), kind.mount_type().as_ref(), &disk, &directory],
            );
            return match mounted {
                Ok(()) => Ok(Mounted { directory }),
                Err(problem) => {
                    self.disks.borrow_mut().push(disk);
                    Err(refused(kind, problem))
                }
            };
        }
        let bytes = match kind {
            FileSystem::Ext4Tiny => TINY_BYTES,
            _ => IMAGE_BYTES,
        };
        let image = self.sparse_file(kind.name(), bytes)?;
        let mut arguments: Vec<&Path> = options.iter().map(Path::new).collect();
        arguments.push(&image);
        run(mkfs, &arguments)?;
        // `-o loop` finds a free device, tries again if another process takes it first, and lets
        // go of it at umount.
        let mounted = run(
            "mount",
            &[
                "-t".as_ref(),
                kind.mount_type().as_ref(),
                "-o".as_ref(),
                "loop".as_ref(),
                &image,
                &directory,
            ],
        );
        fs::remove_file(&image).context("take the image's name away")?;
        if let Err(problem) = mounted {
            return Err(refused(kind, problem));
        }
        Ok(Mounted { directory })
    }

    /// Makes a loop device with random data in it.
    pub fn device(&self) -> Result<Device> {
        let image = self.sparse_file("device", DEVICE_BYTES)?;
        let mut random = File::open("/dev/urandom").context("open /dev/urandom")?;
        let mut target = File::options()
            .write(true)
            .open(&image)
            .context("open the image")?;
        io::copy(&mut io::Read::take(&mut random, DEVICE_BYTES), &mut target)
            .context("fill the image")?;
        let output = command("losetup")
            .args(["-f", "--show"])
            .arg(&image)
            .output()
            .context("run losetup")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Problem::new(format!("losetup: {}", said.trim())));
        }
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let device = Device { path };
        fs::remove_file(&image).context("take the image's name away")?;
        Ok(device)
    }

    fn sparse_file(&self, name: &str, bytes: u64) -> Result<PathBuf> {
        let path = self.directory.path().join(format!("{name}.image"));
        File::create_new(&path)
            .and_then(|file| file.set_len(bytes))
            .context(format_args!("make {}", path.display()))?;
        Ok(path)
    }
}

/// Removes the directories in `parent` that begin with `prefix` and the number of a process that is no more.
pub fn remove_leftovers(parent: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(prefix));
        let process = process.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            // A control group's files go with it, and cannot be removed before.
            let _ = fs::remove_dir(entry.path()).or_else(|_| fs::remove_dir_all(entry.path()));
        }
    }
}

/// Whether a directory can be used and does not live in memory.
fn is_on_disk(place: &Path) -> bool {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    const RAMFS_MAGIC: u64 = 0x8584_58f6;
    let in_memory = |found: StatFs| matches!(found.f_type as u64, TMPFS_MAGIC | RAMFS_MAGIC);
    rustix::fs::statfs(place).is_ok_and(|found| !in_memory(found))
}

fn is_known_to_kernel(kind: &str) -> bool {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known
        .lines()
        .any(|line| line.split_whitespace().last() == Some(kind))
}

/// A mounted file system; dropping it takes it down.
#[derive(Debug)]
pub struct Mounted {
    directory: PathBuf,
}

impl Mounted {
    /// Mounts an overlay of two layers.
    pub fn overlay(
        lower: &Path,
        upper: &Path,
        work: &Path,
        directory: &Path,
    ) -> Result<Mounted, NotMounted> {
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            lower.display(),
            upper.display(),
            work.display()
        );
        let kind = "overlay".as_ref();
        let arguments = ["-t".as_ref(), kind, "-o".as_ref(), options.as_ref(), kind];
        run("mount", &[&arguments[..], &[directory]].concat()).map_err(|problem| {
            if is_known_to_kernel("overlay") {
                NotMounted::Failed(problem)
            } else {
                NotMounted::Missing("this kernel has no overlayfs".into())
            }
        })?;
        Ok(Mounted {
            directory: directory.to_owned(),
        })
    }

    /// Mounts what a device has, for reading.
    pub fn read_only(device: &Path, directory: &Path) -> Result<Mounted> {
        run("mount", &["-o".as_ref(), "ro".as_ref(), device, directory])?;
        Ok(Mounted {
            directory: directory.to_owned(),
        })
    }

    /// Where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // After a panic a file may still be open: then it goes when the file does.
        let undone = run("umount", &[&self.directory])
            .or_else(|_| run("umount", &["--lazy".as_ref(), &self.directory]));
        if let Err(problem) = undone {
            eprintln!("{} stays mounted: {problem}", self.directory.display());
        }
    }
}

/// Makes an image of a directory's files. Two of the same files have the same inode numbers.
pub fn make_squashfs(source: &Path, image: &Path) -> Result<(), NotMounted> {
    if !is_installed("mksquashfs") {
        return Err(NotMounted::Missing(
            "mksquashfs is not installed (apt-get install squashfs-tools)".into(),
        ));
    }
    if !is_known_to_kernel("squashfs") {
        return Err(NotMounted::Missing("this kernel has no squashfs".into()));
    }
    Ok(run(
        "mksquashfs",
        &[source, image, "-noappend".as_ref(), "-quiet".as_ref()],
    )?)
}

/// The same as ext4.
pub fn make_ext4(source: &Path, image: &Path) -> Result<(), NotMounted> {
    File::create_new(image)
        .and_then(|file| file.set_len(DEVICE_BYTES))
        .context("make an image")?;
    Ok(run(
        "mkfs.ext4",
        &[
            "-q".as_ref(),
            "-F".as_ref(),
            "-b".as_ref(),
            "4096".as_ref(),
            "-d".as_ref(),
            source,
            image,
        ],
    )?)
}

/// A loop device with an image; dropping it lets it go.
#[derive(Debug)]
pub struct Loop {
    path: PathBuf,
    /// Otherwise another process may have it.
    attached: bool,
}

impl Loop {
    /// Takes a free one.
    pub fn attach(image: &Path) -> Result<Loop> {
        let output = command("losetup")
            .args(["-f", "--show"])
            .arg(image)
            .output()
            .context("run losetup")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Problem::new(format!("losetup: {}", said.trim())));
        }
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        let attached = true;
        Ok(Loop { path, attached })
    }

    /// Puts another image in; false: another process was faster, and has the device now.
    pub fn change(&mut self, image: &Path) -> Result<bool> {
        run("losetup", &["-d".as_ref(), &self.path])?;
        self.attached = false;
        match run("losetup", &[&self.path, image]) {
            Ok(()) => self.attached = true,
            Err(problem) if run("losetup", &[&self.path]).is_err() => return Err(problem),
            Err(_) => {}
        }
        Ok(self.attached)
    }

    /// Its path under /dev.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if !self.attached {
            return;
        }
        if let Err(problem) = run("losetup", &["-d".as_ref(), &self.path]) {
            eprintln!("{} stays: {problem}", self.path.display());
        }
    }
}

/// A loop device without a file system; dropping it lets it go.
#[derive(Debug)]
pub struct Device {
    path: PathBuf,
}

impl Device {
    /// Its path under /dev.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Err(problem) = run("losetup", &["-d".as_ref(), &self.path]) {
            eprintln!("{} stays: {problem}", self.path.display());
        }
    }
}

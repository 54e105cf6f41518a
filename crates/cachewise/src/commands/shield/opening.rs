//! Files of shielded programs, opened once more: by inode number, or by a descriptor or mapping of the program.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cachewise_kstat::{Kernel, Mounts};
use cachewise_probe::shield::{Shield, ShieldedFile};
use cachewise_sys::{open_by_inode, opening_drops_pages};
use rustix::fs::OFlags;

/// File systems whose files can be opened by inode number and generation: their statfs(2) magic numbers.
const BY_INODE: [u64; 4] = [
    0xEF53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0xF2F5_2010, // f2fs
    0x3153_464a, // jfs
];

/// Maximum mounts that are kept open.
const MOUNTS: usize = 64;

/// The files of one process that are compared with the wanted one, at most.
const DESCRIPTORS: usize = 4096;

/// Opens files.
#[derive(Debug)]
pub struct Opener {
    kernel: Kernel,
    /// Directories on the file systems of files, by device.
    mounts: HashMap<(u32, u32), File>,
}

impl Opener {
    /// Has opened nothing so far.
    pub fn new(kernel: Kernel) -> Opener {
        Opener {
            kernel,
            mounts: HashMap::new(),
        }
    }

    /// Opens the file at a mapping for reading. `None`: there is no way to it, or it is another file by now.
    pub fn open(
        &mut self,
        shield: &mut Shield,
        mapping: u64,
        wanted: &ShieldedFile,
    ) -> Option<File> {
        self.by_inode(wanted)
            .filter(|file| is_it(shield, file, mapping))
            .or_else(|| by_descriptor(shield, mapping, wanted))
            .or_else(|| by_map(shield, mapping, wanted))
    }

    fn by_inode(&mut self, wanted: &ShieldedFile) -> Option<File> {
        if !BY_INODE.contains(&wanted.magic) {
            return None;
        }
        if self.mounts.len() >= MOUNTS {
            self.mounts.clear();
        }
        let mount = match self.mounts.entry(wanted.device) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(open_mount(&self.kernel, wanted)?),
        };
        open_by_inode(mount.as_fd(), wanted.inode, wanted.generation).ok()
    }

    /// Closes the directories of mounts, so that they can be unmounted.
    pub fn release(&mut self) {
        self.mounts.clear();
    }
}

/// The answer of the kernel: an inode number alone can be that of a later file.
fn is_it(shield: &mut Shield, file: &File, mapping: u64) -> bool {
    shield.is_same(file.as_fd(), mapping).unwrap_or(false)
}

/// A directory on the file system of the file, in this mount namespace or in that of the program.
fn open_mount(kernel: &Kernel, wanted: &ShieldedFile) -> Option<File> {
    let own = kernel.mounts(None).ok();
    let theirs = wanted.pid.and_then(|pid| kernel.mounts(Some(pid)).ok());
    let root = |pid: u32| PathBuf::from(format!("/proc/{pid}/root"));
    let all = [
        (own, PathBuf::from("/")),
        (theirs, wanted.pid.map(root).unwrap_or_default()),
    ];
    all.into_iter()
        .find_map(|(mounts, root)| on_device(&mounts?, wanted.device, &root))
}

fn on_device(mounts: &Mounts, device: (u32, u32), root: &Path) -> Option<File> {
    let mut mounts = mounts.as_slice().iter();
    mounts.find_map(|mount| {
        if (mount.dev.major, mount.dev.minor) != device {
            return None;
        }
        let place = root.join(mount.mount_point.strip_prefix("/").ok()?);
        // Another one may be mounted on top.
        let opened = open(&place)?;
        let stat = rustix::fs::fstat(&opened).ok()?;
        let found = (
            rustix::fs::major(stat.st_dev),
            rustix::fs::minor(stat.st_dev),
        );
        (found == device).then_some(opened)
    })
}

fn open(path: &Path) -> Option<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .ok()
}

/// Opens what a descriptor of the program leads to. Nothing is opened but a file with the right inode number that is not
/// on FUSE.
fn by_descriptor(shield: &mut Shield, mapping: u64, wanted: &ShieldedFile) -> Option<File> {
    let pid = wanted.pid?;
    let inode = format!("ino:\t{}", wanted.inode);
    let entries = fs::read_dir(format!("/proc/{pid}/fdinfo")).ok()?;
    for entry in entries.flatten().take(DESCRIPTORS) {
        let Ok(text) = fs::read_to_string(entry.path()) else {
            continue;
        };
        if !text.lines().any(|line| line == inode) {
            continue;
        }
        let link = Path::new("/proc").join(pid.to_string()).join("fd");
        let found = open_checked(&link.join(entry.file_name()));
        if let Some(file) = found.filter(|file| is_it(shield, file, mapping)) {
            return Some(file);
        }
    }
    None
}

/// Opens what a mapping of the program leads to.
fn by_map(shield: &mut Shield, mapping: u64, wanted: &ShieldedFile) -> Option<File> {
    let pid = wanted.pid?;
    let inode = wanted.inode.to_string();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let lines = maps.lines().take(DESCRIPTORS);
    let ranges = lines.filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let range = words.next()?;
        (words.nth(3)? == inode).then_some(range)
    });
    for range in ranges {
        let found = open_checked(Path::new(&format!("/proc/{pid}/map_files/{range}")));
        if let Some(file) = found.filter(|file| is_it(shield, file, mapping)) {
            return Some(file);
        }
    }
    None
}

/// Opens a link of /proc unless opening could drop the pages of the file.
fn open_checked(link: &Path) -> Option<File> {
    let looked = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::PATH.bits().cast_signed())
        .open(link)
        .ok()?;
    match opening_drops_pages(looked.as_fd()) {
        Ok(false) => open(link),
        _ => None,
    }
}

/// The path of an open file.
pub fn path_of(file: BorrowedFd<'_>) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

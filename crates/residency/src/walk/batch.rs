//! [`Batch`]: files of one directory, on their way from a directory to the caller.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachewise_units::Bytes;

use super::device::Device;
use crate::{Counts, Error, Unknown};

/// A result of a walk.
#[derive(Debug)]
pub enum WalkItem<'a> {
    /// A regular file, or a root that is a block device.
    File(WalkedFile<'a>),
    /// A root, a file or a directory that could not be read or has no pages. The error has the path.
    Skipped(&'a Error),
}

/// A file that was queried.
#[derive(Clone, Copy, Debug)]
pub struct WalkedFile<'a> {
    /// The root that led to it, as it was given.
    pub root: &'a Path,
    /// The directory that it is in: the root, and what follows; of a root that is a file, its parent.
    pub directory: &'a Path,
    /// Its name there.
    pub name: &'a OsStr,
    /// Its size.
    pub size: Bytes,
    /// How many of its pages are resident, or why that is unknown.
    pub counts: Result<Counts, Unknown>,
}

impl WalkedFile<'_> {
    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let mut path =
            PathBuf::with_capacity(self.directory.as_os_str().len() + 1 + self.name.len());
        path.push(self.directory);
        path.push(self.name);
        path
    }
}

/// Where a directory is, and which root led there.
#[derive(Clone, Debug)]
pub(super) struct RootedDirectory {
    pub root: Arc<Path>,
    pub directory: Arc<Path>,
}

impl RootedDirectory {
    /// Of what the caller gave.
    pub fn of_root(path: PathBuf) -> Self {
        let root: Arc<Path> = path.into();
        Self {
            directory: Arc::clone(&root),
            root,
        }
    }

    pub fn below(&self, name: &CStr) -> PathBuf {
        self.directory.join(OsStr::from_bytes(name.to_bytes()))
    }
}

/// Files of one directory: first their names, then what was found.
///
/// There is one buffer for all of the names, so that a file costs no allocation.
#[derive(Debug)]
pub(super) struct Batch {
    pub place: RootedDirectory,
    pub device: Device,
    names: Vec<u8>,
    /// Files to query.
    pub waiting: Vec<Waiting>,
    /// Those that were.
    files: Vec<File>,
    skipped: Vec<Error>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    name: u32,
    /// As the directory has it.
    pub inode: u64,
    /// Whether it may be a second name: then the file itself is examined.
    pub is_doubtful: bool,
}

#[derive(Debug)]
struct File {
    name: u32,
    size: Bytes,
    counts: Result<Counts, Unknown>,
}

impl Batch {
    pub fn new(place: RootedDirectory, device: Device) -> Self {
        Self {
            place,
            device,
            names: Vec::new(),
            waiting: Vec::new(),
            files: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Adds a file to query.
    pub fn add(&mut self, name: &CStr, inode: u64) {
        /// Files of a usual directory, which then have room at once; and the length of their names.
        const USUAL: usize = 32;
        const NAME: usize = 16;
        if self.waiting.is_empty() {
            self.names.reserve(USUAL * NAME);
            self.waiting.reserve(USUAL);
        }
        // A batch holds what one read of a directory gives, so it stays far below.
        let start = self.names.len() as u32;
        self.names.extend_from_slice(name.to_bytes_with_nul());
        self.waiting.push(Waiting {
            name: start,
            inode,
            is_doubtful: false,
        });
    }

    pub fn name(&self, waiting: &Waiting) -> &CStr {
        name_at(&self.names, waiting.name)
    }

    /// Takes the files to query, and makes room for what is found of them.
    pub fn take_waiting(&mut self) -> Vec<Waiting> {
        self.files.reserve_exact(self.waiting.len());
        std::mem::take(&mut self.waiting)
    }

    /// Adds what was found of a file.
    pub fn found_file(&mut self, waiting: &Waiting, size: Bytes, counts: Result<Counts, Unknown>) {
        self.files.push(File {
            name: waiting.name,
            size,
            counts,
        });
    }

    /// Adds what was skipped.
    pub fn skip(&mut self, error: Error) {
        self.skipped.push(error);
    }

    /// How many findings are in it.
    pub fn len(&self) -> usize {
        self.files.len() + self.skipped.len()
    }

    /// All that was found.
    pub fn found(&self) -> impl Iterator<Item = WalkItem<'_>> {
        let files = self.files.iter().map(|file| {
            WalkItem::File(WalkedFile {
                root: &self.place.root,
                directory: &self.place.directory,
                name: OsStr::from_bytes(name_at(&self.names, file.name).to_bytes()),
                size: file.size,
                counts: file.counts,
            })
        });
        files.chain(self.skipped.iter().map(WalkItem::Skipped))
    }
}

#[expect(clippy::expect_used, reason = "names are put in with their end")]
fn name_at(names: &[u8], start: u32) -> &CStr {
    CStr::from_bytes_until_nul(&names[start as usize..]).expect("each name ends with a NUL")
}

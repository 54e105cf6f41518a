//! The files of shielded programs that are open: opened when pages of them are to be dropped, closed soon afterwards.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use cachewise_kstat::Kernel;
use cachewise_probe::shield::Shield;

use super::opening::{Opener, path_of};
use super::rooms::Rooms;
use super::shielded_files::ShieldedFiles;

/// `FUSE_SUPER_MAGIC` of the kernel.
const FUSE: u64 = 0x6573_5546;

/// Files that are kept open at most.
const OPEN: usize = 256;

/// An open file that was not used for this long is closed, so that its file system can be unmounted.
pub const CLOSE: Duration = Duration::from_secs(1);

/// Names of files that are remembered for the report, at most.
pub const NAMES: usize = 4096;

/// A file, opened once more.
#[derive(Debug)]
struct Opened {
    /// `None`: it cannot be opened, or is not to be dropped.
    file: Option<File>,
    is_named: bool,
    inode: u64,
    generation: u32,
    used: Instant,
}

/// Open files, and their names, by mapping.
#[derive(Debug)]
pub struct OpenFiles {
    opener: Opener,
    rooms: Rooms,
    named: ShieldedFiles,
    open: HashMap<u64, Opened>,
    names: HashMap<u64, PathBuf>,
}

impl OpenFiles {
    /// Has opened none; only these files are to be dropped.
    pub fn new(kernel: Kernel, named: ShieldedFiles) -> OpenFiles {
        OpenFiles {
            rooms: Rooms::new(kernel.clone()),
            opener: Opener::new(kernel),
            named,
            open: HashMap::new(),
            names: HashMap::new(),
        }
    }

    /// The file at a mapping, open. `None`: it cannot be opened for now, or is not to be dropped.
    ///
    /// # Errors
    /// The errors of [`Shield::file`] and [`Shield::set_room`].
    pub fn file(&mut self, shield: &mut Shield, mapping: u64) -> Result<Option<&File>> {
        let is_open = |opened: &Opened| opened.used.elapsed() < CLOSE;
        if !self.open.get(&mapping).is_some_and(is_open) {
            let Some(wanted) = shield.file(mapping)? else {
                return Ok(None);
            };
            let known = self.open.remove(&mapping);
            let is_known = |known: &Opened| {
                (known.inode, known.generation) == (wanted.inode, wanted.generation)
                    && known.file.is_some()
            };
            let file = match known.filter(is_known) {
                Some(known) => known.file,
                None if wanted.magic == FUSE => None,
                None => self.opener.open(shield, mapping, &wanted),
            };
            let is_named = file.as_ref().is_none_or(|file| self.named.has(file));
            let room = self.rooms.of(wanted.pid);
            shield.set_room(mapping, room)?;
            if let Some(file) = &file
                && self.names.len() < NAMES
                && !self.names.contains_key(&mapping)
                && let Some(path) = path_of(file.as_fd())
            {
                self.names.insert(mapping, path);
            }
            if self.open.len() >= OPEN {
                self.open.clear();
            }
            let opened = Opened {
                file: file.filter(|_| is_named),
                is_named,
                inode: wanted.inode,
                generation: wanted.generation,
                used: Instant::now(),
            };
            self.open.insert(mapping, opened);
        }
        let opened = self.open.get_mut(&mapping);
        Ok(opened.and_then(|opened| {
            let file = opened.file.as_ref()?;
            opened.used = Instant::now();
            Some(file)
        }))
    }

    /// Whether the file is to be dropped, as far as is known.
    pub fn is_named(&self, mapping: u64) -> bool {
        self.open.get(&mapping).is_none_or(|opened| opened.is_named)
    }

    /// Closes files that were not used of late, and file systems when no file is open.
    pub fn close_unused(&mut self) {
        self.open.retain(|_, opened| opened.used.elapsed() < CLOSE);
        if self.open.is_empty() {
            self.opener.release();
        }
    }

    /// Has files that could not be opened opened again.
    pub fn forget_unopened(&mut self) {
        self.open.retain(|_, opened| opened.file.is_some());
    }

    /// The name of a file, which is not needed any more.
    pub fn forget_name(&mut self, mapping: u64) -> Option<PathBuf> {
        self.names.remove(&mapping)
    }
}

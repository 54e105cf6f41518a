//! [`Blocks`]: the directory of the cache, which other users can neither read nor fill with links.

use std::path::{Path, PathBuf};

use cachewise_sys::PrivateDirectory;

use super::directory_error::directory_error;
use super::format::check_format;
use super::lock::{DirectoryLock, NAME};
use super::segments::Segments;
use crate::Error;

/// The directory of the segments, in the directory of the cache.
const BLOCKS: &str = "blocks";

/// The directory of the cache, held by this process. Blocks are plain text of files that may be private, so that its
/// directories have mode 0700 and its files 0600.
#[derive(Debug)]
pub(super) struct Blocks {
    path: PathBuf,
    directory: PrivateDirectory,
    _lock: DirectoryLock,
}

impl Blocks {
    /// Opens the directory or makes it, and removes segments of other settings. Nothing is written before every file
    /// is known to be this user's, and no block of another format is touched.
    pub(super) fn open(cache: &Path, segments: Segments) -> Result<Self, Error> {
        let failed = |operation| move |error| directory_error(cache.to_owned(), operation, error);
        let is_ours = |name: &std::ffi::OsStr| name == NAME || name == BLOCKS;
        let directory = PrivateDirectory::open(cache, is_ours).map_err(failed("open"))?;
        let lock = DirectoryLock::take(cache, &directory)?;
        let path = cache.join(BLOCKS);
        let of_file = |(name, error)| directory_error(path.join(name), "open", error);
        let blocks = directory
            .directory(BLOCKS)
            .map_err(|error| directory_error(path.clone(), "open", error))?;
        segments.check(&blocks).map_err(of_file)?;
        check_format(&path, &blocks)?;
        segments
            .sweep(&blocks.steady_path())
            .map_err(failed("remove blocks of other settings"))?;
        segments.make(&blocks).map_err(of_file)?;
        Ok(Self {
            path,
            directory: blocks,
            _lock: lock,
        })
    }

    /// Returns the path for messages and for looking at what it takes.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path for opening files: it leads to the directory that was checked.
    pub(super) fn steady_path(&self) -> PathBuf {
        self.directory.steady_path()
    }
}

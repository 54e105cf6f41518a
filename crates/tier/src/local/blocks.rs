//! [`Blocks`]: the directory of the cache, which other users can neither read nor fill with links.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachewise_sys::{Distrust, PrivateDirectory};

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
    /// is known to be this user's.
    pub(super) fn open(cache: &Path, segments: Segments) -> Result<Self, Error> {
        let failed = |operation| move |error| refused(cache.to_owned(), operation, error);
        let is_ours = |name: &std::ffi::OsStr| name == NAME || name == BLOCKS;
        let directory = PrivateDirectory::open(cache, is_ours).map_err(failed("open"))?;
        let lock = DirectoryLock::take(cache, &directory)?;
        let path = cache.join(BLOCKS);
        let of_file = |(name, error)| refused(path.join(name), "open", error);
        let blocks = directory
            .directory(BLOCKS)
            .map_err(|error| refused(path.clone(), "open", error))?;
        segments.check(&blocks).map_err(of_file)?;
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

/// An error about a file of the cache, with the next step where it is not trusted.
pub(super) fn refused(path: PathBuf, operation: &'static str, error: io::Error) -> Error {
    let why = error
        .get_ref()
        .and_then(|why| why.downcast_ref::<Distrust>());
    let source = match why {
        Some(why) => io::Error::new(
            error.kind(),
            format!(
                "{why}; name a directory of your own that others cannot write to, or remove it after a look at \
                 where it came from"
            ),
        ),
        None => error,
    };
    Error::Directory {
        path,
        operation,
        source: Arc::new(source),
    }
}

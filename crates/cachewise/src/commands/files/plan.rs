//! Walks by the options of the command line: which files, their counts, and those that were left out.

use cachewise_model::Reason;
use std::path::{Path, PathBuf};

use anyhow::Result;
use cachewise_residency::{Counts, Error, Inode, Unknown, Walk, WalkedFile};
use cachewise_sys::ErrorKind;

use super::counting::Counting;
use super::fuse::NotOpened;
use super::unknown::unknown_reason;
use crate::options::Select;

/// Plans the walk over these roots by the options of the command line.
pub fn plan<P: AsRef<Path>>(select: &Select, roots: &[P]) -> Result<Walk> {
    let roots = roots.iter().map(AsRef::as_ref);
    let mut walk = Walk::new(roots).one_file_system(select.one_file_system);
    if let Some(threads) = select.threads {
        walk = walk.threads(threads.into());
    }
    for pattern in &select.include {
        walk = walk.include(pattern)?;
    }
    for pattern in &select.exclude {
        walk = walk.exclude(pattern)?;
    }
    Ok(walk)
}

/// The counts that a walk found, or those of the census for a file that the walk did not open.
pub fn counts_of(entry: &WalkedFile<'_>, not_opened: &NotOpened) -> Result<Counts, Reason> {
    match entry.counts {
        Err(Unknown::FuseNotOpened) => match Inode::at(&entry.path()) {
            Ok(inode) => not_opened.counts(&inode),
            Err(_) => Err(Reason::FuseNotOpened),
        },
        counts => counts.map_err(unknown_reason),
    }
}

/// Counts what a walk could not look at. A file that vanishes under it is no failure, unless it was named itself.
pub fn skipped(roots: &[PathBuf], error: &Error, counting: &mut Counting) {
    let is_root = |path: &Path| roots.iter().any(|root| root == path);
    if error.kind() == ErrorKind::NotFound && !error.path().is_some_and(is_root) {
        counting.vanished();
    } else {
        counting.failed(&error.to_string());
    }
}

//! Files to which the dropping is limited.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

use anyhow::{Context, Result, bail};
use cachewise_units::escaped;

use crate::options::SeparatedPathList;

/// Device and inode number of each file; `None`: all files.
#[derive(Debug, Default)]
pub struct ShieldedFiles(Option<HashSet<(u64, u64)>>);

impl ShieldedFiles {
    /// The files of a list.
    ///
    /// # Errors
    /// The list cannot be read or is empty; a file is not there, or is no regular file.
    pub fn of(list: &SeparatedPathList) -> Result<ShieldedFiles> {
        let mut paths = Vec::new();
        list.add_to(&mut paths)?;
        if paths.is_empty() {
            return Ok(ShieldedFiles(None));
        }
        let mut files = HashSet::new();
        for path in paths {
            let found = fs::metadata(&path)
                .with_context(|| format!("cannot limit the dropping to {}", escaped(&path)))?;
            if !found.is_file() {
                bail!(
                    "cannot limit the dropping to {}, which is no regular file: list files, as `find DIR -type f` does",
                    escaped(&path)
                );
            }
            files.insert((found.dev(), found.ino()));
        }
        Ok(ShieldedFiles(Some(files)))
    }

    /// Whether pages of an open file may be dropped.
    pub fn has(&self, file: &File) -> bool {
        let Some(files) = &self.0 else { return true };
        let found = file.metadata();
        found.is_ok_and(|found| files.contains(&(found.dev(), found.ino())))
    }
}

//! [`StorePlace`]: where the files of a store are.

use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;

use super::error::PublishError;

/// A file of the store, or a folder.
#[derive(Clone, Debug)]
pub(crate) struct StoredFile {
    pub name: String,
    pub bytes: u64,
    /// Time since it was written; none of a folder of a bucket.
    pub age: Duration,
}

/// A lock of the store, until it is dropped.
#[derive(Debug)]
pub(crate) struct StoreLock(#[expect(dead_code, reason = "dropping it unlocks")] Box<dyn Any>);

impl StoreLock {
    pub(super) fn new(held: impl Any) -> Self {
        Self(Box::new(held))
    }
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock<'a> {
    /// Publishers share the lock of the store.
    Shared,
    /// `gc` holds the lock of the store alone.
    Alone,
    /// A publisher locks a name while it sets the newest version. The caller waits: others hold it for a moment only.
    Name(&'a str),
}

/// Decides by the bytes of a file, `None` where it is missing, whether other bytes replace it.
pub(super) type Replaces<'a> = &'a mut dyn FnMut(Option<&[u8]>) -> Result<bool, PublishError>;

/// Files by names with slashes. Each appears whole.
pub(super) trait StorePlace: fmt::Debug + Send + Sync {
    /// Returns the path of a file, for messages.
    fn path(&self, name: &str) -> PathBuf;

    /// Returns the bytes of a file, `None` where it is missing.
    fn get(&self, name: &str) -> Result<Option<Bytes>, PublishError>;

    /// Returns a part of a file, `None` where it is missing; a shorter part where the file ends.
    fn part(&self, name: &str, start: u64, len: usize) -> Result<Option<Bytes>, PublishError>;

    /// Writes a file, in place of an older one.
    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), PublishError>;

    /// Writes a file before [`Self::settle`] returns.
    fn put_later(&self, name: &str, bytes: Vec<u8>) -> Result<(), PublishError> {
        self.put(name, &bytes)
    }

    /// Waits until all files are written.
    fn settle(&self) -> Result<(), PublishError> {
        Ok(())
    }

    /// Writes a file, unless there is one of that name: then `false`.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool, PublishError>;

    /// Writes a file in place of one that it replaces. The caller holds the lock of the name.
    fn replace(&self, name: &str, bytes: &[u8], replaces: Replaces<'_>)
    -> Result<(), PublishError>;

    /// Returns what is in a folder, sorted by name; nothing where the folder is missing.
    fn list(&self, folder: &str) -> Result<Vec<StoredFile>, PublishError>;

    /// Returns the files in the folders of a folder, by their names below it.
    fn list_below(&self, folder: &str) -> Result<Vec<StoredFile>, PublishError> {
        let mut found = Vec::new();
        for below in self.list(folder)? {
            let files = self.list(&format!("{folder}/{}", below.name))?;
            found.extend(files.into_iter().map(|file| StoredFile {
                name: format!("{}/{}", below.name, file.name),
                ..file
            }));
        }
        Ok(found)
    }

    /// Removes files; those that are missing are removed already.
    fn remove(&self, names: &[String]) -> Result<(), PublishError>;

    /// Locks the store or a name among the processes of this machine; `None` of a place without locks.
    fn lock(&self, how: Lock<'_>) -> Result<Option<StoreLock>, PublishError>;
}

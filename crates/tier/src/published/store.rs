//! [`Store`]: the directory that versions are published to.
//!
//! Each file appears whole: it is written under another name in `tmp`, and renamed. A process that is killed leaves files
//! in `tmp` and packs that no version refers to.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};
use tempfile::NamedTempFile;

use super::error::PublishError;

/// Marks a directory as a store.
const MARK: &str = "cachewise-store";
const FORM: &[u8] = b"cachewise store 1\n";

/// A directory with published versions.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

/// A lock of the store, until it is dropped.
#[derive(Debug)]
pub(crate) struct StoreLock(#[expect(dead_code, reason = "closing it unlocks")] File);

impl Store {
    /// Opens a store.
    ///
    /// # Errors
    /// [`PublishError::NoStore`].
    pub fn open(root: &Path) -> Result<Self, PublishError> {
        let mark = fs::read(root.join(MARK));
        if mark.is_ok_and(|mark| mark == FORM) {
            return Ok(Self {
                root: root.to_owned(),
            });
        }
        Err(PublishError::NoStore {
            path: root.to_owned(),
        })
    }

    /// Opens a store, or makes one of an empty or missing directory.
    ///
    /// # Errors
    /// [`PublishError::NoStore`] where the directory has other files, [`PublishError::Io`].
    pub fn create(root: &Path) -> Result<Self, PublishError> {
        if let Ok(store) = Self::open(root) {
            return Ok(store);
        }
        fs::create_dir_all(root).map_err(|error| PublishError::io("make", root, error))?;
        let mut entries =
            fs::read_dir(root).map_err(|error| PublishError::io("read", root, error))?;
        // Another publisher makes it at this moment, where these are all that there is.
        let is_other = |name: &std::ffi::OsStr| !["tmp", MARK].iter().any(|own| name == *own);
        if entries.any(|entry| entry.is_ok_and(|entry| is_other(&entry.file_name()))) {
            return Err(PublishError::NoStore {
                path: root.to_owned(),
            });
        }
        let store = Self {
            root: root.to_owned(),
        };
        store.put(MARK, FORM)?;
        Ok(store)
    }

    /// Returns the directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the bytes of a file, `None` where it is missing.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Vec<u8>>, PublishError> {
        let path = self.path(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(PublishError::io("read", &path, error)),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Writes a file, in place of an older one.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), PublishError> {
        let (file, path) = self.written(name, bytes)?;
        file.persist(&path)
            .map_err(|error| PublishError::io("write", &path, error.error))?;
        sync_parent(&path)
    }

    /// Writes a file, unless there is one of that name: then `false`.
    pub(crate) fn create_file(&self, name: &str, bytes: &[u8]) -> Result<bool, PublishError> {
        let (file, path) = self.written(name, bytes)?;
        match file.persist_noclobber(&path) {
            Ok(_) => sync_parent(&path).map(|()| true),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(PublishError::io("write", &path, error.error)),
        }
    }

    /// Writes the bytes under another name, to the disk.
    fn written(&self, name: &str, bytes: &[u8]) -> Result<(NamedTempFile, PathBuf), PublishError> {
        let path = self.path(name);
        let failed = |error| PublishError::io("write", &path, error);
        let folder = self.path("tmp");
        fs::create_dir_all(&folder).map_err(failed)?;
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        let made = tempfile::Builder::new()
            .permissions(mode)
            .tempfile_in(folder);
        let mut file = made.map_err(failed)?;
        file.write_all(bytes).map_err(failed)?;
        file.as_file().sync_data().map_err(failed)?;
        Ok((file, path))
    }

    /// Returns the names in a folder with their lengths and ages, sorted; none where the folder is missing.
    pub(crate) fn list(&self, folder: &str) -> Result<Vec<StoredFile>, PublishError> {
        let path = self.path(folder);
        let failed = |error| PublishError::io("list", &path, error);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let now = SystemTime::now();
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            // One that is renamed or removed meanwhile is not there.
            let Ok(meta) = entry.metadata() else { continue };
            let age = meta
                .modified()
                .ok()
                .and_then(|at| now.duration_since(at).ok());
            found.push(StoredFile {
                name: entry.file_name().to_string_lossy().into_owned(),
                bytes: meta.len(),
                age: age.unwrap_or_default(),
            });
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), PublishError> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(PublishError::io("remove", &path, error))
            }
            _ => Ok(()),
        }
    }

    /// Locks the store as one of many publishers. The kernel unlocks it when the process ends.
    pub(crate) fn lock_shared(&self) -> Result<StoreLock, PublishError> {
        self.lock("lock", FlockOperation::NonBlockingLockShared, "gc")
    }

    /// Locks the store for `gc`.
    pub(crate) fn lock_alone(&self) -> Result<StoreLock, PublishError> {
        self.lock(
            "lock",
            FlockOperation::NonBlockingLockExclusive,
            "publish or gc",
        )
    }

    /// Locks a name while its newest version is set. Waits: others hold it for a moment only.
    pub(crate) fn lock_name(&self, name: &str) -> Result<StoreLock, PublishError> {
        self.lock(
            &format!("names/{name}/lock"),
            FlockOperation::LockExclusive,
            "publish",
        )
    }

    fn lock(
        &self,
        name: &str,
        operation: FlockOperation,
        by: &'static str,
    ) -> Result<StoreLock, PublishError> {
        let path = self.path(name);
        let failed = |error| PublishError::io("lock", &path, error);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let mut options = File::options();
        let file = options.create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(failed)?;
        match flock(&file, operation) {
            Ok(()) => Ok(StoreLock(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(PublishError::InUse {
                path: self.root.clone(),
                by,
            }),
            Err(error) => Err(failed(error.into())),
        }
    }
}

/// A file of the store.
#[derive(Clone, Debug)]
pub(crate) struct StoredFile {
    pub name: String,
    pub bytes: u64,
    /// Time since it was written.
    pub age: Duration,
}

fn sync_parent(path: &Path) -> Result<(), PublishError> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    let synced = File::open(parent).and_then(|folder| folder.sync_all());
    synced.map_err(|error| PublishError::io("write", parent, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_appear_whole_and_once() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("store");
        assert!(matches!(
            Store::open(&root),
            Err(PublishError::NoStore { .. })
        ));
        let store = Store::create(&root).unwrap();
        assert!(store.create_file("names/a/versions/1", b"one").unwrap());
        assert!(!store.create_file("names/a/versions/1", b"two").unwrap());
        assert_eq!(store.get("names/a/versions/1").unwrap().unwrap(), b"one");
        store.put("names/a/latest", b"1").unwrap();
        store.put("names/a/latest", b"2").unwrap();
        assert_eq!(store.get("names/a/latest").unwrap().unwrap(), b"2");
        assert_eq!(store.get("names/a/other").unwrap(), None);
        assert_eq!(store.list("names/a/versions").unwrap().len(), 1);
        assert!(store.list("tmp").unwrap().is_empty(), "nothing is left");
        Store::create(&root).expect("it is a store already");
        let other = scratch.path().join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("file"), "").unwrap();
        assert!(Store::create(&other).is_err(), "not among other files");
    }

    #[test]
    fn gc_and_publish_exclude_each_other() {
        let scratch = tempfile::tempdir().unwrap();
        let store = Store::create(&scratch.path().join("store")).unwrap();
        let one = store.lock_shared().unwrap();
        let other = store.lock_shared().expect("publishers go together");
        assert!(matches!(
            store.lock_alone(),
            Err(PublishError::InUse { .. })
        ));
        drop((one, other));
        let alone = store.lock_alone().unwrap();
        assert!(matches!(
            store.lock_shared(),
            Err(PublishError::InUse { .. })
        ));
        drop(alone);
        store.lock_shared().unwrap();
    }
}

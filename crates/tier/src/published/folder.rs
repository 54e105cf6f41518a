//! [`Folder`]: a store that is a directory of this machine or of a network file system.
//!
//! Each file is written under another name in `tmp`, and renamed. A process that is killed leaves files in `tmp`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use rustix::fs::{FlockOperation, flock};
use tempfile::NamedTempFile;

use super::error::PublishError;
use super::place::{Lock, Replaces, StoreLock, StorePlace, StoredFile};

/// A directory.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// Makes the directory where it is missing, and returns whether it has files that are of no store. `mark` is the file of
    /// one that another publisher makes at this moment.
    pub(super) fn make(&self, mark: &str) -> Result<bool, PublishError> {
        let root = &self.root;
        fs::create_dir_all(root).map_err(|error| PublishError::io("make", root, error))?;
        let mut entries =
            fs::read_dir(root).map_err(|error| PublishError::io("read", root, error))?;
        let is_other = |name: &std::ffi::OsStr| !["tmp", mark].iter().any(|own| name == *own);
        Ok(entries.any(|entry| entry.is_ok_and(|entry| is_other(&entry.file_name()))))
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
}

impl StorePlace for Folder {
    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>, PublishError> {
        let path = self.path(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(PublishError::io("read", &path, error)),
        }
    }

    fn part(&self, name: &str, start: u64, len: usize) -> Result<Option<Bytes>, PublishError> {
        let path = self.path(name);
        let failed = |error| PublishError::io("read", &path, error);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mut bytes = vec![0; len];
        match file.read_exact_at(&mut bytes, start) {
            Ok(()) => Ok(Some(bytes.into())),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Some(Bytes::new())),
            Err(error) => Err(failed(error)),
        }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), PublishError> {
        let (file, path) = self.written(name, bytes)?;
        file.persist(&path)
            .map_err(|error| PublishError::io("write", &path, error.error))?;
        sync_parent(&path)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool, PublishError> {
        let (file, path) = self.written(name, bytes)?;
        match file.persist_noclobber(&path) {
            Ok(_) => sync_parent(&path).map(|()| true),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(PublishError::io("write", &path, error.error)),
        }
    }

    fn replace(
        &self,
        name: &str,
        bytes: &[u8],
        replaces: Replaces<'_>,
    ) -> Result<(), PublishError> {
        match replaces(self.get(name)?.as_deref())? {
            true => self.put(name, bytes),
            false => Ok(()),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<StoredFile>, PublishError> {
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

    fn remove(&self, names: &[String]) -> Result<(), PublishError> {
        for name in names {
            let path = self.path(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(PublishError::io("remove", &path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The kernel unlocks it when the process ends.
    fn lock(&self, how: Lock<'_>) -> Result<Option<StoreLock>, PublishError> {
        let (name, operation, by) = match how {
            Lock::Shared => ("lock".into(), FlockOperation::NonBlockingLockShared, "gc"),
            Lock::Alone => (
                "lock".into(),
                FlockOperation::NonBlockingLockExclusive,
                "publish or gc",
            ),
            Lock::Name(name) => (
                format!("names/{name}/lock"),
                FlockOperation::LockExclusive,
                "publish",
            ),
        };
        let path = self.path(&name);
        let failed = |error| PublishError::io("lock", &path, error);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let mut options = File::options();
        let file = options.create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(failed)?;
        match flock(&file, operation) {
            Ok(()) => Ok(Some(StoreLock::new(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(PublishError::InUse {
                path: self.root.clone(),
                by,
            }),
            Err(error) => Err(failed(error.into())),
        }
    }
}

fn sync_parent(path: &Path) -> Result<(), PublishError> {
    let Some(parent) = path.parent() else {
        return Ok(());
    };
    let synced = File::open(parent).and_then(|folder| folder.sync_all());
    synced.map_err(|error| PublishError::io("write", parent, error))
}

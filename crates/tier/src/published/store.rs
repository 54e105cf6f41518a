//! [`Store`]: the directory, or the prefix of a bucket, that versions are published to.
//!
//! Each file appears whole. A process that is killed leaves packs that no version refers to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::bucket::Bucket;
use super::error::PublishError;
use super::folder::Folder;
use super::place::{Lock, Replaces, StoreLock, StorePlace, StoredFile};

/// Marks a directory as a store.
const MARK: &str = "cachewise-store";
const FORM: &[u8] = b"cachewise store 1\n";

/// Published versions, in a directory or in a bucket.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
    place: Arc<dyn StorePlace>,
    /// The name of a bucket, the same on all machines.
    identity: Option<String>,
}

/// Returns the address of a bucket, with its scheme in lower case; `None` for a directory.
///
/// # Errors
/// [`PublishError::Scheme`] for an address of another kind.
pub(super) fn bucket(root: &Path) -> Result<Option<String>, PublishError> {
    let Some((scheme, rest)) = root.to_str().and_then(|text| text.split_once("://")) else {
        return Ok(None);
    };
    match scheme.to_ascii_lowercase() {
        scheme if scheme == "s3" => Ok(Some(format!("{scheme}://{rest}"))),
        scheme => Err(PublishError::Scheme { scheme }),
    }
}

impl Store {
    /// Opens a store: a directory, or `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// [`PublishError::NoStore`], [`PublishError::Scheme`]; of a bucket also [`PublishError::Io`] and [`PublishError::Read`].
    pub fn open(root: &Path) -> Result<Self, PublishError> {
        let none = || PublishError::NoStore {
            path: root.to_owned(),
        };
        let store = Self::at(root)?;
        match store.get(MARK) {
            Ok(Some(mark)) if mark == FORM => Ok(store),
            Err(error) if store.is_shared() => Err(error),
            _ => Err(none()),
        }
    }

    /// Opens a store, or makes one of an empty or missing directory, or of an empty prefix.
    ///
    /// # Errors
    /// [`PublishError::NoStore`] where there are other files, [`PublishError::Scheme`], [`PublishError::Io`]; of a bucket also
    /// [`PublishError::Unconditional`] and [`PublishError::Read`].
    pub fn create(root: &Path) -> Result<Self, PublishError> {
        let none = || PublishError::NoStore {
            path: root.to_owned(),
        };
        if let Some(url) = bucket(root)? {
            let place = Bucket::open(&url)?;
            if place.make(MARK, FORM)? {
                return Err(none());
            }
            return Self::open(root);
        }
        if let Ok(store) = Self::open(root) {
            return Ok(store);
        }
        if Folder::new(root).make(MARK)? {
            return Err(none());
        }
        let store = Self::at(root)?;
        store.put(MARK, FORM)?;
        Ok(store)
    }

    fn at(root: &Path) -> Result<Self, PublishError> {
        let (place, identity): (Arc<dyn StorePlace>, _) = match bucket(root)? {
            Some(url) => {
                let place = Bucket::open(&url)?;
                let identity = place.identity().to_owned();
                (place, Some(identity))
            }
            None => (Arc::new(Folder::new(root)), None),
        };
        Ok(Self {
            root: root.to_owned(),
            place,
            identity,
        })
    }

    /// Returns the directory or the address.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether it is a bucket, which machines share by a network and which has no locks.
    pub(super) fn is_shared(&self) -> bool {
        self.identity.is_some()
    }

    /// Returns its name: the real path of a directory, and an address that has the endpoint of a bucket.
    pub(super) fn identity(&self) -> Result<PathBuf, PublishError> {
        match &self.identity {
            Some(identity) => Ok(identity.into()),
            None => {
                let whole = self.root.canonicalize();
                whole.map_err(|error| PublishError::io("open", &self.root, error))
            }
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path(name)
    }

    /// Returns the bytes of a file, `None` where it is missing.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Bytes>, PublishError> {
        self.place.get(name)
    }

    /// Returns a part of a file, `None` where it is missing; a shorter part where the file ends.
    pub(super) fn part(
        &self,
        name: &str,
        start: u64,
        len: usize,
    ) -> Result<Option<Bytes>, PublishError> {
        self.place.part(name, start, len)
    }

    /// Writes a file, in place of an older one.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), PublishError> {
        self.place.put(name, bytes)
    }

    /// Writes a file before [`Self::settle`] returns.
    pub(super) fn put_later(&self, name: &str, bytes: Vec<u8>) -> Result<(), PublishError> {
        self.place.put_later(name, bytes)
    }

    /// Waits until all files are written.
    pub(super) fn settle(&self) -> Result<(), PublishError> {
        self.place.settle()
    }

    /// Writes a file, unless there is one of that name: then `false`.
    pub(crate) fn create_file(&self, name: &str, bytes: &[u8]) -> Result<bool, PublishError> {
        self.place.create(name, bytes)
    }

    /// Writes a file if it replaces the one that there is, also where others do the same.
    pub(super) fn replace(
        &self,
        name: &str,
        bytes: &[u8],
        replaces: Replaces<'_>,
    ) -> Result<(), PublishError> {
        self.place.replace(name, bytes, replaces)
    }

    /// Returns the names in a folder with their lengths and ages, sorted; none where the folder is missing.
    pub(crate) fn list(&self, folder: &str) -> Result<Vec<StoredFile>, PublishError> {
        self.place.list(folder)
    }

    /// Returns all packs, by their names below `packs`.
    pub(super) fn packs(&self) -> Result<Vec<StoredFile>, PublishError> {
        self.place.list_below("packs")
    }

    /// Removes files; those that are missing are removed already.
    pub(crate) fn remove(&self, names: &[String]) -> Result<(), PublishError> {
        self.place.remove(names)
    }

    /// Locks the store as one of many publishers.
    pub(crate) fn lock_shared(&self) -> Result<Option<StoreLock>, PublishError> {
        self.place.lock(Lock::Shared)
    }

    /// Locks the store for `gc`.
    pub(crate) fn lock_alone(&self) -> Result<Option<StoreLock>, PublishError> {
        self.place.lock(Lock::Alone)
    }

    /// Locks a name while its newest version is set. Waits: others hold it for a moment only.
    pub(crate) fn lock_name(&self, name: &str) -> Result<Option<StoreLock>, PublishError> {
        self.place.lock(Lock::Name(name))
    }
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
        assert_eq!(
            store.get("names/a/versions/1").unwrap().unwrap(),
            b"one".as_slice()
        );
        store.put("names/a/latest", b"1").unwrap();
        store.put("names/a/latest", b"2").unwrap();
        assert_eq!(
            store.get("names/a/latest").unwrap().unwrap(),
            b"2".as_slice()
        );
        assert_eq!(store.get("names/a/other").unwrap(), None);
        assert_eq!(store.list("names/a/versions").unwrap().len(), 1);
        assert!(store.list("tmp").unwrap().is_empty(), "nothing is left");
        Store::create(&root).expect("it is a store already");
        let other = scratch.path().join("other");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("file"), "").unwrap();
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

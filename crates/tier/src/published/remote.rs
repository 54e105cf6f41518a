//! [`Remote`]: an origin behind a network to publish: a bucket, or a server of HTTP with lists.
//!
//! Lists come with sizes and versions, so that an object that stays the same costs no request of its own. Reads are
//! conditional on the version that the list had.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use cachewise_units::ByteRange;
use futures_util::{StreamExt, stream};
use rustix::process::{getegid, geteuid};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::error::PublishError;
use super::index::FileState;
use super::source::{Extended, FileRead, Found, IsKnown, Source};
use super::stat::Stat;
use crate::{Entry, Error, Kind, Meta, Origin};

/// Requests at a time: blocks of one file, or short files of one directory.
const AT_ONCE: usize = 16;

/// An origin behind a network.
pub(super) struct Remote<'a> {
    origin: &'a Arc<dyn Origin>,
    runtime: Runtime,
    block: u64,
    /// When the walk began.
    began: SystemTime,
    /// Lists that came with the list of a directory above them.
    lists: HashMap<PathBuf, Vec<Entry>>,
}

/// A file that is being read.
type Reading = JoinHandle<Result<Bytes, Error>>;

/// A directory that was listed.
pub(super) struct Listed {
    entries: BTreeMap<Vec<u8>, Entry>,
    /// Short files that will be read, in the order in which they will be.
    wanted: VecDeque<Vec<u8>>,
    /// Those of them that are being read.
    begun: VecDeque<(Vec<u8>, Reading)>,
    path: PathBuf,
}

impl<'a> Remote<'a> {
    /// Lists the origin.
    pub(super) fn open(
        origin: &'a Arc<dyn Origin>,
        block: u64,
        began: SystemTime,
    ) -> Result<Self, PublishError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        let mut opened = Self {
            origin,
            runtime: runtime.map_err(|error| PublishError::io("open", Path::new(""), error))?,
            block,
            began,
            lists: HashMap::new(),
        };
        let root = opened.list(Path::new(""))?.unwrap_or_default();
        // A bucket has no empty directories: the prefix is a wrong one.
        if root.is_empty() && origin.has_trees() {
            let error = io::Error::new(io::ErrorKind::NotFound, "no key begins with this prefix");
            let address = Path::new(origin.identity());
            return Err(PublishError::io("list", address, error));
        }
        opened.lists.insert(PathBuf::new(), root);
        Ok(opened)
    }

    /// Lists a directory; `None` where there is none.
    fn list(&mut self, path: &Path) -> Result<Option<Vec<Entry>>, PublishError> {
        if let Some(known) = self.lists.remove(path) {
            return Ok(Some(known));
        }
        // One request lists what is below too. Where a key below cannot be a path, the list of each directory says more.
        if let Ok(Some(tree)) = self.runtime.block_on(self.origin.tree(path)) {
            let whole = tree.lists.into_iter().filter(|list| list.is_whole);
            self.lists
                .extend(whole.map(|list| (list.path, list.entries)));
            if let Some(known) = self.lists.remove(path) {
                return Ok(Some(known));
            }
        }
        match self.runtime.block_on(self.origin.list(path)) {
            Ok(entries) => Ok(Some(entries)),
            Err(Error::NotFound { .. }) if !path.as_os_str().is_empty() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns a directory with the metadata of its files.
    fn listed(
        &mut self,
        path: &Path,
        is_known: IsKnown<'_>,
    ) -> Result<Option<Listed>, PublishError> {
        let Some(entries) = self.list(path)? else {
            return Ok(None);
        };
        let mut listed = Listed {
            entries: BTreeMap::new(),
            wanted: VecDeque::new(),
            begun: VecDeque::new(),
            path: path.to_owned(),
        };
        let origin = self.origin;
        // Servers of HTTP list names and kinds.
        let looked = stream::iter(entries).map(|entry| async move {
            if entry.kind == Kind::Directory || entry.meta.is_some() {
                return Ok(Some(entry));
            }
            match origin.look(&path.join(&entry.name)).await {
                Ok(meta) => Ok(Some(Entry {
                    kind: meta.kind,
                    meta: Some(Box::new(meta)),
                    ..entry
                })),
                Err(Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        });
        let looked: Vec<Result<Option<Entry>, Error>> =
            self.runtime.block_on(looked.buffered(AT_ONCE).collect());
        for entry in looked {
            if let Some(entry) = entry? {
                listed.entries.insert(entry.name.clone().into_vec(), entry);
            }
        }
        for (name, entry) in &listed.entries {
            let meta = entry.meta.as_deref();
            let meta = meta.filter(|meta| meta.kind == Kind::File);
            let is_wanted = meta.is_some_and(|meta| {
                let state = FileState::of_object(&path.join(&entry.name), meta.size, &meta.version);
                (1..=self.block).contains(&meta.size) && !is_known(&state)
            });
            if is_wanted {
                listed.wanted.push_back(name.clone());
            }
        }
        Ok(Some(listed))
    }

    fn found(&self, path: &Path, meta: &Meta) -> Found {
        Found {
            kind: meta.kind,
            stat: Stat {
                mode: meta.mode,
                owner: meta.owner.unwrap_or_else(this_user),
                modified: meta.modified.map_or((0, 0), since_1970),
                size: meta.size,
                links: 1,
                blocks: meta.size.div_ceil(512),
            },
            has_acl: false,
            state: FileState::of_object(path, meta.size, &meta.version),
            is_settled: meta.keep_from.is_none_or(|from| from <= self.began),
        }
    }

    /// Begins to read the next short files of a directory.
    fn begin(&self, directory: &mut Listed) {
        while directory.begun.len() < AT_ONCE
            && let Some(name) = directory.wanted.pop_front()
        {
            let meta = directory
                .entries
                .get(&name)
                .and_then(|entry| entry.meta.clone());
            let Some(meta) = meta else { continue };
            let path = directory.path.join(OsStr::from_bytes(&name));
            let origin = Arc::clone(self.origin);
            let whole = ByteRange {
                start: 0,
                len: meta.size,
            };
            let read = async move { origin.read(&path, &meta, whole).await };
            directory.begun.push_back((name, self.runtime.spawn(read)));
        }
    }

    /// Reads the blocks of a file.
    fn blocks(
        &self,
        path: &Path,
        meta: &Meta,
        take: &mut dyn FnMut(&[u8]) -> Result<(), PublishError>,
    ) -> Result<(), PublishError> {
        let block = self.block;
        let blocks = (0..meta.size.div_ceil(block)).map(|number| {
            let start = number.saturating_mul(block);
            let len = block.min(meta.size.saturating_sub(start));
            self.origin.read(path, meta, ByteRange { start, len })
        });
        let mut read = stream::iter(blocks).buffered(AT_ONCE);
        while let Some(bytes) = self.runtime.block_on(read.next()) {
            take(&bytes?)?;
        }
        Ok(())
    }
}

/// The objects of an origin without users belong to the publishing user, as those of a mount do to the mounting one.
fn this_user() -> (u32, u32) {
    (geteuid().as_raw(), getegid().as_raw())
}

fn since_1970(time: SystemTime) -> (i64, u32) {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs().cast_signed(), since.subsec_nanos())
}

impl Source for Remote<'_> {
    type Directory = Listed;

    fn root(&mut self, is_known: IsKnown<'_>) -> Result<(Found, Listed), PublishError> {
        let path = Path::new("");
        let meta = self.runtime.block_on(self.origin.stat(path))?;
        let root = self.listed(path, is_known)?;
        let root = root.ok_or_else(|| Error::NotFound { path: path.into() })?;
        Ok((self.found(path, &meta), root))
    }

    fn names(
        &mut self,
        directory: &mut Listed,
        _path: &Path,
    ) -> Result<Vec<Vec<u8>>, PublishError> {
        Ok(directory.entries.keys().cloned().collect())
    }

    fn look(
        &mut self,
        directory: &mut Listed,
        name: &[u8],
        path: &Path,
    ) -> Result<Option<Found>, PublishError> {
        let entry = directory.entries.get(name);
        Ok(entry.map(|entry| match entry.meta.as_deref() {
            Some(meta) => self.found(path, meta),
            None => {
                let none = crate::Version::new("");
                self.found(path, &Meta::plain(entry.kind, 0, none))
            }
        }))
    }

    fn enter(
        &mut self,
        _directory: &mut Listed,
        _name: &[u8],
        path: &Path,
        is_known: IsKnown<'_>,
    ) -> Result<Option<Listed>, PublishError> {
        self.listed(path, is_known)
    }

    fn extended(
        &mut self,
        _directory: &mut Listed,
        _path: &Path,
    ) -> Result<Extended, PublishError> {
        Ok(Extended::default())
    }

    fn modified(&self, directory: &Listed) -> Option<(i64, u32)> {
        let metas = directory
            .entries
            .values()
            .filter_map(|entry| entry.meta.as_deref());
        let times = metas.filter_map(|meta| meta.modified).map(since_1970);
        Some(times.max().unwrap_or((0, 0)))
    }

    fn target(
        &mut self,
        directory: &mut Listed,
        name: &[u8],
        _path: &Path,
    ) -> Result<Option<Vec<u8>>, PublishError> {
        let meta = directory
            .entries
            .get(name)
            .and_then(|entry| entry.meta.as_deref());
        let target = meta.and_then(|meta| meta.target.as_deref());
        Ok(target.map(|target| target.as_os_str().as_bytes().to_vec()))
    }

    fn read(
        &mut self,
        directory: &mut Listed,
        name: &[u8],
        path: &Path,
        times: u32,
        take: &mut dyn FnMut(&[u8]) -> Result<(), PublishError>,
    ) -> Result<FileRead, PublishError> {
        self.begin(directory);
        let begun = directory.begun.iter().position(|(begun, _)| begun == name);
        let begun = begun.and_then(|at| directory.begun.remove(at));
        let read = || -> Result<Meta, PublishError> {
            let listed = directory
                .entries
                .get(name)
                .and_then(|entry| entry.meta.as_deref());
            let meta = match listed.filter(|_| times == 0) {
                Some(meta) => meta.clone(),
                None => self.runtime.block_on(self.origin.look(path))?,
            };
            match begun {
                Some((_, bytes)) => {
                    let bytes = self.runtime.block_on(bytes);
                    take(&bytes.map_err(|error| {
                        PublishError::io("read", path, io::Error::other(error))
                    })??)?;
                }
                None if meta.kind == Kind::File => self.blocks(path, &meta, take)?,
                None => {}
            }
            Ok(meta)
        };
        match read() {
            Ok(meta) if meta.kind == Kind::File => {
                let found = self.found(path, &meta);
                Ok(FileRead::Whole(found, Extended::default()))
            }
            Ok(_) | Err(PublishError::Read(Error::Changed { .. })) => Ok(FileRead::Changed),
            Err(PublishError::Read(Error::NotFound { .. })) => Ok(FileRead::Vanished),
            Err(error) => Err(error),
        }
    }

    /// Where the bucket itself has vanished, every name has.
    fn check(&mut self) -> Result<(), PublishError> {
        self.runtime.block_on(self.origin.check())?;
        Ok(())
    }
}

//! [`Published`]: versions of a name as an origin, whose first directories are the serials of versions.
//!
//! `7/a/b` is `a/b` in the version with serial 7: a reader that has begun in one version never gets a name of another.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use cachewise_units::ByteRange;
use futures_util::future::BoxFuture;

use super::address::{Content, FAN_OUT, Hash, Ref};
use super::attributes::{Attributes, Stored};
use super::chunk::{Body, Chunk, Item, item_of};
use super::leaf::{Leaf, Leaves};
use super::meta::meta;
use super::packs::PackReader;
use super::recent::Recent;
use super::record::Record;
use crate::cache::WeakCache;
use crate::{BlockCache, Entry, Error, Kind, Meta, Origin, Room, Version};

/// Bytes of chunks that are kept decoded, by their length in the store.
const CHUNKS: usize = 4 << 20;

/// A chunk that was read.
#[derive(Clone, Debug)]
enum Decoded {
    /// Objects of a directory.
    Leaf(Arc<Leaf>),
    /// References.
    Refs(Arc<Chunk>),
}

impl Decoded {
    fn new(bytes: &Bytes) -> Option<Self> {
        Some(match Leaf::decode(bytes.clone()) {
            Some(leaf) => Self::Leaf(Arc::new(leaf)),
            None => Self::Refs(Arc::new(Chunk::decode(bytes)?)),
        })
    }
}

/// Versions of one name.
#[derive(Debug)]
pub struct Published {
    packs: PackReader,
    cache: OnceLock<WeakCache>,
    chunks: Mutex<Recent<Hash, Decoded>>,
    /// Versions that are or were served.
    versions: Mutex<Vec<Record>>,
    /// Whether versions are added later.
    is_followed: bool,
    /// The version of all metadata: hashes name states.
    none: Version,
}

impl Published {
    /// Serves a version of this store.
    #[must_use]
    pub fn new(store: Arc<dyn Origin>, record: Record) -> Self {
        Self {
            packs: PackReader::new(store),
            cache: OnceLock::new(),
            chunks: Mutex::new(Recent::new(CHUNKS)),
            versions: Mutex::new(vec![record]),
            is_followed: false,
            none: Version::new(""),
        }
    }

    /// Serves newer versions too, which [`Self::add`] will name.
    #[must_use]
    pub fn followed(self) -> Self {
        Self {
            is_followed: true,
            ..self
        }
    }

    /// Reads chunks through this cache, whose origin this is: memory, disk and engine keep them.
    pub fn read_through(&self, cache: &BlockCache) {
        // Set once, where it begins.
        let _ = self.cache.set(cache.downgrade());
    }

    /// Serves another version too.
    pub fn add(&self, record: Record) {
        let mut versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        if versions.iter().all(|known| known.serial != record.serial) {
            versions.push(record);
        }
    }

    /// Returns the path of a version's root.
    #[must_use]
    pub fn root_of(record: &Record) -> PathBuf {
        PathBuf::from(record.serial.to_string())
    }

    fn version(&self, path: &Path) -> Result<Record, Error> {
        let missing = || Error::NotFound {
            path: path.to_owned(),
        };
        let serial = match path.components().next() {
            Some(Component::Normal(first)) => first.to_str().and_then(|text| text.parse().ok()),
            _ => None,
        };
        let serial: u64 = serial.ok_or_else(missing)?;
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let found = versions.iter().find(|known| known.serial == serial);
        found.cloned().ok_or_else(missing)
    }

    /// Returns a chunk, decoded.
    async fn chunk(&self, to: &Ref) -> Result<Decoded, Error> {
        let chunks = || self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chunk) = chunks().get(&to.hash) {
            return Ok(chunk);
        }
        let bytes = self.bytes(to).await?;
        let chunk = Decoded::new(&bytes).ok_or_else(|| damaged(Path::new(&to.pack.path())))?;
        chunks().put(to.hash, chunk.clone(), bytes.len());
        Ok(chunk)
    }

    /// Returns the bytes of a chunk or a piece, verified.
    async fn bytes(&self, to: &Ref) -> Result<Bytes, Error> {
        let path = to.pack.path();
        let path = Path::new(&path);
        let meta = Meta {
            content: Some(Content::of_blocks(&[*to])),
            ..Meta::plain(Kind::File, to.len.into(), self.none.clone())
        };
        let whole = ByteRange {
            start: 0,
            len: to.len.into(),
        };
        let cache = self.cache.get().and_then(WeakCache::upgrade);
        let cache = cache.ok_or_else(|| Error::Published {
            path: path.to_owned(),
            why: "the cache that reads it is closed",
        })?;
        cache.get(&cache.file(path, meta), whole).await
    }

    /// Returns the list with the root of a version.
    async fn root_leaf(&self, root: &Path) -> Result<Arc<Leaf>, Error> {
        let record = self.version(root)?;
        let leaf = self.part(record.root, super::walk::ROOT).await?;
        let leaf = leaf.filter(|leaf| leaf.find(super::walk::ROOT) == Some(0));
        leaf.ok_or_else(|| damaged(root))
    }

    /// Returns extended attributes.
    async fn attributes_of(&self, stored: &Stored) -> Result<Attributes, Error> {
        let (whole, path) = match stored {
            Stored::None => return Ok(Attributes::default()),
            Stored::Short(bytes) => (bytes.to_vec(), String::new()),
            Stored::Pieces(pieces) => {
                let mut whole = Vec::new();
                for piece in pieces {
                    whole.extend_from_slice(&self.bytes(piece).await?);
                }
                let first = pieces.first().map(|piece| piece.pack.path());
                (whole, first.unwrap_or_default())
            }
        };
        Attributes::decode(&whole).ok_or_else(|| damaged(Path::new(&path)))
    }

    /// Returns the part of a directory in which a name is, if it is in any.
    async fn part(&self, top: Ref, name: &[u8]) -> Result<Option<Arc<Leaf>>, Error> {
        let mut at = top;
        loop {
            let chunk = match self.chunk(&at).await? {
                Decoded::Leaf(leaf) => return Ok(Some(leaf)),
                Decoded::Refs(chunk) => chunk,
            };
            let Chunk::Index(entries) = &*chunk else {
                return Err(damaged(Path::new(&at.pack.path())));
            };
            let behind = entries.partition_point(|(first, _)| first.as_slice() <= name);
            match behind.checked_sub(1).and_then(|last| entries.get(last)) {
                Some((_, below)) => at = *below,
                None => return Ok(None),
            }
        }
    }

    /// Looks a name up in a directory.
    async fn child(&self, top: Ref, name: &[u8]) -> Result<Option<Item>, Error> {
        let leaf = self.part(top, name).await?;
        Ok(leaf.and_then(|leaf| item_of(&leaf.view(leaf.find(name)?)?)))
    }

    async fn find(&self, path: &Path) -> Result<Item, Error> {
        let missing = || Error::NotFound {
            path: path.to_owned(),
        };
        let record = self.version(path)?;
        let found = self.child(record.root, super::walk::ROOT).await?;
        let mut item = found.ok_or_else(|| damaged(path))?;
        for part in path.components().skip(1) {
            let Body::Directory(top) = item.body else {
                return Err(missing());
            };
            let found = self.child(top, part.as_os_str().as_bytes()).await?;
            item = found.ok_or_else(missing)?;
        }
        Ok(item)
    }

    /// Returns the parts of a directory, in the order of names.
    async fn parts(&self, top: Ref) -> Result<Vec<Ref>, Error> {
        let mut level = vec![top];
        loop {
            let mut below = Vec::new();
            for to in &level {
                match self.chunk(to).await? {
                    // All of a level are: the others are not read for that.
                    Decoded::Leaf(_) => return Ok(level),
                    Decoded::Refs(chunk) => match &*chunk {
                        Chunk::Index(entries) => below.extend(entries.iter().map(|(_, to)| *to)),
                        _ => return Err(damaged(Path::new(&to.pack.path()))),
                    },
                }
            }
            if below.is_empty() {
                return Err(damaged(Path::new(&top.pack.path())));
            }
            level = below;
        }
    }

    fn meta(&self, item: &Item) -> Meta {
        let kind = kind(item);
        let content = match &item.body {
            Body::File(content) => Some(content.clone()),
            Body::Directory(top) => Some(Content::of_blocks(&[*top])),
            _ => None,
        };
        let target = match &item.body {
            Body::Link(target) => {
                let target = OsString::from_vec(target.clone());
                Some(Arc::from(PathBuf::from(target)))
            }
            _ => None,
        };
        Meta {
            target,
            content,
            ..meta(
                kind,
                &item.stat,
                item.inode,
                item.has_acl,
                self.none.clone(),
            )
        }
    }

    /// Returns where a block of a file is.
    async fn block_of(&self, path: &Path, content: &Content, number: u64) -> Result<Ref, Error> {
        let mut refs: Arc<[Ref]> = Arc::clone(&content.refs);
        let mut left = number;
        for level in (0..=content.level).rev() {
            let span = Content::span(level);
            let at = usize::try_from(left / span).unwrap_or(usize::MAX);
            left %= span;
            let to = *refs.get(at).ok_or_else(|| damaged(path))?;
            if level == 0 {
                return Ok(to);
            }
            let Decoded::Refs(chunk) = self.chunk(&to).await? else {
                return Err(damaged(path));
            };
            match &*chunk {
                Chunk::Refs(below) if below.len() as u64 <= FAN_OUT => {
                    refs = below.as_slice().into()
                }
                _ => return Err(damaged(path)),
            }
        }
        Err(damaged(path))
    }
}

fn kind(item: &Item) -> Kind {
    match item.body {
        Body::File(_) => Kind::File,
        Body::Directory(_) => Kind::Directory,
        Body::Link(_) => Kind::Link,
        Body::Other => Kind::Other,
    }
}

fn damaged(path: &Path) -> Error {
    Error::Published {
        path: path.to_owned(),
        why: "the tree of the version is damaged, or of a newer cachewise: update this program, or publish again",
    }
}

impl Leaves for Published {
    fn leaves<'a>(&'a self, top: &'a Ref) -> BoxFuture<'a, Result<Vec<Ref>, Error>> {
        Box::pin(self.parts(*top))
    }

    fn leaf<'a>(&'a self, at: &'a Ref) -> BoxFuture<'a, Result<Arc<Leaf>, Error>> {
        Box::pin(async move {
            match self.chunk(at).await? {
                Decoded::Leaf(leaf) => Ok(leaf),
                Decoded::Refs(_) => Err(damaged(Path::new(&at.pack.path()))),
            }
        })
    }

    fn top<'a>(&'a self, root: &'a Path) -> BoxFuture<'a, Result<Arc<Leaf>, Error>> {
        Box::pin(self.root_leaf(root))
    }

    fn is_followed(&self) -> bool {
        self.is_followed
    }

    fn has_attributes(&self) -> bool {
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_followed || versions.iter().any(|version| version.has_attributes)
    }

    fn attributes<'a>(&'a self, stored: &'a Stored) -> BoxFuture<'a, Result<Attributes, Error>> {
        Box::pin(self.attributes_of(stored))
    }

    fn leaf_of<'a>(
        &'a self,
        top: &'a Ref,
        name: &'a [u8],
    ) -> BoxFuture<'a, Result<Option<Arc<Leaf>>, Error>> {
        Box::pin(self.part(*top, name))
    }
}

impl Origin for Published {
    fn identity(&self) -> &'static str {
        // No part of any key: blocks are named by their hashes.
        "published"
    }

    #[expect(private_interfaces, reason = "only origins of this crate have them")]
    fn leaves(&self) -> Option<&dyn Leaves> {
        Some(self)
    }

    fn stat<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Meta, Error>> {
        Box::pin(async move { Ok(self.meta(&self.find(path).await?)) })
    }

    fn room(&self) -> BoxFuture<'_, Result<Option<Room>, Error>> {
        let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = versions.last().cloned();
        Box::pin(std::future::ready(Ok(newest.map(|record| Room {
            unit: 4096,
            units: record.bytes.div_ceil(4096),
            free: 0,
            available: 0,
            files: record.files,
            files_free: 0,
            longest_name: 255,
        }))))
    }

    fn list<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Vec<Entry>, Error>> {
        Box::pin(async move {
            let Body::Directory(top) = self.find(path).await?.body else {
                return Err(Error::NotFound {
                    path: path.to_owned(),
                });
            };
            let mut entries = Vec::new();
            for part in self.parts(top).await? {
                let leaf = self.leaf(&part).await?;
                let items = leaf.views(0).filter_map(|view| item_of(&view));
                entries.extend(items.map(|item| Entry {
                    name: OsString::from_vec(item.name.clone()),
                    kind: kind(&item),
                    inode: item.inode,
                    meta: Some(Box::new(self.meta(&item))),
                }));
            }
            Ok(entries)
        })
    }

    fn read<'a>(
        &'a self,
        path: &'a Path,
        meta: &'a Meta,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<Bytes, Error>> {
        Box::pin(async move {
            let content = meta.content.as_ref().ok_or_else(|| damaged(path))?;
            // Reads are of whole blocks, so that the first byte says which one.
            let block = {
                let versions = self.versions.lock().unwrap_or_else(PoisonError::into_inner);
                versions.first().map_or(1 << 17, |record| record.block)
            };
            let to = self.block_of(path, content, range.start / block).await?;
            if u64::from(to.len) != range.len {
                return Err(damaged(path));
            }
            self.packs.read(&to).await
        })
    }

    fn block<'a>(
        &'a self,
        path: &'a Path,
        content: &'a Content,
        number: u64,
    ) -> BoxFuture<'a, Result<Ref, Error>> {
        Box::pin(self.block_of(path, content, number))
    }
}

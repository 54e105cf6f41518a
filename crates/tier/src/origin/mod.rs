//! [`Origin`]: the source of the bytes that no tier has.

mod directory;
mod file_system;
mod http;
mod machine;
mod network;
mod s3;
mod subtree;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Component, Path};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use cachewise_units::ByteRange;
use futures_util::future::BoxFuture;

pub use directory::{Directory, DirectoryOptions};
pub use http::Http;
pub use network::NetworkOptions;
pub use s3::S3;
pub(crate) use s3::{S3Objects, When};
pub use subtree::{Subtree, SubtreeList};

use crate::Error;
use crate::published::address::{Content, Ref};
use crate::published::leaf::Leaves;

/// State of an object: differs whenever the bytes may differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(Arc<str>);

impl Version {
    /// Takes the origin's name of the state: an ETag, or times in nanoseconds.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Arc::from(text))
    }

    /// Returns it as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Has bytes.
    File,
    /// Has entries.
    Directory,
    /// A symbolic link, which [`Origin::look`] finds, and lists have: [`Meta::target`] is what it says.
    Link,
    /// A device, a socket: listed, never read.
    Other,
}

/// The metadata of an object, from one `stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Its kind.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: u64,
    /// Its version.
    pub version: Version,
    /// The file system of this origin that it is on; 0 if there is only one. The number is local to
    /// this machine and not part of keys. It distinguishes objects with equal versions on different
    /// file systems, such as snapshots.
    pub device: u64,
    /// Its inode number, of one object of the origin at a time; 0 of an origin without them.
    pub inode: u64,
    /// How many names it has; a directory of an origin that does not count has 1.
    pub links: u32,
    /// How much room it takes, in units of 512 bytes, if the origin reports it: less than `size` where it is sparse.
    pub blocks: Option<u64>,
    /// The target of a link, as it is stored; `None` for other kinds.
    pub target: Option<Arc<Path>>,
    /// Time of the last write, if the origin reports it.
    pub modified: Option<SystemTime>,
    /// Time of the last change of the object, its permissions included, if the origin reports it.
    pub changed: Option<SystemTime>,
    /// Permission bits; of an origin without them 0o444 and 0o555.
    pub mode: u32,
    /// Its user and group, if the origin reports them.
    pub owner: Option<(u32, u32)>,
    /// Whether an access control list extends the permissions of `mode` and `owner`.
    pub has_acl: bool,
    /// Whether this process may open it at the origin for reading, by the origin's own answer. [`crate::BlockCache::get`]
    /// gives no bytes of a file for which it is `false`, wherever they are kept.
    pub is_readable: bool,
    /// The blocks of a file, or the topmost chunk of a directory, of an origin that names bytes by their hashes: a
    /// published version. Blocks are kept under their hashes then, and verified wherever they come from.
    pub content: Option<Content>,
    /// The time from which its version reflects every write; `None` means always. Two writes within
    /// one tick of the file system's clock may have the same version, so bytes read before this
    /// time are returned but not cached.
    pub keep_from: Option<SystemTime>,
}

impl Meta {
    /// The metadata of an origin that reports a size and a version only: readable by all, with one name.
    #[must_use]
    pub fn plain(kind: Kind, size: u64, version: Version) -> Self {
        Self {
            kind,
            size,
            version,
            device: 0,
            inode: 0,
            links: 1,
            blocks: None,
            target: None,
            modified: None,
            changed: None,
            mode: match kind {
                Kind::Directory => 0o555,
                _ => 0o444,
            },
            owner: None,
            has_acl: false,
            is_readable: true,
            content: None,
            keep_from: None,
        }
    }

    /// Says whether it is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Directory
    }
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, without the directory's.
    pub name: std::ffi::OsString,
    /// Its kind. An origin with links reports the link, not what it leads to.
    pub kind: Kind,
    /// Its inode number; see [`Meta::inode`].
    pub inode: u64,
    /// Its metadata, if the list of the origin has them. They do not show whether this process may read it, which
    /// [`Origin::stat`] does.
    pub meta: Option<Box<Meta>>,
}

impl Entry {
    /// An entry of an origin without inode numbers.
    #[must_use]
    pub fn new(name: impl Into<std::ffi::OsString>, kind: Kind) -> Self {
        Self {
            name: name.into(),
            kind,
            inode: 0,
            meta: None,
        }
    }
}

/// The room that the file system of an origin has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Size of a unit in bytes.
    pub unit: u64,
    /// Number of units.
    pub units: u64,
    /// Units that are free.
    pub free: u64,
    /// Units that an ordinary user can have.
    pub available: u64,
    /// Number of files that there can be; 0 if the file system does not count.
    pub files: u64,
    /// How many more files there can be.
    pub files_free: u64,
    /// Longest name in bytes.
    pub longest_name: u32,
}

/// The source of the bytes that no tier has. Never written to.
///
/// Paths are relative to the origin and consist of plain names: no `..`, no `/` at the start. The
/// empty path is the origin itself. Calls may take long: the caller bounds their time and number.
pub trait Origin: Send + Sync + fmt::Debug {
    /// Returns what goes into the key of each block: two origins with different bytes have
    /// different identities, and machines that see the same origin name it alike.
    fn identity(&self) -> &str;

    /// Checks that the origin is reachable, and returns a warning about missing features.
    /// Long-running programs call it at the start. Sends no request if opening did.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Deadline`], [`Error::Origin`].
    fn check(&self) -> BoxFuture<'_, Result<Option<String>, Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Looks at an object, and follows it where it is a link.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`], [`Error::Path`], [`Error::Origin`].
    fn stat<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Meta, Error>>;

    /// Looks at an object, and does not follow it where it is a link. The default is for origins without links.
    ///
    /// # Errors
    /// The errors of [`Self::stat`].
    fn look<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Meta, Error>> {
        self.stat(path)
    }

    /// Returns the room of its file system; the default is for origins that do not tell.
    ///
    /// # Errors
    /// [`Error::Origin`].
    fn room(&self) -> BoxFuture<'_, Result<Option<Room>, Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Lists a directory, in no particular order, without `.` and `..`.
    ///
    /// # Errors
    /// As [`Self::stat`], and [`Error::NotListed`] of an origin without lists.
    fn list<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Vec<Entry>, Error>>;

    /// Whether [`Self::tree`] shows more than [`Self::list`].
    fn has_trees(&self) -> bool {
        false
    }

    /// Lists a directory and those below it in one request, as far as one request goes. `None` from an origin that
    /// cannot; the default.
    ///
    /// # Errors
    /// The errors of [`Self::list`].
    fn tree<'a>(&'a self, _path: &'a Path) -> BoxFuture<'a, Result<Option<Subtree>, Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Looks at an object as [`Self::look`] does, with [`Self::tree`] at the same time: if the object is a directory, what
    /// is below it is found too. The default only looks.
    ///
    /// # Errors
    /// The errors of [`Self::stat`].
    fn find<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<(Meta, Option<Subtree>), Error>> {
        Box::pin(async move { Ok((self.look(path).await?, None)) })
    }

    /// Returns the trees of an origin that are read as such: of published versions.
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "only origins of this crate have them")]
    fn leaves(&self) -> Option<&dyn Leaves> {
        None
    }

    /// Whether its objects have extended attributes.
    fn has_attributes(&self) -> bool {
        false
    }

    /// Returns the value of an extended attribute of an object in the state that `meta` describes; of a directory the
    /// present value. `None` if it has no such attribute; the default.
    ///
    /// # Errors
    /// The errors of [`Self::read`].
    fn attribute<'a>(
        &'a self,
        _path: &'a Path,
        _meta: &'a Meta,
        _name: &'a OsStr,
    ) -> BoxFuture<'a, Result<Option<Bytes>, Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Returns the names of the extended attributes of an object; see [`Self::attribute`].
    ///
    /// # Errors
    /// The errors of [`Self::read`].
    fn attributes<'a>(
        &'a self,
        _path: &'a Path,
        _meta: &'a Meta,
    ) -> BoxFuture<'a, Result<Vec<OsString>, Error>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Reads exactly `range`, which lies within `meta.size`, of the state that `meta` describes.
    ///
    /// # Errors
    /// [`Error::Changed`] where the object is another one than `meta` says, before the read or
    /// after it; else as [`Self::stat`].
    fn read<'a>(
        &'a self,
        path: &'a Path,
        meta: &'a Meta,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<Bytes, Error>>;

    /// Returns the hash of a block of an object with [`Meta::content`]. The default is for origins without hashes.
    ///
    /// # Errors
    /// The errors of [`Self::read`].
    fn block<'a>(
        &'a self,
        path: &'a Path,
        _content: &'a Content,
        _number: u64,
    ) -> BoxFuture<'a, Result<Ref, Error>> {
        let path = path.to_owned();
        Box::pin(std::future::ready(Err(Error::Path {
            path,
            why: "this origin has no hashes",
        })))
    }
}

/// Returns the path where it is of plain names alone.
fn checked(path: &Path) -> Result<&Path, Error> {
    if path
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
    {
        Ok(path)
    } else {
        Err(Error::Path {
            path: path.to_owned(),
            why: "a path of an origin is relative to it, of plain names, without `.` and `..`",
        })
    }
}

//! [`compare`]: what differs between two versions. Directories with the same hash are not read.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use super::address::Ref;
use super::chunk::{Body, Item};
use super::error::PublishError;
use super::keys::PublicKey;
use super::record::{Record, VersionName};
use super::stat::Stat;
use super::store::Store;
use super::tree::{joined, read_directory};

/// How a name differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Only the second version has it.
    Added,
    /// Only the first version has it.
    Removed,
    /// The bytes differ, the target of a link, or the kind.
    Content,
    /// Mode, owner, time of the last write, number of names or extended attributes differ.
    Attributes,
}

impl Change {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Content => "content",
            Self::Attributes => "attributes",
        }
    }
}

/// A name that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its path.
    pub path: PathBuf,
    /// How it differs.
    pub change: Change,
    /// Its size in the first version.
    pub before: Option<u64>,
    /// Its size in the second version.
    pub after: Option<u64>,
}

/// Reads the record of a version, and verifies it by a key if there is one.
///
/// # Errors
/// [`PublishError::NoVersion`], [`PublishError::OtherKey`], [`PublishError::Signature`], [`PublishError::Record`].
pub fn record_of(
    store: &Store,
    name: &VersionName,
    trusted: Option<&PublicKey>,
) -> Result<Record, PublishError> {
    let Some(bytes) = store.get(&name.path())? else {
        let there = store.list(&VersionName::folder(&name.name))?;
        return Err(PublishError::NoVersion {
            version: name.to_string(),
            there: there.into_iter().map(|file| file.name).collect(),
        });
    };
    match trusted {
        Some(key) => Record::verify(&bytes, name, key),
        None => Record::unverified(&bytes, name),
    }
}

/// Returns what differs between two versions, by path.
///
/// # Errors
/// [`PublishError::MissingPack`], [`PublishError::Io`].
pub fn compare(
    store: &Store,
    one: &Record,
    other: &Record,
) -> Result<Vec<Difference>, PublishError> {
    let mut found = Vec::new();
    let items = |record: &Record| read_directory(store, &record.root, &mut |_| ());
    if let (Some(one), Some(other)) = (items(one)?.pop(), items(other)?.pop()) {
        item(store, Path::new(""), &one, &other, &mut found)?;
    }
    Ok(found)
}

fn directories(
    store: &Store,
    path: &Path,
    one: &Ref,
    other: &Ref,
    found: &mut Vec<Difference>,
) -> Result<(), PublishError> {
    if one.hash == other.hash {
        return Ok(());
    }
    let ones = read_directory(store, one, &mut |_| ())?;
    let others = read_directory(store, other, &mut |_| ())?;
    let (mut ones, mut others) = (ones.iter().peekable(), others.iter().peekable());
    loop {
        let order = match (ones.peek(), others.peek()) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(one), Some(other)) => one.name.cmp(&other.name),
        };
        let one = if order.is_le() { ones.next() } else { None };
        let other = if order.is_ge() { others.next() } else { None };
        match (one, other) {
            (Some(one), Some(other)) => {
                item(store, &joined(path, &one.name), one, other, found)?;
            }
            (Some(one), None) => whole(store, path, one, Change::Removed, found)?,
            (None, Some(other)) => whole(store, path, other, Change::Added, found)?,
            (None, None) => {}
        }
    }
}

fn item(
    store: &Store,
    path: &Path,
    one: &Item,
    other: &Item,
    found: &mut Vec<Difference>,
) -> Result<(), PublishError> {
    let hashes = |item: &Item| match &item.body {
        Body::File(content) => content.refs.iter().map(|to| to.hash).collect(),
        _ => Vec::new(),
    };
    let is_same = match (&one.body, &other.body) {
        (Body::File(_), Body::File(_)) => {
            one.stat.size == other.stat.size && hashes(one) == hashes(other)
        }
        (Body::Link(one), Body::Link(other)) => one == other,
        (Body::Directory(_), Body::Directory(_)) | (Body::Other, Body::Other) => true,
        _ => false,
    };
    let attributes = |item: &Item| {
        let stat = Stat {
            size: 0,
            blocks: 0,
            ..item.stat
        };
        (stat, item.has_acl, item.attributes.state())
    };
    let change = match (is_same, attributes(one) == attributes(other)) {
        (false, _) => Some(Change::Content),
        (true, false) => Some(Change::Attributes),
        (true, true) => None,
    };
    if let Some(change) = change {
        found.push(Difference {
            path: path.to_owned(),
            change,
            before: Some(one.stat.size),
            after: Some(other.stat.size),
        });
    }
    match (&one.body, &other.body) {
        (Body::Directory(one), Body::Directory(other)) => {
            directories(store, path, one, other, found)
        }
        (Body::Directory(below), _) => all(store, path, below, Change::Removed, found),
        (_, Body::Directory(below)) => all(store, path, below, Change::Added, found),
        _ => Ok(()),
    }
}

/// Notes an object with all below it.
fn whole(
    store: &Store,
    path: &Path,
    item: &Item,
    change: Change,
    found: &mut Vec<Difference>,
) -> Result<(), PublishError> {
    let path = joined(path, &item.name);
    let is_added = change == Change::Added;
    found.push(Difference {
        path: path.clone(),
        change,
        before: (!is_added).then_some(item.stat.size),
        after: is_added.then_some(item.stat.size),
    });
    match &item.body {
        Body::Directory(below) => all(store, &path, below, change, found),
        _ => Ok(()),
    }
}

fn all(
    store: &Store,
    path: &Path,
    below: &Ref,
    change: Change,
    found: &mut Vec<Difference>,
) -> Result<(), PublishError> {
    for item in read_directory(store, below, &mut |_| ())? {
        whole(store, path, &item, change, found)?;
    }
    Ok(())
}

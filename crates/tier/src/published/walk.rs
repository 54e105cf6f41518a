//! [`Walk`]: the origin's directories and files on their way into a version.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use twox_hash::XxHash3_64;

use super::address::{PackId, Ref};
use super::attributes::{Attributes, Stored};
use super::chunk::{Body, Item};
use super::error::PublishError;
use super::index::{FileState, KnownFile, LocalIndex, NextIndex};
use super::leaf::is_name;
use super::pack::{PackWriter, Part};
use super::source::{FileRead, Found, Source};
use super::tree::{write_attributes, write_content, write_directory};
use crate::Kind;

/// How often a file is read that changes meanwhile.
const READS: u32 = 3;

/// The bit of inode numbers that no file system of an origin gives.
const MADE: u64 = 1 << 63;

/// The name of the origin in the topmost chunk.
pub(super) const ROOT: &[u8] = b"root";

/// The objects that a walk has met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Files.
    pub files: u64,
    /// Directories, with the origin itself.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Objects with extended attributes.
    pub with_attributes: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Files that were read; others are as in the version before.
    pub read_files: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Files that changed while they were read, and were read again.
    pub read_again: u64,
    /// Names that vanished between the list of their directory and the look at them.
    pub vanished: u64,
}

/// A walk over an origin.
pub(super) struct Walk<'a, S> {
    source: S,
    packs: PackWriter<'a>,
    base: &'a LocalIndex,
    block: u64,
    /// The bytes of which an inode number is the hash.
    state: Vec<u8>,
    /// The files with more than one name.
    linked: HashMap<(u64, u64), (u64, KnownFile)>,
    next: NextIndex<'a>,
    walked: Walked,
}

/// The result of a walk.
pub(super) struct Tree<'a> {
    /// The topmost chunk.
    pub top: Ref,
    pub walked: Walked,
    /// The files, for the index.
    pub next: NextIndex<'a>,
    pub packs: PackWriter<'a>,
}

impl<'a, S: Source> Walk<'a, S> {
    pub(super) fn new(source: S, packs: PackWriter<'a>, base: &'a LocalIndex, block: u64) -> Self {
        Self {
            source,
            packs,
            base,
            block,
            state: Vec::new(),
            linked: HashMap::new(),
            next: NextIndex::after(base),
            walked: Walked::default(),
        }
    }

    /// Stores the origin: a directory with one object, which is the origin itself.
    pub(super) fn whole(mut self) -> Result<Tree<'a>, PublishError> {
        let base = self.base;
        let is_known = |state: &FileState| base.file(state).is_some();
        let (found, mut root) = self.source.root(&is_known)?;
        let object = self.below(found, &mut root, Path::new(""))?;
        let item = self.item(ROOT.to_vec(), Path::new(""), object);
        let top = write_directory(&mut self.packs, vec![item], self.block)?;
        if self.walked.vanished > 0 {
            self.source.check()?;
        }
        Ok(Tree {
            top,
            walked: self.walked,
            next: self.next,
            packs: self.packs,
        })
    }

    /// Stores a directory that was entered.
    fn below(
        &mut self,
        mut found: Found,
        directory: &mut S::Directory,
        path: &Path,
    ) -> Result<Object, PublishError> {
        let top = self.directory(directory, path)?;
        let extended = self.source.extended(directory, path)?;
        if let Some(modified) = self.source.modified(directory) {
            found.stat.modified = modified;
        }
        Ok(Object {
            found,
            body: Body::Directory(top),
            has_acl: extended.has_acl,
            attributes: self.attributes(&extended.attributes, path)?,
        })
    }

    /// Stores a directory with all below it.
    fn directory(
        &mut self,
        directory: &mut S::Directory,
        path: &Path,
    ) -> Result<Ref, PublishError> {
        self.walked.directories += 1;
        let base = self.base;
        let is_known = |state: &FileState| base.file(state).is_some();
        let mut items = Vec::new();
        let mut at = PathBuf::new();
        for name in self.source.names(directory, path)? {
            at.clear();
            at.push(path);
            at.push(std::ffi::OsStr::from_bytes(&name));
            if !is_name(&name) {
                return Err(PublishError::ObjectName { path: at });
            }
            let Some(found) = self.source.look(directory, &name, &at)? else {
                self.walked.vanished += 1;
                continue;
            };
            let item = match found.kind {
                Kind::Directory => match self.source.enter(directory, &name, &at, &is_known)? {
                    Some(mut below) => Some(self.below(found, &mut below, &at)?),
                    None => None,
                },
                Kind::File => self.file(directory, &name, &at, found)?,
                Kind::Link => {
                    let target = self.source.target(directory, &name, &at)?;
                    target.map(|target| {
                        self.walked.links += 1;
                        Object::plain(found, Body::Link(target))
                    })
                }
                Kind::Other => Some(Object::plain(found, Body::Other)),
            };
            match item {
                Some(object) => items.push(self.item(name, &at, object)),
                None => self.walked.vanished += 1,
            }
        }
        write_directory(&mut self.packs, items, self.block)
    }

    /// The entry of an object. The inode number of a state is a hash of all that a mount shows of it, and of the first
    /// path by which it was met: an unchanged object keeps it from version to version.
    fn item(&mut self, name: Vec<u8>, path: &Path, object: Object) -> Item {
        let Object {
            found,
            body,
            has_acl,
            attributes,
        } = object;
        if attributes != Stored::None {
            self.walked.with_attributes += 1;
        }
        let (id, stat) = (found.state.id(), found.stat);
        let known = match stat.links {
            0 | 1 => None,
            _ => self.linked.get(&id).map(|(inode, _)| *inode),
        };
        let inode = known.filter(|inode| *inode != 0).unwrap_or_else(|| {
            let state = &mut self.state;
            state.clear();
            state.extend_from_slice(path.as_os_str().as_bytes());
            for number in [
                stat.size,
                u64::from(stat.mode),
                u64::from(stat.owner.0) << 32 | u64::from(stat.owner.1),
                stat.modified.0.cast_unsigned(),
                u64::from(stat.modified.1) << 32 | u64::from(stat.links),
            ] {
                state.extend_from_slice(&number.to_le_bytes());
            }
            match &body {
                Body::File(content) => {
                    content
                        .refs
                        .iter()
                        .for_each(|to| state.extend_from_slice(&to.hash.0));
                }
                Body::Directory(to) => state.extend_from_slice(&to.hash.0),
                Body::Link(target) => state.extend_from_slice(target),
                Body::Other => {}
            }
            state.extend_from_slice(&attributes.state());
            MADE | XxHash3_64::oneshot(state)
        });
        if found.stat.links > 1
            && let Some(linked) = self.linked.get_mut(&id)
        {
            linked.0 = inode;
        }
        Item {
            has_acl,
            attributes,
            name,
            stat,
            inode,
            body,
        }
    }

    /// Stores a file: by its state of the version before, by another name of it, or read.
    fn file(
        &mut self,
        directory: &mut S::Directory,
        name: &[u8],
        path: &Path,
        found: Found,
    ) -> Result<Option<Object>, PublishError> {
        self.walked.files += 1;
        self.walked.bytes = self.walked.bytes.saturating_add(found.stat.size);
        let id = found.state.id();
        if found.stat.links > 1
            && let Some((_, known)) = self.linked.get(&id)
        {
            return Ok(Some(Object::of_file(found, known)));
        }
        let (found, known) = match self.base.file(&found.state) {
            Some((known, at)) => {
                self.packs.uses(known.lies_in());
                self.next.carry(at);
                (found, known)
            }
            None => match self.read(directory, name, path)? {
                Some(read) => read,
                None => return Ok(None),
            },
        };
        let object = Object::of_file(found, &known);
        if found.stat.links > 1 {
            self.linked.insert(id, (0, known));
        }
        Ok(Some(object))
    }

    /// Reads a file, again where it changed meanwhile.
    fn read(
        &mut self,
        directory: &mut S::Directory,
        name: &[u8],
        path: &Path,
    ) -> Result<Option<(Found, KnownFile)>, PublishError> {
        for times in 0..READS {
            let (mut refs, packs) = (Vec::new(), &mut self.packs);
            let mut take = |bytes: &[u8]| {
                refs.push(packs.add(bytes, Part::Data)?);
                Ok(())
            };
            let read = self.source.read(directory, name, path, times, &mut take)?;
            let (found, extended) = match read {
                FileRead::Whole(found, extended) => (found, extended),
                FileRead::Vanished => return Ok(None),
                FileRead::Changed => {
                    self.walked.read_again += 1;
                    continue;
                }
            };
            self.walked.read_files += 1;
            self.walked.read_bytes = self.walked.read_bytes.saturating_add(found.stat.size);
            let mut packs: Vec<PackId> = refs.iter().map(|to| to.pack).collect();
            packs.sort_unstable();
            packs.dedup();
            let content = write_content(&mut self.packs, refs)?;
            packs.extend(content.refs.iter().map(|to| to.pack));
            if content.level == 0 {
                packs = Vec::new();
            }
            let known = KnownFile {
                content,
                packs,
                has_acl: extended.has_acl,
                attributes: self.attributes(&extended.attributes, path)?,
            };
            if found.is_settled {
                self.next.add(&found.state, &known);
            }
            return Ok(Some((found, known)));
        }
        Err(PublishError::Changing {
            path: path.to_owned(),
            times: READS,
        })
    }

    /// Stores the extended attributes of an object.
    fn attributes(&mut self, attributes: &Attributes, path: &Path) -> Result<Stored, PublishError> {
        let stored = write_attributes(&mut self.packs, attributes)?;
        stored.ok_or_else(|| PublishError::Attributes {
            path: path.to_owned(),
        })
    }
}

/// An object on its way into a list.
#[derive(Debug)]
struct Object {
    found: Found,
    body: Body,
    has_acl: bool,
    attributes: Stored,
}

impl Object {
    fn plain(found: Found, body: Body) -> Self {
        Self {
            has_acl: found.has_acl,
            found,
            body,
            attributes: Stored::None,
        }
    }

    fn of_file(found: Found, known: &KnownFile) -> Self {
        Self {
            found,
            body: Body::File(known.content.clone()),
            has_acl: known.has_acl,
            attributes: known.attributes.clone(),
        }
    }
}

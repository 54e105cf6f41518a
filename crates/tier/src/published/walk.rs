//! [`Walk`]: the origin's directories and files on their way into a version.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags, Statx};
use rustix::io::Errno;
use twox_hash::XxHash3_64;

use super::address::{PackId, Ref};
use super::attributes::Stored;
use super::chunk::{Body, Item};
use super::error::PublishError;
use super::index::{FileState, KnownFile, LocalIndex};
use super::local::{self, has_acl, look, names, next_data, open, statx};
use super::pack::{PackWriter, Part};
use super::tree::{write_attributes, write_content, write_directory};

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
pub(super) struct Walk<'a> {
    packs: PackWriter<'a>,
    base: &'a LocalIndex,
    block: u64,
    /// Files that changed at this time or later may change again without a trace in their times.
    settled: (i64, u32),
    buffer: Vec<u8>,
    /// The bytes of which an inode number is the hash.
    state: Vec<u8>,
    /// The files with more than one name.
    linked: HashMap<(u64, u64), (u64, KnownFile)>,
    pub(super) files: Vec<(FileState, KnownFile)>,
    pub(super) walked: Walked,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        packs: PackWriter<'a>,
        base: &'a LocalIndex,
        block: u64,
        settled: (i64, u32),
    ) -> Self {
        Self {
            packs,
            base,
            block,
            settled,
            buffer: vec![0; usize::try_from(block).unwrap_or(0)],
            state: Vec::new(),
            linked: HashMap::new(),
            files: Vec::new(),
            walked: Walked::default(),
        }
    }

    /// Returns the packs, with what was written.
    pub(super) fn into_packs(self) -> PackWriter<'a> {
        self.packs
    }

    /// Stores the origin: a directory with one object, which is the origin itself.
    pub(super) fn root(&mut self, origin: &File, path: &Path) -> Result<Ref, PublishError> {
        let found = statx(origin, path)?;
        let top = self.directory(origin, Path::new(""))?;
        let object = Object {
            found,
            body: Body::Directory(top),
            has_acl: has_acl(origin, b"."),
            attributes: self.attributes(origin, path)?,
        };
        let item = self.item(ROOT.to_vec(), Path::new(""), object);
        write_directory(&mut self.packs, vec![item], self.block)
    }

    /// Stores a directory with all below it.
    fn directory(&mut self, directory: &File, path: &Path) -> Result<Ref, PublishError> {
        self.walked.directories += 1;
        let mut items = Vec::new();
        let mut at = PathBuf::new();
        for name in names(directory, path)? {
            at.clear();
            at.push(path);
            at.push(std::ffi::OsStr::from_bytes(&name));
            let Some(found) = look(directory, &name, &at)? else {
                self.walked.vanished += 1;
                continue;
            };
            let item = match FileType::from_raw_mode(found.stx_mode.into()) {
                FileType::Directory => {
                    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
                    match open(directory, &name, flags) {
                        Ok(below) => {
                            let to = self.directory(&below, &at)?;
                            Some(Object {
                                found,
                                body: Body::Directory(to),
                                has_acl: has_acl(directory, &name),
                                attributes: self.attributes(&below, &at)?,
                            })
                        }
                        Err(Errno::NOENT) => None,
                        Err(error) => return Err(PublishError::io("open", &at, error.into())),
                    }
                }
                FileType::RegularFile => self.file(directory, &name, &at, found)?,
                FileType::Symlink => {
                    match rustix::fs::readlinkat(directory, name.as_slice(), Vec::new()) {
                        Ok(target) => {
                            self.walked.links += 1;
                            Some(Object::plain(found, Body::Link(target.into_bytes())))
                        }
                        Err(Errno::NOENT) => None,
                        Err(error) => return Err(PublishError::io("read", &at, error.into())),
                    }
                }
                _ => Some(Object {
                    has_acl: has_acl(directory, &name),
                    ..Object::plain(found, Body::Other)
                }),
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
        let id = FileState::of(&found).id();
        let known = match found.stx_nlink {
            0 | 1 => None,
            _ => self.linked.get(&id).map(|(inode, _)| *inode),
        };
        let inode = known.filter(|inode| *inode != 0).unwrap_or_else(|| {
            let state = &mut self.state;
            state.clear();
            state.extend_from_slice(path.as_os_str().as_bytes());
            for number in [
                found.stx_size,
                u64::from(found.stx_mode),
                u64::from(found.stx_uid) << 32 | u64::from(found.stx_gid),
                found.stx_mtime.tv_sec.cast_unsigned(),
                u64::from(found.stx_mtime.tv_nsec) << 32 | u64::from(found.stx_nlink),
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
        if found.stx_nlink > 1
            && let Some(linked) = self.linked.get_mut(&id)
        {
            linked.0 = inode;
        }
        Item {
            has_acl,
            attributes,
            name,
            mode: u32::from(found.stx_mode) & 0o7777,
            owner: (found.stx_uid, found.stx_gid),
            modified: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
            size: found.stx_size,
            links: found.stx_nlink,
            blocks: found.stx_blocks,
            inode,
            body,
        }
    }

    /// Stores a file: by its state of the version before, by another name of it, or read.
    fn file(
        &mut self,
        directory: &File,
        name: &[u8],
        path: &Path,
        found: Statx,
    ) -> Result<Option<Object>, PublishError> {
        self.walked.files += 1;
        self.walked.bytes = self.walked.bytes.saturating_add(found.stx_size);
        let state = FileState::of(&found);
        if found.stx_nlink > 1
            && let Some((_, known)) = self.linked.get(&state.id())
        {
            return Ok(Some(Object::of_file(found, known)));
        }
        let (found, known) = match self.base.file(&state) {
            Some(known) => {
                self.packs.uses(known.lies_in());
                self.files.push((state, known.clone()));
                (found, known)
            }
            None => match self.read(directory, name, path)? {
                Some(read) => read,
                None => return Ok(None),
            },
        };
        let object = Object::of_file(found, &known);
        if found.stx_nlink > 1 {
            self.linked.insert(state.id(), (0, known));
        }
        Ok(Some(object))
    }

    /// Reads a file, again where it changed meanwhile.
    fn read(
        &mut self,
        directory: &File,
        name: &[u8],
        path: &Path,
    ) -> Result<Option<(Statx, KnownFile)>, PublishError> {
        let failed = |error: io::Error| PublishError::io("read", path, error);
        for _ in 0..READS {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let mut file = match open(directory, name, flags) {
                Ok(file) => file,
                Err(Errno::NOENT) => return Ok(None),
                Err(error) => return Err(PublishError::io("open", path, error.into())),
            };
            let before = statx(&file, path)?;
            let state = FileState::of(&before);
            if !FileType::from_raw_mode(before.stx_mode.into()).is_file() {
                self.walked.read_again += 1;
                continue;
            }
            let refs = self
                .blocks(&mut file, &before)
                .map_err(|error| match error {
                    BlockError::Read(error) => failed(error),
                    BlockError::Store(error) => error,
                })?;
            let attributes = self.attributes(&file, path)?;
            let after = statx(&file, path)?;
            let Some(refs) = refs.filter(|_| FileState::of(&after) == state) else {
                self.walked.read_again += 1;
                continue;
            };
            self.walked.read_files += 1;
            self.walked.read_bytes = self.walked.read_bytes.saturating_add(state.size());
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
                has_acl: has_acl(directory, name),
                attributes,
            };
            if state.changed() < self.settled {
                self.files.push((state, known.clone()));
            }
            return Ok(Some((before, known)));
        }
        Err(PublishError::Changing {
            path: path.to_owned(),
            times: READS,
        })
    }

    /// Stores the extended attributes of an object.
    fn attributes(&mut self, object: &File, path: &Path) -> Result<Stored, PublishError> {
        let found = local::attributes(object, path)?;
        let stored = write_attributes(&mut self.packs, &found)?;
        stored.ok_or_else(|| PublishError::Attributes {
            path: path.to_owned(),
        })
    }

    /// Stores the blocks of a file; `None` where it is shorter than its size said. Holes are not read.
    fn blocks(&mut self, file: &mut File, found: &Statx) -> Result<Option<Vec<Ref>>, BlockError> {
        let size = found.stx_size;
        let is_sparse = found.stx_blocks.saturating_mul(512) < size;
        let mut refs = Vec::new();
        let mut start = 0;
        let mut data = 0;
        while start < size {
            let len = self.block.min(size - start);
            let bytes = self.buffer.get_mut(..usize::try_from(len).unwrap_or(0));
            let bytes = bytes.unwrap_or_default();
            if is_sparse && data <= start {
                data = next_data(file, start).unwrap_or(size);
            }
            if is_sparse && data >= start + len {
                bytes.fill(0);
            } else {
                if is_sparse {
                    file.seek(SeekFrom::Start(start))
                        .map_err(BlockError::Read)?;
                }
                match file.read_exact(bytes) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
                    Err(error) => return Err(BlockError::Read(error)),
                }
            }
            refs.push(
                self.packs
                    .add(bytes, Part::Data)
                    .map_err(BlockError::Store)?,
            );
            start += len;
        }
        Ok(Some(refs))
    }
}

/// An object on its way into a list.
#[derive(Debug)]
struct Object {
    found: Statx,
    body: Body,
    has_acl: bool,
    attributes: Stored,
}

impl Object {
    fn plain(found: Statx, body: Body) -> Self {
        Self {
            found,
            body,
            has_acl: false,
            attributes: Stored::None,
        }
    }

    fn of_file(found: Statx, known: &KnownFile) -> Self {
        Self {
            found,
            body: Body::File(known.content.clone()),
            has_acl: known.has_acl,
            attributes: known.attributes.clone(),
        }
    }
}

enum BlockError {
    Read(io::Error),
    Store(PublishError),
}

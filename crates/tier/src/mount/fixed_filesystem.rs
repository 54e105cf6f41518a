//! [`FixedFilesystem`]: answers FUSE requests for published trees.
//!
//! Nothing in a tree ever changes, so the kernel keeps names, attributes, pages and lists of directories without limit. Only
//! the root of `NAME@latest` becomes another one.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cachewise_units::ByteRange;
use fuser::{
    Errno, FileHandle, FileType, FopenFlags, INodeNo, KernelConfig, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, Request,
};

use super::Operation;
use super::attributes::file_type;
use super::filesystem::{GENERATION, answer, errno, answer_missing, negotiate, part, statfs};
use super::fixed::{Fixed, Place};
use super::inodes::{Content, Inode, ROOT};
use super::report::REPORT;
use super::shared::{MountShared, own_meta};
use crate::published::address::Ref;
use crate::published::leaf::{ItemKind, Leaf, Leaves};
use crate::{Error, Kind};

/// The parts of an open directory.
type Handles = Mutex<HashMap<u64, Arc<[Ref]>>>;

/// Objects behind `.` and `..` are counted by offsets below this one. An offset behind them has the number of a part
/// and the number of an object in it.
const PARTS: u64 = 1 << 32;

/// Maximum bytes of the lists that are read ahead for one list.
const READ_AHEAD: u64 = 1 << 20;

/// The file system of a published tree.
pub(super) struct FixedFilesystem {
    shared: Arc<MountShared>,
    handles: Arc<Handles>,
}

/// Returns the objects that the kernel knows.
fn fixed(shared: &MountShared) -> &Fixed {
    let fixed = shared.fixed.as_ref();
    fixed.unwrap_or_else(|| unreachable!("this file system serves published trees alone"))
}

fn trees(shared: &MountShared) -> &dyn Leaves {
    let leaves = shared.cache.leaves();
    leaves.unwrap_or_else(|| unreachable!("this file system serves published trees alone"))
}

/// Returns an object of the mount itself.
fn own(shared: &MountShared, number: u64) -> Option<Arc<Inode>> {
    shared.inodes.get(number)
}

/// Finds a name in a directory.
async fn find(shared: &MountShared, parent: u64, name: &OsStr) -> Result<Option<Place>, Error> {
    let Some(top) = fixed(shared).directory(shared, parent).await? else {
        return Ok(None);
    };
    let leaf = trees(shared).leaf_of(&top, name.as_bytes()).await?;
    Ok(leaf.and_then(|leaf| {
        let at = leaf.find(name.as_bytes())?;
        Place::new(leaf, at)
    }))
}

impl FixedFilesystem {
    pub(super) fn new(shared: &Arc<MountShared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            handles: Arc::default(),
        }
    }

    fn handles(&self) -> MutexGuard<'_, HashMap<u64, Arc<[Ref]>>> {
        locked(&self.handles)
    }
}

fn locked(handles: &Handles) -> MutexGuard<'_, HashMap<u64, Arc<[Ref]>>> {
    handles.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fuser::Filesystem for FixedFilesystem {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        negotiate(&self.shared, config);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let begun = Instant::now();
        let parent = parent.0;
        if let Some(inode) = self.shared.own(parent, name) {
            // The report of the next moment is another one.
            let attributes = self.shared.attributes(&inode);
            return reply.entry(&Duration::ZERO, &attributes, GENERATION);
        }
        let name = name.to_owned();
        answer(&self.shared, |shared| async move {
            let found = find(&shared, parent, &name).await;
            let operations = &shared.operations;
            operations.answered(Operation::Lookup, begun, found.is_err());
            match found.as_ref().map(Option::as_ref) {
                Ok(Some(place)) => {
                    let Some(view) = place.view() else {
                        return reply.error(Errno::EIO);
                    };
                    let fixed = fixed(&shared);
                    let number = {
                        let mut nodes = fixed.nodes();
                        let number = nodes.number(place, &view);
                        nodes.hold(number, place, parent);
                        number
                    };
                    let attributes = fixed.attributes(shared.owner(), number, &view);
                    reply.entry(&shared.revalidate, &attributes, GENERATION);
                }
                Ok(None) => answer_missing(&shared, shared.revalidate, reply),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn forget(&self, _request: &Request, number: INodeNo, times: u64) {
        if !fixed(&self.shared).forget(number.0, times) {
            self.shared.inodes.forget(number.0, times);
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let begun = Instant::now();
        let number = number.0;
        answer(&self.shared, |shared| async move {
            let fixed = fixed(&shared);
            let owner = shared.owner();
            let attributes = match fixed.get(number) {
                Some(place) => {
                    let view = place.view();
                    Ok(view.map(|view| fixed.attributes(owner, number, &view)))
                }
                None if number == ROOT => {
                    let root = fixed.root(&shared).await;
                    root.map(|root| Some(owner.attributes(number, root.meta())))
                }
                None => Ok(own(&shared, number).map(|inode| shared.attributes(&inode))),
            };
            let is_error = !matches!(attributes, Ok(Some(_)));
            let operations = &shared.operations;
            operations.answered(Operation::Getattr, begun, is_error);
            match attributes {
                Ok(Some(attributes)) => reply.attr(&shared.revalidate, &attributes),
                Ok(None) => reply.error(Errno::ESTALE),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        let begun = Instant::now();
        let place = fixed(&self.shared).get(number.0);
        let target = place.as_ref().and_then(|place| place.view()?.target());
        let operations = &self.shared.operations;
        operations.answered(Operation::Readlink, begun, target.is_none());
        match target {
            Some(target) => reply.data(target),
            None => reply.error(Errno::EINVAL),
        }
    }

    fn open(&self, _request: &Request, _number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let begun = Instant::now();
        let operations = &self.shared.operations;
        operations.answered(Operation::Open, begun, false);
        match self.shared.opens_unasked.load(Ordering::Relaxed) {
            // It never asks again, and keeps what it has cached.
            true => reply.error(Errno::ENOSYS),
            false => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
        }
    }

    fn release(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn read(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let begun = Instant::now();
        let number = number.0;
        let Some(place) = fixed(&self.shared).get(number) else {
            let inode = own(&self.shared, number);
            return match inode.as_deref().map(|inode| &inode.content) {
                Some(Content::Own { bytes, .. }) => reply.data(part(bytes, offset, size)),
                _ => reply.error(Errno::ESTALE),
            };
        };
        answer(&self.shared, |shared| async move {
            let Some(file) = fixed(&shared).file(&shared, number, &place) else {
                return reply.error(Errno::EIO);
            };
            let range = ByteRange {
                start: offset,
                len: u64::from(size),
            };
            let read = shared.cache.get(&file, range).await;
            let operations = &shared.operations;
            operations.answered(Operation::Read, begun, read.is_err());
            match read {
                Ok(bytes) => reply.data(&bytes),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    /// There is nothing to write back; the kernel does not ask again.
    fn flush(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn opendir(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let begun = Instant::now();
        let number = number.0;
        if own(&self.shared, number).is_some() {
            return reply.opened(FileHandle(0), FopenFlags::empty());
        }
        let handles = Arc::clone(&self.handles);
        answer(&self.shared, |shared| async move {
            let parts = match fixed(&shared).directory(&shared, number).await {
                Ok(Some(top)) => trees(&shared).leaves(&top).await.map(Some),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            let is_error = !matches!(parts, Ok(Some(_)));
            let operations = &shared.operations;
            operations.answered(Operation::Opendir, begun, is_error);
            match parts {
                Ok(Some(parts)) => {
                    let handle = shared.next_handle.fetch_add(1, Ordering::Relaxed);
                    locked(&handles).insert(handle, parts.into());
                    let flags = match number {
                        // It may become that of another version.
                        ROOT => FopenFlags::empty(),
                        _ => FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE,
                    };
                    reply.opened(FileHandle(handle), flags);
                }
                Ok(None) => reply.error(Errno::ESTALE),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn readdir(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let number = number.0;
        let parts = self.handles().get(&handle.0).cloned();
        answer(&self.shared, |shared| async move {
            let dots = dots(&shared, number);
            let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
            for (at, (name, number)) in dots.into_iter().enumerate().skip(skipped) {
                let next = next_dot(at);
                let _ = reply.add(INodeNo(number), next, FileType::Directory, name);
            }
            let Some(parts) = parts else {
                if offset <= 2 && own(&shared, number).is_some() {
                    let _ = reply.add(INodeNo(1), PARTS, FileType::RegularFile, report_name());
                }
                return reply.ok();
            };
            let mut position = position(offset);
            let mut is_empty = offset > 2;
            while let Some((leaf, from)) = match leaf_at(&shared, &parts, position).await {
                Ok(leaf) => leaf,
                Err(error) if is_empty => return reply.error(errno(&error)),
                // The next call begins with it, and gets the error.
                Err(_) => None,
            } {
                for view in leaf.views(from) {
                    position.1 = position.1.saturating_add(1);
                    let kind = file_type(kind(view.kind));
                    let (number, name) = (INodeNo(view.inode), OsStr::from_bytes(view.name));
                    if reply.add(number, offset_of(position), kind, name) {
                        return reply.ok();
                    }
                    is_empty = false;
                }
                position = (position.0.saturating_add(1), 0);
            }
            reply.ok();
        });
    }

    fn readdirplus(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let directory = number.0;
        let parts = self.handles().get(&handle.0).cloned();
        answer(&self.shared, |shared| async move {
            let owner = shared.owner();
            let dots = dots(&shared, directory);
            let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
            for (at, (name, number)) in dots.into_iter().enumerate().skip(skipped) {
                // The kernel takes their numbers alone.
                let attributes = owner.attributes(number, &own_meta(&Bytes::new(), true));
                let (zero, next) = (Duration::ZERO, next_dot(at));
                let _ = reply.add(INodeNo(number), next, name, &zero, &attributes, GENERATION);
            }
            let Some(parts) = parts else {
                if offset <= 2
                    && let Some(report) = shared.own(directory, report_name())
                {
                    let attributes = shared.attributes(&report);
                    let number = INodeNo(report.number);
                    let (name, zero) = (report_name(), Duration::ZERO);
                    let _ = reply.add(number, PARTS, name, &zero, &attributes, GENERATION);
                }
                return reply.ok();
            };
            let fixed = fixed(&shared);
            let mut position = position(offset);
            let mut is_empty = offset > 2;
            while let Some((leaf, from)) = match leaf_at(&shared, &parts, position).await {
                Ok(leaf) => leaf,
                Err(error) if is_empty => return reply.error(errno(&error)),
                // The next call begins with it, and gets the error.
                Err(_) => None,
            } {
                if from == 0 {
                    read_ahead(&shared, &leaf);
                }
                let mut nodes = fixed.nodes();
                for (at, view) in leaf.views(from).enumerate() {
                    let at = from.saturating_add(at);
                    let Some(place) = Place::new(Arc::clone(&leaf), at) else {
                        return reply.error(Errno::EIO);
                    };
                    position.1 = position.1.saturating_add(1);
                    let number = nodes.number(&place, &view);
                    let attributes = fixed.attributes(owner, number, &view);
                    let name = OsStr::from_bytes(view.name);
                    let (next, time) = (offset_of(position), &shared.revalidate);
                    if reply.add(INodeNo(number), next, name, time, &attributes, GENERATION) {
                        // No room for this one: the kernel did not get it.
                        drop(nodes);
                        return reply.ok();
                    }
                    nodes.hold(number, &place, directory);
                    is_empty = false;
                }
                position = (position.0.saturating_add(1), 0);
            }
            reply.ok();
        });
    }

    fn releasedir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.handles().remove(&handle.0);
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _number: INodeNo, reply: ReplyStatfs) {
        statfs(&self.shared, reply);
    }
}

fn kind(kind: ItemKind) -> Kind {
    match kind {
        ItemKind::File => Kind::File,
        ItemKind::Directory => Kind::Directory,
        ItemKind::Link => Kind::Link,
        ItemKind::Other => Kind::Other,
    }
}

fn report_name() -> &'static OsStr {
    OsStr::new(REPORT.rsplit('/').next().unwrap_or(REPORT))
}

/// Returns `.` and `..` with their numbers.
fn dots(shared: &MountShared, number: u64) -> [(&'static OsStr, u64); 2] {
    let above = fixed(shared).parent(number).unwrap_or(ROOT);
    [(OsStr::new("."), number), (OsStr::new(".."), above)]
}

/// Returns the offset behind `.` or `..`.
fn next_dot(at: usize) -> u64 {
    u64::try_from(at).unwrap_or(0).saturating_add(1)
}

/// Returns the number of a part, and of an object in it, at which an offset is.
fn position(offset: u64) -> (u64, u64) {
    match offset.checked_sub(PARTS) {
        Some(behind) => (behind / PARTS, behind % PARTS),
        None => (0, 0),
    }
}

/// Returns the offset of a position.
fn offset_of((part, at): (u64, u64)) -> u64 {
    part.saturating_add(1)
        .saturating_mul(PARTS)
        .saturating_add(at)
}

/// Returns a part of a directory, and the object in it to begin with; `None` behind the last.
async fn leaf_at(
    shared: &MountShared,
    parts: &[Ref],
    (part, at): (u64, u64),
) -> Result<Option<(Arc<Leaf>, usize)>, Error> {
    let part = usize::try_from(part).ok().and_then(|part| parts.get(part));
    let Some(part) = part else {
        return Ok(None);
    };
    let leaf = trees(shared).leaf(part).await?;
    Ok(Some((leaf, usize::try_from(at).unwrap_or(usize::MAX))))
}

/// Reads the lists of directories in the background: a program that has listed a directory often lists those in it next.
fn read_ahead(shared: &Arc<MountShared>, leaf: &Leaf) {
    let mut length = 0_u64;
    let directories = leaf.views(0).filter_map(|view| view.directory());
    let ahead: Vec<Ref> = directories
        .take_while(|top| {
            length = length.saturating_add(u64::from(top.len));
            length <= READ_AHEAD
        })
        .collect();
    if ahead.is_empty() {
        return;
    }
    let shared = Arc::clone(shared);
    shared.runtime.clone().spawn(async move {
        for top in ahead {
            // A list that cannot be read fails again where it is needed.
            let _ = trees(&shared).leaf(&top).await;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_leads_to_the_object_behind_the_last_one() {
        for offset in [0, 1, 2] {
            assert_eq!(position(offset), (0, 0), "before the first object");
        }
        for place in [(0, 0), (0, 7), (3, 0), (4_000, 1_000)] {
            assert_eq!(position(offset_of(place)), place);
        }
        assert!(offset_of((u64::from(u16::MAX), 1_000)) < 1 << 63, "off_t");
    }
}

//! [`FixedFilesystem`]: answers FUSE requests for published trees.
//!
//! Nothing in a tree ever changes, so the kernel keeps names, attributes, pages and lists of directories without limit. Only
//! the root of `NAME@latest` becomes another one.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cachewise_units::ByteRange;
use fuser::{
    Errno, FileHandle, FopenFlags, INodeNo, KernelConfig, LockOwner, OpenFlags, ReplyAttr,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyXattr, Request,
};

use super::Operation;
use super::extended;
use super::filesystem::{GENERATION, answer, answer_missing, errno, negotiate, part, statfs};
use super::fixed_lists::{
    attributes, directory, find, fixed, list, list_with_attributes, own, place, trees,
};
use super::inodes::{Content, ROOT};
use super::shared::MountShared;
use crate::published::address::Ref;
use crate::published::attributes::is_data;

/// The parts of an open directory.
type Handles = Mutex<HashMap<u64, Arc<[Ref]>>>;

/// The file system of a published tree.
pub(super) struct FixedFilesystem {
    shared: Arc<MountShared>,
    handles: Arc<Handles>,
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
            let attributes = match place(&shared, number).await {
                Ok(Some(place)) => {
                    let view = place.view();
                    Ok(view.map(|view| fixed.attributes(owner, number, &view)))
                }
                Ok(None) => Ok(own(&shared, number).map(|inode| shared.attributes(&inode))),
                Err(error) => Err(error),
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

    fn getxattr(
        &self,
        _request: &Request,
        number: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let begun = Instant::now();
        if !trees(&self.shared).has_attributes() {
            // The kernel does not ask again.
            return reply.error(Errno::ENOSYS);
        }
        let operations = &self.shared.operations;
        if !is_data(name.as_encoded_bytes()) {
            operations.answered(Operation::Getxattr, begun, false);
            // A program that looks for access control lists of all files does not go on.
            return reply.error(Errno::EOPNOTSUPP);
        }
        let name = name.to_owned();
        answer(&self.shared, |shared| async move {
            let found = attributes(&shared, number.0).await;
            let operations = &shared.operations;
            operations.answered(Operation::Getxattr, begun, found.is_err());
            match found.as_ref().map(|all| all.get(name.as_encoded_bytes())) {
                Ok(Some(value)) => extended::answer(value, size, reply),
                Ok(None) => reply.error(Errno::ENODATA),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn listxattr(&self, _request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let begun = Instant::now();
        if !trees(&self.shared).has_attributes() {
            return reply.error(Errno::ENOSYS);
        }
        answer(&self.shared, |shared| async move {
            let found = attributes(&shared, number.0).await;
            let operations = &shared.operations;
            operations.answered(Operation::Getxattr, begun, found.is_err());
            match found {
                Ok(all) => extended::answer(&all.names(), size, reply),
                Err(error) => reply.error(errno(&error)),
            }
        });
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
            let Some(file) = fixed(&shared).file(&shared.cache, number, &place) else {
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
            let parts = match directory(&shared, number).await {
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
        reply: ReplyDirectory,
    ) {
        let number = number.0;
        let parts = self.handles().get(&handle.0).cloned();
        answer(&self.shared, |shared| async move {
            list(&shared, number, parts.as_deref(), offset, reply).await;
        });
    }

    fn readdirplus(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let directory = number.0;
        let parts = self.handles().get(&handle.0).cloned();
        answer(&self.shared, |shared| async move {
            list_with_attributes(&shared, directory, parts.as_deref(), offset, reply).await;
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

//! [`FixedFilesystem`]: answers FUSE requests for published trees.
//!
//! Nothing in a tree ever changes, so the kernel keeps names, attributes, pages and lists of directories without limit. Only
//! the root of `NAME@latest` becomes another one.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cachewise_units::ByteRange;
use fuser::{
    Errno, FileHandle, FopenFlags, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyXattr, Request,
};

use super::Operation;
use super::extended;
use super::filesystem::{GENERATION, answer, answer_missing, errno, negotiate, part, statfs};
use super::fixed_lists::{attributes, find, fixed, list, list_with_attributes, own, place, trees};
use super::inodes::{Content, ROOT};
use super::listed::Listed;
use super::shared::MountShared;
use crate::published::attributes::is_data;

/// The file system of a published tree.
pub(super) struct FixedFilesystem {
    shared: Arc<MountShared>,
    listed: Arc<Listed>,
}

impl FixedFilesystem {
    pub(super) fn new(shared: &Arc<MountShared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            listed: Arc::default(),
        }
    }
}

impl fuser::Filesystem for FixedFilesystem {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        negotiate(&self.shared, config);
        let is_possible = config
            .capabilities()
            .contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT);
        let unasked = is_possible && !trees(&self.shared).is_followed();
        self.listed.set_unasked(unasked);
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
        if self.listed.is_unasked() {
            // It never asks again, and keeps the lists.
            return reply.error(Errno::ENOSYS);
        }
        let number = number.0;
        if own(&self.shared, number).is_some() {
            return reply.opened(FileHandle(0), FopenFlags::empty());
        }
        let listed = Arc::clone(&self.listed);
        answer(&self.shared, |shared| async move {
            let flags = match number {
                // It may become that of another version.
                ROOT => FopenFlags::empty(),
                _ => FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE,
            };
            match listed.open(&shared, number).await {
                Ok(handle) => reply.opened(handle, flags),
                Err(errno) => reply.error(errno),
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
        let listed = Arc::clone(&self.listed);
        answer(&self.shared, |shared| async move {
            match listed.parts(&shared, number, handle, offset).await {
                Ok(parts) => list(&shared, number, parts.as_deref(), offset, reply).await,
                Err(errno) => reply.error(errno),
            }
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
        let number = number.0;
        let listed = Arc::clone(&self.listed);
        answer(&self.shared, |shared| async move {
            match listed.parts(&shared, number, handle, offset).await {
                Ok(parts) => {
                    list_with_attributes(&shared, number, parts.as_deref(), offset, reply).await;
                }
                Err(errno) => reply.error(errno),
            }
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
        self.listed.close(handle);
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _number: INodeNo, reply: ReplyStatfs) {
        statfs(&self.shared, reply);
    }
}

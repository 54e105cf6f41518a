//! The FUSE file system: answers requests from the cache.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cachewise_units::ByteRange;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};

use super::Operation;
use super::attributes::file_type;
use super::extended;
use super::inodes::{Content, ROOT};
use super::lookups::{FoundName, KnownName};
use super::report::REPORT;
use super::shared::{MountShared, own_meta};
use crate::{Entry, Error, ErrorKind, Kind};

/// The handle of an open file whose bytes are held.
const PINNED: FileHandle = FileHandle(1);

/// Maximum readahead requests that the kernel may have in flight.
const BACKGROUND: u16 = 64;

/// The file system that the FUSE session calls.
pub(super) struct Filesystem(Arc<MountShared>);

impl Filesystem {
    pub(super) fn new(shared: Arc<MountShared>) -> Self {
        Self(shared)
    }

    fn answer<F: Future<Output = ()> + Send + 'static>(
        &self,
        work: impl FnOnce(Arc<MountShared>) -> F,
    ) {
        answer(&self.0, work);
    }
}

/// Answers at once if nothing has to wait, as for a block in memory; else in a task, so that the thread is free for the
/// next request.
pub(super) fn answer<F: Future<Output = ()> + Send + 'static>(
    shared: &Arc<MountShared>,
    work: impl FnOnce(Arc<MountShared>) -> F,
) {
    let _entered = shared.runtime.enter();
    let mut work: Pin<Box<F>> = Box::pin(work(Arc::clone(shared)));
    let mut context = Context::from_waker(Waker::noop());
    if work.as_mut().poll(&mut context).is_pending() {
        // Polled again from its beginning wait on, with a waker that is one.
        shared.runtime.spawn(work);
    }
}

/// Maps an error to the errno that a program gets.
pub(super) fn errno(error: &Error) -> Errno {
    match error.kind() {
        ErrorKind::NotFound => Errno::ENOENT,
        ErrorKind::Denied => Errno::EACCES,
        ErrorKind::Invalid => Errno::EINVAL,
        ErrorKind::Changed => Errno::ESTALE,
        ErrorKind::Deadline => Errno::ETIMEDOUT,
        ErrorKind::Unsupported => Errno::EOPNOTSUPP,
        ErrorKind::Busy => Errno::EBUSY,
        ErrorKind::Failed => match error {
            Error::Origin { source, .. } if source.kind() == io::ErrorKind::InvalidFilename => {
                Errno::ENAMETOOLONG
            }
            _ => Errno::EIO,
        },
    }
}

pub(super) const GENERATION: Generation = Generation(0);

/// Asks the kernel for what the mount can use.
pub(super) fn negotiate(shared: &MountShared, config: &mut KernelConfig) {
    for wanted in [
        // One slow name does not hold up the others of its directory.
        InitFlags::FUSE_PARALLEL_DIROPS,
        InitFlags::FUSE_ASYNC_DIO,
        // A number is of one state for ever: nothing makes its pages, or where a link leads, invalid.
        InitFlags::FUSE_CACHE_SYMLINKS,
        InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    ] {
        // A kernel without the capability works too.
        let _ = config.add_capabilities(wanted);
    }
    // Names that cost no request come with their attributes: one call instead of one for each name.
    if !shared.has_origin() {
        let _ = config.add_capabilities(InitFlags::FUSE_DO_READDIRPLUS);
    }
    let _ = config.set_max_background(BACKGROUND);
    // The kernel reads the lists by requests for attributes, and checks each caller by them.
    let checks_acls = shared.is_shared()
        && shared.cache.has_attributes()
        && config.add_capabilities(InitFlags::FUSE_POSIX_ACL).is_ok();
    shared.checks_acls.store(checks_acls, Ordering::Relaxed);
    let unasked = config
        .capabilities()
        .contains(InitFlags::FUSE_NO_OPEN_SUPPORT);
    shared.opens_unasked.store(unasked, Ordering::Relaxed);
}

impl fuser::Filesystem for Filesystem {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        negotiate(&self.0, config);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let begun = Instant::now();
        let shared = &self.0;
        if let Some(path) = shared.dropped_by(parent.0, name) {
            if !shared.may_drop(request.uid()) {
                return reply.error(Errno::EACCES);
            }
            return self.answer(|shared| async move {
                let report = shared.drop_everywhere(&path).await;
                let report = serde_json::to_vec_pretty(&report).unwrap_or_default();
                let inode = shared.inodes.own(Bytes::from(report), false);
                reply.entry(&Duration::ZERO, &shared.attributes(&inode), GENERATION);
            });
        }
        if let Some(inode) = shared.own(parent.0, name) {
            // The report of the next moment is another one.
            reply.entry(&Duration::ZERO, &shared.attributes(&inode), GENERATION);
            return;
        }
        let done = move |shared: &MountShared, is_error| {
            shared
                .operations
                .answered(Operation::Lookup, begun, is_error);
        };
        let Some(directory) = shared.directory(parent.0) else {
            done(shared, true);
            reply.error(Errno::ESTALE);
            return;
        };
        let path = directory.join(name);
        if let Some((inode, left)) = shared.again(&path) {
            done(shared, false);
            reply.entry(&left, &shared.attributes(&inode), GENERATION);
            return;
        }
        match shared.known(&path) {
            Some(KnownName::Found(found)) => {
                done(shared, false);
                return entry(shared, *found, reply);
            }
            Some(KnownName::Missing(left)) => {
                done(shared, false);
                return missing(shared, &path, left, reply);
            }
            None => {}
        }
        self.answer(|shared| async move {
            let found = shared.find(Operation::Lookup, &path).await;
            let is_error = matches!(&found, Err(error) if error.kind() != ErrorKind::NotFound);
            done(&shared, is_error);
            match found {
                Ok(found) => entry(&shared, found, reply),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    missing(&shared, &path, shared.missing, reply);
                }
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn forget(&self, _request: &Request, number: INodeNo, times: u64) {
        self.0.inodes.forget(number.0, times);
    }

    fn getattr(
        &self,
        _request: &Request,
        number: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let begun = Instant::now();
        let shared = &self.0;
        let inode = shared.inodes.get(number.0);
        let good_for = inode.as_ref().and_then(|inode| match &inode.content {
            Content::File(_) | Content::Own { .. } | Content::Drop { .. } => {
                Some(shared.revalidate)
            }
            Content::Directory { known, .. } => {
                let known = known.lock().unwrap_or_else(PoisonError::into_inner);
                let left = shared.revalidate.checked_sub(known.looked.elapsed());
                left.filter(|_| !known.is_dropped)
            }
        });
        let done = move |shared: &MountShared, is_error| {
            shared
                .operations
                .answered(Operation::Getattr, begun, is_error);
        };
        if let (Some(inode), Some(good_for)) = (&inode, good_for) {
            done(shared, false);
            reply.attr(&good_for, &shared.attributes(inode));
            return;
        }
        let Some(path) = shared.directory(number.0) else {
            done(shared, true);
            reply.error(Errno::ESTALE);
            return;
        };
        self.answer(|shared| async move {
            let found = shared.find(Operation::Getattr, &path).await;
            done(&shared, found.is_err());
            match found {
                Ok(found) if found.file.meta().is_dir() => {
                    let inode = shared.inodes.found(found.file, found.at, found.is_checked);
                    // The kernel did not get this number, so it sends no FORGET for it.
                    if inode.number != ROOT {
                        shared.inodes.forget(inode.number, 1);
                    }
                    reply.attr(&shared.revalidate, &shared.attributes(&inode));
                }
                Ok(_) => {
                    shared.outdated(&path, number.0);
                    reply.error(Errno::ESTALE);
                }
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        let begun = Instant::now();
        let inode = self.0.inodes.get(number.0);
        let target = match inode.as_ref().map(|inode| &inode.content) {
            Some(Content::File(file)) => file.meta().target.as_deref(),
            _ => None,
        };
        let operations = &self.0.operations;
        operations.answered(Operation::Readlink, begun, target.is_none());
        match target {
            Some(target) => reply.data(target.as_os_str().as_encoded_bytes()),
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
        if !self.0.cache.has_attributes() {
            // The kernel does not ask again.
            return reply.error(Errno::ENOSYS);
        }
        let Some(inode) = self.0.inodes.get(number.0) else {
            return reply.error(Errno::ESTALE);
        };
        let Some(file) = extended::to_ask(&inode, name) else {
            let operations = &self.0.operations;
            operations.answered(Operation::Getxattr, begun, false);
            return reply.error(Errno::ENODATA);
        };
        let name = name.to_owned();
        self.answer(|shared| async move {
            let value = shared.attribute(&file, &name).await;
            let operations = &shared.operations;
            operations.answered(Operation::Getxattr, begun, value.is_err());
            match value {
                Ok(Some(value)) => extended::answer(&value, size, reply),
                Ok(None) => reply.error(Errno::ENODATA),
                Err(error) => {
                    reply.error(errno(&error));
                    shared.outdated(file.path(), number.0);
                }
            }
        });
    }

    fn listxattr(&self, _request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let begun = Instant::now();
        if !self.0.cache.has_attributes() {
            return reply.error(Errno::ENOSYS);
        }
        let Some(inode) = self.0.inodes.get(number.0) else {
            return reply.error(Errno::ESTALE);
        };
        self.answer(|shared| async move {
            let names = shared.attribute_names(&inode).await;
            let operations = &shared.operations;
            operations.answered(Operation::Getxattr, begun, names.is_err());
            match names {
                Ok(names) => extended::answer(&names, size, reply),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn open(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let begun = Instant::now();
        let shared = &self.0;
        if !shared.pins.are_used() && shared.opens_unasked.load(Ordering::Relaxed) {
            shared.operations.answered(Operation::Open, begun, false);
            // It never asks again, and keeps what it has cached.
            return reply.error(Errno::ENOSYS);
        }
        let inode = shared.inodes.get(number.0);
        let small = inode.filter(
            |inode| matches!(&inode.content, Content::File(file) if shared.pins.takes(file)),
        );
        let Some(inode) = small else {
            shared.operations.answered(Operation::Open, begun, false);
            return reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
        };
        self.answer(|shared| async move {
            let Content::File(file) = &inode.content else {
                return reply.error(Errno::ESTALE);
            };
            let pinned = shared.pin(&inode, file).await;
            let operations = &shared.operations;
            operations.answered(Operation::Open, begun, pinned.is_err());
            match pinned {
                Ok(true) => reply.opened(PINNED, FopenFlags::FOPEN_KEEP_CACHE),
                Ok(false) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
                Err(error) => {
                    // Where the file has changed, the kernel looks its name up again.
                    shared.failed(file, number.0, &error);
                    reply.error(errno(&error));
                }
            }
        });
    }

    fn release(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        if handle == PINNED
            && let Some(inode) = self.0.inodes.get(number.0)
        {
            inode.pin.release();
        }
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
        let done = move |shared: &MountShared, is_error| {
            shared.operations.answered(Operation::Read, begun, is_error);
        };
        let Some(inode) = self.0.inodes.get(number.0) else {
            done(&self.0, true);
            reply.error(Errno::ESTALE);
            return;
        };
        self.answer(|shared| async move {
            let file = match &inode.content {
                Content::File(file) => file,
                Content::Own { bytes, .. } => {
                    reply.data(part(bytes, offset, size));
                    return;
                }
                Content::Directory { .. } | Content::Drop { .. } => {
                    done(&shared, true);
                    reply.error(Errno::EISDIR);
                    return;
                }
            };
            let range = ByteRange {
                start: offset,
                len: u64::from(size),
            };
            if let Some(bytes) = inode.pin.bytes() {
                done(&shared, false);
                return reply.data(part(&bytes, offset, size));
            }
            let read = shared.read(&inode, file, range).await;
            done(&shared, read.is_err());
            match read {
                Ok(bytes) => reply.data(&bytes),
                Err(error) => {
                    reply.error(errno(&error));
                    shared.failed(file, number.0, &error);
                }
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
        let handle = self.0.next_handle.fetch_add(1, Ordering::Relaxed);
        let done = move |shared: &MountShared, is_error| {
            shared
                .operations
                .answered(Operation::Opendir, begun, is_error);
        };
        let Some(path) = self.0.directory(number.0) else {
            let own = self.0.inodes.get(number.0);
            match own.as_ref().map(|inode| &inode.content) {
                Some(Content::Own { .. }) => {
                    let name = REPORT.rsplit('/').next().unwrap_or(REPORT);
                    let entry = Entry::new(name, Kind::File);
                    self.0.lists().insert(handle, Arc::new(vec![entry]));
                    reply.opened(FileHandle(handle), FopenFlags::empty());
                }
                Some(Content::Drop { .. }) => {
                    self.0.lists().insert(handle, Arc::default());
                    reply.opened(FileHandle(handle), FopenFlags::empty());
                }
                _ => {
                    done(&self.0, true);
                    reply.error(Errno::ESTALE);
                }
            }
            return;
        };
        self.answer(|shared| async move {
            let list = shared.list(number.0, &path).await;
            done(&shared, list.is_err());
            match list {
                Ok(list) => {
                    shared.lists().insert(handle, list);
                    reply.opened(FileHandle(handle), FopenFlags::empty());
                }
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
        let Some(list) = self.0.lists().get(&handle.0).cloned() else {
            reply.error(Errno::EBADF);
            return;
        };
        let path = self.0.directory(number.0).unwrap_or_default();
        let above = self
            .0
            .inodes
            .number_of(path.parent().unwrap_or(Path::new("")));
        let dots = [(".", number.0), ("..", above.unwrap_or(number.0))];
        let dots = dots.map(|(name, number)| (OsStr::new(name), number, FileType::Directory));
        let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
        let entries = list
            .get(skipped.saturating_sub(dots.len())..)
            .unwrap_or_default()
            .iter()
            .map(|entry| {
                let number = self.0.inodes.entry_number(&path, entry);
                (entry.name.as_os_str(), number, file_type(entry.kind))
            });
        let mut next = offset;
        for (name, number, kind) in dots.into_iter().skip(skipped).chain(entries) {
            next = next.saturating_add(1);
            if reply.add(INodeNo(number), next, kind, name) {
                // No room for this one.
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let Some(list) = self.0.lists().get(&handle.0).cloned() else {
            reply.error(Errno::EBADF);
            return;
        };
        let path = self.0.directory(number.0).unwrap_or_default();
        self.answer(|shared| async move {
            let above = path.parent().unwrap_or(Path::new(""));
            let above = shared.inodes.number_of(above).unwrap_or(number.0);
            let dots = [(".", number.0), ("..", above)];
            let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
            let mut next = offset;
            for (name, number) in dots.into_iter().skip(skipped) {
                // The kernel takes their numbers alone.
                let meta = own_meta(&Bytes::new(), true);
                let attributes = shared.owner().attributes(number, &meta);
                next = next.saturating_add(1);
                let number = INodeNo(number);
                let _ = reply.add(number, next, name, &Duration::ZERO, &attributes, GENERATION);
            }
            let rest = list.get(skipped.saturating_sub(dots.len())..);
            for entry in rest.unwrap_or_default() {
                let found = shared.look_up(&path.join(&entry.name)).await;
                let (inode, good_for) = match found {
                    Ok(found) => found,
                    Err(error) if next == offset => return reply.error(errno(&error)),
                    // The next call begins with it, and gets the error.
                    Err(_) => break,
                };
                next = next.saturating_add(1);
                let attributes = shared.attributes(&inode);
                let number = inode.number;
                if reply.add(
                    INodeNo(number),
                    next,
                    &entry.name,
                    &good_for,
                    &attributes,
                    GENERATION,
                ) {
                    // No room for this one: the kernel did not get it.
                    shared.inodes.forget(number, 1);
                    break;
                }
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
        self.0.lists().remove(&handle.0);
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _number: INodeNo, reply: ReplyStatfs) {
        statfs(&self.0, reply);
    }
}

/// Answers with the room of the origin.
pub(super) fn statfs(shared: &Arc<MountShared>, reply: ReplyStatfs) {
    answer(shared, |shared| async move {
        let block = u32::try_from(shared.cache.settings().block.0).unwrap_or(u32::MAX);
        // An origin that does not answer is no reason for `df` to fail.
        let Ok(Some(room)) = shared.cache.room().await else {
            reply.statfs(0, 0, 0, 0, 0, block, 255, block);
            return;
        };
        let unit = u32::try_from(room.unit).unwrap_or(block);
        reply.statfs(
            room.units,
            room.free,
            room.available,
            room.files,
            room.files_free,
            block,
            room.longest_name,
            unit,
        );
    });
}

/// Answers with an object of the origin.
fn entry(shared: &MountShared, found: FoundName, reply: ReplyEntry) {
    let (inode, good_for) = shared.hold(found);
    reply.entry(&good_for, &shared.attributes(&inode), GENERATION);
}

/// Answers that there is no object of that name, for a time; for none if `drop` could not take it back.
fn missing(shared: &MountShared, path: &Path, good_for: Duration, reply: ReplyEntry) {
    let good_for = match shared.drops.notes_missing(path, &shared.inodes.root()) {
        true => good_for,
        false => Duration::ZERO,
    };
    answer_missing(shared, good_for, reply);
}

/// Answers that there is no object of that name, for a time.
pub(super) fn answer_missing(shared: &MountShared, good_for: Duration, reply: ReplyEntry) {
    // An entry without a number says so.
    let none = FileAttr {
        ino: INodeNo(0),
        ..shared
            .owner()
            .attributes(0, &own_meta(&Bytes::new(), false))
    };
    reply.entry(&good_for, &none, GENERATION);
}

/// Returns the part of some bytes that a read requests.
pub(super) fn part(bytes: &Bytes, offset: u64, size: u32) -> &[u8] {
    let from = usize::try_from(offset)
        .unwrap_or(usize::MAX)
        .min(bytes.len());
    let to = from.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
    bytes.get(from..to.min(bytes.len())).unwrap_or_default()
}

//! Direct writes for which the file system falls back to the cache: they are buffered writes then.
//!
//! - *btrfs* (6.15 and later) falls back for files with checksums, because the program could change its
//!   memory during the write.
//! - *ext4* falls back if a file has no extents (as those of ext3) and a block is written first.
//! - *xfs* falls back if a write covers part of a block that another file shares (a reflink).
//!
//! Requests of io_uring are written by a worker. On xfs the task itself may write, if the page is already in
//! the cache; such a request is not counted, so there each page is written once.
//!
//! The file system decides which requests fall back. Two facts are exact: every byte is counted once, as
//! direct or as buffered, and the pages of the requests that fell back are resident.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use io_uring::{IoUring, opcode, squeue, types};
use libtest_mimic::Trial;
use rustix::fs::IFlags;

use cachewise_model::Counter;

use crate::image::FileSystem;
use crate::oracle::{Subject, page_size};
use crate::problem::{Context, Problem, Result};
use crate::reader::{open_direct, submit};
use crate::stand::{Evictions, Room, trial};
use crate::table::{Comparison, FAULTS, Label, READS, known};

const FILE_BYTES: u64 = 1 << 20;

/// EXT4_EXTENTS_FL of linux/fs.h: `chattr -e` clears it.
const EXTENTS: u32 = 0x0008_0000;

/// Trials on the file systems with a cache.
pub fn trials() -> Vec<Trial> {
    let kinds = FileSystem::CACHED.into_iter();
    kinds
        .map(|kind| trial(kind, "direct_fallback", direct_fallback))
        .collect()
}

#[derive(Clone, Copy)]
enum Write {
    Pwrite,
    IoUring(squeue::Flags),
    /// In two pieces.
    IoUringVectored,
}

/// A file whose direct writes of `size` bytes fall back.
fn unwilling(room: &Room) -> Result<(Subject, u64)> {
    let path = room.path("unwilling");
    // The case before has made it willing.
    if path.exists() {
        std::fs::remove_file(&path).context("remove the file")?;
    }
    match room.kind {
        FileSystem::Ext4
        | FileSystem::Ext4Inline
        | FileSystem::Ext4SmallBlocks
        | FileSystem::Ext4Tiny => {
            let file = File::create(&path).context("create a file")?;
            let flags = rustix::fs::ioctl_getflags(&file).context("lsattr")?;
            let without = flags & !IFlags::from_bits_retain(EXTENTS);
            rustix::fs::ioctl_setflags(&file, without).context("chattr -e")?;
            file.set_len(FILE_BYTES).context("make a hole")?;
            file.sync_all().context("sync")?;
            Ok((Subject::open(path)?, 64 << 10))
        }
        FileSystem::Xfs | FileSystem::XfsLargeBlocks => {
            let subject = Subject::create(path.clone(), FILE_BYTES)?;
            let shared = File::create(room.path("shared")).context("create a file")?;
            let file = File::open(&path).context("open")?;
            rustix::fs::ioctl_ficlone(&shared, &file).context("reflink")?;
            subject.evict()?;
            Ok((subject, 512))
        }
        FileSystem::Btrfs | FileSystem::Tmpfs => Ok((Subject::create(path, FILE_BYTES)?, 64 << 10)),
    }
}

/// Reads the file by io_uring, through the cache.
fn read_all(subject: &Subject, flags: squeue::Flags) -> Result<()> {
    let file = File::open(subject.path()).context("open")?;
    let mut ring = IoUring::new(8).context("io_uring_setup")?;
    let mut buffer = vec![0_u8; subject.bytes() as usize];
    let fd = types::Fd(file.as_raw_fd());
    let read = opcode::Read::new(fd, buffer.as_mut_ptr(), buffer.len() as u32);
    // SAFETY: `submit` waits for the completion; buffer and file live longer.
    let read = unsafe { submit(&mut ring, &[read.build().flags(flags)])? };
    if read == subject.bytes() {
        Ok(())
    } else {
        Err(Problem::new(format!("{read} bytes were read")))
    }
}

fn direct_fallback(room: &mut Room) -> Result<()> {
    for (name, write) in [
        ("pwrite", Write::Pwrite),
        ("io_uring", Write::IoUring(squeue::Flags::empty())),
        ("io_uring_async", Write::IoUring(squeue::Flags::ASYNC)),
        ("io_uring, writev", Write::IoUringVectored),
    ] {
        let (subject, size) = unwilling(room)?;
        // The same range again is another request.
        let times = if room.kind == FileSystem::Xfs { 1 } else { 2 };
        // No two in a page: the second would find it unshared by the first.
        let stride = size.max(page_size());
        let label = Label::new(room.kind.name(), format!("{name}, O_DIRECT, buffered"));
        let label = label.size(size).state("cold");
        let read_before = match write {
            Write::IoUring(flags) => Some(flags),
            Write::Pwrite | Write::IoUringVectored => None,
        };
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Belong,
            || {
                // The worker that writes has read this file: that is not to be taken for the same request.
                if let Some(flags) = read_before {
                    read_all(&subject, flags)?;
                }
                subject.evict()
            },
            |(), tools| {
                let file = open_direct(subject.path(), true)?;
                let buffer = tools.buffer.slice(size);
                let (first, second) = buffer.split_at(buffer.len() / 2);
                let pieces = [first, second].map(|piece| libc::iovec {
                    iov_base: piece.as_ptr().cast_mut().cast(),
                    iov_len: piece.len(),
                });
                let mut ring = IoUring::new(8).context("io_uring_setup")?;
                let mut bytes = 0;
                let fd = types::Fd(file.as_raw_fd());
                let offsets = (0..subject.bytes()).step_by(stride as usize);
                for offset in offsets.flat_map(|offset| std::iter::repeat_n(offset, times)) {
                    let entry = match write {
                        Write::Pwrite => {
                            let written = file.write_at(buffer, offset);
                            bytes += written.context("direct pwrite")? as u64;
                            continue;
                        }
                        Write::IoUring(flags) => {
                            let write = opcode::Write::new(fd, buffer.as_ptr(), size as u32);
                            write.offset(offset).build().flags(flags)
                        }
                        Write::IoUringVectored => {
                            let write = opcode::Writev::new(fd, pieces.as_ptr(), 2);
                            write.offset(offset).build()
                        }
                    };
                    // SAFETY: `submit` waits for the completion; pieces, buffer and file live longer.
                    bytes += unsafe { submit(&mut ring, &[entry])? };
                }
                Ok(bytes)
            },
        );
        match measured {
            Ok(done) => {
                let ledger = &done.ledger;
                let requests = times as u64 * subject.bytes() / stride;
                let buffered = ledger[Counter::WriteBytes];
                // Before 6.15 btrfs is willing.
                let least = u64::from(room.kind != FileSystem::Btrfs);
                let sum = |counters: [Counter; 2]| -> u64 {
                    counters.into_iter().map(|counter| ledger[counter]).sum()
                };
                let comparison = Comparison::new()
                    .exact(
                        "direct + buffered requests",
                        requests,
                        sum([Counter::DirectWriteRequests, Counter::WriteRequests]),
                    )
                    .exact(
                        "direct + buffered bytes",
                        done.expected,
                        sum([Counter::DirectWriteBytes, Counter::WriteBytes]),
                    )
                    .within(
                        "buffered bytes",
                        (least, done.expected),
                        buffered,
                        "which requests fall back is the file system's affair",
                    )
                    .exact(
                        "buffered pages",
                        buffered / size * size.div_ceil(page_size()),
                        ledger[Counter::WritePages],
                    )
                    .silently("inserted", done.inserted, known(ledger.inserted_pages()))
                    .nothing_else(ledger, &READS[..5])
                    .nothing_else(ledger, &FAULTS);
                room.judge(label, comparison);
            }
            Err(problem) => room.failed(&label, &problem),
        }
    }
    Ok(())
}

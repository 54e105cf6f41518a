//! The descriptors of a task, and the requests of io_uring that it queues.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use io_uring::{IoUring, opcode, squeue, types};

use crate::call::{Argument, Call, Operation, Outcome, RING_ENTRIES, SLOT_BYTES, flags};
use crate::partial::HALF_BYTES;
use crate::problem::{Context, Result};
use crate::reader::open_direct;

/// The descriptors of a file.
pub struct Opened {
    /// Read and written through the cache.
    pub plain: File,
    /// With O_DIRECT.
    pub direct: File,
    /// With O_APPEND.
    pub append: File,
}

impl Opened {
    /// Opens a file in each way.
    pub fn open(path: &Path) -> Result<Self> {
        let mut options = File::options();
        options.read(true).write(true);
        Ok(Opened {
            plain: options.open(path).context("open")?,
            direct: open_direct(path, true)?,
            append: File::options()
                .append(true)
                .open(path)
                .context("open to append")?,
        })
    }
}

/// The queue and its ring.
pub struct Queue {
    ring: Option<IoUring>,
    entries: Vec<Operation>,
    fixed_and_direct: bool,
}

impl Queue {
    /// An empty one. `fixed_and_direct`: registered memory may be used with O_DIRECT.
    pub fn new(fixed_and_direct: bool) -> Self {
        Queue {
            ring: None,
            entries: Vec::new(),
            fixed_and_direct,
        }
    }

    /// Adds a request, if there is room.
    pub fn push(&mut self, operation: &Operation) {
        if self.entries.len() < RING_ENTRIES as usize {
            self.entries.push(operation.clone());
        }
    }

    /// Submits the queue in one call, waits for all, and gives their results in the order of the queue.
    /// `memory` has [`HALF_BYTES`] and outlives the queue.
    pub fn enter(&mut self, files: &[Opened], memory: &mut [u8]) -> Result<Vec<Outcome>> {
        let queue = std::mem::take(&mut self.entries);
        if queue.is_empty() {
            return Ok(Vec::new());
        }
        let memory = memory.as_mut_ptr();
        let ring = match &mut self.ring {
            Some(ring) => ring,
            none => {
                let ring = IoUring::new(RING_ENTRIES).context("io_uring_setup")?;
                let whole = libc::iovec {
                    iov_base: memory.cast(),
                    iov_len: HALF_BYTES as usize,
                };
                // SAFETY: the memory outlives the ring.
                unsafe { ring.submitter().register_buffers(&[whole]) }
                    .context("register memory")?;
                none.insert(ring)
            }
        };
        let mut vectors = Vec::new();
        for (slot, operation) in queue.iter().enumerate() {
            let flags = operation.get(Argument::Flags);
            let offset = operation.get(Argument::Offset);
            let length = operation.length() as u32;
            // SAFETY: within the buffer.
            let memory = unsafe { memory.add(slot * SLOT_BYTES as usize) };
            let opened = &files[operation.files().next().unwrap_or(0)];
            let file = if flags & flags::DIRECT != 0 {
                &opened.direct
            } else {
                &opened.plain
            };
            let fd = types::Fd(file.as_raw_fd());
            let read = operation.call == Call::UringRead;
            vectors.push(vector(memory.cast(), u64::from(length), 3));
            let pieces = vectors.last().map_or(std::ptr::null(), |all| all.as_ptr());
            let fixed =
                flags & flags::FIXED != 0 && (self.fixed_and_direct || flags & flags::DIRECT == 0);
            let entry = if fixed {
                if read {
                    opcode::ReadFixed::new(fd, memory, length, 0)
                        .offset(offset)
                        .build()
                } else {
                    opcode::WriteFixed::new(fd, memory, length, 0)
                        .offset(offset)
                        .build()
                }
            } else if flags & flags::PIECES != 0 {
                if read {
                    opcode::Readv::new(fd, pieces, 3).offset(offset).build()
                } else {
                    opcode::Writev::new(fd, pieces, 3).offset(offset).build()
                }
            } else if read {
                opcode::Read::new(fd, memory, length).offset(offset).build()
            } else {
                opcode::Write::new(fd, memory, length)
                    .offset(offset)
                    .build()
            };
            let mut set = squeue::Flags::empty();
            set.set(squeue::Flags::ASYNC, flags & flags::ASYNC != 0);
            let last = slot + 1 == queue.len();
            set.set(squeue::Flags::IO_LINK, flags & flags::LINK != 0 && !last);
            let entry = entry.flags(set).user_data(slot as u64);
            // SAFETY: files, memory and pieces live until all requests have ended, for which the loop below waits.
            unsafe { ring.submission().push(&entry) }.context("the submission queue is full")?;
        }
        let mut results = vec![None; queue.len()];
        while results.iter().any(Option::is_none) {
            let left = results.iter().filter(|one| one.is_none()).count();
            ring.submit_and_wait(left).context("io_uring_enter")?;
            for entry in ring.completion() {
                results[entry.user_data() as usize] = Some(i64::from(entry.result()));
            }
        }
        Ok(results.into_iter().flatten().collect())
    }
}

/// Memory in pieces of equal length, the last of which has the rest.
pub fn vector(memory: *mut libc::c_void, length: u64, pieces: u64) -> Vec<libc::iovec> {
    let each = length / pieces;
    (0..pieces)
        .map(|piece| libc::iovec {
            iov_base: memory.wrapping_byte_add((piece * each) as usize),
            iov_len: if piece + 1 == pieces {
                (length - piece * each) as usize
            } else {
                each as usize
            },
        })
        .collect()
}

//! The calls by which a program can read a file: each asks for one range in one request.

use std::fs::File;
use std::io::{self, IoSliceMut, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};
use rustix::mm::{Advice as MapAdvice, MapFlags, ProtFlags};
use rustix::pipe::SpliceFlags;

use crate::oracle::{Folios, page_size};
use crate::problem::{Context, Problem, Result};

/// The largest request of the matrix, and one page for an unaligned start.
const BUFFER_BYTES: usize = (1 << 20) + (1 << 16);

/// A system call, or the like, that reads a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// read(2), after lseek where needed.
    Read,
    /// pread(2).
    Pread,
    /// readv(2) into three pieces.
    Readv,
    /// preadv(2) into three pieces.
    Preadv,
    /// preadv2(2) into two pieces; sequentially with offset -1, the file position.
    Preadv2,
    /// sendfile(2) to /dev/null.
    Sendfile,
    /// splice(2) into a pipe.
    Splice,
    /// copy_file_range(2) to another file of the same file system, so that it copies.
    CopyFileRange,
    /// Touching the pages of a mapping.
    Mmap,
    /// An io_uring read that is begun in the submitting task.
    IoUring,
    /// An io_uring read by a worker thread (IOSQE_ASYNC).
    IoUringAsync,
}

impl Call {
    /// All of them.
    pub const ALL: [Call; 11] = [
        Call::Read,
        Call::Pread,
        Call::Readv,
        Call::Preadv,
        Call::Preadv2,
        Call::Sendfile,
        Call::Splice,
        Call::CopyFileRange,
        Call::Mmap,
        Call::IoUring,
        Call::IoUringAsync,
    ];

    /// For the table and the names of tests.
    pub fn name(self) -> &'static str {
        match self {
            Call::Read => "read",
            Call::Pread => "pread",
            Call::Readv => "readv",
            Call::Preadv => "preadv",
            Call::Preadv2 => "preadv2",
            Call::Sendfile => "sendfile",
            Call::Splice => "splice",
            Call::CopyFileRange => "copy_file_range",
            Call::Mmap => "mmap",
            Call::IoUring => "io_uring",
            Call::IoUringAsync => "io_uring_async",
        }
    }
}

/// Where a request begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// At the file position, which is where the request before ended.
    Position(u64),
    /// At an offset that the call is given.
    Offset(u64),
}

/// Memory to read into, aligned for O_DIRECT.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// Makes one.
    pub fn new() -> Self {
        let page = page_size() as usize;
        let bytes = vec![0; BUFFER_BYTES + page];
        let start = bytes.as_ptr().align_offset(page);
        Buffer { bytes, start }
    }

    /// The first bytes of it, all its pages touched, so that no read faults in it. Once would not do:
    /// whenever a process is started by fork they are shared with it, and such a page cannot be pinned
    /// for direct I/O without a fault either, upon which btrfs goes through the cache.
    pub fn slice(&mut self, length: u64) -> &mut [u8] {
        let slice = &mut self.bytes[self.start..self.start + length as usize];
        for byte in slice.iter_mut().step_by(page_size() as usize) {
            *byte = 1;
        }
        slice
    }
}

/// Resources of reads besides the file, made once: buffer, pipe, and a destination to send to.
#[derive(Debug)]
pub struct Tools {
    /// Memory to read into.
    pub buffer: Buffer,
    pipe_out: OwnedFd,
    pipe_in: OwnedFd,
    null: File,
}

impl Tools {
    /// Makes them.
    pub fn new() -> Result<Self> {
        let (pipe_out, pipe_in) = rustix::pipe::pipe().context("pipe")?;
        // A page of the file takes a slot of the pipe. This is as much as may be had without
        // CAP_SYS_RESOURCE, and room for the largest request that begins at a page.
        rustix::pipe::fcntl_setpipe_size(&pipe_in, 1 << 20).context("F_SETPIPE_SZ")?;
        let null = File::options()
            .write(true)
            .open("/dev/null")
            .context("open /dev/null")?;
        Ok(Tools {
            buffer: Buffer::new(),
            pipe_out,
            pipe_in,
            null,
        })
    }
}

/// Method of reading: everything that opening a reader needs, except the file.
#[derive(Debug, Clone)]
pub struct Way {
    /// The call.
    pub call: Call,
    /// Size of the folios; small ones need reads without readahead.
    pub folios: Folios,
    /// The file that copy_file_range writes.
    pub sink: PathBuf,
    /// Offset in it. No block begins at 1, so a file system that could share blocks must copy.
    pub sink_offset: u64,
}

impl Way {
    /// Opens a file.
    pub fn open<'t>(&self, path: &Path, tools: &'t mut Tools) -> Result<Reader<'t>> {
        let call = self.call;
        let file = File::open(path).context("open for reading")?;
        rustix::fs::fadvise(&file, 0, None, self.folios.advice()).context("fadvise")?;
        let sink = match call {
            Call::CopyFileRange => {
                let mut options = File::options();
                options.write(true).create(true).truncate(true);
                let sink = options
                    .open(&self.sink)
                    .context("open what copy_file_range writes")?;
                Some((sink, self.sink_offset))
            }
            _ => None,
        };
        let ring = match call {
            Call::IoUring | Call::IoUringAsync => Some(IoUring::new(8).context("io_uring_setup")?),
            _ => None,
        };
        Ok(Reader {
            call,
            tools,
            file,
            sink,
            ring,
        })
    }
}

/// A file that is open for reading by one call.
pub struct Reader<'t> {
    call: Call,
    tools: &'t mut Tools,
    file: File,
    sink: Option<(File, u64)>,
    ring: Option<IoUring>,
}

impl Reader<'_> {
    /// One request; gives the bytes read, 0 at the end of the file.
    pub fn request(&mut self, at: At, length: u64) -> Result<u64> {
        match self.call {
            Call::Read => self.read(at, length),
            Call::Pread => self.pread(at, length),
            Call::Readv | Call::Preadv | Call::Preadv2 => self.vectored(at, length),
            Call::Sendfile => self.sendfile(at, length),
            Call::Splice => self.splice(at, length),
            Call::CopyFileRange => self.copy_file_range(at, length),
            Call::IoUring => self.io_uring(at, length, squeue::Flags::empty()),
            Call::IoUringAsync => self.io_uring(at, length, squeue::Flags::ASYNC),
            Call::Mmap => Err(Problem::new("a mapping is touched, not read")),
        }
    }

    fn seek(&mut self, at: At) -> Result<()> {
        if let At::Offset(offset) = at {
            self.file.seek(SeekFrom::Start(offset)).context("seek")?;
        }
        Ok(())
    }

    fn read(&mut self, at: At, length: u64) -> Result<u64> {
        self.seek(at)?;
        let got = self
            .file
            .read(self.tools.buffer.slice(length))
            .context("read")?;
        Ok(got as u64)
    }

    fn pread(&mut self, at: At, length: u64) -> Result<u64> {
        let (At::Offset(offset) | At::Position(offset)) = at;
        let buffer = self.tools.buffer.slice(length);
        Ok(rustix::io::pread(&self.file, buffer, offset).context("pread")? as u64)
    }

    fn vectored(&mut self, at: At, length: u64) -> Result<u64> {
        if self.call == Call::Readv {
            self.seek(at)?;
        }
        let (At::Offset(offset) | At::Position(offset)) = at;
        let buffer = self.tools.buffer.slice(length);
        let (first, rest) = buffer.split_at_mut(length as usize / 3);
        let (second, third) = rest.split_at_mut(rest.len() / 2);
        let mut pieces = [first, second, third].map(IoSliceMut::new);
        let got = match self.call {
            Call::Readv => rustix::io::readv(&self.file, &mut pieces).context("readv")?,
            Call::Preadv => {
                rustix::io::preadv(&self.file, &mut pieces, offset).context("preadv")?
            }
            _ => {
                let offset = if matches!(at, At::Position(_)) {
                    u64::MAX
                } else {
                    offset
                };
                rustix::io::preadv2(&self.file, &mut pieces, offset, ReadWriteFlags::empty())
                    .context("preadv2")?
            }
        };
        Ok(got as u64)
    }

    fn sendfile(&mut self, at: At, length: u64) -> Result<u64> {
        let null = &self.tools.null;
        let got = match at {
            At::Position(_) => rustix::fs::sendfile(null, &self.file, None, length as usize),
            At::Offset(mut offset) => {
                rustix::fs::sendfile(null, &self.file, Some(&mut offset), length as usize)
            }
        };
        Ok(got.context("sendfile")? as u64)
    }

    fn splice(&mut self, at: At, length: u64) -> Result<u64> {
        let to = &self.tools.pipe_in;
        let none = SpliceFlags::empty();
        let got = match at {
            At::Position(_) => {
                rustix::pipe::splice(&self.file, None, to, None, length as usize, none)
            }
            At::Offset(mut offset) => rustix::pipe::splice(
                &self.file,
                Some(&mut offset),
                to,
                None,
                length as usize,
                none,
            ),
        };
        let got = got.context("splice")? as u64;
        // Emptied by splice too, as a program would pass the data on: a read in between would raise the
        // task's count of reads, which distinguishes requests, and a splice does not.
        let mut left = got as usize;
        while left > 0 {
            let (from, to) = (&self.tools.pipe_out, &self.tools.null);
            left -=
                rustix::pipe::splice(from, None, to, None, left, none).context("drain the pipe")?;
        }
        Ok(got)
    }

    fn copy_file_range(&mut self, at: At, length: u64) -> Result<u64> {
        let Some((sink, start)) = &self.sink else {
            return Err(Problem::new("copy_file_range has nowhere to write"));
        };
        let mut to = *start;
        let length = length as usize;
        let got = match at {
            At::Position(_) => {
                rustix::fs::copy_file_range(&self.file, None, sink, Some(&mut to), length)
            }
            At::Offset(mut from) => rustix::fs::copy_file_range(
                &self.file,
                Some(&mut from),
                sink,
                Some(&mut to),
                length,
            ),
        };
        Ok(got.context("copy_file_range")? as u64)
    }

    fn io_uring(&mut self, at: At, length: u64, flags: squeue::Flags) -> Result<u64> {
        let (At::Offset(offset) | At::Position(offset)) = at;
        let file = types::Fd(self.file.as_raw_fd());
        let buffer = self.tools.buffer.slice(length);
        let read = opcode::Read::new(file, buffer.as_mut_ptr(), length as u32).offset(offset);
        let Some(ring) = &mut self.ring else {
            return Err(Problem::new("there is no ring"));
        };
        // SAFETY: `submit` returns after the completion, and the buffer and the file live longer.
        unsafe { submit(ring, &[read.build().flags(flags)]) }
    }
}

/// Submits some requests in one call, waits for all, and gives the bytes that they read together.
///
/// # Safety
/// What the entries point to must live until this returns; all of it has completed then, unless it
/// returns an error, after which the ring is not to be used any more.
pub unsafe fn submit(ring: &mut IoUring, entries: &[squeue::Entry]) -> Result<u64> {
    for entry in entries {
        // SAFETY: by the caller.
        unsafe { ring.submission().push(entry) }.context("the submission queue is full")?;
    }
    ring.submit_and_wait(entries.len())
        .context("io_uring_enter")?;
    let mut left = entries.len();
    let mut bytes = 0;
    while left > 0 {
        let done: Vec<cqueue::Entry> = ring.completion().collect();
        for entry in &done {
            let got = u64::try_from(entry.result()).map_err(|_| {
                let error = std::io::Error::from_raw_os_error(-entry.result());
                Problem::new(format!("io_uring read: {error}"))
            })?;
            bytes += got;
        }
        left -= done.len();
        if left > 0 {
            ring.submit_and_wait(1).context("io_uring_enter")?;
        }
    }
    Ok(bytes)
}

/// A mapping of a whole file.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

/// Purpose of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To be read.
    Read,
    /// To be written, and the file with it.
    Shared,
    /// To be written, each page copied first.
    Private,
}

impl Mapping {
    /// Maps a file. For small folios, advice disables reads around a fault.
    pub fn new(file: &File, bytes: u64, access: Access, folios: Folios) -> Result<Self> {
        let (protection, flags) = match access {
            Access::Read => (ProtFlags::READ, MapFlags::SHARED),
            Access::Shared => (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED),
            Access::Private => (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE),
        };
        let bytes = bytes as usize;
        // SAFETY: the kernel chooses a free place, so nothing that exists is replaced.
        let start = unsafe {
            rustix::mm::mmap(ptr::null_mut(), bytes, protection, flags, file, 0).context("mmap")?
        };
        let start = NonNull::new(start.cast()).ok_or_else(|| Problem::new("mmap gave null"))?;
        let mapping = Mapping { start, bytes };
        if folios == Folios::Small {
            mapping.advise(MapAdvice::Random)?;
        }
        Ok(mapping)
    }

    /// madvise(2) on all of it.
    pub fn advise(&self, advice: MapAdvice) -> Result<()> {
        // SAFETY: the range is the mapping's own, and none of the advice that the tests give takes
        // pages of it away.
        unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.bytes, advice) }
            .context("madvise")
    }

    /// Where it begins, for system calls that check for themselves what is there.
    pub fn start(&self) -> *mut libc::c_void {
        self.start.as_ptr().cast()
    }

    /// The address of a page.
    fn page(&self, page: u64) -> *mut u8 {
        let offset = (page * page_size()) as usize;
        assert!(offset < self.bytes, "page {page} is in the mapping");
        // SAFETY: the offset is within the mapping, as just asserted.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// Reads a byte of a page.
    pub fn read(&self, page: u64) {
        // SAFETY: the page is mapped readable, and the file is not truncated while it is.
        let _ = unsafe { ptr::read_volatile(self.page(page)) };
    }

    /// Writes a byte of a page; the mapping must have been made for that.
    pub fn write(&mut self, page: u64) {
        // SAFETY: the page is mapped writable by the caller's choice, and there is no other user of the mapping.
        unsafe { ptr::write_volatile(self.page(page), 1) }
    }

    /// Lets the kernel read a byte of a page, for a pipe. If there is no page, the call fails; a program would get
    /// SIGBUS.
    pub fn write_out(&self, page: u64) -> rustix::io::Result<usize> {
        let (_out, pipe) = rustix::pipe::pipe()?;
        // SAFETY: it only reads memory, of this mapping, and checks by itself whether it may.
        let written = unsafe { libc::write(pipe.as_raw_fd(), self.page(page).cast(), 1) };
        usize::try_from(written)
            .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
    }

    /// A part of the mapping as memory to read into; it must be private, for a file is not to change
    /// under a reference.
    pub fn slice(&mut self, offset: u64, length: u64) -> &mut [u8] {
        let end = (offset + length) as usize;
        assert!(
            end <= self.bytes,
            "{length} bytes at {offset} are in the mapping"
        );
        // SAFETY: within the mapping, which lives as long as the borrow and is borrowed mutably.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.start.as_ptr().add(offset as usize),
                length as usize,
            )
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference into it outlives the value.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.bytes) };
        assert!(unmapped.is_ok(), "a mapping that was made can be unmapped");
    }
}

/// Opens a file for reads around the cache.
pub fn open_direct(path: &Path, write: bool) -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    File::options()
        .read(true)
        .write(write)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .context("open with O_DIRECT")
}

/// readahead(2).
pub fn read_ahead(file: &File, offset: u64, length: u64) -> Result<()> {
    // SAFETY: takes numbers only.
    let result =
        unsafe { libc::readahead(file.as_raw_fd(), offset.cast_signed(), length as usize) };
    if result == 0 {
        return Ok(());
    }
    Err(Problem::new(format!(
        "readahead: {}",
        std::io::Error::last_os_error()
    )))
}

/// posix_fadvise(2) WILLNEED.
pub fn will_need(file: &File, offset: u64, length: u64) -> Result<()> {
    rustix::fs::fadvise(
        file,
        offset,
        std::num::NonZeroU64::new(length),
        Advice::WillNeed,
    )
    .context("fadvise WILLNEED")
}

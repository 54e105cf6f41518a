//! A task of a program: its descriptors and memory, and how it does each operation.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::fs::Advice;
use rustix::mm::Advice as MapAdvice;

use crate::bus;
use crate::call::{Argument, Call, Operation, Outcome};
use crate::libaio;
use crate::oracle::{Folios, page_size};
use crate::partial::{HALF_BYTES, HalfMemory, Limited};
use crate::problem::{Context, Problem, Result};
use crate::reader::{Access, Buffer, Mapping};
use crate::ring::{Opened, Queue, vector};
use crate::watch::{advise, allocate};

/// See the module.
pub struct Task {
    files: Vec<Opened>,
    paths: Vec<std::path::PathBuf>,
    buffer: Buffer,
    half: HalfMemory,
    zeros: File,
    null: File,
    pipe_out: OwnedFd,
    pipe_in: OwnedFd,
    queue: Queue,
    aio: Option<libaio::Ring>,
}

impl Task {
    /// Opens a program's files. `fixed_and_direct`: io_uring may use registered memory with O_DIRECT.
    pub fn new(paths: &[impl AsRef<Path>], fixed_and_direct: bool) -> Result<Self> {
        let (pipe_out, pipe_in) = rustix::pipe::pipe().context("pipe")?;
        rustix::pipe::fcntl_setpipe_size(&pipe_in, 1 << 20).context("F_SETPIPE_SZ")?;
        let files: Result<Vec<Opened>> = paths
            .iter()
            .map(|path| Opened::open(path.as_ref()))
            .collect();
        Ok(Task {
            files: files?,
            paths: paths.iter().map(|path| path.as_ref().to_owned()).collect(),
            buffer: Buffer::new(),
            half: HalfMemory::new()?,
            zeros: File::open("/dev/zero").context("open /dev/zero")?,
            null: File::options()
                .write(true)
                .open("/dev/null")
                .context("open /dev/null")?,
            pipe_out,
            pipe_in,
            queue: Queue::new(fixed_and_direct),
            aio: None,
        })
    }

    /// Touches all memory that the kernel reads and writes, so that no operation has to find pages for it.
    pub fn touch(&mut self) {
        self.buffer.slice(HALF_BYTES);
    }

    /// Does an operation, and gives the result of each of its requests.
    pub fn run(&mut self, operation: &Operation) -> Result<Vec<Outcome>> {
        let offset = operation.get(Argument::Offset);
        let length = operation.length();
        let size = length as usize;
        let good = operation.get(Argument::Good).min(length);
        let pieces = operation.get(Argument::Pieces).clamp(1, 1024);
        let number = operation.files().next().unwrap_or(0);
        let page = operation.get(Argument::Page);
        match operation.call {
            Call::UringRead | Call::UringWrite => {
                self.queue.push(operation);
                return Ok(Vec::new());
            }
            Call::UringEnter => {
                let memory = self.buffer.slice(HALF_BYTES);
                return self.queue.enter(&self.files, memory);
            }
            Call::Fill => return Ok(vec![0]),
            _ => {}
        }
        let opened = &mut self.files[number];
        let file = opened.plain.as_raw_fd();
        let at = offset as libc::off_t;
        let memory = self
            .buffer
            .slice(length)
            .as_mut_ptr()
            .cast::<libc::c_void>();
        let ends = self.half.before_its_end(good);
        // SAFETY: the kernel writes to and reads from memory of this task, no more than is there: `size` bytes of
        // the buffer; of what ends it finds out itself.
        let outcome = unsafe {
            match operation.call {
                Call::Read => {
                    seek(&mut opened.plain, offset)?;
                    result(libc::read(file, memory, size))
                }
                Call::Pread => result(libc::pread(file, memory, size, at)),
                Call::Preadv => {
                    let vector = vector(memory, length, pieces);
                    result(libc::preadv(file, vector.as_ptr(), vector.len() as i32, at))
                }
                Call::NoWait | Call::DontCache => {
                    /// The value in linux/fs.h of Linux 6.14.
                    const RWF_DONTCACHE: libc::c_int = 0x80;
                    let one = vector(memory, length, 1);
                    let flags = if operation.call == Call::NoWait {
                        libc::RWF_NOWAIT
                    } else {
                        RWF_DONTCACHE
                    };
                    result(libc::preadv2(file, one.as_ptr(), 1, at, flags))
                }
                Call::BadRead => result(libc::pread(file, ends, size, at)),
                Call::Write => {
                    seek(&mut opened.plain, offset)?;
                    result(libc::write(file, memory, size))
                }
                Call::Pwrite => result(libc::pwrite(file, memory, size, at)),
                Call::BadWrite => result(libc::pwrite(file, ends, size, at)),
                Call::LimitedWrite => {
                    let _limited = Limited::to(offset + good)?;
                    result(libc::pwrite(file, memory, size, at))
                }
                Call::Append => result(libc::write(opened.append.as_raw_fd(), memory, size)),
                Call::DirectRead => {
                    result(libc::pread(opened.direct.as_raw_fd(), memory, size, at))
                }
                Call::DirectWrite => {
                    result(libc::pwrite(opened.direct.as_raw_fd(), memory, size, at))
                }
                Call::Sendfile => {
                    let mut at = at;
                    result(libc::sendfile(self.null.as_raw_fd(), file, &mut at, size))
                }
                Call::SendSocket => {
                    let (to, _from) = UnixStream::pair().context("socketpair")?;
                    to.set_nonblocking(true).context("set it non-blocking")?;
                    let mut at = at;
                    result(libc::sendfile(to.as_raw_fd(), file, &mut at, size))
                }
                Call::Splice => {
                    let (mut at, pipe) = (at, self.pipe_in.as_raw_fd());
                    let null = std::ptr::null_mut();
                    let got = result(libc::splice(file, &mut at, pipe, null, size, 0));
                    drain(&self.pipe_out, &self.null, got)?;
                    got
                }
                Call::SpliceIn => {
                    let (mut at, null) = (at, std::ptr::null_mut());
                    let one = vector(memory, length, 1);
                    let there = libc::vmsplice(self.pipe_in.as_raw_fd(), one.as_ptr(), 1, 0);
                    let pipe = self.pipe_out.as_raw_fd();
                    let there = result(there).max(0);
                    let got = if there == 0 {
                        0
                    } else {
                        result(libc::splice(pipe, null, file, &mut at, there as usize, 0))
                    };
                    drain(&self.pipe_out, &self.null, there - got.max(0))?;
                    got
                }
                Call::Copy => {
                    let to = operation.files().nth(1).unwrap_or(0);
                    let mut to_at = operation.all(Argument::Offset).nth(1).unwrap_or(0) as i64;
                    let to = self.files[to].plain.as_raw_fd();
                    let mut at = at;
                    result(libc::copy_file_range(
                        file, &mut at, to, &mut to_at, size, 0,
                    ))
                }
                Call::Fsync => result(libc::fsync(file) as isize),
                Call::Readahead => result(libc::readahead(file, at, size)),
                _ => self.other(operation, number, offset, length, pieces, page)?,
            }
        };
        Ok(vec![outcome])
    }

    fn other(
        &mut self,
        operation: &Operation,
        number: usize,
        offset: u64,
        length: u64,
        pieces: u64,
        page: u64,
    ) -> Result<Outcome> {
        let file = &self.files[number].plain;
        let size = file.metadata().context("stat")?.len();
        match operation.call {
            Call::Pwritev => {
                // A page of the mapping comes into being when the kernel reads it for the write.
                let untouched =
                    Mapping::new(&self.zeros, length.max(1), Access::Private, Folios::Large)?;
                let vector = vector(untouched.start(), length, pieces);
                // SAFETY: the kernel reads the mapping, which lives on.
                Ok(result(unsafe {
                    let count = vector.len() as i32;
                    libc::pwritev(file.as_raw_fd(), vector.as_ptr(), count, offset as i64)
                }))
            }
            Call::Touch | Call::Store if page < size.div_ceil(page_size()) => {
                let store = operation.call == Call::Store;
                let access = if store { Access::Shared } else { Access::Read };
                let mut mapping = Mapping::new(file, size, access, Folios::Large)?;
                let failed = bus::raises(|| {
                    if store {
                        mapping.write(page);
                    } else {
                        mapping.read(page);
                    }
                });
                Ok(if failed { -i64::from(libc::EFAULT) } else { 0 })
            }
            Call::Madvise if offset / page_size() < size.div_ceil(page_size()) => {
                let mapping = Mapping::new(file, size, Access::Read, Folios::Large)?;
                mapping.advise(MapAdvice::WillNeed)?;
                Ok(0)
            }
            Call::WillNeed | Call::DontNeed => {
                let advice = match operation.call {
                    Call::WillNeed => libc::POSIX_FADV_WILLNEED,
                    _ => libc::POSIX_FADV_DONTNEED,
                };
                let (offset, length) = (offset as i64, length as i64);
                // SAFETY: takes numbers only.
                let error =
                    unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, length, advice) };
                Ok(-i64::from(error))
            }
            Call::Random => advise(file, Advice::Random).map(|()| 0),
            Call::Normal => advise(file, Advice::Normal).map(|()| 0),
            Call::AioRead | Call::AioWrite => {
                let ring = match &mut self.aio {
                    Some(ring) => ring,
                    none => none.insert(libaio::Ring::new()?),
                };
                let opcode = match operation.call {
                    Call::AioRead => libaio::PREAD,
                    _ => libaio::PWRITE,
                };
                let memory = self.buffer.slice(length);
                ring.one(opcode, file, offset, memory)
            }
            Call::Truncate => Ok(errno(rustix::fs::ftruncate(
                file,
                operation.get(Argument::Size),
            ))),
            Call::Punch => Ok(errno(allocate(file, true, offset, length))),
            Call::Allocate => Ok(errno(allocate(file, false, offset, length))),
            Call::Unlink => {
                // Also a second time, and after a rename.
                let _ = std::fs::remove_file(&self.paths[number]);
                Ok(0)
            }
            Call::Rename => {
                let mut to = self.paths[number].clone().into_os_string();
                to.push("r");
                let to = std::path::PathBuf::from(to);
                if std::fs::rename(&self.paths[number], &to).is_ok() {
                    self.paths[number] = to;
                }
                Ok(0)
            }
            _ => Ok(0),
        }
    }
}

fn seek(file: &mut File, offset: u64) -> Result<()> {
    file.seek(SeekFrom::Start(offset))
        .map(drop)
        .context("lseek")
}

/// A call's result: an error as its number below 0.
fn result(returned: libc::ssize_t) -> Outcome {
    if returned >= 0 {
        return returned as Outcome;
    }
    -i64::from(
        std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO),
    )
}

fn errno(result: rustix::io::Result<()>) -> Outcome {
    result.map_or_else(|error| -i64::from(error.raw_os_error()), |()| 0)
}

/// Empties the pipe by splice, which raises no count of reads.
fn drain(pipe: &OwnedFd, null: &File, bytes: Outcome) -> Result<()> {
    let mut left = usize::try_from(bytes).unwrap_or(0);
    while left > 0 {
        let none = rustix::pipe::SpliceFlags::empty();
        let moved = rustix::pipe::splice(pipe, None, null, None, left, none);
        match moved.context("drain the pipe")? {
            0 => return Err(Problem::new("the pipe is empty too early")),
            moved => left -= moved,
        }
    }
    Ok(())
}

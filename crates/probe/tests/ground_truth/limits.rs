//! Requests for more than one call can move: Linux cuts each at the last whole page below 2 GiB, and so must
//! the count. The rest needs another call.
//!
//! The file is a hole, which fills the page cache like data but no disk, and all of it is read into the same
//! piece of memory, mapped repeatedly. The cut is made above all file systems, so one of them is enough.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr;

use io_uring::{IoUring, opcode, types};
use libtest_mimic::Trial;
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use cachewise_model::Counter;

use crate::image::FileSystem;
use crate::oracle::{Oracle, State, Subject, Touched};
use crate::problem::{Context, Problem, Result};
use crate::reader::submit;
use crate::stand::{Evictions, Room, trial};
use crate::table::{Comparison, Label};

/// A little more than one call moves, and not a whole number of pages.
const FILE_BYTES: u64 = (2 << 30) + (64 << 20) + 1234;

/// Size of the memory behind the address space that is read into.
const PIECE_BYTES: usize = 16 << 20;

/// The trial.
pub fn trials() -> Vec<Trial> {
    vec![trial(FileSystem::Ext4, "beyond_2_gib", beyond_2_gib)]
}

/// Address space for the whole file, all of it the same small piece of memory.
struct Echo {
    start: *mut libc::c_void,
    bytes: usize,
}

impl Echo {
    fn new(bytes: usize) -> Result<Self> {
        let bytes = bytes.next_multiple_of(PIECE_BYTES);
        let memory = rustix::fs::memfd_create("echo", MemfdFlags::CLOEXEC).context("memfd")?;
        rustix::fs::ftruncate(&memory, PIECE_BYTES as u64).context("size the memfd")?;
        let nothing = ProtFlags::empty();
        // SAFETY: the kernel chooses a free place, so nothing that exists is replaced.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, nothing, MapFlags::PRIVATE) }
            .context("reserve address space")?;
        let echo = Echo { start, bytes };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let fixed = MapFlags::SHARED | MapFlags::FIXED | MapFlags::POPULATE;
        for offset in (0..bytes).step_by(PIECE_BYTES) {
            // SAFETY: the piece is within what was reserved just now, and replaces nothing else.
            unsafe {
                mmap(
                    start.byte_add(offset),
                    PIECE_BYTES,
                    access,
                    fixed,
                    &memory,
                    0,
                )
            }
            .context("map the memory")?;
        }
        Ok(echo)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and there is no reference into it.
        let unmapped = unsafe { munmap(self.start, self.bytes) };
        assert!(unmapped.is_ok(), "a mapping that was made can be unmapped");
    }
}

/// A call that asks for `length` bytes at an offset, which is the file's position too.
type Ask = fn(&File, &Echo, u64, usize) -> Result<u64>;

const CALLS: [(&str, Ask); 5] = [
    ("read", |file, echo, _, length| {
        // SAFETY: the buffer has room for the whole file, and there is no reference to it.
        got("read", unsafe {
            libc::read(file.as_raw_fd(), echo.start, length)
        })
    }),
    ("pread", |file, echo, offset, length| {
        // SAFETY: as above.
        got("pread", unsafe {
            libc::pread(file.as_raw_fd(), echo.start, length, offset.cast_signed())
        })
    }),
    ("preadv", |file, echo, offset, length| {
        let half = length / 2;
        let pieces = [(0, half), (half, length - half)].map(|(from, length)| libc::iovec {
            iov_base: echo.start.wrapping_byte_add(from),
            iov_len: length,
        });
        // SAFETY: as above, and so for both pieces of it.
        got("preadv", unsafe {
            let offset = offset.cast_signed();
            libc::preadv(file.as_raw_fd(), pieces.as_ptr(), 2, offset)
        })
    }),
    ("sendfile", |file, _, _, length| {
        let null = File::options().write(true).open("/dev/null");
        let null = null.context("open /dev/null")?;
        let sent = rustix::fs::sendfile(&null, file, None, length).context("sendfile")?;
        Ok(sent as u64)
    }),
    ("io_uring", |file, echo, offset, length| {
        let mut ring = IoUring::new(8).context("io_uring_setup")?;
        let fd = types::Fd(file.as_raw_fd());
        let read = opcode::Read::new(fd, echo.start.cast(), length as u32).offset(offset);
        // SAFETY: `submit` waits for the completion; buffer and file live longer.
        unsafe { submit(&mut ring, &[read.build()]) }
    }),
];

fn got(call: &str, result: libc::ssize_t) -> Result<u64> {
    u64::try_from(result)
        .map_err(|_| Problem::new(format!("{call}: {}", std::io::Error::last_os_error())))
}

/// All of the file in as few requests as there may be.
fn beyond_2_gib(room: &mut Room) -> Result<()> {
    let path = room.path("hole");
    let file = File::create(&path).context("create the file")?;
    file.set_len(FILE_BYTES).context("make the hole")?;
    let subject = Subject::open(path)?;
    let echo = Echo::new(FILE_BYTES as usize)?;
    // Whether a page was a hit is not the question, so the host's reclaimer, which such a file hardly
    // escapes, may take what it likes.
    let cold = ("read", CALLS[0].1, State::Cold);
    let warm = CALLS.map(|(name, ask)| (name, ask, State::Warm));
    for (name, ask, state) in [cold].into_iter().chain(warm) {
        let label = Label::new(room.kind.name(), name)
            .size(FILE_BYTES)
            .state(state.name());
        let measured = room.stand.measure(
            &label,
            &subject,
            Evictions::Reclaim,
            || {
                // Warm is as the call before has left it.
                if state == State::Cold {
                    subject.evict()?;
                }
                Ok(())
            },
            |(), _| {
                let file = File::open(subject.path()).context("open for reading")?;
                let mut oracle = Oracle::new(&subject, Touched::none(&subject));
                let mut offset = 0;
                while offset < FILE_BYTES {
                    let length = FILE_BYTES - offset;
                    let ask = || ask(&file, &echo, offset, length as usize);
                    offset += oracle.request(offset, length, ask)?;
                }
                Ok(oracle.expected())
            },
        );
        match measured {
            Ok(done) => {
                let (expected, ledger) = (done.expected, &done.ledger);
                let comparison = Comparison::new()
                    .silently("calls", 2, expected.requests)
                    .exact("requests", expected.requests, ledger[Counter::ReadRequests])
                    .exact("pages", expected.pages, ledger[Counter::ReadRequestedPages])
                    .exact("bytes", expected.bytes, ledger[Counter::ReadRequestedBytes]);
                room.judge(label, comparison);
            }
            Err(problem) => room.failed(&label, &problem),
        }
    }
    Ok(())
}

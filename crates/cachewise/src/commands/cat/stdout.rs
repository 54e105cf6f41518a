//! Standard output that a signal can interrupt, so that what was promised for the end can be kept.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::Errno;

/// Standard output, and what interrupts writing to it.
pub struct Stdout<'a> {
    out: io::StdoutLock<'a>,
    cancel: Option<&'a AtomicBool>,
    /// Bytes of one write.
    piece: usize,
}

/// Bytes that a writable pipe accepts without blocking (`PIPE_BUF`).
const PIECE: usize = 4096;

/// Interval at which the flag is read while the pipe is full: the signal may interrupt another thread.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};

/// The device and inode number of standard output, where that is a regular file.
pub fn file() -> Option<(u64, u64)> {
    let found = rustix::fs::fstat(io::stdout()).ok()?;
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    is_file.then_some((found.st_dev, found.st_ino))
}

impl<'a> Stdout<'a> {
    /// Without a flag, it is written to as to any file.
    pub fn new(cancel: Option<&'a AtomicBool>) -> Stdout<'a> {
        let out = io::stdout().lock();
        // Writing to a regular file does not block.
        let is_file = rustix::fs::fstat(&out)
            .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile);
        let piece = match is_file {
            true => usize::MAX,
            false => PIECE,
        };
        Stdout { out, cancel, piece }
    }

    pub fn is_interrupted(&self) -> bool {
        self.cancel
            .is_some_and(|cancel| cancel.load(Ordering::Acquire))
    }

    /// Writes all of it, or less where it is interrupted.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.cancel.is_none() {
            self.out.write_all(bytes)?;
            return self.out.flush();
        }
        for piece in bytes.chunks(self.piece) {
            if !self.is_ready()? {
                return Ok(());
            }
            // Not through the buffer of `out`, which would put pieces together.
            let mut rest = piece;
            while !rest.is_empty() {
                let written = rustix::io::retry_on_intr(|| rustix::io::write(&self.out, rest))?;
                rest = &rest[written..];
            }
        }
        Ok(())
    }

    /// Waits until it takes something; `false` if it is interrupted before.
    fn is_ready(&self) -> io::Result<bool> {
        loop {
            if self.is_interrupted() {
                return Ok(false);
            }
            let mut fds = [PollFd::new(&self.out, PollFlags::OUT)];
            match poll(&mut fds, Some(&LOOK)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

//! pwrite(2) through the page cache.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::{Errno, pwrite};

use super::{Buffer, Engine, Sign};
use crate::random::Random;
use crate::tally::{Done, Outcome};

/// Writes incompressible data.
#[derive(Debug)]
pub(crate) struct Write<'a> {
    fd: BorrowedFd<'a>,
    buffer: Buffer,
    size: u64,
}

impl<'a> Write<'a> {
    pub fn new(fd: BorrowedFd<'a>, chunk: usize, size: u64, seed: u64) -> io::Result<Self> {
        let mut buffer = Buffer::only(chunk)?;
        Random::new(seed, u64::MAX).fill(buffer.as_mut());
        Ok(Write { fd, buffer, size })
    }
}

impl Engine for Write<'_> {
    const SIGN: Sign = Sign::None;

    #[inline]
    fn at(&mut self, offset: u64) -> io::Result<Done> {
        let buffer = self.buffer.as_mut();
        // The file keeps its size.
        let requested = (buffer.len() as u64).min(self.size - offset) as usize;
        let mut done = 0;
        while done < requested {
            match pwrite(self.fd, &buffer[done..requested], offset + done as u64) {
                Ok(0) => break,
                Ok(more) => done += more,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Done {
            bytes: done as u64,
            cached: 0,
            outcome: Outcome::Unknown,
        })
    }
}

//! pread(2) and preadv2(2).

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

use rustix::io::{Errno, ReadWriteFlags, pread, preadv2};

use super::cachestat::Cachestat;
use super::{Buffer, Engine, Sign};
use crate::tally::{Done, Outcome};
use crate::target::Target;

/// pread(2), through the page cache or direct, depending on the file's flags.
#[derive(Debug)]
pub(crate) struct Pread<'a, const DIRECT: bool> {
    fd: BorrowedFd<'a>,
    buffer: Buffer,
}

impl<'a, const DIRECT: bool> Pread<'a, DIRECT> {
    pub fn new(fd: BorrowedFd<'a>, chunk: usize) -> io::Result<Self> {
        Ok(Pread {
            fd,
            buffer: Buffer::only(chunk)?,
        })
    }
}

impl<const DIRECT: bool> Engine for Pread<'_, DIRECT> {
    const SIGN: Sign = if DIRECT { Sign::None } else { Sign::Device };

    #[inline]
    fn at(&mut self, offset: u64) -> io::Result<Done> {
        loop {
            match pread(self.fd, self.buffer.as_mut(), offset) {
                Ok(bytes) => {
                    let outcome = if DIRECT {
                        Outcome::Unknown
                    } else {
                        Outcome::Hit
                    };
                    return Ok(Done {
                        bytes: bytes as u64,
                        cached: 0,
                        outcome,
                    });
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// preadv2(2) for cached bytes, then pread(2) for the rest.
#[derive(Debug)]
pub(crate) struct Nowait<'a> {
    fd: BorrowedFd<'a>,
    buffer: Buffer,
    /// The file's size: a read that reaches it has not missed.
    size: u64,
    cachestat: Cachestat<'a>,
    /// Cached bytes of the next operation.
    cached: usize,
}

impl<'a> Nowait<'a> {
    pub fn new(target: &'a Target, chunk: usize) -> io::Result<Self> {
        Ok(Nowait {
            fd: target.fd(),
            buffer: Buffer::only(chunk)?,
            size: target.size.0,
            cachestat: Cachestat::new(target),
            cached: 0,
        })
    }

    fn requested(&self, offset: u64) -> usize {
        (self.buffer.len() as u64).min(self.size - offset) as usize
    }
}

impl Engine for Nowait<'_> {
    const SIGN: Sign = Sign::None;
    const LOOKS: bool = true;

    #[inline]
    fn look(&mut self, offset: u64) -> io::Result<()> {
        self.cached = self.cachestat.at(offset, self.requested(offset))?;
        Ok(())
    }

    #[inline]
    fn at(&mut self, offset: u64) -> io::Result<Done> {
        let requested = self.requested(offset);
        let buffer = self.buffer.as_mut();
        let at_once = loop {
            let mut one = [IoSliceMut::new(&mut buffer[..requested])];
            match preadv2(self.fd, &mut one, offset, ReadWriteFlags::NOWAIT) {
                Ok(read) => break read,
                Err(Errno::AGAIN) => break 0,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        };
        let cached = at_once.min(self.cached);
        let mut got = at_once;
        while got < requested {
            match pread(self.fd, &mut buffer[got..requested], offset + got as u64) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Done {
            bytes: got as u64,
            cached: cached as u64,
            outcome: if cached == requested {
                Outcome::Hit
            } else {
                Outcome::Miss
            },
        })
    }
}

//! pread(2) and preadv2(2).

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

use rustix::io::{Errno, ReadWriteFlags, pread, preadv2};

use super::look::Look;
use super::{Buffer, Engine, Sign};
use crate::tally::{Done, Found};
use crate::target::Target;

/// pread(2), through the page cache or around it, as the file was opened.
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
                    let found = if DIRECT { Found::Unknown } else { Found::Hit };
                    return Ok(Done {
                        bytes: bytes as u64,
                        there: 0,
                        found,
                    });
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// preadv2(2) that takes only what is there, then pread(2) for the rest.
#[derive(Debug)]
pub(crate) struct Nowait<'a> {
    fd: BorrowedFd<'a>,
    buffer: Buffer,
    /// The file's end: a read that comes to it has not missed anything.
    size: u64,
    look: Look<'a>,
    /// Bytes of the next operation that are there.
    there: usize,
}

impl<'a> Nowait<'a> {
    pub fn new(target: &'a Target, chunk: usize) -> io::Result<Self> {
        Ok(Nowait {
            fd: target.fd(),
            buffer: Buffer::only(chunk)?,
            size: target.size.0,
            look: Look::new(target),
            there: 0,
        })
    }

    fn wanted(&self, offset: u64) -> usize {
        (self.buffer.len() as u64).min(self.size - offset) as usize
    }
}

impl Engine for Nowait<'_> {
    const SIGN: Sign = Sign::None;
    const LOOKS: bool = true;

    #[inline]
    fn look(&mut self, offset: u64) -> io::Result<()> {
        self.there = self.look.at(offset, self.wanted(offset))?;
        Ok(())
    }

    #[inline]
    fn at(&mut self, offset: u64) -> io::Result<Done> {
        let wanted = self.wanted(offset);
        let buffer = self.buffer.as_mut();
        let at_once = loop {
            let mut one = [IoSliceMut::new(&mut buffer[..wanted])];
            match preadv2(self.fd, &mut one, offset, ReadWriteFlags::NOWAIT) {
                Ok(read) => break read,
                Err(Errno::AGAIN) => break 0,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        };
        let there = at_once.min(self.there);
        let mut got = at_once;
        while got < wanted {
            match pread(self.fd, &mut buffer[got..wanted], offset + got as u64) {
                Ok(0) => break,
                Ok(more) => got += more,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Done {
            bytes: got as u64,
            there: there as u64,
            found: if there == wanted {
                Found::Hit
            } else {
                Found::Miss
            },
        })
    }
}

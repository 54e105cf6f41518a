//! pread(2) and preadv2(2).

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

use rustix::io::{Errno, ReadWriteFlags, pread, preadv2};

use super::{Buffer, Engine, Sign};
use crate::tally::{Done, Found};

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
}

impl<'a> Nowait<'a> {
    pub fn new(fd: BorrowedFd<'a>, chunk: usize, size: u64) -> io::Result<Self> {
        Ok(Nowait {
            fd,
            buffer: Buffer::only(chunk)?,
            size,
        })
    }
}

impl Engine for Nowait<'_> {
    const SIGN: Sign = Sign::None;

    #[inline]
    fn at(&mut self, offset: u64) -> io::Result<Done> {
        let buffer = self.buffer.as_mut();
        let wanted = (buffer.len() as u64).min(self.size - offset) as usize;
        let there = loop {
            let mut one = [IoSliceMut::new(&mut buffer[..wanted])];
            match preadv2(self.fd, &mut one, offset, ReadWriteFlags::NOWAIT) {
                Ok(there) => break there,
                Err(Errno::AGAIN) => break 0,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        };
        if there == wanted {
            return Ok(Done {
                bytes: there as u64,
                there: there as u64,
                found: Found::Hit,
            });
        }
        let mut got = there;
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
            found: Found::Miss,
        })
    }
}

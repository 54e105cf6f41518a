//! A shared mapping of the file, and reads from it.

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::mm::{Advice as MapAdvice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::bus::Guard;
use super::{Buffer, Engine, Sign};
use crate::Advice;
use crate::tally::{Done, Outcome};

/// A whole file, mapped as shared and read-only; unmapped on drop.
#[derive(Debug)]
pub(crate) struct Map {
    address: usize,
    len: usize,
    guard: Guard,
}

impl Map {
    pub fn new(fd: BorrowedFd<'_>, size: u64, advice: Advice) -> io::Result<Map> {
        let len = usize::try_from(size).map_err(|_| io::ErrorKind::FileTooLarge)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let address = unsafe {
            mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ,
                MapFlags::SHARED,
                fd,
                0,
            )
        }?;
        let guard = Guard::of_range(address as usize, len);
        let guard = match guard {
            Ok(guard) => guard,
            Err(error) => {
                // SAFETY: the mapping was made just now, and has no other user.
                let _ = unsafe { munmap(address, len) };
                return Err(error);
            }
        };
        let map = Map {
            address: address as usize,
            len,
            guard,
        };
        let advice = match advice {
            Advice::Normal => return Ok(map),
            Advice::Random => MapAdvice::Random,
            Advice::Sequential => MapAdvice::Sequential,
        };
        // SAFETY: the range is the whole mapping; this advice changes no memory.
        unsafe { madvise(address, len, advice) }?;
        Ok(map)
    }

    /// The mapped part of a chunk at this offset.
    #[inline]
    fn part(&self, offset: u64, chunk: usize) -> (*const u8, usize) {
        let offset = (offset as usize).min(self.len);
        let len = chunk.min(self.len - offset);
        ((self.address + offset) as *const u8, len)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and readers borrow this.
        let _ = unsafe { munmap(self.address as *mut c_void, self.len) };
    }
}

/// Copies each chunk out of the mapping.
#[derive(Debug)]
pub(crate) struct Copy<'a> {
    map: &'a Map,
    buffer: Buffer,
}

impl<'a> Copy<'a> {
    pub fn new(map: &'a Map, chunk: usize) -> io::Result<Self> {
        Ok(Copy {
            map,
            buffer: Buffer::only(chunk)?,
        })
    }
}

impl Engine for Copy<'_> {
    const SIGN: Sign = Sign::Faults;

    #[inline]
    fn at(&mut self, offset: u64) -> io::Result<Done> {
        let buffer = self.buffer.as_mut();
        let (from, len) = self.map.part(offset, buffer.len());
        // SAFETY: both are valid for `len` bytes, which `part` has cut to the mapping and the buffer, and do not
        // overlap. By libc's memcpy, not as Rust memory: others may write to the file meanwhile.
        unsafe { libc::memcpy(buffer.as_mut_ptr().cast(), from.cast(), len) };
        // Without this, the compiler could remove the unused copy.
        std::hint::black_box(&mut *buffer);
        Ok(Done {
            bytes: len as u64,
            cached: 0,
            outcome: Outcome::Hit,
        })
    }

    fn is_lost(&self) -> bool {
        self.map.guard.is_lost()
    }
}

/// Reads one byte of each page of each chunk.
#[derive(Debug)]
pub(crate) struct Touch<'a> {
    map: &'a Map,
    chunk: usize,
    page: usize,
}

impl<'a> Touch<'a> {
    pub fn new(map: &'a Map, chunk: usize) -> Self {
        Touch {
            map,
            chunk,
            page: cachewise_sys::page_size().get() as usize,
        }
    }
}

impl Engine for Touch<'_> {
    const SIGN: Sign = Sign::Faults;

    #[inline]
    fn at(&mut self, offset: u64) -> io::Result<Done> {
        let (from, len) = self.map.part(offset, self.chunk);
        let mut place = 0;
        while place < len {
            // SAFETY: `place` is below the length that `part` has cut to the mapping.
            unsafe { from.add(place).read_volatile() };
            place += self.page;
        }
        Ok(Done {
            bytes: len as u64,
            cached: 0,
            outcome: Outcome::Hit,
        })
    }

    fn is_lost(&self) -> bool {
        self.map.guard.is_lost()
    }
}

//! Extents of a file, as the file system maps them (FIEMAP).

use std::ffi::c_void;
use std::os::fd::BorrowedFd;

use cachewise_units::Bytes;
use rustix::io;
use rustix::ioctl::{self, Ioctl, IoctlOutput, Opcode};

use crate::Error;

/// Extents to ask for at a time.
const BATCH: usize = 64;

const LAST: u32 = 0x1;
const MERGED: u32 = 0x1000;
const SHARED: u32 = 0x2000;

/// `struct fiemap_extent`
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

/// `struct fiemap`, with room for the answer.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [Extent; BATCH],
}

/// `FS_IOC_FIEMAP`
struct Ask(Fiemap);

// SAFETY: the kernel reads the head of `struct fiemap` and writes at most `room` extents behind it, which is
// their number in the structure.
unsafe impl Ioctl for Ask {
    type Output = Fiemap;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        // The size is that of the head alone.
        ioctl::opcode::read_write::<[u64; 4]>(b'f', 11)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.0).cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, answer: *mut c_void) -> io::Result<Fiemap> {
        // SAFETY: it points to the structure of `as_ptr`.
        Ok(unsafe { answer.cast::<Fiemap>().read() })
    }
}

/// Returns whether every byte of an open file up to `size` has blocks of its own on the device: no hole, and nothing
/// unwritten, compressed, encrypted by the file system, inside of the inode, or not placed so far.
///
/// # Errors
/// File systems without FIEMAP; block devices.
///
/// # Cost
/// One system call for 64 extents. The file system may read its index of extents.
pub fn is_all_on_device(fd: BorrowedFd<'_>, size: Bytes) -> Result<bool, Error> {
    let mut end = 0;
    while end < size.0 {
        let answer = ask(fd, end, size.0 - end)?;
        let found = answer.extents.get(..answer.mapped as usize);
        let found = found.filter(|found| !found.is_empty());
        let Some(found) = found else {
            return Ok(false);
        };
        for extent in found {
            if extent.logical > end || extent.flags & !(LAST | MERGED | SHARED) != 0 {
                return Ok(false);
            }
            end = end.max(extent.logical.saturating_add(extent.length));
        }
        if found.last().is_some_and(|extent| extent.flags & LAST != 0) {
            break;
        }
    }
    Ok(end >= size.0)
}

/// Returns the place on the device of the byte at `offset`, in bytes from its start; `None` for holes and what is not
/// placed so far.
///
/// # Errors
/// File systems without FIEMAP; block devices.
///
/// # Cost
/// One system call. The file system may read its index of extents.
pub fn place_on_device(fd: BorrowedFd<'_>, offset: u64) -> Result<Option<u64>, Error> {
    let answer = ask(fd, offset, 1)?;
    let Some(extent) = answer.extents[..answer.mapped.min(1) as usize].first() else {
        return Ok(None);
    };
    let is_placed = extent.flags & !(LAST | MERGED | SHARED) == 0 && extent.logical <= offset;
    Ok(is_placed.then(|| extent.physical + (offset - extent.logical)))
}

fn ask(fd: BorrowedFd<'_>, start: u64, length: u64) -> Result<Fiemap, Error> {
    let question = Ask(Fiemap {
        start,
        length,
        flags: 0,
        mapped: 0,
        room: BATCH as u32,
        reserved: 0,
        extents: [Extent::default(); BATCH],
    });
    // SAFETY: a request that changes nothing: without FIEMAP_FLAG_SYNC nothing is written out.
    unsafe { ioctl::ioctl(fd, question) }.map_err(|errno| Error::io("ioctl FIEMAP", errno))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;

    /// In the crate's own directory: `/tmp` may be a tmpfs, which has no extents.
    fn file() -> File {
        tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap()
    }

    fn answer(file: &File) -> Option<bool> {
        let size = Bytes(file.metadata().unwrap().len());
        let answer = is_all_on_device(file.as_fd(), size);
        answer
            .inspect_err(|error| println!("skipped: no extents here: {error}"))
            .ok()
    }

    #[test]
    fn written_file_is_on_device_and_a_hole_is_not() {
        let mut file = file();
        file.write_all(&[7; 300_000]).unwrap();
        file.sync_all().unwrap();
        let Some(written) = answer(&file) else {
            return;
        };
        assert!(written, "all of it was written out");
        file.set_len(1 << 20).unwrap();
        assert_eq!(answer(&file), Some(false), "its end is a hole");
        file.set_len(0).unwrap();
        assert_eq!(answer(&file), Some(true), "no bytes are all bytes");
    }

    #[test]
    fn places_follow_the_extents_and_holes_have_none() {
        let mut file = file();
        file.write_all(&[7; 300_000]).unwrap();
        file.set_len(1 << 20).unwrap();
        file.sync_all().unwrap();
        let Ok(first) = place_on_device(file.as_fd(), 0) else {
            println!("skipped: no extents here");
            return;
        };
        let first = first.expect("it was written out");
        let second = place_on_device(file.as_fd(), 4096).unwrap();
        assert!(second.is_some_and(|second| second != first));
        assert_eq!(place_on_device(file.as_fd(), 512 << 10).unwrap(), None);
    }

    #[test]
    fn preallocated_blocks_were_not_written() {
        let file = file();
        let allocated = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 65536);
        if allocated.is_err() {
            return;
        }
        if let Some(written) = answer(&file) {
            assert!(!written, "the kernel reads no device for them");
        }
    }
}

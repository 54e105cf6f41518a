//! Accesses one by one: a ring buffer, and the sample of blocks of pages that goes through it.

use std::mem::{offset_of, size_of};
use std::time::Duration;

use cachewise_units::Pages;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::FileId;
use crate::error::Error;
use crate::record::Raw;
use crate::ring::Ring;
use crate::skeleton::types;

/// The numbers of access.h.
pub(crate) const THRESHOLD: u32 = 0;
const SHIFT: u32 = 1;
const REQUESTED: u32 = 2;
const LOST: u32 = 3;

/// A threshold that no hash reaches.
pub(crate) const EVERY_BLOCK: u64 = 1 << 32;

const BATCH: usize = 16_384;

const OPERATION: &str = "read the ring of accesses";

/// Effect of an access on its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// A read.
    Read,
    /// A fault on a page of a mapped file.
    Fault,
    /// A buffered write.
    Write,
    /// Pages are inserted because a program requests it: readahead(2), `POSIX_FADV_WILLNEED`.
    ReadAhead,
    /// Pages leave the cache because their file is truncated or deleted.
    Remove,
    /// A page is in the cache that a fault, which follows, needs.
    Resident,
    /// A page fault maps those of these pages that are in the cache, the one that is touched among them.
    Around,
}

/// An access to pages of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// [`FileId::number_in_accesses`] of the file.
    pub file: u64,
    /// The first page.
    pub first: u64,
    /// Number of pages; not more than a block below a threshold of 2^32.
    pub pages: u64,
    /// The effect on them.
    pub kind: AccessKind,
    /// By which the kernel reads ahead; of reads and faults.
    pub reader: Option<AccessReader>,
}

/// The open file of a read, or the task of a fault, as far as the kernel reads ahead by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessReader {
    /// A hash that tells readers apart.
    pub id: u32,
    /// The length of the file in pages.
    pub file_pages: u64,
    /// Pages that are read ahead at most; 0: none, as with `POSIX_FADV_RANDOM`.
    pub window: u64,
    /// Order of the largest folio that the file may have.
    pub largest_folio: u32,
    /// The read begins where the one before it ended.
    pub follows: bool,
    /// The read begins in the page in which the one before it ended.
    pub continues: bool,
}

impl FileId {
    /// The number by which accesses name this file, [`Access::file`]. Two files may share one, as of 2^64 numbers.
    #[must_use]
    pub fn number_in_accesses(&self) -> u64 {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        const OTHER: u64 = 0xD6E8_FEB8_6659_FD93;
        let device = u64::from(self.major << 20 | self.minor);
        // A block device has no inode number.
        if self.inode == 0 {
            return device.wrapping_mul(OTHER);
        }
        let hash = (self.inode ^ u64::from(self.generation) << 32).wrapping_mul(GOLDEN);
        let hash = (hash ^ hash >> 32 ^ device << 32).wrapping_mul(OTHER);
        let spread = self
            .inode
            .wrapping_mul(0xC13F_A9A9)
            .wrapping_add(device.wrapping_mul(0x9E37_79B1));
        hash >> 32 | spread << 32
    }
}

/// The accesses of watched processes. Another thread may read it than the probe's.
pub struct Accesses {
    ring: Ring<Access>,
    sample: MapHandle,
}

impl std::fmt::Debug for Accesses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accesses").finish_non_exhaustive()
    }
}

impl Accesses {
    pub(crate) fn open(map: MapHandle, sample: MapHandle) -> Result<Self, Error> {
        let ring = Ring::open(map, BATCH, OPERATION, parse)?;
        Ok(Accesses { ring, sample })
    }

    /// Waits until a quarter of the ring is full, and at most so long.
    pub fn wait(&self, longest: Duration) {
        self.ring.wait(longest);
    }

    /// Replaces `accesses` by those that have come, in the order of their CPUs' turns; at most [`Accesses::BATCH`] at once.
    ///
    /// # Errors
    /// [`Error::Map`] if the ring cannot be read.
    pub fn read(&self, accesses: &mut Vec<Access>) -> Result<(), Error> {
        self.ring.read(accesses)
    }

    /// Accesses that one call of [`Accesses::read`] returns at most.
    pub const BATCH: usize = BATCH;

    /// Samples blocks of `2^shift` pages whose hash, of 32 bits, is below the threshold from now on: 2^32 is all of them,
    /// and the default. `cachewise_curve::Rate` has the hash. Set the shift before the first lower threshold.
    ///
    /// # Errors
    /// [`Error::Map`] if the kernel does not take it.
    pub fn set_sample(&self, threshold: u64, shift: u32) -> Result<(), Error> {
        for (number, value) in [(SHIFT, shift.into()), (THRESHOLD, threshold)] {
            self.sample
                .update(&number.to_ne_bytes(), &value.to_ne_bytes(), MapFlags::ANY)
                .map_err(map_error)?;
        }
        Ok(())
    }

    /// The pages of all [`AccessKind::Read`] so far, whether they were sampled and arrived or not.
    ///
    /// # Errors
    /// [`Error::Map`] if the kernel does not give it out.
    pub fn requested(&self) -> Result<Pages, Error> {
        self.number(REQUESTED).map(Pages)
    }

    /// The number of accesses so far that found the ring full.
    ///
    /// # Errors
    /// [`Error::Map`] if the kernel does not give it out.
    pub fn lost(&self) -> Result<u64, Error> {
        self.number(LOST)
    }

    fn number(&self, number: u32) -> Result<u64, Error> {
        let value = self.sample.lookup(&number.to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(map_error)?.unwrap_or_default();
        Ok(Raw::new(&value, "numbers of the sample", size_of::<u64>())?.u64(0))
    }
}

/// One record; `None`: it is not as this crate was built to read it, which the size of the ring's records rules out.
fn parse(bytes: &[u8]) -> Option<Access> {
    let raw = Raw::new(bytes, "access", size_of::<types::access>()).ok()?;
    // The last three fields are one word.
    let [low, high, kind, flags] = raw.u32(offset_of!(types::access, window)).to_ne_bytes();
    let kind = match kind {
        0 => AccessKind::Read,
        1 => AccessKind::Write,
        2 => AccessKind::ReadAhead,
        3 => AccessKind::Remove,
        4 => AccessKind::Fault,
        5 => AccessKind::Resident,
        6 => AccessKind::Around,
        _ => return None,
    };
    let reader = AccessReader {
        id: raw.u32(offset_of!(types::access, reader)),
        file_pages: raw.u32(offset_of!(types::access, file_pages)).into(),
        window: u16::from_ne_bytes([low, high]).into(),
        largest_folio: (flags & 31).into(),
        follows: flags & 32 != 0,
        continues: flags & 64 != 0,
    };
    Some(Access {
        file: raw.u64(offset_of!(types::access, file)),
        first: raw.u64(offset_of!(types::access, first)),
        pages: raw.u32(offset_of!(types::access, pages)).into(),
        kind,
        reader: matches!(kind, AccessKind::Read | AccessKind::Fault).then_some(reader),
    })
}

fn map_error(source: libbpf_rs::Error) -> Error {
    Error::Map {
        operation: OPERATION,
        source: source.into(),
    }
}

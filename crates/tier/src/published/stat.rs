//! [`Stat`]: the numbers of an object, the same at its origin, in a version and in a mount.

use super::wire::{Reader, put, put_signed};

/// The numbers of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Permission bits.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// Time of the last write: seconds since 1970 and nanoseconds.
    pub modified: (i64, u32),
    /// Length in bytes.
    pub size: u64,
    /// Number of names.
    pub links: u32,
    /// Room at the origin, in units of 512 bytes.
    pub blocks: u64,
}

impl Stat {
    /// Appends it.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        put(out, self.mode.into());
        put(out, self.owner.0.into());
        put(out, self.owner.1.into());
        put_signed(out, self.modified.0);
        put(out, self.modified.1.into());
        put(out, self.size);
        put(out, self.links.into());
        put(out, self.blocks);
    }

    /// Takes what [`Self::put`] has written. `None` where it is cut.
    pub(super) fn take(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            mode: from.small()? & 0o7777,
            owner: (from.small()?, from.small()?),
            modified: (from.signed()?, from.small()?),
            size: from.number()?,
            links: from.small()?,
            blocks: from.number()?,
        })
    }
}

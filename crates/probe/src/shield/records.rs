//! Records of the shield's tables.

use std::mem::{offset_of, size_of};
use std::time::Duration;

use cachewise_units::Pages;

use super::decision::{Block, PageSet};
use super::skeleton::types;
use crate::error::Error;
use crate::record::Raw;

/// The state of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    /// The block.
    pub block: Block,
    /// Resident pages that the program inserted.
    pub ours: u64,
    /// All pages that were inserted until pages of it were dropped last.
    pub dropped_at: u64,
}

/// A block with resident pages of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// The block.
    pub block: Block,
    /// Resident pages that the program inserted, at least one.
    pub ours: u64,
    /// Pages of `ours` that the program has passed.
    pub passed: u64,
    /// When the program used it last, on the monotonic clock; `None`: not so far.
    pub touched: Option<Duration>,
}

/// A file that a shielded program inserts pages into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShieldedFile {
    /// Inode number.
    pub inode: u64,
    /// Generation of the inode.
    pub generation: u32,
    /// Major and minor number of its file system's device.
    pub device: (u32, u32),
    /// statfs(2) magic number of its file system.
    pub magic: u64,
    /// The process that inserted its first page; `None`: it has no id here.
    pub pid: Option<u32>,
    /// The program came back to it: its pages are not dropped any more.
    pub is_stopped: bool,
    /// Inserted pages.
    pub inserted: Pages,
    /// Dropped pages.
    pub dropped: Pages,
    /// Dropped pages that the program used again.
    pub returned: Pages,
}

/// Sums over all files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Pages that the programs inserted into regular files.
    pub inserted: Pages,
    /// Pages of `inserted` that can be dropped if the rule allows it.
    pub noted: Pages,
    /// Pages that this process dropped.
    pub dropped: Pages,
    /// Pages that were reclaimed, or cut off, before they could be dropped.
    pub left: Pages,
    /// Dropped pages that the programs used again.
    pub returned: Pages,
    /// Pages of `returned` that would still have been resident without the shield.
    pub returned_near: Pages,
    /// Dropped pages that other processes inserted again.
    pub needed: Pages,
    /// Pages of other files that the kernel reclaimed to make room for the programs; not counted with
    /// [`streams_from`](super::Options::streams_from).
    pub evicted: Pages,
    /// Pages that were not noted because a table was full; they are not dropped.
    pub untracked: Pages,
    /// Pages of files on FUSE, which are not opened and so not dropped.
    pub never_open: Pages,
}

impl Totals {
    /// Inserted pages of files that no process has read in order long enough, with
    /// [`streams_from`](super::Options::streams_from).
    #[must_use]
    pub fn no_stream(&self) -> Pages {
        let others = self.noted.0 + self.never_open.0 + self.untracked.0;
        Pages(self.inserted.0.saturating_sub(others))
    }

    /// Noted pages that are resident.
    #[must_use]
    pub fn resident(&self) -> Pages {
        Pages(self.noted.0.saturating_sub(self.dropped.0 + self.left.0))
    }
}

pub(super) fn parse_block(bytes: &[u8]) -> Option<Block> {
    let raw = Raw::new(bytes, "key of a block", size_of::<types::shield_key>()).ok()?;
    Some(Block {
        mapping: raw.u64(offset_of!(types::shield_key, mapping)),
        number: raw.u64(offset_of!(types::shield_key, block)),
    })
}

pub(super) fn resident(record: &types::shield_looked) -> Resident {
    Resident {
        block: Block {
            mapping: record.mapping,
            number: record.block,
        },
        ours: record.ours.into(),
        passed: record.passed.into(),
        touched: (record.touched > 0).then(|| Duration::from_nanos(record.touched)),
    }
}

pub(super) fn parse_file(bytes: &[u8]) -> Result<ShieldedFile, Error> {
    let raw = Raw::new(bytes, "file of the shield", size_of::<types::shield_file>())?;
    let pages = |offset| Pages(raw.u64(offset));
    // As the kernel keeps it: twenty bits of it are the minor number.
    let device = raw.u32(offset_of!(types::shield_file, device));
    let pid = raw.u32(offset_of!(types::shield_file, pid));
    Ok(ShieldedFile {
        inode: raw.u64(offset_of!(types::shield_file, inode)),
        generation: raw.u32(offset_of!(types::shield_file, generation)),
        device: (device >> 20, device & 0xf_ffff),
        magic: raw.u64(offset_of!(types::shield_file, magic)),
        pid: (pid != 0).then_some(pid),
        is_stopped: raw.u32(offset_of!(types::shield_file, stopped)) != 0,
        inserted: pages(offset_of!(types::shield_file, inserted)),
        dropped: pages(offset_of!(types::shield_file, dropped)),
        returned: pages(offset_of!(types::shield_file, returned)),
    })
}

pub(super) fn parse_noted(block: Block, value: &[u8]) -> Result<Noted, Error> {
    let raw = Raw::new(
        value,
        "block of the shield",
        size_of::<types::shield_block>(),
    )?;
    let set = |offset: usize| PageSet(std::array::from_fn(|word| raw.u64(offset + 8 * word)));
    let ours = set(offset_of!(types::shield_block, ours));
    Ok(Noted {
        block,
        ours: ours.count(),
        dropped_at: raw.u64(offset_of!(types::shield_block, dropped_at)),
    })
}

//! [`LocalTier`]: this machine's memory and disk.

mod blocks;
mod directory_error;
mod drops;
mod format;
mod foyer;
mod lock;
mod room;
mod segments;
mod threads;
mod waiting;

use std::fmt;

use futures_util::future::BoxFuture;

pub(crate) use foyer::{CORRUPT, Foyer};

use crate::block::Block;
use crate::{BlockKey, Error};

/// This machine's memory and disk. Kept small, as what is behind it changes often.
pub(crate) trait LocalTier: Send + Sync + fmt::Debug {
    /// Looks into memory alone, without waiting. The error is for one that is not what it should be, as what the disk had
    /// may be when it gets there; it is taken out.
    fn memory(&self, key: &BlockKey) -> Result<Option<Block>, String>;

    /// Says whether there is a disk.
    fn has_disk(&self) -> bool;

    /// Looks on the disk, within the disk's deadline.
    fn disk<'a>(&'a self, key: &'a BlockKey) -> BoxFuture<'a, Result<Option<Block>, String>>;

    /// Keeps a block, in memory at once, on the disk soon. Never waits: what is too much for the
    /// disk is counted in [`Self::dropped`].
    fn keep(&self, key: BlockKey, block: Block);

    /// Forgets a block, in memory and on the disk. Returns whether memory or the disk may have had it.
    fn remove(&self, key: &BlockKey) -> bool;

    /// Returns how many blocks were not written to the disk.
    fn dropped(&self) -> u64;

    /// Returns what is set up in a way that will hurt.
    fn warnings(&self) -> &[String];

    /// Waits until what is on its way to the disk is there, or counted as dropped; two minutes at most.
    fn written(&self) -> BoxFuture<'_, Result<(), Error>>;
}

//! [`BlockCache::warm`]: whole files, to where the cache keeps blocks.

use cachewise_units::ByteRange;

use crate::{BlockCache, Error, File, Totals};

/// How many bytes are read before what was read is waited for at the engine and the disk: more under way than the cache
/// allows would be dropped.
const STEP: u64 = 8 << 20;

/// Where the bytes are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmFrom {
    /// Any tier that has them, nearest first.
    Nearest,
    /// The origin, even if a tier has them already, so that the engine gets them.
    Origin,
}

/// The outcome for one file.
#[derive(Debug)]
pub struct Warmed {
    /// The file, in the state that was read.
    pub file: File,
    /// How many blocks it has.
    pub blocks: u64,
    /// How many of them could not be had.
    pub failed_blocks: u64,
    /// Why the first of these could not. Blocks that were had and did not arrive are in [`Totals::lost_since`].
    pub why: Option<Error>,
}

impl Warmed {
    /// Says whether it was given up as the disk does not take what waits: it would be waited for as long with each file.
    #[must_use]
    pub fn is_disk_stuck(&self) -> bool {
        // Reads do not return this error: blocks missing on the disk are read elsewhere.
        matches!(self.why, Some(Error::Directory { .. }))
    }
}

impl BlockCache {
    /// Reads a file into the cache, and waits until its blocks are in the engine and on the disk,
    /// or counted as dropped. Does not read files that cannot be cached yet: see
    /// [`File::is_settled`].
    ///
    /// Ends early if the disk does not accept queued blocks.
    pub async fn warm(&self, file: File, from: WarmFrom) -> Warmed {
        let block = self.settings().block.0;
        let (file, unsettled) = match self.settled(file.clone()).await {
            Ok(file) => (file, None),
            Err(why) => (file, Some(why)),
        };
        let size = file.meta().size;
        let mut warmed = Warmed {
            blocks: size.div_ceil(block),
            failed_blocks: 0,
            why: unsettled.or_else(|| (!file.is_settled()).then(|| never_kept(&file))),
            file,
        };
        if warmed.why.is_some() {
            warmed.failed_blocks = warmed.blocks;
            return warmed;
        }
        let step = STEP.max(block);
        let mut start = 0;
        while start < size {
            let range = ByteRange {
                start,
                len: step.min(size - start),
            };
            let read = match from {
                WarmFrom::Nearest => self.get(&warmed.file, range).await.map(drop),
                WarmFrom::Origin => self.refill(&warmed.file, range).await,
            };
            if let Err(why) = read {
                warmed.failed_blocks += range.len.div_ceil(block);
                warmed.why.get_or_insert(why);
            }
            start = start.saturating_add(step);
            if let Err(why) = self.filled().await {
                // It would be waited for as long after each step.
                warmed.failed_blocks += size.saturating_sub(start).div_ceil(block);
                warmed.why = Some(why);
                break;
            }
        }
        warmed
    }
}

fn never_kept(file: &File) -> Error {
    Error::Changed {
        path: file.path().to_owned(),
        what: "its last change is of this moment, or of one that lies ahead, so that nothing of it can be kept",
    }
}

impl Totals {
    /// Says how many blocks did not get to where they are kept since an earlier look, a sentence for each place.
    #[must_use]
    pub fn lost_since(&self, earlier: &Self) -> Vec<String> {
        let engine = self.dropped_fills.saturating_sub(earlier.dropped_fills);
        let writes = self.dropped_disk_writes;
        let disk = writes.saturating_sub(earlier.dropped_disk_writes);
        [
            (engine, "the engine: it refused them, or was too slow"),
            (disk, "the disk: it has no room left, or was too slow"),
        ]
        .into_iter()
        .filter(|(blocks, _)| *blocks > 0)
        .map(|(blocks, whom)| format!("{blocks} blocks did not reach {whom}"))
        .collect()
    }
}

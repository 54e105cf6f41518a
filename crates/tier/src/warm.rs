//! [`BlockCache::warm`]: whole files, to where the cache keeps blocks.

use cachewise_units::{ByteRange, counted};
use futures_util::stream::{self, StreamExt};

use crate::cache::STEP;
use crate::{BlockCache, Error, File, Totals};

/// How many ranges are read at once.
const RANGES_AT_ONCE: usize = 16;

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
    /// Why the first of these could not. Blocks that were had and did not arrive are in [`BlockCache::lost_since`].
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
        self.warm_ranges(file, &[ByteRange::starting_at(0)], from)
            .await
    }

    /// Reads the blocks of some ranges of a file into the cache, several at once; otherwise as [`warm`](Self::warm).
    pub async fn warm_ranges(&self, file: File, ranges: &[ByteRange], from: WarmFrom) -> Warmed {
        let block = self.settings().block.0;
        let (file, unsettled) = match self.settled(file.clone()).await {
            Ok(file) => (file, None),
            Err(why) => (file, Some(why)),
        };
        let batches = batches(ranges, file.meta().size, block);
        let mut left = blocks_of(batches.iter().flatten(), block);
        let mut warmed = Warmed {
            blocks: left,
            failed_blocks: 0,
            why: unsettled.or_else(|| (!file.is_settled()).then(|| never_kept(&file))),
            file,
        };
        if warmed.why.is_some() {
            warmed.failed_blocks = warmed.blocks;
            return warmed;
        }
        for batch in batches {
            let _step = self.step().await;
            let read = |range: &ByteRange| {
                let (range, file) = (*range, &warmed.file);
                async move {
                    let read = match from {
                        WarmFrom::Nearest => self.get(file, range).await.map(drop),
                        WarmFrom::Origin => self.refill(file, range).await,
                    };
                    (range, read)
                }
            };
            let reads: Vec<_> = batch.iter().map(read).collect();
            let read: Vec<_> = stream::iter(reads)
                .buffer_unordered(RANGES_AT_ONCE)
                .collect()
                .await;
            for (range, read) in read {
                left -= range.len.div_ceil(block);
                if let Err(why) = read {
                    warmed.failed_blocks += range.len.div_ceil(block);
                    warmed.why.get_or_insert(why);
                }
            }
            if let Err(why) = self.filled().await {
                // It would be waited for as long after each step.
                warmed.failed_blocks += left;
                warmed.why = Some(why);
                break;
            }
        }
        warmed
    }
}

/// The ranges as whole blocks, up to the end of the file, each block once; in batches of [`STEP`] bytes.
fn batches(ranges: &[ByteRange], size: u64, block: u64) -> Vec<Vec<ByteRange>> {
    let mut spans: Vec<(u64, u64)> = ranges
        .iter()
        .map(|range| (range.start / block, range.end().min(size).div_ceil(block)))
        .filter(|(first, end)| first < end)
        .collect();
    spans.sort_unstable();
    spans.dedup_by(|next, last| {
        let touches = next.0 <= last.1;
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
    let step = (STEP / block).max(1);
    let mut batches: Vec<Vec<ByteRange>> = Vec::new();
    let mut room = 0;
    for (mut first, end) in spans {
        while first < end {
            if room == 0 {
                batches.push(Vec::new());
                room = step;
            }
            let blocks = room.min(end - first);
            let start = first * block;
            if let Some(batch) = batches.last_mut() {
                let len = (blocks * block).min(size - start);
                batch.push(ByteRange { start, len });
            }
            first += blocks;
            room -= blocks;
        }
    }
    batches
}

/// How many blocks ranges of whole blocks have.
fn blocks_of<'r>(ranges: impl Iterator<Item = &'r ByteRange>, block: u64) -> u64 {
    ranges.map(|range| range.len.div_ceil(block)).sum()
}

fn never_kept(file: &File) -> Error {
    Error::Changed {
        path: file.path().to_owned(),
        what: "its last change is of this moment, or of one that lies ahead, so that nothing of it can be kept",
    }
}

impl BlockCache {
    /// Returns how many blocks did not reach the engine or the disk since an earlier look, a sentence for each, with the
    /// server, the reason and the fix.
    #[must_use]
    pub fn lost_since(&self, earlier: &Totals) -> Vec<String> {
        let totals = self.table().totals;
        let engine = totals.dropped_fills.saturating_sub(earlier.dropped_fills);
        let writes = totals.dropped_disk_writes;
        let disk = writes.saturating_sub(earlier.dropped_disk_writes);
        let whom = match self.refusal() {
            Some(why) => format!("the engine ({why}): check the server, then repeat the command"),
            None => "the engine: too many were on their way; repeat the command".to_owned(),
        };
        [
            (engine, whom.as_str()),
            (disk, "the disk: it has no room left, or was too slow"),
        ]
        .into_iter()
        .filter(|(blocks, _)| *blocks > 0)
        .map(|(blocks, whom)| format!("{} did not reach {whom}", counted(blocks, "block")))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange {
            start,
            len: end - start,
        }
    }

    #[test]
    fn ranges_become_whole_blocks_and_each_block_once() {
        let block = 1 << 20;
        let wanted = [
            range(5 * block + 1, 5 * block + 2),
            range(0, 10),
            range(20, block + 1),
            range(7 * block, 100 * block),
        ];
        let size = 9 * block + 5;
        let found = batches(&wanted, size, block);
        assert_eq!(
            found,
            [vec![
                range(0, 2 * block),
                range(5 * block, 6 * block),
                range(7 * block, size)
            ]]
        );
        assert_eq!(blocks_of(found.iter().flatten(), block), 6);
        assert!(batches(&[range(size, size + block)], size, 1).is_empty());
    }

    #[test]
    fn a_large_range_is_read_step_by_step() {
        let found = batches(&[ByteRange::starting_at(0)], 3 * STEP + 1, 1 << 17);
        let bytes: Vec<u64> = found.iter().flatten().map(|range| range.len).collect();
        assert_eq!(bytes, [STEP, STEP, STEP, 1]);
        assert_eq!(found.len(), 4, "each waits for what was read before");
    }
}

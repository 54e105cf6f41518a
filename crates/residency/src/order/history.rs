//! [`History`]: what earlier scans of the same files have taught.

use std::collections::{HashMap, HashSet};

use cachewise_units::Bytes;

use super::{FileId, Plan, Snapshot, Why};

/// What earlier scans of the same files have taught: which chunk was read when, how much more the cache
/// may be asked to hold, and whether plans can be trusted.
///
/// Plain data without a clock. Each scan calls [`begin`](Self::begin), [`read`](Self::read) for each chunk, and
/// [`end`](Self::end); a [`Scanner`](super::Scanner) does that by itself.
///
/// # Cost
/// 8 bytes of memory a chunk.
#[derive(Clone, Debug, Default)]
pub struct History {
    chunk: Bytes,
    /// For each chunk, what the clock was when it was read; 0: never.
    read: HashMap<FileId, Vec<u64>>,
    /// How many chunks have been read.
    clock: u64,
    /// The most that ever was resident.
    peak: Bytes,
    grant: Grant,
    trust: Trust,
}

impl History {
    /// Takes notice of what is resident at the beginning of a scan.
    pub fn begin(&mut self, snapshot: &Snapshot) {
        if self.chunk != snapshot.chunk {
            self.chunk = snapshot.chunk;
            self.read.clear();
        }
        let files: HashSet<_> = snapshot.files.iter().map(|file| file.id).collect();
        self.read.retain(|file, _| files.contains(file));
        let resident = snapshot.resident();
        self.peak = self.peak.max(resident);
        self.grant.adjust(resident, snapshot.chunk);
    }

    /// Notes that the chunk at this offset has been read just now.
    pub fn read(&mut self, file: FileId, offset: u64) {
        self.clock += 1;
        let index = (offset / self.chunk.0.max(1)) as usize;
        let stamps = self.read.entry(file).or_default();
        if stamps.len() <= index {
            stamps.resize(index + 1, 0);
        }
        stamps[index] = self.clock;
    }

    /// Compares a plan that has been carried out with what came of it: `hits` is how much of
    /// [`planned_hits`](super::Prediction::planned_hits) came from the cache.
    pub fn end(&mut self, plan: &Plan, hits: Bytes) {
        let prediction = &plan.prediction;
        self.grant.last = Some((prediction.resident, prediction.admitted));
        self.trust
            .judge(plan.declined, prediction.planned_hits, hits);
    }

    /// When a chunk was read: the higher, the later; 0 is never.
    pub(super) fn last_read(&self, file: FileId, offset: u64) -> u64 {
        let index = (offset / self.chunk.0.max(1)) as usize;
        let stamps = self.read.get(&file);
        stamps
            .and_then(|stamps| stamps.get(index))
            .copied()
            .unwrap_or(0)
    }

    /// The most that ever was resident: what the cache holds, as far as has been seen.
    pub(super) fn peak(&self) -> Bytes {
        self.peak
    }

    /// How much the next scan may leave in the cache beyond what is there.
    pub(super) fn grant(&self, chunk: Bytes) -> Bytes {
        self.grant.bytes.unwrap_or(Bytes(FIRST_CHUNKS * chunk.0))
    }

    /// Whether plans have been worse than promised, so that none is made for a while.
    pub(super) fn is_resting(&self) -> bool {
        self.trust.rest > 0
    }
}

/// How many chunks are admitted at first: few, because they may cost as many that were there.
const FIRST_CHUNKS: u64 = 4;

/// How much of what it misses a scan with drop-behind leaves in the cache. Without any it could never grow; with
/// too much it throws out what it has.
#[derive(Clone, Debug, Default)]
struct Grant {
    /// `None`: the first one.
    bytes: Option<Bytes>,
    /// What was resident when the last scan began, and what it admitted.
    last: Option<(Bytes, Bytes)>,
}

impl Grant {
    fn adjust(&mut self, resident: Bytes, chunk: Bytes) {
        let Some((before, admitted)) = self.last.take() else {
            return;
        };
        if admitted.is_zero() {
            return;
        }
        let grown = resident.saturating_sub(before);
        let bytes = self.bytes.unwrap_or(Bytes(FIRST_CHUNKS * chunk.0));
        self.bytes = Some(if is_nearly(grown, admitted) {
            Bytes(bytes.0.saturating_mul(2))
        } else {
            // Never less than one chunk, or a cache that grew later would not be noticed.
            Bytes((bytes.0 / 4).max(chunk.0))
        });
    }
}

/// At least nine tenths.
fn is_nearly(part: Bytes, whole: Bytes) -> bool {
    u128::from(part.0) * 10 >= u128::from(whole.0) * 9
}

/// Whether plans keep their promise.
#[derive(Clone, Debug)]
struct Trust {
    /// Plans in a row that did not.
    broken: u32,
    /// For how many scans no plan is made.
    rest: u32,
    /// For how many the next time.
    next_rest: u32,
}

const MOST_BROKEN: u32 = 2;
const FIRST_REST: u32 = 4;
const LONGEST_REST: u32 = 64;

impl Default for Trust {
    fn default() -> Self {
        Self {
            broken: 0,
            rest: 0,
            next_rest: FIRST_REST,
        }
    }
}

impl Trust {
    fn judge(&mut self, declined: Option<Why>, planned: Bytes, hits: Bytes) {
        match declined {
            // What disturbs may go away, so plans are tried again; each time they fail it takes longer.
            Some(Why::WorseThanPlanned) => self.rest = self.rest.saturating_sub(1),
            Some(_) => {}
            None if is_nearly(hits, planned) => *self = Self::default(),
            None => {
                self.broken += 1;
                if self.broken >= MOST_BROKEN {
                    self.rest = self.next_rest;
                    self.next_rest = (self.next_rest * 2).min(LONGEST_REST);
                    // After the rest one more is enough.
                    self.broken = MOST_BROKEN - 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: Bytes = Bytes(1 << 20);

    fn adjusted(steps: &[(u64, u64)]) -> u64 {
        let mut grant = Grant::default();
        let mut resident = 100;
        for (admitted, grown) in steps {
            grant.last = Some((Bytes(resident << 20), Bytes(admitted << 20)));
            resident += grown;
            grant.adjust(Bytes(resident << 20), CHUNK);
        }
        grant.bytes.unwrap_or_default().0 >> 20
    }

    #[test]
    fn what_fits_is_doubled_and_what_does_not_is_quartered() {
        assert_eq!(adjusted(&[(4, 4)]), 8, "all of it stayed");
        assert_eq!(adjusted(&[(4, 4), (8, 8)]), 16, "and again");
        assert_eq!(adjusted(&[(4, 4), (8, 8), (16, 14)]), 4, "not this time");
        assert_eq!(adjusted(&[(4, 0), (1, 0), (1, 0)]), 1, "but never nothing");
        assert_eq!(
            adjusted(&[(0, 0)]),
            0,
            "nothing was admitted, nothing is learnt"
        );
    }

    #[test]
    fn two_broken_promises_are_one_too_many() {
        let mut trust = Trust::default();
        let mut plan = |hits| {
            let declined = (trust.rest > 0).then_some(Why::WorseThanPlanned);
            trust.judge(declined, Bytes(100), Bytes(hits));
            trust.rest
        };
        assert_eq!(plan(89), 0, "one can happen");
        assert_eq!(plan(90), 0, "and is forgiven");
        assert_eq!(plan(0), 0, "one again");
        assert_eq!(plan(0), 4, "two in a row");
        let rest: Vec<_> = (0..4).map(|_| plan(0)).collect();
        assert_eq!(rest, [3, 2, 1, 0], "the caller's order for a while");
        assert_eq!(plan(0), 8, "still no good: twice as long");
    }
}

//! [`History`]: what earlier scans of the same files have taught.

use std::collections::{BTreeMap, HashMap, HashSet};

use cachewise_units::Bytes;

use super::{DeclineReason, FileId, Plan, Snapshot};

/// Results of earlier scans of the same files: the time each chunk was read, how much more the
/// cache may be asked to hold, and whether plans are reliable.
///
/// Plain data without a clock. Each scan calls [`begin`](Self::begin), [`read`](Self::read) for each chunk, and
/// [`end`](Self::end); a [`Scanner`](super::Scanner) does that by itself.
///
/// # Cost
/// Some 50 bytes of memory for each run of chunks that were read one after the other.
#[derive(Clone, Debug, Default)]
pub struct History {
    chunk: Bytes,
    read: HashMap<FileId, Stamps>,
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
        let index = offset / self.chunk.0.max(1);
        self.read.entry(file).or_default().set(index, self.clock);
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
        let index = offset / self.chunk.0.max(1);
        self.read.get(&file).map_or(0, |stamps| stamps.get(index))
    }

    /// When any chunk of a file was read last, as [`last_read`](Self::last_read) has it.
    pub(super) fn latest(&self, file: FileId) -> u64 {
        self.read.get(&file).map_or(0, |stamps| stamps.latest)
    }

    /// The most that ever was resident: what the cache holds, as far as has been seen.
    pub(super) fn peak(&self) -> Bytes {
        self.peak
    }

    /// Bytes that the next scan may leave in the cache beyond the resident ones.
    pub(super) fn grant(&self, chunk: Bytes) -> Bytes {
        self.grant.bytes.unwrap_or(Bytes(FIRST_CHUNKS * chunk.0))
    }

    /// Whether plans have been worse than promised, so that none is made for a while.
    pub(super) fn is_resting(&self) -> bool {
        self.trust.rest > 0
    }
}

/// The clock's value when each chunk of a file was read. Chunks that were read in turn are one run.
#[derive(Clone, Debug, Default)]
struct Stamps {
    /// By the first chunk of each run: how many there are, and the stamp of the first, which grows by one a chunk.
    runs: BTreeMap<u64, (u64, u64)>,
    latest: u64,
}

impl Stamps {
    /// 0 where the chunk was never read.
    fn get(&self, index: u64) -> u64 {
        let run = self.runs.range(..=index).next_back();
        match run {
            Some((&start, &(len, stamp))) if index - start < len => stamp + (index - start),
            _ => 0,
        }
    }

    fn set(&mut self, index: u64, stamp: u64) {
        self.latest = self.latest.max(stamp);
        self.remove(index);
        if let Some((&start, run)) = self.runs.range_mut(..index).next_back()
            && start + run.0 == index
            && run.1 + run.0 == stamp
        {
            run.0 += 1;
            return;
        }
        self.runs.insert(index, (1, stamp));
    }

    fn remove(&mut self, index: u64) {
        let run = self.runs.range(..=index).next_back();
        let Some((&start, &(len, stamp))) = run else {
            return;
        };
        let before = index - start;
        if before >= len {
            return;
        }
        self.runs.remove(&start);
        if before > 0 {
            self.runs.insert(start, (before, stamp));
        }
        if before + 1 < len {
            let after = (len - before - 1, stamp + before + 1);
            self.runs.insert(index + 1, after);
        }
    }
}

/// How many chunks are admitted at first: few, because they may cost as many that were there.
const FIRST_CHUNKS: u64 = 4;

/// The part of its misses that a scan with drop-behind leaves in the cache. Without any, the cache
/// could never grow; with too much, it evicts its hits.
#[derive(Clone, Debug, Default)]
struct Grant {
    /// `None`: the first one.
    bytes: Option<Bytes>,
    /// Resident bytes when the last scan began, and the bytes that it admitted.
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
    fn judge(&mut self, declined: Option<DeclineReason>, planned: Bytes, hits: Bytes) {
        match declined {
            // The disturbance may end, so plans are tried again; each failure lengthens the pause.
            Some(DeclineReason::WorseThanPlanned) => self.rest = self.rest.saturating_sub(1),
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
    fn admission_doubles_if_pages_stayed_and_quarters_if_not() {
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
    fn runs_of_chunks_take_the_memory_of_one() {
        let mut stamps = Stamps::default();
        let mut plain = HashMap::new();
        let far = 7 << 40;
        let order = (far..far + 1000).chain([5, 4, 3, 5, far + 10, far + 11, 4, far + 999, 6]);
        for (stamp, index) in (1..).zip(order) {
            stamps.set(index, stamp);
            plain.insert(index, stamp);
            if stamp == 1000 {
                assert_eq!(stamps.runs.len(), 1, "all in turn");
            }
        }
        for index in (0..10).chain(far..far + 1001) {
            let expected = plain.get(&index).copied().unwrap_or(0);
            assert_eq!(stamps.get(index), expected, "chunk {index}");
        }
        assert_eq!(stamps.latest, 1009, "the last one");
    }

    #[test]
    fn two_broken_promises_are_one_too_many() {
        let mut trust = Trust::default();
        let mut plan = |hits| {
            let declined = (trust.rest > 0).then_some(DeclineReason::WorseThanPlanned);
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

//! [`plan`]: from a snapshot and the history to a [`Plan`].

use std::cmp::Reverse;

use cachewise_units::{ByteRange, Bytes};

use super::history::History;
use super::plan::{
    After, DeclineReason, Keep, Mode, Plan, PlanOptions, PlanStep, Prediction, RangeClass, divided,
};
use super::shuffle::Shuffle;
use super::snapshot::{FileState, Snapshot, between};

impl Snapshot {
    /// Returns the indexes of the files in the order with most hits if only whole files can be
    /// read: by resident part, the largest first, and among equal ones the file that was read last.
    /// Files that no earlier scan has read count as read from the end with fewer resident bytes to
    /// the other end. Files of unknown residency come, in the caller's order, before those without
    /// resident pages. Each file once.
    #[must_use]
    pub fn hottest_first(&self, history: &History) -> Vec<usize> {
        /// The later, the sooner.
        #[derive(PartialEq, Eq, PartialOrd, Ord)]
        enum Rank {
            Cold,
            Unknown,
            Warm,
        }
        let newest = self.newest();
        let place = |index: usize| {
            let file = &self.files[index];
            let Some(resident) = file.resident_in(file.whole()) else {
                return (Rank::Unknown, 0, None, usize::MAX - index);
            };
            let rank = match resident {
                Bytes::ZERO => Rank::Cold,
                _ => Rank::Warm,
            };
            let part = u128::from(resident.0) * 1_000_000 / u128::from(file.size.0.max(1));
            let last_read = Some(history.latest(file.id));
            let index = match (rank == Rank::Warm, newest) {
                (true, Newest::First) => usize::MAX - index,
                _ => index,
            };
            (rank, part, last_read, index)
        };
        let mut files: Vec<_> = self.distinct().map(|(index, _)| index).collect();
        files.sort_by_cached_key(|&index| Reverse(place(index)));
        files
    }
}

/// The end of the caller's order that was read last, judged by residency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Newest {
    First,
    Last,
}

impl Snapshot {
    /// Returns the end with more resident bytes: the kernel evicts the pages that were read first. An order that
    /// starts there reverses the direction of each cycle, and the next snapshot shows the reversed direction.
    fn newest(&self) -> Newest {
        let mut before = Bytes::ZERO;
        let half = self.total().0 / 2;
        let mut resident = [Bytes::ZERO; 2];
        for (_, file) in self.distinct() {
            let middle = half.saturating_sub(before.0).min(file.size.0);
            let halves = [between(0, middle), between(middle, file.size.0)];
            for (sum, range) in resident.iter_mut().zip(halves) {
                *sum += file.resident_in(range).unwrap_or_default();
            }
            before += file.size;
        }
        match resident[0] > resident[1] {
            true => Newest::First,
            false => Newest::Last,
        }
    }
}

/// Plans the reading of files: what to read in which order, and what to drop behind.
///
/// The same snapshot, history and options give the same plan. Every byte of every file is in it once; of a file
/// with several names, under the first one (unless [`PlanOptions::each_link`]).
///
/// If there is nothing to gain, or if plans have failed before, it is the order of the caller, and [`Plan::declined`] has
/// the reason.
///
/// # Cost
/// A few hundred nanoseconds and 32 bytes of memory for each chunk with resident pages, and for
/// each range between them, of any length. With [`Mode::Shuffle`] the same for every chunk, up to a
/// million; files with more are shuffled in larger pieces.
#[must_use]
pub fn plan(snapshot: &Snapshot, history: &History, options: &PlanOptions) -> Plan {
    let mut chunks = chunks(snapshot, history, options);
    let mut prediction = predict(&chunks, history);
    let declined = decline(&prediction, history, options);
    if declined.is_some() {
        if let Mode::Shuffle(seed) = options.mode {
            divide(&mut chunks, snapshot.chunk);
            Shuffle::new(seed).shuffle(&mut chunks);
        }
    } else {
        if let Mode::Shuffle(_) = options.mode {
            divide(&mut chunks, snapshot.chunk);
        }
        sort(&mut chunks, options.mode, snapshot.newest());
    }
    let mut allowance = match options.keep {
        Keep::Share => Bytes(u64::MAX),
        Keep::AsFound => Bytes::ZERO,
        Keep::Keep if declined.is_some() => Bytes(u64::MAX),
        Keep::Keep => history
            .grant(snapshot.chunk)
            .min(snapshot.headroom.unwrap_or(Bytes(u64::MAX))),
    };
    let mut pieces: Vec<PlanStep> = Vec::with_capacity(chunks.len() + 1);
    for chunk in &chunks {
        let mut add = |range: ByteRange, after| {
            pieces.push(PlanStep {
                file: chunk.file,
                range,
                class: chunk.class,
                after,
            });
        };
        let absent = Bytes(chunk.range.len).saturating_sub(chunk.resident);
        let may_drop = !matches!(chunk.class, RangeClass::Hit | RangeClass::Unknown)
            && !snapshot.files[chunk.file].open_elsewhere;
        match allowance.checked_sub(absent) {
            _ if !may_drop => add(chunk.range, After::Keep),
            Some(rest) => {
                allowance = rest;
                prediction.admitted += absent;
                add(chunk.range, After::Keep);
            }
            None => {
                // A piece over many chunks keeps the chunks that fit.
                let fits = match chunk.class {
                    RangeClass::Miss => allowance.0 / snapshot.chunk.0.max(1) * snapshot.chunk.0,
                    _ => 0,
                };
                let start = chunk.range.start;
                if fits > 0 {
                    prediction.admitted += Bytes(fits);
                    add(between(start, start + fits), After::Keep);
                }
                // Once one does not fit, none does: what is admitted is in one piece.
                allowance = Bytes::ZERO;
                add(between(start + fits, chunk.range.end()), After::Drop);
            }
        }
    }
    Plan {
        pieces,
        chunk: snapshot.chunk,
        prediction,
        declined,
    }
}

/// A chunk, or several without anything resident, and what its place in the order depends on.
#[derive(Clone, Copy)]
struct Chunk {
    file: usize,
    range: ByteRange,
    class: RangeClass,
    resident: Bytes,
    last_read: u64,
}

/// The most pieces that are shuffled: some 100 MB of memory.
const MOST_SHUFFLED: u64 = 1 << 20;

/// Divides pieces that are several chunks long into chunks, or into larger ones of equal length where these are too many.
fn divide(chunks: &mut Vec<Chunk>, chunk: Bytes) {
    let chunk = chunk.0.max(1);
    let count: u64 = chunks
        .iter()
        .map(|piece| piece.range.len.div_ceil(chunk).max(1))
        .sum();
    let unit = chunk.saturating_mul(count.div_ceil(MOST_SHUFFLED).max(1));
    let pieces = std::mem::take(chunks);
    for piece in pieces {
        chunks.extend(divided(piece.range, unit).map(|range| Chunk { range, ..piece }));
    }
}

/// All chunks of which anything is resident, and the ranges between them, in the caller's order.
fn chunks(snapshot: &Snapshot, history: &History, options: &PlanOptions) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut add = |index, file: &FileState| {
        file.pieces(snapshot.chunk, |range| {
            let resident = file.resident_in(range);
            let class = match resident {
                None => RangeClass::Unknown,
                Some(_) if range.is_empty() => RangeClass::Unknown,
                Some(Bytes::ZERO) => RangeClass::Miss,
                Some(bytes) if bytes.0 == range.len => RangeClass::Hit,
                Some(_) => RangeClass::Partial,
            };
            chunks.push(Chunk {
                file: index,
                range,
                class,
                resident: resident.unwrap_or_default(),
                last_read: match class {
                    RangeClass::Hit | RangeClass::Partial => {
                        history.last_read(file.id, range.start)
                    }
                    RangeClass::Unknown | RangeClass::Miss => 0,
                },
            });
        });
    };
    if options.each_link {
        for (index, file) in snapshot.files.iter().enumerate() {
            add(index, file);
        }
    } else {
        for (index, file) in snapshot.distinct() {
            add(index, file);
        }
    }
    chunks
}

fn predict(chunks: &[Chunk], history: &History) -> Prediction {
    let total = chunks.iter().map(|chunk| Bytes(chunk.range.len)).sum();
    let resident: Bytes = chunks.iter().map(|chunk| chunk.resident).sum();
    let unknown: Bytes = (chunks.iter())
        .filter(|chunk| chunk.class == RangeClass::Unknown)
        .map(|chunk| Bytes(chunk.range.len))
        .sum();
    let hits = chunks.iter().filter(|chunk| chunk.class == RangeClass::Hit);
    Prediction {
        total,
        resident,
        unknown,
        planned_hits: hits.map(|chunk| chunk.resident).sum(),
        admitted: Bytes::ZERO,
        bound: total
            .saturating_sub(history.peak().max(resident))
            .min(total.saturating_sub(resident + unknown)),
    }
}

fn decline(
    prediction: &Prediction,
    history: &History,
    options: &PlanOptions,
) -> Option<DeclineReason> {
    match prediction.resident {
        // Of nothing, everything is resident.
        resident if resident == prediction.total => Some(DeclineReason::AllResident),
        Bytes::ZERO if prediction.unknown > Bytes::ZERO => Some(DeclineReason::ResidencyUnknown),
        Bytes::ZERO => Some(DeclineReason::NothingResident),
        _ if (options.mode, options.keep) == (Mode::Fixed, Keep::Share) => {
            Some(DeclineReason::NothingToDecide)
        }
        _ if history.is_resting() => Some(DeclineReason::WorseThanPlanned),
        _ => None,
    }
}

fn sort(chunks: &mut [Chunk], mode: Mode, newest: Newest) {
    match mode {
        Mode::Fixed => {}
        Mode::Shuffle(seed) => {
            Shuffle::new(seed).shuffle(chunks);
            chunks.sort_by_key(|chunk| chunk.class);
        }
        // An order from the oldest page on would lose each page just before it is needed, once a
        // single page too many was inserted; an order from the newest on loses that one only.
        // Chunks that no earlier scan has read are ranked by the position of what is missing.
        Mode::Free => chunks.sort_by_key(|chunk| {
            let position = (chunk.file as u64, chunk.range.start);
            let position = match newest {
                Newest::First => position,
                Newest::Last => (u64::MAX - position.0, u64::MAX - position.1),
            };
            let last_first = (Reverse(chunk.last_read), position);
            match chunk.class {
                RangeClass::Hit => (chunk.class, Reverse(0), last_first),
                RangeClass::Partial => (chunk.class, Reverse(percent(chunk)), last_first),
                // All alike: they stay in the caller's order.
                RangeClass::Unknown | RangeClass::Miss => {
                    (chunk.class, Reverse(0), (Reverse(0), (0, 0)))
                }
            }
        }),
    }
}

fn percent(chunk: &Chunk) -> u64 {
    (u128::from(chunk.resident.0) * 100 / u128::from(chunk.range.len.max(1))) as u64
}

#[cfg(test)]
mod tests;

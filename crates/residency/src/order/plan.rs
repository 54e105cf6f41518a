//! [`plan`]: in which order to read what, and what to do with it afterwards.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt;

use cachewise_units::{ByteRange, Bytes};

use super::shuffle::Shuffle;
use super::snapshot::between;
use super::{FileState, History, Snapshot};

/// How free the order is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Any order will do: resident chunks first, the one read last before the others; then chunks that are
    /// resident in part, then what is missing, in the caller's order. For checksums, search, backup, scans.
    #[default]
    Free,
    /// The caller's own order, to the byte. With [`Keep::Keep`] what is resident stays so; with
    /// [`Keep::Share`] there is nothing that a plan could change.
    Fixed,
    /// Random, as a seed has it, but resident chunks first. For training on samples.
    ///
    /// The head of such an order is biased towards what the last one had in its tail.
    Shuffle(u64),
}

/// What becomes of the pages that a scan brings in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Keep {
    /// They stay, as after any read. For files that others read too: what one drops is another's miss.
    #[default]
    Share,
    /// Those that would throw out what is resident are dropped once they have been read. For the only
    /// reader of files that are larger than the cache, again and again.
    Keep,
    /// All are dropped: the cache is left as it was found. For who reads once.
    AsFound,
}

/// How to plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Options {
    /// How free the order is.
    pub mode: Mode,
    /// What becomes of the pages that are brought in.
    pub keep: Keep,
    /// Whether a file with several names among those given is read once for each, as a stream needs it.
    pub each_link: bool,
}

/// What the snapshot says of a stretch of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// All of it is resident.
    Hit,
    /// Some of it is.
    Partial,
    /// Nobody can know.
    Unknown,
    /// Nothing of it is.
    Miss,
}

/// What becomes of the pages that a step brings in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum After {
    /// They stay.
    Keep,
    /// They are dropped once they have been read; what was resident before is not.
    Drop,
}

/// One stretch of a file, to be read as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The index of the file in [`Snapshot::files`].
    pub file: usize,
    /// The stretch: within a chunk, and without a byte only for an empty file.
    pub range: ByteRange,
    /// What the snapshot says of it.
    pub class: Class,
    /// What becomes of what it brings in.
    pub after: After,
}

/// In which order to read what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Ranges to read one after the other, each byte of each file once. A missing or unknown range is one piece, over
    /// any number of chunks, so that a plan is as large as what is resident.
    pub(super) pieces: Vec<Step>,
    /// The length of a step.
    pub(super) chunk: Bytes,
    /// What is to be expected of it.
    pub prediction: Prediction,
    /// Why it is the caller's order (of [`Mode::Shuffle`]: one without regard to what is resident), if it is.
    /// Nothing is dropped then but by [`Keep::AsFound`].
    pub declined: Option<Why>,
}

/// What is to be expected of a [`Plan`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Prediction {
    /// All that is to be read.
    pub total: Bytes,
    /// What of it is known to be resident.
    pub resident: Bytes,
    /// What of it nobody knows: it may be resident or not.
    pub unknown: Bytes,
    /// What of the resident comes from the cache if nothing disturbs: chunks that are resident as a whole. This is
    /// what is saved against an order that hits nothing, as that of a cycle larger than the cache.
    pub planned_hits: Bytes,
    /// What stays in the cache of what is brought in.
    pub admitted: Bytes,
    /// What no order can save: the total without what the cache holds, which is the most
    /// that was ever seen resident, and without what is unknown.
    pub bound: Bytes,
}

/// Why a scan keeps to the caller's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// There is nothing to hit.
    NothingResident,
    /// There is nothing to miss.
    AllResident,
    /// What is resident cannot be known: of some files nobody tells, and of the others nothing is.
    ResidencyUnknown,
    /// The order is fixed, and nothing may be dropped ([`Mode::Fixed`] with [`Keep::Share`]): there is nothing to decide.
    NothingToDecide,
    /// Plans came to less than nine tenths of the planned hits twice; it is tried again some scans later.
    WorseThanPlanned,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingResident => "nothing is resident",
            Self::AllResident => "everything is resident",
            Self::ResidencyUnknown => "what is resident is unknown",
            Self::NothingToDecide => "the order is fixed, and nothing may be dropped",
            Self::WorseThanPlanned => {
                "two plans in a row came to less than 90 % of the planned hits"
            }
        })
    }
}

impl Snapshot {
    /// Returns how much there is to read, each file once.
    #[must_use]
    pub fn total(&self) -> Bytes {
        self.distinct().map(|(_, file)| file.size).sum()
    }

    /// Returns how much of it is resident, as far as is known.
    #[must_use]
    pub fn resident(&self) -> Bytes {
        self.distinct()
            .filter_map(|(_, file)| file.resident_in(file.whole()))
            .sum()
    }

    /// Returns the files, as indexes, in the order that hits most where only whole files can be read: those first of
    /// which the largest part is resident, of equal ones the one that was read last. Those of which nobody knows come,
    /// in the caller's order, before those of which nothing is resident. Each file once.
    #[must_use]
    pub fn hottest_first(&self, history: &History) -> Vec<usize> {
        /// The later, the sooner.
        #[derive(PartialEq, Eq, PartialOrd, Ord)]
        enum Rank {
            Cold,
            Unknown,
            Warm,
        }
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
            (rank, part, last_read, index)
        };
        let mut files: Vec<_> = self.distinct().map(|(index, _)| index).collect();
        files.sort_by_cached_key(|&index| Reverse(place(index)));
        files
    }

    /// The files without second names of those before.
    fn distinct(&self) -> impl Iterator<Item = (usize, &FileState)> {
        let mut seen = HashSet::new();
        self.files
            .iter()
            .enumerate()
            .filter(move |(_, file)| seen.insert(file.id))
    }
}

/// Plans the reading of files: what to read in which order, and what to drop behind.
///
/// The same snapshot, history and options give the same plan. Every byte of every file is in it once; of a file
/// with several names, under the first one (unless [`Options::each_link`]).
///
/// Where there is nothing to gain, and where plans have not come true, it is the order of the caller, and
/// [`Plan::declined`] says why.
///
/// # Cost
/// A few hundred nanoseconds and 32 bytes of memory for each chunk of which anything is resident, and for each stretch
/// between them, however long. With [`Mode::Shuffle`] the same for every chunk, up to a million; files that have more are
/// shuffled in larger pieces.
#[must_use]
pub fn plan(snapshot: &Snapshot, history: &History, options: &Options) -> Plan {
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
        sort(&mut chunks, options.mode);
    }
    let mut allowance = match options.keep {
        Keep::Share => Bytes(u64::MAX),
        Keep::AsFound => Bytes::ZERO,
        Keep::Keep if declined.is_some() => Bytes(u64::MAX),
        Keep::Keep => history
            .grant(snapshot.chunk)
            .min(snapshot.headroom.unwrap_or(Bytes(u64::MAX))),
    };
    let mut pieces: Vec<Step> = Vec::with_capacity(chunks.len() + 1);
    for chunk in &chunks {
        let mut add = |range: ByteRange, after| {
            pieces.push(Step {
                file: chunk.file,
                range,
                class: chunk.class,
                after,
            });
        };
        let absent = Bytes(chunk.range.len).saturating_sub(chunk.resident);
        let may_drop = !matches!(chunk.class, Class::Hit | Class::Unknown)
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
                    Class::Miss => allowance.0 / snapshot.chunk.0.max(1) * snapshot.chunk.0,
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
    class: Class,
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

/// Divides a range at multiples of a length; one without a byte stays as it is.
fn divided(range: ByteRange, unit: u64) -> impl Iterator<Item = ByteRange> {
    let mut rest = Some(range);
    std::iter::from_fn(move || {
        let whole = rest?;
        let end = (whole.start / unit + 1)
            .saturating_mul(unit)
            .min(whole.end());
        let left = between(end, whole.end());
        rest = (!left.is_empty()).then_some(left);
        Some(between(whole.start, end))
    })
}

/// All chunks of which anything is resident, and the ranges between them, in the caller's order.
fn chunks(snapshot: &Snapshot, history: &History, options: &Options) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut add = |index, file: &FileState| {
        file.pieces(snapshot.chunk, |range| {
            let resident = file.resident_in(range);
            let class = match resident {
                None => Class::Unknown,
                Some(_) if range.is_empty() => Class::Unknown,
                Some(Bytes::ZERO) => Class::Miss,
                Some(bytes) if bytes.0 == range.len => Class::Hit,
                Some(_) => Class::Partial,
            };
            chunks.push(Chunk {
                file: index,
                range,
                class,
                resident: resident.unwrap_or_default(),
                last_read: match class {
                    Class::Hit | Class::Partial => history.last_read(file.id, range.start),
                    Class::Unknown | Class::Miss => 0,
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
        .filter(|chunk| chunk.class == Class::Unknown)
        .map(|chunk| Bytes(chunk.range.len))
        .sum();
    let hits = chunks.iter().filter(|chunk| chunk.class == Class::Hit);
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

fn decline(prediction: &Prediction, history: &History, options: &Options) -> Option<Why> {
    match prediction.resident {
        // Of nothing, everything is resident.
        resident if resident == prediction.total => Some(Why::AllResident),
        Bytes::ZERO if prediction.unknown > Bytes::ZERO => Some(Why::ResidencyUnknown),
        Bytes::ZERO => Some(Why::NothingResident),
        _ if (options.mode, options.keep) == (Mode::Fixed, Keep::Share) => {
            Some(Why::NothingToDecide)
        }
        _ if history.is_resting() => Some(Why::WorseThanPlanned),
        _ => None,
    }
}

fn sort(chunks: &mut [Chunk], mode: Mode) {
    match mode {
        Mode::Fixed => {}
        Mode::Shuffle(seed) => {
            Shuffle::new(seed).shuffle(chunks);
            chunks.sort_by_key(|chunk| chunk.class);
        }
        // Read from its oldest end, the kernel's list of pages would lose each page just before it is
        // wanted, once a single one too many has come in; from its newest end, it loses that one only.
        // What no earlier scan has read is taken to have been read in the caller's order.
        Mode::Free => chunks.sort_by_key(|chunk| {
            let last_first = (
                Reverse(chunk.last_read),
                Reverse((chunk.file, chunk.range.start)),
            );
            match chunk.class {
                Class::Hit => (chunk.class, Reverse(0), last_first),
                Class::Partial => (chunk.class, Reverse(percent(chunk)), last_first),
                // All alike: they stay in the caller's order.
                Class::Unknown | Class::Miss => {
                    (chunk.class, Reverse(0), (Reverse(0), Reverse((0, 0))))
                }
            }
        }),
    }
}

fn percent(chunk: &Chunk) -> u64 {
    (u128::from(chunk.resident.0) * 100 / u128::from(chunk.range.len.max(1))) as u64
}

impl Plan {
    /// Returns what is read, one after the other: each within a chunk, and without a byte only for an empty file.
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        let chunk = self.chunk.0.max(1);
        let divided = move |piece: &Step| {
            let piece = *piece;
            divided(piece.range, chunk).map(move |range| Step { range, ..piece })
        };
        self.pieces.iter().flat_map(divided)
    }

    /// Returns the pieces, with those joined that read on where the one before ends and treat it alike.
    pub fn runs(&self) -> impl Iterator<Item = Step> {
        let mut steps = self.pieces.iter().copied().peekable();
        std::iter::from_fn(move || {
            let mut run = steps.next()?;
            while let Some(next) = steps.next_if(|next| next.follows(&run)) {
                run.range.len += next.range.len;
            }
            Some(run)
        })
    }
}

impl Step {
    pub(super) fn follows(&self, other: &Self) -> bool {
        self.file == other.file
            && self.range.start == other.range.end()
            && self.class == other.class
            && self.after == other.after
    }
}

#[cfg(test)]
mod tests;

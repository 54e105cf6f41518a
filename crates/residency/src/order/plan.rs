//! [`plan`]: in which order to read what, and what to do with it afterwards.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt;

use cachewise_units::{ByteRange, Bytes};

use super::shuffle::Shuffle;
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
    /// Each byte of each file once.
    pub steps: Vec<Step>,
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
            let last_read = (file.chunks(self.chunk))
                .map(|range| history.last_read(file.id, range.start))
                .max();
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
/// A few hundred nanoseconds and 32 bytes of memory a chunk.
#[must_use]
pub fn plan(snapshot: &Snapshot, history: &History, options: &Options) -> Plan {
    let mut chunks = chunks(snapshot, history, options);
    let mut prediction = predict(&chunks, history);
    let declined = decline(&prediction, history, options);
    if declined.is_some() {
        if let Mode::Shuffle(seed) = options.mode {
            Shuffle::new(seed).shuffle(&mut chunks);
        }
    } else {
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
    let steps = chunks
        .iter()
        .map(|chunk| {
            let absent = Bytes(chunk.range.len).saturating_sub(chunk.resident);
            let may_drop = !matches!(chunk.class, Class::Hit | Class::Unknown)
                && !snapshot.files[chunk.file].open_elsewhere;
            let after = match allowance.checked_sub(absent) {
                _ if !may_drop => After::Keep,
                Some(rest) => {
                    allowance = rest;
                    prediction.admitted += absent;
                    After::Keep
                }
                None => {
                    // Once one does not fit, none does: what is admitted is in one piece.
                    allowance = Bytes::ZERO;
                    After::Drop
                }
            };
            Step {
                file: chunk.file,
                range: chunk.range,
                class: chunk.class,
                after,
            }
        })
        .collect();
    Plan {
        steps,
        prediction,
        declined,
    }
}

/// A stretch, and what its place in the order depends on.
struct Chunk {
    file: usize,
    range: ByteRange,
    class: Class,
    resident: Bytes,
    last_read: u64,
}

/// All stretches, in the caller's order.
fn chunks(snapshot: &Snapshot, history: &History, options: &Options) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut add = |index, file: &FileState| {
        chunks.extend(file.chunks(snapshot.chunk).map(|range| {
            let resident = file.resident_in(range);
            let class = match resident {
                None => Class::Unknown,
                Some(_) if range.is_empty() => Class::Unknown,
                Some(Bytes::ZERO) => Class::Miss,
                Some(bytes) if bytes.0 == range.len => Class::Hit,
                Some(_) => Class::Partial,
            };
            Chunk {
                file: index,
                range,
                class,
                resident: resident.unwrap_or_default(),
                last_read: history.last_read(file.id, range.start),
            }
        }));
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
    /// Returns the steps, with those joined that read on where the one before ends and treat it alike.
    pub fn runs(&self) -> impl Iterator<Item = Step> {
        let mut steps = self.steps.iter().copied().peekable();
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

//! [`Plan`]: in which order to read what, and what to do with it afterwards.

use std::fmt;

use cachewise_units::{ByteRange, Bytes};

use super::snapshot::between;

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

/// Treatment of the pages that a scan inserts into the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Keep {
    /// They stay, as after any read. For files that others read too: what one drops is another's miss.
    #[default]
    Share,
    /// Pages that would evict resident ones are dropped after they were read. For the only reader
    /// of files that are larger than the cache and are read repeatedly.
    Keep,
    /// All are dropped: the cache is left as it was found. For who reads once.
    AsFound,
}

/// How to plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlanOptions {
    /// How free the order is.
    pub mode: Mode,
    /// Treatment of the inserted pages.
    pub keep: Keep,
    /// Whether a file with several names among those given is read once for each, as a stream needs it.
    pub each_link: bool,
}

/// Residency of a range of a file, by the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RangeClass {
    /// All of it is resident.
    Hit,
    /// Some of it is.
    Partial,
    /// Unknown.
    Unknown,
    /// Nothing of it is.
    Miss,
}

/// Treatment of the pages that a step inserts into the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum After {
    /// They stay.
    Keep,
    /// They are dropped once they have been read; what was resident before is not.
    Drop,
}

/// One range of a file, to be read as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanStep {
    /// The index of the file in [`Snapshot::files`](super::Snapshot::files).
    pub file: usize,
    /// The range: within a chunk, and empty only for an empty file.
    pub range: ByteRange,
    /// Its residency, by the snapshot.
    pub class: RangeClass,
    /// Treatment of the pages that it inserts.
    pub after: After,
}

/// In which order to read what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Ranges to read one after the other, each byte of each file once. A missing or unknown range is one piece, over
    /// any number of chunks, so that a plan is as large as what is resident.
    pub(super) pieces: Vec<PlanStep>,
    /// The length of a step.
    pub(super) chunk: Bytes,
    /// Its expected hits and misses.
    pub prediction: Prediction,
    /// Why it is the caller's order (of [`Mode::Shuffle`]: one without regard to what is resident), if it is.
    /// Nothing is dropped then but by [`Keep::AsFound`].
    pub declined: Option<DeclineReason>,
}

/// Expected hits and misses of a [`Plan`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Prediction {
    /// All that is to be read.
    pub total: Bytes,
    /// Bytes that are known to be resident.
    pub resident: Bytes,
    /// Bytes of unknown residency.
    pub unknown: Bytes,
    /// Resident bytes that come from the cache if no other process interferes: those of chunks that
    /// are resident as a whole. An order without hits, as that of a cycle larger than the cache,
    /// reads these bytes from the disk.
    pub planned_hits: Bytes,
    /// Bytes that are read and stay in the cache.
    pub admitted: Bytes,
    /// Bytes that every order has to read: the total without the capacity of the cache, which is
    /// the most that was ever seen resident, and without the bytes of unknown residency.
    pub bound: Bytes,
}

/// Why a scan keeps to the caller's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeclineReason {
    /// There is nothing to hit.
    NothingResident,
    /// There is nothing to miss.
    AllResident,
    /// Residency is unknown for some files, and no page of the others is resident.
    ResidencyUnknown,
    /// The order is fixed, and nothing may be dropped ([`Mode::Fixed`] with [`Keep::Share`]): there is nothing to decide.
    NothingToDecide,
    /// Plans came to less than nine tenths of the planned hits twice; it is tried again some scans later.
    WorseThanPlanned,
}

impl fmt::Display for DeclineReason {
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

/// Divides a range at multiples of a length; one without a byte stays as it is.
pub(super) fn divided(range: ByteRange, unit: u64) -> impl Iterator<Item = ByteRange> {
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

impl Plan {
    /// Returns what is read, one after the other: each within a chunk, and without a byte only for an empty file.
    pub fn steps(&self) -> impl Iterator<Item = PlanStep> {
        let chunk = self.chunk.0.max(1);
        let divided = move |piece: &PlanStep| {
            let piece = *piece;
            divided(piece.range, chunk).map(move |range| PlanStep { range, ..piece })
        };
        self.pieces.iter().flat_map(divided)
    }

    /// Returns the pieces, with those joined that read on where the one before ends and treat it alike.
    pub fn runs(&self) -> impl Iterator<Item = PlanStep> {
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

impl PlanStep {
    pub(super) fn follows(&self, other: &Self) -> bool {
        self.file == other.file
            && self.range.start == other.range.end()
            && self.class == other.class
            && self.after == other.after
    }
}

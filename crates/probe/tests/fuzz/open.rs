//! Gaps that docs/counting.md documents: where a program meets one, the figures that it touches are not compared.

use cachewise_model::Counter;

use crate::call::{Argument, Call};
use crate::image::FileSystem;
use crate::moment::Moment;
use crate::oracle::pages_of;

/// A documented gap.
#[derive(Debug)]
pub struct Gap {
    /// A few words, for the summary of a run.
    pub name: &'static str,
    /// Why the probe cannot tell; docs/counting.md says the same to users.
    pub reason: &'static str,
    /// The figures of the file that it touches.
    pub figures: &'static [Counter],
    /// The effect on the comparison.
    pub handling: Handling,
    /// Whether an operation meets it.
    applies: fn(&Moment) -> bool,
}

/// The effect of a gap on the comparison of its figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handling {
    /// They are compared unless the probe marks them, which does not count as marked too often.
    Marked,
    /// They are not compared: no event shows the gap to the probe either.
    NotCompared,
    /// Likewise, and its bytes can be taken for those that a read before it did not move.
    HidesResults,
}

/// Bytes of the smallest huge page: those of a page table full of pages.
pub const HUGE_BYTES: u64 = 2 << 20;

/// All of them.
pub const OPEN: [Gap; 12] = [
    Gap {
        name: "a fault that maps a huge page",
        reason: "the kernel has no event for it",
        figures: &[Counter::FaultRequests],
        handling: Handling::NotCompared,
        applies: |moment| {
            moment.operation.call == Call::Touch
                && moment.before.size >= HUGE_BYTES
                && moment.before.has(moment.operation.get(Argument::Page))
        },
    },
    Gap {
        name: "a write by libaio that ends short",
        reason: "io_submit(2) raises no account of the task",
        figures: OF_WRITTEN,
        handling: Handling::NotCompared,
        applies: |moment| {
            moment.operation.call == Call::AioWrite
                && moment.outcome < moment.operation.length() as i64
        },
    },
    Gap {
        name: "a read of one cached page",
        reason: "it is booked without a look at the task, so a short read before it can count as served",
        figures: &[],
        handling: Handling::HidesResults,
        applies: |moment| {
            let offset = moment.operation.get(Argument::Offset);
            let pages = pages_of(&(offset..offset + moment.operation.length()));
            matches!(moment.operation.call, Call::Read | Call::Pread)
                && pages.end == pages.start + 1
                && moment.before.has(pages.start)
        },
    },
    Gap {
        name: "a short read in front of a page that is not up to date",
        reason: "the kernel is silent on a batch that ends in such a page, and no later batch follows",
        figures: &[
            Counter::ReadRequests,
            Counter::ReadRequestedPages,
            Counter::ReadRequestedBytes,
            Counter::ReadHitPages,
            Counter::ReadUnservedPages,
            Counter::ReadUnservedBytes,
            Counter::ReadFailedRequests,
            Counter::ReadaheadHitPages,
        ],
        handling: Handling::HidesResults,
        applies: |moment| {
            let offset = moment.operation.get(Argument::Offset);
            let end = (offset + moment.operation.length()).min(moment.before.size);
            matches!(moment.operation.call, Call::NoWait | Call::BadRead)
                && moment.ends_short()
                && moment.before.has_unready(pages_of(&(offset..end)))
        },
    },
    Gap {
        name: "one cached page into memory that cannot be written",
        reason: "the short way through the event keeps no state of the task, so the result is not looked for",
        figures: &[
            Counter::ReadHitPages,
            Counter::ReadUnservedPages,
            Counter::ReadUnservedBytes,
            Counter::ReadFailedRequests,
            Counter::ReadaheadHitPages,
        ],
        handling: Handling::NotCompared,
        applies: |moment| {
            let offset = moment.operation.get(Argument::Offset);
            let end = offset + moment.operation.length();
            let pages = pages_of(&(offset..end.min(moment.before.size)));
            moment.operation.call == Call::BadRead
                && moment.outcome < moment.operation.length() as i64
                && pages.end == pages.start + 1
                && moment.before.has(pages.start)
        },
    },
    Gap {
        name: "direct I/O that the file system does through the cache",
        reason: "it counts as buffered, in pieces that the file system chooses",
        figures: &[
            Counter::ReadRequests,
            Counter::ReadRequestedPages,
            Counter::ReadRequestedBytes,
            Counter::ReadHitPages,
            Counter::ReadMissedPages,
            Counter::ReadaheadPages,
            Counter::ReadaheadHitPages,
            Counter::ReadUnservedBytes,
            Counter::ReadUnservedPages,
            Counter::ReadFailedRequests,
            Counter::WriteRequests,
            Counter::WritePages,
            Counter::WriteBytes,
            Counter::WriteNewPages,
            Counter::WriteUnservedBytes,
            Counter::WriteFailedRequests,
            Counter::EvictedOtherPages,
            Counter::DirectReadRequests,
            Counter::DirectReadBytes,
            Counter::DirectReadFailedRequests,
            Counter::DirectWriteRequests,
            Counter::DirectWriteBytes,
            Counter::DirectWriteFailedRequests,
        ],
        handling: Handling::NotCompared,
        applies: |moment| moment.operation.is_direct() && !moment.kind.bypasses_cache(),
    },
    Gap {
        name: "splice into a file, and copy_file_range that ends short",
        reason: "the account of writes is raised when the whole call ends, and by splice not at all",
        figures: &[Counter::WriteBytes],
        handling: Handling::NotCompared,
        applies: |moment| {
            let short = moment.outcome < moment.operation.length() as i64;
            match moment.operation.call {
                Call::SpliceIn => true,
                Call::Copy => short,
                _ => false,
            }
        },
    },
    Gap {
        name: "reads by libaio on xfs with blocks larger than a page",
        reason: "the kernel rounds the end of a request up to its last folio, and so it is found by no request",
        figures: &[
            Counter::ReadRequestedPages,
            Counter::ReadRequestedBytes,
            Counter::ReadHitPages,
            Counter::ReadMissedPages,
            Counter::ReadaheadPages,
            Counter::ReadaheadHitPages,
        ],
        handling: Handling::Marked,
        applies: |moment| {
            moment.kind == FileSystem::XfsLargeBlocks && moment.operation.call == Call::AioRead
        },
    },
    Gap {
        name: "writes by libaio on btrfs",
        reason: "the registers of io_submit(2) name no file that btrfs's event could be compared with",
        figures: &[
            Counter::WriteRequests,
            Counter::WritePages,
            Counter::WriteBytes,
            Counter::WriteUnservedBytes,
            Counter::WriteFailedRequests,
            Counter::WriteNewPages,
        ],
        handling: Handling::Marked,
        applies: |moment| {
            moment.kind == FileSystem::Btrfs && moment.operation.call == Call::AioWrite
        },
    },
    Gap {
        name: "copy_file_range inside of a file that grows by it",
        reason: "the end of the file is that at each chunk",
        figures: &[
            Counter::ReadRequestedPages,
            Counter::ReadRequestedBytes,
            Counter::ReadUnservedPages,
            Counter::ReadUnservedBytes,
        ],
        handling: Handling::Marked,
        applies: |moment| moment.inside && moment.after.size > moment.before.size,
    },
    Gap {
        name: "cold inline data by sendfile, splice, copy_file_range or libaio",
        reason: "the kernel has no event for it, and only the pages of plain reads tell of their request",
        figures: &[
            Counter::ReadRequests,
            Counter::ReadRequestedPages,
            Counter::ReadRequestedBytes,
            Counter::ReadMissedPages,
            Counter::ReadaheadPages,
            Counter::ReadHitPages,
            Counter::ReadUnservedPages,
            Counter::ReadUnservedBytes,
            Counter::ReadaheadHitPages,
        ],
        handling: Handling::Marked,
        applies: |moment| {
            let offset = moment.operation.get(Argument::Offset);
            let mut pages = pages_of(&(offset..offset + moment.operation.length()));
            moment.kind == FileSystem::Ext4Inline
                && pages.any(|page| !moment.before.has(page))
                && matches!(
                    moment.operation.call,
                    Call::Sendfile | Call::SendSocket | Call::Splice | Call::Copy | Call::AioRead
                )
        },
    },
    Gap {
        name: "writes by splice on btrfs",
        reason: "the system call's registers name no file that btrfs's event could be compared with",
        figures: &[
            Counter::WriteRequests,
            Counter::WritePages,
            Counter::WriteBytes,
            Counter::WriteUnservedBytes,
            Counter::WriteFailedRequests,
        ],
        handling: Handling::Marked,
        applies: |moment| {
            moment.kind == FileSystem::Btrfs
                && matches!(moment.operation.call, Call::SpliceIn | Call::Copy)
        },
    },
];

/// The figures that a read which hides the result of one before it can make wrong.
pub const OF_RESULTS: &[Counter] = &[
    Counter::ReadHitPages,
    Counter::ReadMissedPages,
    Counter::ReadaheadPages,
    Counter::ReadaheadHitPages,
    Counter::ReadUnservedPages,
    Counter::ReadUnservedBytes,
    Counter::ReadFailedRequests,
];

/// The figures of a write whose result a later one hides.
pub const OF_WRITTEN: &[Counter] = &[
    Counter::WriteBytes,
    Counter::WritePages,
    Counter::WriteUnservedBytes,
    Counter::WriteFailedRequests,
];

/// The gaps that an operation meets, by their places in the table.
pub fn met(moment: &Moment) -> impl Iterator<Item = usize> {
    OPEN.iter()
        .enumerate()
        .filter_map(move |(place, gap)| (gap.applies)(moment).then_some(place))
}

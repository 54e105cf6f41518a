//! The figures of several requests of io_uring in flight together, added to those of a file.

use std::ops::Range;

use cachewise_model::Counter;

use crate::call::{Argument, Call};
use crate::expect::{Ahead, Expected, PASSING};
use crate::moment::Moment;
use crate::oracle::pages_of;

impl Expected {
    /// One of several requests of io_uring that are in flight together, buffered or direct. Which of them finds a page
    /// and which brings it in is a matter of time: the sums are not.
    pub fn note_one_of_several(&mut self, moment: &Moment) -> Vec<usize> {
        let operation = moment.operation;
        let (offset, length) = (operation.get(Argument::Offset), operation.length());
        let most = pages_of(&(offset..offset + length));
        let most = most.end - most.start;
        let got = u64::try_from(moment.outcome).unwrap_or(0);
        let counted = moment.outcome > 0;
        match (operation.call, operation.is_direct()) {
            (_, true) if operation.call == Call::UringRead => {
                self.direct_read(moment, offset, length);
            }
            (_, true) => {
                self.direct_write(moment, length);
                // A page that it evicted and a read beside it inserted again is there before and after.
                for page in pages_of(&(offset..offset + length)) {
                    if moment.after.has(page) {
                        *self.ahead(page) = Ahead::Maybe;
                    }
                }
                // Those of the others are not told from its own.
                self.figures.free(&[Counter::WriteNewPages]);
                // It drops pages that a read in flight beside it has just inserted.
                self.figures.between(Counter::ReadaheadPages, 0, PASSING);
            }
            (Call::UringRead, _) => {
                let bytes = |size: u64| offset..(offset + length).min(size).max(offset);
                let (least, largest) = (
                    bytes(moment.before.size.min(moment.after.size)),
                    bytes(moment.before.size.max(moment.after.size)),
                );
                let pages = |bytes: &Range<u64>| pages_of(bytes).end - pages_of(bytes).start;
                let sure = u64::from(counted);
                self.figures
                    .between(Counter::ReadRequests, sure, u64::from(!largest.is_empty()));
                self.figures.between(
                    Counter::ReadRequestedPages,
                    sure * pages(&(offset..offset + got)),
                    pages(&largest),
                );
                self.figures.between(
                    Counter::ReadRequestedBytes,
                    sure * (least.end - least.start).min(got),
                    largest.end - largest.start,
                );
                self.figures.between(Counter::ReadUnservedPages, 0, most);
                self.figures
                    .between(Counter::ReadUnservedBytes, 0, length - got);
                self.figures
                    .between(Counter::ReadFailedRequests, 0, u64::from(!counted));
                self.figures.between(Counter::ReadHitPages, 0, most);
                self.figures.between(Counter::ReadMissedPages, 0, most);
                self.figures.between(Counter::ReadaheadHitPages, 0, most);
            }
            _ => {
                let sure = u64::from(counted);
                self.figures
                    .between(Counter::WriteRequests, sure, u64::from(length > 0));
                self.figures.add(Counter::WriteBytes, got);
                self.figures.between(Counter::WritePages, 0, most);
                self.figures.between(
                    Counter::WriteUnservedBytes,
                    sure * (length - got),
                    length - got,
                );
                self.figures
                    .between(Counter::WriteFailedRequests, 0, u64::from(!counted));
            }
        }
        self.gaps(moment)
    }

    /// The pages that several requests inserted together, and those that left.
    pub fn note_several(&mut self, moment: &Moment) {
        let new: Vec<u64> = moment.after.new_since(moment.before).collect();
        let gone = moment.before.new_since(moment.after).count() as u64;
        self.figures
            .between(Counter::ReadaheadPages, 0, new.len() as u64);
        self.figures.between(Counter::EvictedOtherPages, gone, gone);
        self.passing(new.len() as u64, PASSING);
        for page in new {
            *self.ahead(page) = Ahead::Maybe;
        }
    }
}

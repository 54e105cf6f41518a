//! Requests of a task with their results, as its log has them.

use crate::call::{Argument, Call, Operation, Outcome, RING_ENTRIES};
use crate::oracle::pages_of;
use crate::worker::Log;

/// A request of a task with its result.
#[derive(Debug)]
pub struct Request<'p> {
    /// The operation.
    pub operation: &'p Operation,
    /// Its result.
    pub outcome: Outcome,
    /// Page faults of the task meanwhile.
    pub faults: u64,
}

impl Request<'_> {
    /// The bytes that it moved.
    pub fn got(&self) -> u64 {
        u64::try_from(self.outcome).unwrap_or(0)
    }

    fn is_short(&self, largest: u64) -> bool {
        let offset = self.operation.get(Argument::Offset);
        self.got()
            < (offset + self.operation.length())
                .min(largest)
                .saturating_sub(offset)
    }

    /// Whether it can be booked without a look at the task, or not at all, so that its bytes are taken for those of a
    /// read before it.
    pub fn hides(&self, largest: u64) -> bool {
        let offset = self.operation.get(Argument::Offset);
        let pages = pages_of(&(offset..offset + self.operation.length()));
        match self.operation.call {
            Call::Read | Call::Pread => pages.end - pages.start <= 1,
            Call::NoWait | Call::BadRead => self.is_short(largest),
            _ => false,
        }
    }
}

/// The requests of a task in their order, those of io_uring when they are submitted.
pub fn requests<'p>(operations: &'p [Operation], log: &Log) -> Vec<Request<'p>> {
    let mut requests = Vec::new();
    let mut queue = Vec::new();
    for (operation, done) in operations.iter().zip(&log.done) {
        let named = match operation.call {
            Call::UringRead | Call::UringWrite => {
                if queue.len() < RING_ENTRIES as usize {
                    queue.push(operation);
                }
                continue;
            }
            Call::UringEnter => std::mem::take(&mut queue),
            _ => vec![operation],
        };
        let named = named.into_iter().zip(&done.outcomes);
        requests.extend(named.map(|(operation, outcome)| Request {
            operation,
            outcome: *outcome,
            faults: done.faults,
        }));
    }
    requests
}

/// The bytes that the kernel adds to a task's account of reads and of writes.
pub fn accounted(operations: &[Operation], log: &Log) -> (u64, u64) {
    let mut sums = (0, 0);
    for request in requests(operations, log) {
        let (reads, writes) = request.operation.call.is_accounted();
        sums.0 += u64::from(reads) * request.got();
        sums.1 += u64::from(writes) * request.got();
    }
    sums
}

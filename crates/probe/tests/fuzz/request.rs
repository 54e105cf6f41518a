//! Requests of a task with their results, as its log has them.

use crate::account::Account;
use crate::call::{Argument, Call, Operation, Outcome, RING_ENTRIES};
use crate::oracle::pages_of;
use crate::verdict::Verdict;
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

/// Calls and bytes that the kernel adds to a task's account of reads, or of writes.
#[derive(Debug, Default, Clone, Copy)]
struct Side {
    bytes: u64,
    calls: u64,
    /// Calls that moved nothing. The kernel refuses some of them before it counts them.
    empty: u64,
}

impl Side {
    fn add(&mut self, outcome: Outcome) {
        let bytes = u64::try_from(outcome).unwrap_or(0);
        self.bytes += bytes;
        self.calls += 1;
        self.empty += u64::from(bytes == 0);
    }
}

/// Calls and bytes that the kernel adds to a task's account.
#[derive(Debug, Default, Clone, Copy)]
pub struct Accounted {
    read: Side,
    written: Side,
}

impl Accounted {
    /// Adds a call with its result.
    pub fn add(&mut self, call: Call, outcome: Outcome) {
        let (reads, writes) = call.is_accounted();
        if reads {
            self.read.add(outcome);
        }
        if writes {
            self.written.add(outcome);
        }
    }

    /// Adds a read that is not of the program.
    pub fn add_read(&mut self, outcome: Outcome) {
        self.read.add(outcome);
    }

    /// Compares it with the task's account; `true`: the kernel restarted a call, and so there are more calls than the
    /// program made. The exit of a ring of io_uring interrupts its task, for example in sendfile(2).
    pub fn compare(self, of: &str, account: &Account, verdict: &mut Verdict) -> bool {
        for (what, expected, counted) in [
            ("rchar of /proc", account.read_calls, self.read.bytes),
            ("wchar of /proc", account.write_calls, self.written.bytes),
        ] {
            verdict.find(of, what, (expected, expected), counted);
        }
        let more = account.reads.saturating_sub(self.read.calls);
        if more > 0 && more == account.writes.saturating_sub(self.written.calls) {
            return true;
        }
        for (what, side, counted) in [
            ("syscr of /proc", self.read, account.reads),
            ("syscw of /proc", self.written, account.writes),
        ] {
            let bounds = (side.calls - side.empty, side.calls);
            verdict.find(of, what, bounds, counted);
        }
        false
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

/// The calls and bytes that the kernel adds to a task's account of reads and of writes.
pub fn accounted(operations: &[Operation], log: &Log) -> Accounted {
    let mut sums = Accounted::default();
    for request in requests(operations, log) {
        sums.add(request.operation.call, request.outcome);
    }
    sums
}

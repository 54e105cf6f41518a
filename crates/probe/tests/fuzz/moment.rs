//! An operation on a file, with all that is known of it.

use crate::call::{Argument, Operation, Outcome};
use crate::image::FileSystem;
use crate::watch::Seen;

/// An operation on a file, with all that is known of it.
#[derive(Debug)]
pub struct Moment<'p> {
    /// The operation.
    pub operation: &'p Operation,
    /// Its result.
    pub outcome: Outcome,
    /// The file right before.
    pub before: &'p Seen,
    /// The file right after.
    pub after: &'p Seen,
    /// Page faults meanwhile.
    pub faults: u64,
    /// The file system.
    pub kind: FileSystem,
    /// A copy whose other end is the same file.
    pub inside: bool,
}

impl Moment<'_> {
    /// The kernel refused it before it reached the file.
    pub fn is_refused(&self) -> bool {
        is_refusal(self.outcome)
    }

    /// A read that moved less than there is.
    pub fn ends_short(&self) -> bool {
        let offset = self.operation.get(Argument::Offset);
        let end = (offset + self.operation.length()).min(self.before.size);
        self.outcome < end.saturating_sub(offset) as i64
    }

    /// Pages that the operation inserted and that are still there.
    pub fn new_pages(&self) -> u64 {
        self.after.new_since(self.before).count() as u64
    }
}

/// Whether a result is an error by which the kernel refuses a request before it reaches the file.
pub fn is_refusal(outcome: Outcome) -> bool {
    [libc::EINVAL, libc::EOPNOTSUPP, libc::EBADF, libc::EFBIG]
        .iter()
        .any(|error| outcome == -i64::from(*error))
}

//! [`Frame`]: where the first reply of a buffer ends.

/// How much of a reply there must be before it is worth looking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::remote) enum Frame {
    /// At least so many bytes in all.
    Needs(usize),
    /// It is there, so many bytes of it.
    Whole(usize),
}

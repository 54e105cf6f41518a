//! [`Frame`]: where the first reply of a buffer ends.

/// The length of the first reply in a buffer, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::remote) enum Frame {
    /// The reply is incomplete: it has at least this number of bytes in all.
    Needs(usize),
    /// The reply is complete, with this number of bytes.
    Whole(usize),
}

//! [`Answer`]: the outcome of one request to one node; [`AskReason`]: the reason for it.

use crate::block::Block;

/// What came of one question.
#[derive(Debug)]
pub(super) enum Answer {
    Hit(Block),
    Miss,
    /// It had it, broken.
    Corrupt,
    /// It refused, broke off, or cannot be reached.
    Error,
    /// The time was up.
    Late,
}

/// For what reason a node is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskReason {
    First,
    Hedge,
    Probe,
}

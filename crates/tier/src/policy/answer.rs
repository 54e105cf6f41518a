//! [`Answer`]: the outcome of one request to one node; [`AskReason`]: the reason for it.

use crate::block::Block;

/// The outcome of one request.
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
    /// The time was up, as this process got no CPU or all nodes are busy: it says nothing about the node.
    Starved,
}

/// The reason for a request to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskReason {
    First,
    Hedge,
    Probe,
}

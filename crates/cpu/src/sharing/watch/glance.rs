//! [`Glance`]: one window on one piece.

/// The largest piece that a register can watch.
pub(super) const WORD: u64 = 8;

/// Accesses of a thread to a piece in one window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Glance {
    pub thread: u32,
    pub at: u64,
    pub writes: u64,
    pub reads: u64,
    pub ran: bool,
}

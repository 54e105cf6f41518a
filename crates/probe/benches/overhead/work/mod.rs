//! The kinds of work that a block may have.

mod cached_file;
mod compile;
mod large_file;
mod many_files;
mod small_files;

use crate::Outcome;
use crate::machine::Clock;
use crate::variant::Variant;

pub use cached_file::{Access, CachedFile};
pub use compile::Compile;
pub use large_file::{LargeFile, Pattern};
pub use many_files::ManyFiles;
pub use small_files::{SmallFiles, Use};

pub const PAGE: usize = 4096;

/// The most that a variant may cost.
#[derive(Clone, Copy)]
pub enum Limit {
    /// CPU time with it, of that without.
    Ratio(f64),
    /// Additional CPU time of an operation.
    Nanoseconds(f64),
}

/// A goal of the project for a variant.
pub type Goal = (Variant, Limit);

/// One kind of work.
pub trait Work {
    fn name(&self) -> &'static str;
    /// Name of one operation.
    fn operation(&self) -> &'static str;
    fn goals(&self) -> &'static [Goal];

    fn clock(&self) -> Clock {
        Clock::Thread
    }

    /// Makes what is needed, once.
    fn prepare(&mut self) -> Outcome<()>;

    /// Brings the state about that each block starts from; nothing is attached.
    fn reset(&mut self) -> Outcome<()> {
        Ok(())
    }

    /// Runs this number of operations, or all of them; returns their number.
    fn run(&mut self, operations: Option<u64>) -> Outcome<u64>;

    /// Whether some of the work is done before a block, with the probe attached and not timed.
    fn warms_up(&self) -> bool {
        true
    }

    /// The most operations that a block can have; none: its length is fixed.
    fn operations(&self) -> Option<u64> {
        None
    }

    /// The least pages that the probe has to have seen in a block, read, written or faulted in.
    fn pages(&self, operations: u64) -> u64;
}

/// Numbers that look random and are the same each time (SplitMix64).
pub struct Random(u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % limit
    }
}

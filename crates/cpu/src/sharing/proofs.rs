//! [`Proof`] and its [`Answer`].

use crate::measure::estimate::Estimate;

/// Answer of one proof, or of all together, on false sharing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// There is some.
    Found,
    /// There is false sharing beside true sharing: padding fixes a part at most.
    Mixed,
    /// None was seen where it looked.
    NotFound,
    /// It cannot tell.
    Unknown,
}

impl Answer {
    /// The name in machine formats.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Answer::Found => "found",
            Answer::Mixed => "mixed",
            Answer::NotFound => "not_found",
            Answer::Unknown => "unknown",
        }
    }
}

/// The names of proofs.
pub const ONE_CPU: &str = "one cpu";

/// By an allocator that pads.
pub const PADDED_HEAP: &str = "padded heap";

/// By the CPU's debug registers.
pub const BREAKPOINTS: &str = "breakpoints";

/// By samples of memory.
pub const PERF_C2C: &str = "perf c2c";

/// One proof.
#[derive(Debug, Clone)]
pub struct Proof {
    /// [`ONE_CPU`], [`PADDED_HEAP`], [`BREAKPOINTS`] or [`PERF_C2C`].
    pub name: &'static str,
    /// Its answer.
    pub answer: Answer,
    /// How many times as much, where it compares.
    pub ratio: Option<Estimate>,
    /// Its observation, or the reason why it has no answer.
    pub says: String,
}

//! How a program uses the caches: counted by hardware, or simulated where there are no counters.
//!
//! The output has misses. The cost of a miss depends on other work of the core, which no simulation
//! here models: simulated time is not reported.
//!
//! # Layout
//! - this file: rates; `counters`: the hardware's, each tried by opening it
//! - [`sampling`]: where in the program events happen, by the hardware or the kernel
//! - `simulation`: a run under valgrind's callgrind; `profile`: what that wrote; `source`: from addresses to the
//!   lines that one has written oneself

mod counters;
mod profile;
pub mod sampling;
mod simulation;
mod source;

pub use counters::{Counters, NoCounter, sum};
pub use profile::{Costs, Profile};
pub use simulation::{Geometry, Simulation};
pub use source::{CostLocation, hottest};

/// Number of requests, and of those that missed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rate {
    /// `L1d reads`, `branches`.
    pub name: &'static str,
    /// Accesses and misses, or why they are not known.
    pub counts: Result<(u64, u64), String>,
}

//! Measuring on a machine that is not ours alone: short samples, in rounds that take turns, and what they agree on.
//!
//! # Layout
//! - `pin`: staying on one CPU; `busy`: how busy others keep them; `clock`: what a core cycle takes; `budget`: time to
//!   measure with
//! - `chase`: memory, and going through it load by load; `order`: in which order
//! - `estimate`: from samples to a figure with its range and how far to trust it
//! - `sweep`: latency by size; `plateau`: the levels in that; `tlb`: what address translation costs

pub mod budget;
pub mod busy;
pub mod chase;
pub mod clock;
pub mod estimate;
pub mod order;
pub mod pin;
pub mod plateau;
pub mod sweep;
pub mod tlb;

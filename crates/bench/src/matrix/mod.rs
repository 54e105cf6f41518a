//! Settings times workloads: every combination several times, in random order, and what statistics say of it.
//!
//! # Layout
//! - `plan`: [`Plan`], what a file asks for, and the [`Trial`]s in their order.
//! - `trial`: [`execute`], doing one: settings, run, settings back.
//! - `files`: [`Files`], what workloads read.
//! - `results`: [`Results`], a file with a line for each run, so that an interrupted matrix goes on where it was.
//! - `contention`: [`Contention`], whether others were at work.
//! - `stats`: Welch's test, the bootstrap, Holm.
//! - `verdict`: [`Verdicts`], arms compared; `page`: [`page`], as HTML with plots.

mod contention;
mod files;
mod page;
mod plan;
mod results;
pub mod stats;
mod trial;
mod verdict;

pub use contention::Contention;
pub use files::Files;
pub use page::page;
pub use plan::{AS_IT_IS, Arm, LEAST_REPEATS, Plan, Skipped, Trial};
pub use results::{Done, Results};
pub use trial::execute;
pub use verdict::{Comparison, Measure, Sample, Verdicts};

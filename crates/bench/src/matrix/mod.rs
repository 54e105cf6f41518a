//! Settings times workloads: every combination several times, in random order, and statistics.
//!
//! # Layout
//! - `plan`: [`Plan`], the matrix file, and the [`Trial`]s in their order.
//! - `trial`: [`execute`], one trial: settings, run, restored settings.
//! - `files`: [`Files`], the workloads' files.
//! - `results`: [`Results`], a file with a line for each run, so that an interrupted matrix can
//!   continue.
//! - `contention`: [`Contention`], load of other programs.
//! - `stats`: Welch's test, the bootstrap, Holm.
//! - `compared`: [`Compared`], two samples of a figure.
//! - `verdict`: [`Verdicts`], the comparison of arms; `page`: [`page`], as HTML with plots.

mod compared;
mod contention;
mod files;
mod page;
mod plan;
mod results;
pub mod stats;
mod trial;
mod verdict;

pub use compared::Compared;
pub use contention::Contention;
pub use files::Files;
pub use page::page;
pub use plan::{AS_IT_IS, Arm, LEAST_REPEATS, Plan, Skipped, Trial};
pub use results::{Done, Results};
pub use trial::execute;
pub use verdict::{Comparison, Measure, Sample, Verdicts};

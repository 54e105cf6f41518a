//! Reading files in the order that costs the least I/O.
//!
//! Files that are read again and again, and do not all fit into the page cache, are the kernel's worst case: in the
//! usual order each page is thrown out just before it is wanted again, and with 3/4 of the data in memory nothing
//! is ever hit. What is resident read first, and what is missing kept from throwing it out, leaves only what
//! does not fit to be read: the data less the memory. That is the bound for any order.
//!
//! - [`Scanner`] reads files so, block by block, and learns from one scan for the next.
//! - [`survey`] and [`plan`] only say in which order: down to ranges ([`Plan::runs`]), or whole files
//!   ([`Snapshot::hottest_first`]), and what that saves ([`Prediction`]).
//! - [`simulate`] says what an order would cost with some amount of memory, without reading anything.
//!
//! ```
//! use cachewise_residency::order::{History, PlanOptions, plan, survey};
//!
//! # let file = tempfile::NamedTempFile::new()?;
//! # std::fs::write(file.path(), vec![1; 100_000])?;
//! # let paths = [file.path()];
//! let survey = survey(paths, None);
//! let plan = plan(&survey.snapshot, &History::default(), &PlanOptions::default());
//! for run in plan.runs() {
//!     let path = survey.paths[run.file].display();
//!     println!("{path} {} {} {:?}", run.range.start, run.range.len, run.class);
//! }
//! println!("{} of {} need not be read", plan.prediction.planned_hits, plan.prediction.total);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What makes it work
//! - Chunks instead of files: of the file that is resident in part, that part is hit too.
//! - Newest first ([`Mode::Free`]): the kernel throws out the oldest pages. Read from the oldest on, each page that comes
//!   in without having been planned costs the page that is wanted next, and that one the one after it.
//! - Drop-behind ([`Keep::Keep`]): misses are put out of the cache once they are read, so that hits stay, and no order
//!   has to be changed at all ([`Mode::Fixed`]). Only what the scan itself has brought in is dropped.
//! - Read-ahead, which brings in what is not wanted and throws out what is, only where it hardly can.
//! - A cache that grows is noticed: some misses are left in it each time, more if they stay.
//! - Plans that do not come true are given up for the caller's order ([`DeclineReason`]), so that it is not worse than that by
//!   more than the attempts.
//!
//! # Kernel
//! Residency as in [`map()`](crate::map()): with `cachestat(2)` (Linux 6.5), or `mincore(2)`. Where it cannot be known
//! the order stays the caller's.
//!
//! # Layout
//! - `snapshot`: [`Snapshot`]; `survey`: [`survey`], one of real files.
//! - `planner`: [`plan`]; `plan`: [`Plan`]; `history`: [`History`]; `shuffle`: random orders. Pure functions and data.
//! - `scan`: [`Scanner`], [`Scan`]; `block`: [`Block`]; `fetch`: read-ahead, and dropping.
//! - `simulate`: [`simulate`]; `lru`: the cache that it thinks up.

mod block;
mod fetch;
mod history;
mod lru;
mod plan;
mod planner;
mod scan;
mod shuffle;
mod simulate;
mod snapshot;
#[cfg(test)]
mod strategies;
mod survey;

pub use block::Block;
pub use history::History;
pub use plan::{
    After, DeclineReason, Keep, Mode, Plan, PlanOptions, PlanStep, Prediction, RangeClass,
};
pub use planner::plan;
pub use scan::{Scan, ScanReport, Scanner};
pub use simulate::{SimulatedOrder, simulate};
pub use snapshot::{FileId, FileState, Snapshot};
pub use survey::{Survey, survey, survey_until};

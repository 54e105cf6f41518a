//! Reading files in the order that costs the least I/O.
//!
//! Files that are read repeatedly and exceed the page cache are the kernel's worst case: in the usual order each page is
//! evicted just before it is read again, so that even with 3/4 of the data in memory nothing is hit. If resident pages
//! are read first, and misses do not evict them, only the data less the memory has to be read. That is the lower bound
//! for any order.
//!
//! - [`Scanner`] reads files in that order, block by block, and learns from each scan for the next one.
//! - [`survey`] and [`plan`] only compute the order: of ranges ([`Plan::runs`]), or of whole files
//!   ([`Snapshot::hottest_first`]), with its savings ([`Prediction`]).
//! - [`simulate`] computes the cost of an order with a given amount of memory, without reading anything.
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
//! - Newest first ([`Mode::Free`]): the kernel evicts the oldest pages. In an order from the oldest on, each unplanned
//!   page evicts the page that is needed next, and that one the page after it.
//! - Drop-behind ([`Keep::Keep`]): misses are evicted once they are read, so that hits stay, and the order need not
//!   change at all ([`Mode::Fixed`]). Only pages that the scan itself has inserted are dropped.
//! - Readahead, which inserts unneeded pages and evicts needed ones, only where it hardly can.
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
//! - `scan`: [`Scanner`], [`Scan`]; `block`: [`Block`]; `fetch`: readahead, and dropping.
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

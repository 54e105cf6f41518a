//! Reading files in the order that costs the least I/O.
mod fetch;
mod history;
mod lru;
mod plan;
mod scan;
mod shuffle;
mod simulate;
mod snapshot;
#[cfg(test)]
mod strategies;
mod survey;

pub use history::History;
pub use plan::{After, Class, Keep, Mode, Options, Plan, Prediction, Step, Why, plan};
pub use scan::{Block, Report, Scan, Scanner};
pub use simulate::{Order, simulate};
pub use snapshot::{FileId, FileState, Snapshot};
pub use survey::{Survey, survey};

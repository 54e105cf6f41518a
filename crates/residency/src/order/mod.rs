//! Reading files in the order that costs the least I/O.
mod history;
mod plan;
mod shuffle;
mod snapshot;
#[cfg(test)]
mod strategies;

pub use history::History;
pub use plan::{After, Class, Keep, Mode, Options, Plan, Prediction, Step, Why, plan};
pub use snapshot::{FileId, FileState, Snapshot};

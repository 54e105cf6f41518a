//! Acting on files of paths and trees: the parts that `warm`, `evict`, `lock` and `snapshot` share.
//!
//! # Layout
//! - `target`: their options
//! - `pool`: files, worked on by several threads; `listed`: the same, with a row for each
//! - `ending`: how a command ended, and how far it is

mod ending;
pub mod listed;
pub mod pool;
mod target;

pub use ending::{moving, status};
pub use target::Target;

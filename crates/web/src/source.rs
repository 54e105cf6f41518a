//! The traits that the caller implements: watching counters, surveying files.

use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{Count, Interval, Measured, Source};

use crate::cache::CacheTree;

/// Facts that do not change while the server runs.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The machine, and how it is counted.
    pub source: Arc<Source>,
    /// The program's version.
    pub version: &'static str,
    /// When the watch began, RFC 3339.
    pub started: String,
}

/// Resources that the server uses.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// CPU time of its process so far.
    pub cpu: Duration,
    /// Resident memory of its process.
    pub memory_bytes: Count,
    /// Kernel memory of the maps and programs that count.
    pub kernel_memory_bytes: Count,
    /// CPU time of the programs in the kernel, in the tasks that they watch.
    pub kernel_seconds: Measured<f64>,
}

/// Watches the machine.
pub trait Watching {
    /// Returns the counters since the last call.
    ///
    /// # Errors
    /// A message for the operator.
    fn interval(&mut self) -> Result<Interval, String>;

    /// Resources that watching uses.
    fn cost(&self) -> Cost;

    /// Whether there still is a block device of this name, with anything on it.
    fn has_device(&self, _name: &str) -> bool {
        true
    }
}

/// A set of files with a name, and how much of it is in the page cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSet {
    /// Its name.
    pub name: String,
    /// Files that match.
    pub files: u64,
    /// Files whose residency cannot be known.
    pub unknown: u64,
    /// The sum of their sizes.
    pub size_bytes: u64,
    /// The bytes in the page cache.
    pub resident_bytes: u64,
}

/// Looks at files.
pub trait Surveying {
    /// Returns the contents of the page cache as a tree, with permitted names only.
    ///
    /// # Errors
    /// A message for the operator.
    fn cache(&mut self) -> Result<CacheTree, String>;

    /// Returns the requested sets of files.
    ///
    /// # Errors
    /// A message for the operator.
    fn file_sets(&mut self) -> Result<Vec<FileSet>, String>;
}

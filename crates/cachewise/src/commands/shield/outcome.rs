//! The outcome of a shield.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use cachewise_probe::shield::{Kept, ShieldedFile, Totals};
use cachewise_units::Pages;

/// A file of the report.
#[derive(Debug, Clone)]
pub struct FileReport {
    /// Its path here; `None`: it was never opened.
    pub path: Option<PathBuf>,
    /// Its counts.
    pub file: ShieldedFile,
}

/// The result of a shield.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Counts of the kernel's side.
    pub totals: Totals,
    /// Resident pages at the end, by the reason for which they stay.
    pub kept: BTreeMap<Kept, u64>,
    /// Resident pages at the end of files that could not be opened.
    pub not_opened: u64,
    /// Resident pages at the end of files to which the dropping is not limited.
    pub not_named: u64,
    /// The most noted pages that were seen to be resident at once, those of stopped files and of others not included.
    pub most_resident: Pages,
    /// Pages of which writeback was started.
    pub written_back: u64,
    /// CPU time of the thread.
    pub cpu: Duration,
    /// The part of `cpu` in posix_fadvise(2) and sync_file_range(2).
    pub cpu_of_advice: Duration,
    /// Calls of posix_fadvise(2).
    pub calls: u64,
    /// Files, most dropped pages first.
    pub files: Vec<FileReport>,
    /// The first error of dropping.
    pub error: Option<String>,
}

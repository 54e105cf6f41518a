//! [`Copies`]: pages of a file that a process also keeps in its own memory.

use std::path::PathBuf;

/// A comparison of resident pages of a file with the memory of a process that has it open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copies {
    /// The process.
    pub pid: u32,
    /// The name of its program.
    pub command: String,
    /// The file.
    pub path: PathBuf,
    /// Pages of the file in the page cache.
    pub resident_pages: u64,
    /// Anonymous and shared memory of the process.
    pub own_memory_bytes: u64,
    /// Pages of the file that were compared.
    pub compared_pages: u64,
    /// Those of them whose data the process has in its own memory, a lower bound.
    pub copied_pages: u64,
}

impl Copies {
    /// Pages that are in memory twice, by the compared share; at most what the process can hold.
    #[must_use]
    pub fn pages(&self) -> u64 {
        let product = u128::from(self.resident_pages) * u128::from(self.copied_pages);
        let pages = product.checked_div(u128::from(self.compared_pages));
        pages
            .and_then(|pages| u64::try_from(pages).ok())
            .unwrap_or(0)
    }
}

//! The machine that was watched, and how it was counted.

use cachewise_units::PageSize;

use crate::measured::{Count, Measured, NOT_MEASURED};

/// The machine of an interval, and how it was counted. Intervals of one watch share it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// The machine's name.
    pub hostname: String,
    /// The kernel's release.
    pub kernel: String,
    /// The machine's page size; `None` if a recording does not contain it.
    pub page_size: Option<PageSize>,
    /// The back-end.
    pub backend: Backend,
}

impl Source {
    /// The page size for sums of bytes: the smallest that there is where it is unknown.
    #[must_use]
    pub fn page(&self) -> PageSize {
        self.page_size.unwrap_or(PageSize::SMALLEST)
    }
}

/// Back-end that counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Its name: `tracepoints`, `fentry`, `kprobes`, `sys_exit`, `procfs`.
    pub name: String,
    /// Whether its numbers are exact to the page.
    pub exact: bool,
    /// Notes for the reader: refused probes, missing numbers, and how to get more.
    pub notes: Vec<String>,
    /// Kernel memory of its maps and programs. Storage for each task that uses files comes on top of it.
    pub kernel_memory_bytes: Count,
}

impl Default for Backend {
    fn default() -> Self {
        Backend {
            name: String::new(),
            exact: false,
            notes: Vec::new(),
            kernel_memory_bytes: Measured::Missing(NOT_MEASURED),
        }
    }
}

//! Residency of a file, a directory or a machine at one moment.

use cachewise_units::Ratio;

use crate::measured::{Count, Measured, NOT_APPLICABLE};
use crate::reason::Reason;

/// Residency of a file, or of several.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the table of fields describes each")]
pub struct Residency {
    pub files: Count,
    pub unknown_files: Count,
    pub file_pages: Count,
    pub resident_pages: Count,
    /// `resident_pages` in bytes of whole pages: rows do not know the page size.
    pub resident_bytes: Count,
    pub dirty_pages: Count,
    pub writeback_pages: Count,
    pub evicted_pages: Count,
    pub recently_evicted_pages: Count,
    /// First and last page of a row that is one resident range.
    pub first_page: Measured<u64>,
    pub last_page: Measured<u64>,
    /// Offset of a row that is a range in bytes.
    pub offset: Measured<u64>,
    pub length: Measured<u64>,
    /// Resident share of each bucket of the file.
    pub histogram: Measured<Vec<Ratio>>,
}

impl Default for Residency {
    fn default() -> Self {
        Residency {
            files: Measured::Missing(NOT_APPLICABLE),
            unknown_files: Measured::Missing(NOT_APPLICABLE),
            file_pages: Measured::Missing(NOT_APPLICABLE),
            resident_pages: Measured::Missing(NOT_APPLICABLE),
            resident_bytes: Measured::Missing(NOT_APPLICABLE),
            dirty_pages: Measured::Missing(NOT_APPLICABLE),
            writeback_pages: Measured::Missing(NOT_APPLICABLE),
            evicted_pages: Measured::Missing(NOT_APPLICABLE),
            recently_evicted_pages: Measured::Missing(NOT_APPLICABLE),
            first_page: Measured::Missing(NOT_APPLICABLE),
            last_page: Measured::Missing(NOT_APPLICABLE),
            offset: Measured::Missing(NOT_APPLICABLE),
            length: Measured::Missing(NOT_APPLICABLE),
            histogram: Measured::Missing(NOT_APPLICABLE),
        }
    }
}

impl Residency {
    /// The same with residency marked as an estimate, for this reason.
    #[must_use]
    pub fn estimated(mut self, how: Reason) -> Residency {
        for pages in [
            &mut self.resident_pages,
            &mut self.resident_bytes,
            &mut self.dirty_pages,
            &mut self.writeback_pages,
            &mut self.evicted_pages,
            &mut self.recently_evicted_pages,
        ] {
            if let Measured::Exact(count) = *pages {
                *pages = Measured::Estimated(count, how);
            }
        }
        self
    }

    /// The resident share; missing for an empty file.
    #[must_use]
    pub fn ratio(&self) -> Measured<Ratio> {
        self.resident_pages.ratio_of(self.file_pages)
    }
}

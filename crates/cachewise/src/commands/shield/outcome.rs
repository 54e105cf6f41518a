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

/// The CPU time of the calls that drop pages. The kernel's clock of it costs a tenth of the shield: after the first calls one
/// in eight is measured.
#[derive(Debug, Clone, Copy, Default)]
pub struct Advice {
    measured: Duration,
    measured_pages: u64,
    pages: u64,
    times: u64,
}

impl Advice {
    /// Number of calls that are all measured.
    const ALL: u64 = 64;
    /// After them, one call in this many is measured.
    const ONE_IN: u64 = 8;

    /// Whether the next call, on this many pages, is to be measured.
    pub fn is_measured(&mut self, pages: u64) -> bool {
        self.times += 1;
        self.pages += pages;
        self.times <= Self::ALL || self.times.is_multiple_of(Self::ONE_IN)
    }

    /// Adds the time of a call.
    pub fn measured(&mut self, pages: u64, time: Duration) {
        self.measured += time;
        self.measured_pages += pages;
    }

    /// The time of all calls, by their pages.
    pub fn cpu(&self) -> Duration {
        match self.measured_pages {
            0 => self.measured,
            measured => self.measured.mul_f64(self.pages as f64 / measured as f64),
        }
    }

    /// Whether [`Self::cpu`] is an estimate.
    pub fn is_estimate(&self) -> bool {
        self.pages != self.measured_pages
    }
}

/// The sums of a shield so far, and its cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    /// Counts of the kernel's side.
    pub totals: Totals,
    /// Noted pages that are resident, those of stopped files and of others not included.
    pub resident: Pages,
    /// The most of them that were seen to be resident at once.
    pub most_resident: Pages,
    /// CPU time of the thread.
    pub cpu: Duration,
    /// The part of `cpu` in posix_fadvise(2) and sync_file_range(2).
    pub advice: Advice,
}

/// The result of a shield.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Its figures.
    pub figures: Figures,
    /// Resident pages at the end, by the reason for which they stay.
    pub kept: BTreeMap<Kept, u64>,
    /// Resident pages at the end of files that could not be opened.
    pub not_opened: u64,
    /// Resident pages at the end of files to which the dropping is not limited.
    pub not_named: u64,
    /// Pages of which writeback was started.
    pub written_back: u64,
    /// Calls of posix_fadvise(2).
    pub calls: u64,
    /// Files, most dropped pages first.
    pub files: Vec<FileReport>,
    /// The first error of dropping.
    pub error: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmeasured_calls_cost_as_much_by_page() {
        let mut advice = Advice::default();
        for call in 1..=1000 {
            let pages = if call % 2 == 0 { 512 } else { 256 };
            if advice.is_measured(pages) {
                advice.measured(pages, Duration::from_nanos(10 * pages));
            }
            assert_eq!(advice.is_estimate(), call > 64, "the first 64 are exact");
        }
        let all = Duration::from_nanos(10 * 384 * 1000);
        assert!(advice.cpu().abs_diff(all) < Duration::from_micros(1));
    }
}

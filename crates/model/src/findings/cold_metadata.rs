//! A cold walk: most pages read from the device are directories and inodes, not contents of files.
//!
//! It covers file systems with metadata in the page cache: ext4 and its kin on the mapping of the
//! block device, btrfs on an internal inode. xfs has its own buffers, which no counter covers.

use cachewise_units::Bytes;

use crate::counter::Counter;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::interval::Interval;
use crate::measured::Measured;
use crate::parts::FileRow;
use crate::value::Value;

pub(super) const ID: &str = "cold_metadata";

/// A walk waits for each block before it knows the next: a thousand blocks take a tenth of a second
/// on a fast device, ten seconds on a disk.
const WORTH: Bytes = Bytes(4 << 20);
/// With less than a quarter of memory available, the metadata will not stay.
const SHORT_PART: u64 = 4;

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    let of_files = interval
        .files
        .iter()
        .filter_map(|file| Some((metadata(file)?, file)));
    let pages: u64 = of_files.clone().map(|(pages, _)| pages).sum();
    let inserted = interval.ledger.inserted_pages();
    let Some(all) = inserted.exact() else {
        return Vec::new();
    };
    // Most of the inserted pages: with fewer, the run is about the contents.
    if pages < WORTH.pages_ceil(interval.page()).0 || pages.saturating_mul(2) < all {
        return Vec::new();
    }
    let heaviest = of_files.max_by_key(|(pages, _)| *pages);
    let metadata = Measured::Exact(pages);
    vec![Finding {
        id: ID,
        severity: Severity::Info,
        title: String::from(
            "cold walk: most inserted pages are file-system metadata (directories and inodes)",
        ),
        figures: vec![
            ("metadata_pages", metadata.pages()),
            ("metadata_ratio", Value::ratio(metadata.ratio_of(inserted))),
            ("device_read_bytes", interval.device_read_bytes.bytes()),
        ],
        next_step: next_step(interval),
        subject: heaviest.and_then(|(_, file)| file.path.clone().known()),
        kind: SubjectKind::File,
        ..Finding::default()
    }]
}

/// Inserted pages of metadata on one mapping.
fn metadata(file: &FileRow) -> Option<u64> {
    let pages = file.ledger.get(Counter::MetadataPages).exact()?;
    let asked = file.ledger.get(Counter::ReadRequestedPages).exact()?;
    // ext4 reads directories ahead like files. If no program read the device itself, all pages
    // inserted on it are metadata.
    if pages > 0 && asked == 0 {
        return file.ledger.inserted_pages().exact();
    }
    Some(pages)
}

fn next_step(interval: &Interval) -> String {
    let around = interval.surroundings();
    let memory = (
        around.memory_available_bytes.exact(),
        around.memory_total_bytes.exact(),
    );
    let keep = match memory {
        (Some(available), Some(total)) if available < total / SHORT_PART => format!(
            "memory is short ({} available): add some, or name fewer directories",
            Bytes(available)
        ),
        _ => String::from(
            "to keep directories and inodes in memory longer: sysctl vm.vfs_cache_pressure=50 \
             (default: 100)",
        ),
    };
    format!(
        "run it again to measure it warm; to walk the tree first: du -s DIRECTORY >/dev/null; \
         {keep}; for git: core.untrackedCache and core.fsmonitor walk less"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample;

    /// 4 MiB.
    const WORTH_PAGES: u64 = 1 << 10;

    /// A device with metadata, and a file with this many fetched pages.
    fn walk(metadata: u64, contents: u64) -> Interval {
        let mut interval = sample::run();
        let mut device = sample::file("/dev/vda", 0);
        device.ledger.set(Counter::MetadataPages, metadata);
        let mut file = sample::file("/data", 1 << 30);
        file.ledger.set(Counter::ReadRequestedPages, contents);
        file.ledger.set(Counter::ReadMissedPages, contents);
        interval.ledger = &device.ledger + &file.ledger;
        interval.files = vec![file, device];
        interval
    }

    #[test]
    fn cold_walk_is_reported_with_figures() {
        let mut interval = walk(4300, 55);
        interval.device_read_bytes = Measured::Exact(17_838_080);
        let findings = check(&interval);
        assert_eq!(findings.len(), 1, "one finding for the run");
        assert_eq!(
            findings[0].figures[0].1,
            Measured::Exact(4300).pages(),
            "how much metadata"
        );
        assert_eq!(
            findings[0].figures[2].1,
            Measured::Exact(17_838_080).bytes(),
            "and what the device gave"
        );
        assert!(
            findings[0].next_step.contains("vm.vfs_cache_pressure"),
            "the setting is named"
        );
    }

    #[test]
    fn readahead_of_directories_counts_as_metadata() {
        let mut interval = walk(WORTH_PAGES - 1, 0);
        let device = &mut interval.files[1].ledger;
        device.set(Counter::ReadaheadPages, 1);
        assert_eq!(
            check(&interval).len(),
            1,
            "one block more, fetched before it was asked for"
        );
        assert_eq!(
            check(&interval)[0].subject.as_deref(),
            Some(std::path::Path::new("/dev/vda")),
            "of this device"
        );
        interval.files[1].ledger.set(Counter::ReadRequestedPages, 1);
        assert_eq!(
            check(&interval),
            [],
            "where the device was read as a file, it may have been for that"
        );
    }

    #[test]
    fn little_metadata_is_ignored() {
        assert_eq!(check(&walk(WORTH_PAGES - 1, 0)), [], "a page too few");
        assert_eq!(check(&walk(WORTH_PAGES, 0)).len(), 1, "just enough");
        assert_eq!(check(&walk(0, 0)), [], "none at all");
    }

    #[test]
    fn walk_with_more_contents_is_ignored() {
        assert_eq!(check(&walk(4000, 4001)), [], "a page more of contents");
        assert_eq!(check(&walk(4000, 4000)).len(), 1, "half of it");
    }

    #[test]
    fn scarce_memory_changes_the_next_step() {
        let mut interval = walk(4300, 0);
        interval.run_mut().surroundings.memory_available_bytes = Measured::Exact(1 << 30);
        let step = &check(&interval)[0].next_step;
        assert!(
            step.contains("memory is short (1.0 GiB available)"),
            "an eighth of 8 GiB is available: {step}"
        );
        assert!(
            !step.contains("vfs_cache_pressure"),
            "holding on to more would not help: {step}"
        );
    }
}

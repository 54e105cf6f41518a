//! Readahead of pages that were never read.
//!
//! Pages inserted by advice (`POSIX_FADV_WILLNEED`, `readahead`) that are still resident count as
//! intended: a program may read them later. They are wasted if they were evicted unread.

use cachewise_units::Bytes;

use super::heaviest::heaviest;
use super::pressure::more_memory;
use super::trial;
use crate::counter::Counter;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::interval::Interval;
use crate::measured::{Count, Measured};
use crate::parts::FileRow;
use crate::value::Value;

pub(super) const ID: &str = "readahead_wasted";

/// Every sequential reader leaves a window or two behind at its end; this is more.
pub(super) const WORTH: Bytes = Bytes(8 << 20);
/// One in this many inserted pages was unused.
const PART: u64 = 2;

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    heaviest(
        interval
            .files
            .iter()
            .enumerate()
            .filter_map(|(place, file)| of_file(file, place, interval))
            .collect(),
    )
}

fn of_file(file: &FileRow, place: usize, interval: &Interval) -> Option<(u64, Finding)> {
    let ledger = &file.ledger;
    let read_ahead = ledger.get(Counter::ReadaheadPages);
    let advised = ledger.get(Counter::PrefetchPages);
    let wasted = ledger.get(Counter::ReadaheadWastedPages);
    let inserted = read_ahead.plus(advised);
    let unused = unused(file)?;
    if unused < WORTH.pages_ceil(interval.page()).0 || unused * PART < inserted.exact()? {
        return None;
    }
    let gone = wasted.exact()?;
    if gone > 0 {
        unread_refaults(file)?;
    }
    let count = Measured::Exact(unused);
    let finding = Finding {
        id: ID,
        // Evicted pages had taken the place of others.
        severity: if gone > 0 {
            Severity::Warn
        } else {
            Severity::Info
        },
        title: String::from("readahead inserted pages that were never read"),
        figures: vec![
            ("unused_pages", count.pages()),
            ("readahead_pages", read_ahead.pages()),
            ("prefetch_pages", advised.pages()),
            ("readahead_wasted_pages", wasted.pages()),
            ("unused_ratio", Value::ratio(count.ratio_of(inserted))),
        ],
        trial: match is_memory_short(file) {
            true => interval
                .room_for_file(place)
                .limited
                .and_then(|group| trial::more_memory(group.system.memory_limit_bytes)),
            false => Some("fadvise=random".to_owned()),
        },
        next_step: if is_memory_short(file) {
            format!(
                "they were evicted before the program read them, and read again: give it more memory: {}",
                more_memory(&interval.room_for_file(place))
            )
        } else {
            String::from(
                "if the program reads here and there, call posix_fadvise(fd, 0, 0, \
             POSIX_FADV_RANDOM) after opening; if it stops early on purpose, lower the device's \
             read_ahead_kb",
            )
        },
        subject: file.path.clone().known(),
        kind: SubjectKind::File,
        ..Finding::default()
    };
    Some((unused, finding))
}

/// Whether most of the pages that were evicted unread came back: memory was short.
pub(super) fn is_memory_short(file: &FileRow) -> bool {
    let gone = file.ledger.get(Counter::ReadaheadWastedPages).exact();
    let back = unread_refaults(file);
    gone > Some(0) && back.is_some_and(|back| Some(back.saturating_mul(2)) >= gone)
}

/// Refaults that are proven to be of pages evicted unread: more than all other evicted pages.
fn unread_refaults(file: &FileRow) -> Option<u64> {
    let ledger = &file.ledger;
    let read = ledger
        .evicted_pages()
        .minus(ledger.get(Counter::ReadaheadWastedPages));
    ledger.get(Counter::RefaultPages).minus(read).exact()
}

/// Pages evicted unread or, without advice, not read yet.
fn unused(file: &FileRow) -> Option<u64> {
    let get = |counter| -> Count { file.ledger.get(counter) };
    let wasted = get(Counter::ReadaheadWastedPages).exact()?;
    if get(Counter::PrefetchPages).exact()? > 0 {
        return Some(wasted);
    }
    let unread = get(Counter::ReadaheadPages).minus(get(Counter::ReadaheadHitPages));
    Some(wasted.max(unread.exact()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample::with_file;

    fn run(read_ahead: u64, advised: u64, used: u64, wasted: u64) -> Interval {
        use Counter::{PrefetchPages, ReadaheadHitPages, ReadaheadPages, ReadaheadWastedPages};
        let counts = [
            (ReadaheadPages, read_ahead),
            (PrefetchPages, advised),
            (ReadaheadHitPages, used),
            (ReadaheadWastedPages, wasted),
        ];
        with_file(1 << 30, &counts)
    }

    #[test]
    fn unread_pages_are_info_and_evicted_ones_a_warning() {
        assert_eq!(
            check(&run(100_000, 0, 20_000, 0))[0].severity,
            Severity::Info,
            "still there"
        );
        assert_eq!(
            check(&run(100_000, 0, 20_000, 70_000))[0].severity,
            Severity::Warn,
            "gone"
        );
        assert!(
            check(&run(100_000, 0, 0, 0))[0]
                .next_step
                .contains("POSIX_FADV_RANDOM"),
            "the advice that turns it off is named"
        );
    }

    #[test]
    fn refaulted_readahead_points_to_scarce_memory() {
        use Counter::{ReadaheadPages, ReadaheadWastedPages, RefaultPages};
        let step = |refaults| {
            let counts = [
                (ReadaheadPages, 100_000),
                (ReadaheadWastedPages, 70_000),
                (RefaultPages, refaults),
            ];
            check(&with_file(1 << 30, &counts))[0].next_step.clone()
        };
        assert!(step(70_000).contains("more memory"), "{}", step(70_000));
        assert!(step(10_000).contains("read_ahead_kb"), "some came again");
    }

    #[test]
    fn refaults_of_other_pages_prove_nothing_about_readahead() {
        use Counter::{EvictedReclaimPages, ReadaheadPages, ReadaheadWastedPages, RefaultPages};
        let counts = [
            (ReadaheadPages, 100_000),
            (ReadaheadWastedPages, 70_000),
            (EvictedReclaimPages, 200_000),
            (RefaultPages, 130_000),
        ];
        let step = check(&with_file(1 << 30, &counts))[0].next_step.clone();
        assert!(
            !step.contains("read again") && step.contains("POSIX_FADV_RANDOM"),
            "130,000 of the evicted pages had been read: {step}"
        );
    }

    #[test]
    fn prefetched_resident_file_is_not_a_waste() {
        assert_eq!(
            check(&run(0, 100_000, 0, 0)),
            [],
            "a prefetch for whoever comes next"
        );
        assert_eq!(
            check(&run(0, 100_000, 0, 90_000)).len(),
            1,
            "unless it left unread"
        );
    }

    #[test]
    fn useful_and_small_readahead_is_ignored() {
        assert_eq!(
            check(&run(130_560, 0, 130_560, 0)),
            [],
            "a sequential read uses all"
        );
        assert_eq!(
            check(&run(100_000, 0, 70_000, 20_000)),
            [],
            "most of it was used"
        );
        assert_eq!(
            check(&run(512, 0, 0, 0)),
            [],
            "one window behind the last read"
        );
    }
}

//! A file inserted into the page cache several times in one run.

use cachewise_units::Bytes;

use super::heaviest::heaviest;
use super::pressure::more_memory;
use super::trial;
use crate::counter::Counter;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::group_memory::Room;
use crate::interval::Interval;
use crate::measured::{Count, Measured};
use crate::parts::FileRow;

pub(super) const ID: &str = "reread_from_disk";

/// Pages fetched beyond one copy of the file; a smaller amount takes no noticeable time.
const WORTH: Bytes = Bytes(4 << 20);
/// One and a half times, in quarters: the file may have grown or shrunk a little meanwhile.
const TIMES_IN_QUARTERS: u64 = 6;

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
    let pages = file.pages(interval.page())?;
    // Pages made by writes cost no read.
    let fetched = file.ledger.fetched_pages();
    let number = fetched.exact()?;
    let again = number.saturating_sub(pages);
    if again < WORTH.pages_ceil(interval.page()).0 || number * 4 < pages * TIMES_IN_QUARTERS {
        return None;
    }
    // Pages that no program touches need no memory.
    if super::fault_readahead::is_untouched(file, interval) {
        return None;
    }
    let reclaimed = file.ledger.get(Counter::EvictedReclaimPages);
    let dropped = file.ledger.get(Counter::EvictedOtherPages);
    let room = interval.room_for_file(place);
    let finding = Finding {
        id: ID,
        severity: Severity::Warn,
        title: format!(
            "the same file was fetched from the device {}.{} times",
            number / pages,
            number % pages * 10 / pages
        ),
        figures: vec![
            ("fetched_pages", fetched.pages()),
            ("file_pages", Measured::Exact(pages).pages()),
            ("read_again_pages", Measured::Exact(again).pages()),
            ("evicted_reclaim_pages", reclaimed.pages()),
            ("evicted_other_pages", dropped.pages()),
        ],
        trial: trial_of(reclaimed, dropped, &room),
        next_step: next_step(reclaimed, dropped, &room),
        subject: file.path.clone().known(),
        kind: SubjectKind::File,
        ..Finding::default()
    };
    Some((again, finding))
}

/// More memory, where reclaim evicts it.
fn trial_of(reclaimed: Count, dropped: Count, room: &Room<'_>) -> Option<String> {
    let is_reclaimed = reclaimed.exact()? > 0 && reclaimed.exact() >= dropped.exact();
    let limited = room.limited.filter(|_| is_reclaimed)?;
    trial::more_memory(limited.system.memory_limit_bytes)
}

fn next_step(reclaimed: Count, dropped: Count, room: &Room<'_>) -> String {
    // The main cause of eviction decides the fix.
    match (reclaimed.exact(), dropped.exact()) {
        (Some(reclaimed), Some(dropped)) if dropped > reclaimed => String::from(
            "something drops it between the reads: look for POSIX_FADV_DONTNEED, RWF_DONTCACHE, \
             drop_caches or a rewrite of the file, and leave it out until the last read",
        ),
        (Some(reclaimed), Some(_)) if reclaimed > 0 => format!(
            "memory was too small to keep it: do all the work on one part of the file before the \
             next, read resident parts first (cachewise order), or {}",
            more_memory(room)
        ),
        _ => String::from(
            "read it once and keep the data that is needed, or find the program that evicts it \
             between the reads",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample::with_file;
    use crate::reason::Reason;

    const SIZE: u64 = 64 << 20;
    const PAGES: u64 = SIZE >> 12;

    fn run(fetched: u64, dropped: u64, reclaimed: u64) -> Interval {
        use Counter::{EvictedOtherPages, EvictedReclaimPages, ReadMissedPages, ReadaheadPages};
        let counts = [
            (ReadMissedPages, fetched / 8),
            (ReadaheadPages, fetched - fetched / 8),
            (EvictedOtherPages, dropped),
            (EvictedReclaimPages, reclaimed),
        ];
        with_file(SIZE, &counts)
    }

    #[test]
    fn file_fetched_five_times_is_reported_with_factor() {
        let findings = check(&run(5 * PAGES, 4 * PAGES, 0));
        assert!(
            findings[0].title.contains("5.0 times"),
            "{}",
            findings[0].title
        );
        assert!(
            findings[0].next_step.contains("POSIX_FADV_DONTNEED"),
            "it was dropped"
        );
        let findings = check(&run(5 * PAGES, 0, 4 * PAGES));
        assert!(findings[0].next_step.contains("memory"), "it was reclaimed");
    }

    #[test]
    fn slightly_more_than_one_copy_is_ignored() {
        assert_eq!(check(&run(PAGES, 0, 0)), [], "a cold read fetches it once");
        assert_eq!(check(&run(PAGES + PAGES / 4, 0, 0)), [], "a quarter again");
        assert_eq!(check(&run(0, 0, 0)), [], "a warm read fetches nothing");
    }

    #[test]
    fn unknown_size_is_ignored() {
        let mut interval = run(5 * PAGES, 4 * PAGES, 0);
        interval.files[0].size_bytes = Measured::unknown(Reason::FileGone);
        assert_eq!(check(&interval), [], "five times of what?");
        interval.files[0].size_bytes = Measured::Exact(0);
        assert_eq!(
            check(&interval),
            [],
            "a file that was truncated has no pages to compare with"
        );
    }

    #[test]
    fn small_file_is_ignored() {
        let mut interval = run(1000, 900, 0);
        interval.files[0].size_bytes = Measured::Exact(4096);
        assert_eq!(
            check(&interval),
            [],
            "a thousand reads of one page are 4 MiB less a page"
        );
    }
}

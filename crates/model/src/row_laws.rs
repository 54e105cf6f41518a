//! Laws of rows: what the page cache's events say of a file or a process against a count from elsewhere.
//!
//! - [`residency_law`]: pages inserted and evicted against the kernel's own count of resident pages.
//! - [`device_laws`]: bytes fetched against the bytes that the block layer read for the same tasks.

use cachewise_units::PageSize;

use crate::counter::Counter;
use crate::law::{Law, LawScope, Relation, Side};
use crate::ledger::Ledger;
use crate::measured::{Count, Measured};
use crate::parts::{ALL_OTHERS, CgroupRow, FileRow, ProcessRow};
use crate::reason::Reason;
use crate::unit::Unit;

/// The evictions of a file.
const EVICTED: [Counter; 2] = [Counter::EvictedReclaimPages, Counter::EvictedOtherPages];

/// How a file was used, for the law of its residency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileUse {
    /// Pages that tasks outside of the report inserted.
    pub outside_pages: u64,
    /// At its first event one thread used it: no page was between its insert and its event then.
    pub is_first_use_alone: bool,
    /// Why its pages cannot be compared, if so.
    pub unchecked: Option<Reason>,
}

/// `resident before + inserted = resident after + evicted`: residency by the kernel's count of the mapping's pages and
/// cachestat(2), the other two by events.
#[must_use]
pub fn residency_law(row: &FileRow, used: FileUse) -> Law {
    let before = row.resident_before_pages;
    let inserted = row.ledger.inserted_pages();
    let mut left = vec![("resident before", before), ("inserted", inserted)];
    if used.outside_pages > 0 {
        left.push(("inserted by others", Measured::Exact(used.outside_pages)));
    }
    let mut law = Law {
        id: "residency",
        scope: LawScope::File,
        subject: Some(name_of(row)),
        left,
        relation: Relation::Equal,
        right: vec![
            ("resident after", row.resident_after_pages),
            ("evicted", row.ledger.evicted_pages()),
        ],
        unit: Unit::Pages,
        unchecked: used.unchecked,
    };
    if let (Measured::Exact(left), Measured::Exact(right)) = law.sums()
        && !used.is_first_use_alone
        && left > right
        && left - right <= before.known().unwrap_or(0)
    {
        law.unchecked = law.unchecked.or(Some(Reason::ConcurrentFirstUse));
    }
    law
}

/// The law of residency for a control group. It cannot be checked: a page is charged to the group that used it first.
#[must_use]
pub fn group_residency_law(row: &CgroupRow) -> Law {
    Law {
        id: "residency",
        scope: LawScope::Cgroup,
        subject: row.path.clone().known(),
        left: vec![("inserted", row.ledger.inserted_pages())],
        relation: Relation::Equal,
        right: vec![("evicted", row.ledger.evicted_pages())],
        unit: Unit::Pages,
        unchecked: Some(Reason::ChargedElsewhere),
    }
}

/// How a process read, for the laws of its devices' bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceUse {
    /// Fetched from files of which every byte is on a device, uncompressed.
    pub on_device_bytes: Count,
    /// Why the devices' bytes cannot be compared with a lower bound, if so.
    pub unchecked_least: Option<Reason>,
    /// Why they cannot be compared with an upper bound, if so.
    pub unchecked_most: Option<Reason>,
}

/// `fetched from files on devices <= read from devices <= fetched + other inserts`.
///
/// Both are no equations: holes, compression and data in inodes are fetched without a device; metadata, and pages that
/// a write reads first, come from a device and are not fetched.
#[must_use]
pub fn device_laws(row: &ProcessRow, page: PageSize, used: DeviceUse) -> [Law; 2] {
    let ledger = &row.ledger;
    let device = ("read from devices", row.device_read_bytes);
    let pages = |counters: &[Counter]| {
        let sum = counters
            .iter()
            .fold(Measured::Exact(0), |sum: Count, counter| {
                sum.plus(ledger.get(*counter))
            });
        sum.map(|pages| pages.saturating_mul(page.get()))
    };
    let law = |id, left: Side, right: Side, unchecked| Law {
        id,
        scope: LawScope::Process,
        subject: Some(match (row.command.as_ref().known(), row.pid) {
            (Some(command), Some(pid)) => format!("{command} ({pid})"),
            (None, Some(pid)) => pid.to_string(),
            (_, None) => ALL_OTHERS.to_owned(),
        }),
        left,
        relation: Relation::AtMost,
        right,
        unit: Unit::Bytes,
        unchecked,
    };
    let mut most = vec![
        ("fetched", ledger.fetched_bytes(Some(page))),
        ("metadata", pages(&[Counter::MetadataPages])),
        (
            "other new pages",
            pages(&[Counter::WriteNewPages, Counter::OtherPages]),
        ),
    ];
    // The device reads whole blocks; the request ends with the file.
    let direct = pages(&[Counter::DirectReadRequests]);
    if direct != Measured::Exact(0) {
        most.push(("at most a block for the end of each direct read", direct));
    }
    [
        law(
            "device_bytes_least",
            vec![("fetched from files on devices", used.on_device_bytes)],
            vec![device],
            used.unchecked_least,
        ),
        law("device_bytes_most", vec![device], most, used.unchecked_most),
    ]
}

/// Marks the numbers of a file that the law of residency is about as estimates.
pub fn mark_residency(ledger: &mut Ledger) {
    for counter in Counter::INSERTS.iter().chain(&EVICTED) {
        mark(ledger, *counter, Reason::ResidencyContradicts);
    }
}

/// Marks the numbers of a process that the laws of devices' bytes are about as estimates.
pub fn mark_device(ledger: &mut Ledger, device_read_bytes: &mut Count) {
    for counter in Counter::FETCHES.iter().chain(&[Counter::DirectReadBytes]) {
        mark(ledger, *counter, Reason::DeviceContradicts);
    }
    if let Measured::Exact(bytes) = *device_read_bytes {
        *device_read_bytes = Measured::Estimated(bytes, Reason::DeviceContradicts);
    }
}

fn mark(ledger: &mut Ledger, counter: Counter, how: Reason) {
    if let Measured::Exact(number) = ledger.booked(counter) {
        ledger.set_estimated(counter, number, how);
    }
}

/// Its path, or its numbers.
fn name_of(row: &FileRow) -> String {
    match row.path.as_ref().known() {
        Some(path) => path.to_string_lossy().into_owned(),
        None => match &row.number {
            Some(number) => format!("device {}, inode {}", number.device, number.inode),
            None => ALL_OTHERS.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;
    use crate::findings::sample;
    use crate::law::Verdict;

    const USED: FileUse = FileUse {
        outside_pages: 0,
        is_first_use_alone: true,
        unchecked: None,
    };

    /// 10 pages before, 90 inserted, 30 evicted, 70 after.
    fn file() -> FileRow {
        let mut row = sample::file("/data", 1 << 20);
        row.resident_before_pages = Measured::Exact(10);
        row.resident_after_pages = Measured::Exact(70);
        row.ledger.set(Counter::ReadMissedPages, 50);
        row.ledger.set(Counter::ReadaheadPages, 39);
        row.ledger.set(Counter::WriteNewPages, 1);
        row.ledger.set(Counter::EvictedReclaimPages, 20);
        row.ledger.set(Counter::EvictedOtherPages, 10);
        row
    }

    #[test]
    fn a_wrong_count_of_inserts_or_evictions_breaks_the_law_of_residency() {
        assert_eq!(residency_law(&file(), USED).verdict(), Verdict::Holds);
        for counter in Counter::INSERTS.iter().chain(&EVICTED) {
            let mut row = file();
            row.ledger.set(*counter, row.ledger[*counter] + 3);
            let law = residency_law(&row, USED);
            assert_eq!(law.verdict(), Verdict::Broken, "{}", counter.id());
            assert_eq!(law.subject.as_deref(), Some("/data"));
            mark_residency(&mut row.ledger);
            assert!(row.ledger.get(*counter).estimate().is_some());
            assert_eq!(
                residency_law(&row, USED).verdict(),
                Verdict::Unknown(Reason::ResidencyContradicts),
                "marked numbers prove nothing"
            );
        }
    }

    #[test]
    fn pages_of_others_are_a_part_and_an_unseen_first_use_is_no_proof() {
        let mut row = file();
        row.resident_after_pages = Measured::Exact(75);
        assert_eq!(residency_law(&row, USED).verdict(), Verdict::Broken);
        let with_others = FileUse {
            outside_pages: 5,
            ..USED
        };
        assert_eq!(residency_law(&row, with_others).verdict(), Verdict::Holds);
        let several = FileUse {
            is_first_use_alone: false,
            ..USED
        };
        row.resident_after_pages = Measured::Exact(66);
        let law = residency_law(&row, several);
        assert_eq!(law.reason_code(), Some("concurrent_first_use"));
        row.resident_after_pages = Measured::Exact(59);
        assert_eq!(
            residency_law(&row, several).verdict(),
            Verdict::Broken,
            "more than all pages before cannot have been on their way"
        );
        row.resident_after_pages = Measured::Exact(71);
        assert_eq!(
            residency_law(&row, several).verdict(),
            Verdict::Broken,
            "nor fewer than none"
        );
    }

    /// 100 pages fetched and 5 of metadata; the device read 105.
    fn process() -> ProcessRow {
        let mut ledger = Ledger::default();
        ledger.set(Counter::ReadMissedPages, 60);
        ledger.set(Counter::ReadaheadPages, 40);
        ledger.set(Counter::MetadataPages, 5);
        ProcessRow {
            pid: Some(7),
            started: Measured::Exact(1),
            ppid: Measured::Exact(1),
            command: Measured::Exact("cat".into()),
            cgroup: Measured::Exact("/".into()),
            exit: Exit::Code(0),
            cpu_seconds: Measured::Exact(0.5),
            device_read_bytes: Measured::Exact(105 * 4096),
            device_write_bytes: Measured::Exact(0),
            ledger,
        }
    }

    fn verdicts(row: &ProcessRow, on_device_pages: u64) -> [Verdict; 2] {
        let used = DeviceUse {
            on_device_bytes: Measured::Exact(on_device_pages * 4096),
            unchecked_least: None,
            unchecked_most: None,
        };
        let page = PageSize::new(4096).unwrap();
        device_laws(row, page, used).map(|law| law.verdict())
    }

    #[test]
    fn fetched_bytes_that_no_device_read_and_the_reverse_break_a_law() {
        use Verdict::{Broken, Holds};
        assert_eq!(verdicts(&process(), 100), [Holds, Holds]);
        assert_eq!(verdicts(&process(), 106), [Broken, Holds]);
        let mut row = process();
        row.device_read_bytes = Measured::Exact(106 * 4096);
        assert_eq!(verdicts(&row, 100), [Holds, Broken]);
        row.device_read_bytes = Measured::Exact(99 * 4096);
        assert_eq!(verdicts(&row, 100), [Broken, Holds]);
        let mut row = process();
        row.ledger.set(Counter::ReadMissedPages, 59);
        assert_eq!(verdicts(&row, 99), [Holds, Broken], "a page too few");
        mark_device(&mut row.ledger, &mut row.device_read_bytes);
        assert!(row.device_read_bytes.estimate().is_some());
        assert!(
            row.ledger
                .get(Counter::ReadMissedPages)
                .estimate()
                .is_some()
        );
        assert_eq!(row.ledger.get(Counter::MetadataPages), Measured::Exact(5));
    }

    #[test]
    fn a_direct_read_may_end_within_a_block() {
        use Verdict::{Broken, Holds};
        let mut row = process();
        row.ledger.set(Counter::DirectReadRequests, 1);
        row.ledger.set(Counter::DirectReadBytes, 100);
        row.device_read_bytes = Measured::Exact(106 * 4096);
        assert_eq!(verdicts(&row, 100), [Holds, Holds]);
        row.device_read_bytes = Measured::Exact(107 * 4096);
        assert_eq!(verdicts(&row, 100), [Holds, Broken]);
    }
}

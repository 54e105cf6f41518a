//! Small random reads that mostly miss: each waits for the device separately.

use cachewise_units::Bytes;

use super::heaviest::heaviest;
use super::pressure::{bytes_text, more_memory};
use super::trial;
use crate::counter::Counter;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::group_memory::Room;
use crate::interval::Interval;
use crate::parts::FileRow;
use crate::value::Value;
use cachewise_units::shell_quoted;

pub(super) const ID: &str = "random_small_reads";

/// A device serves a request of this size in the time of a smaller one.
const SMALL_BYTES: u64 = 16 << 10;
/// A thousand waits are a tenth of a second on flash, ten on a disk.
const WORTH_MISSES: u64 = 1000;
/// One page in this many missed. Sequential reads of any size miss far fewer, because of readahead.
const MISS_PART: u64 = 4;

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
    let average = ledger.average_read();
    let (pages, misses) = (
        ledger.get(Counter::ReadRequestedPages),
        ledger.get(Counter::ReadMissedPages),
    );
    let missed = misses.exact().filter(|missed| *missed >= WORTH_MISSES)?;
    if average.exact()? > SMALL_BYTES || missed * MISS_PART < pages.exact()? {
        return None;
    }
    let room = interval.room_for_file(place);
    let finding = Finding {
        id: ID,
        severity: Severity::Warn,
        title: String::from("small random reads mostly miss and wait for the device one by one"),
        figures: vec![
            ("read_requests", ledger.value(Counter::ReadRequests)),
            ("read_average_bytes", average.bytes()),
            ("read_missed_pages", misses.pages()),
            ("read_miss_ratio", Value::ratio(misses.ratio_of(pages))),
            ("file_size_bytes", file.size_bytes.bytes()),
            ("room_bytes", room.bytes.bytes()),
        ],
        trial: trial_of(file, &room),
        next_step: next_step(file, &room),
        subject: file.path.clone().known(),
        kind: SubjectKind::File,
        ..Finding::default()
    };
    Some((missed, finding))
}

/// Prefetching if the file fits, or more memory.
fn trial_of(file: &FileRow, room: &Room<'_>) -> Option<String> {
    match (file.size_bytes.exact()?, room.bytes.known()?) {
        (size, room) if size <= room && !file.deleted => Some("warm".to_owned()),
        _ => trial::more_memory(room.limited?.system.memory_limit_bytes),
    }
}

fn next_step(file: &FileRow, room: &Room<'_>) -> String {
    let step =
        "sort the reads by offset and coalesce neighbours, or raise the I/O depth (io_uring)";
    let size = file.size_bytes.exact();
    match (size, room.bytes.known(), file.path.as_ref().known()) {
        (Some(size), Some(room), Some(path)) if size <= room && !file.deleted => format!(
            "the file fits into memory: prefetch it once, sequentially: cat {} >/dev/null ({}); or \
             {step}",
            shell_quoted(path),
            Bytes(size)
        ),
        (Some(size), Some(_), _) if size > 0 => format!(
            "{step}; the file ({}) exceeds the memory available to its reader ({}): {}",
            Bytes(size),
            bytes_text(room.bytes),
            more_memory(room)
        ),
        _ => step.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample::with_file;
    use crate::measured::Measured;

    fn run(size: u64, requests: u64, bytes: u64, misses: u64) -> Interval {
        use Counter::{ReadMissedPages, ReadRequestedBytes, ReadRequestedPages, ReadRequests};
        let counts = [
            (ReadRequests, requests),
            (ReadRequestedBytes, bytes),
            (ReadRequestedPages, bytes.div_ceil(4096)),
            (ReadMissedPages, misses),
        ];
        with_file(size, &counts)
    }

    #[test]
    fn cold_random_page_reads_are_reported() {
        let findings = check(&run(1 << 30, 10_000, 10_000 << 12, 9_000));
        assert_eq!(findings.len(), 1, "nine of ten waited for the device");
        assert!(
            findings[0].next_step.contains("cat /data"),
            "1 GiB fits into 4 GiB available"
        );
    }

    #[test]
    fn file_larger_than_memory_is_not_prefetched() {
        let findings = check(&run(1 << 40, 10_000, 10_000 << 12, 9_000));
        assert!(
            !findings[0].next_step.contains("cat "),
            "1 TiB does not fit"
        );
        assert!(
            findings[0].next_step.contains("io_uring"),
            "but there is something to do"
        );
    }

    #[test]
    fn room_is_that_of_the_readers_group() {
        let mut interval = run(391 << 20, 10_000, 10_000 << 12, 9_000);
        let mut group = crate::findings::sample::group("/small", 0);
        group.ledger = interval.ledger.clone();
        let system = &mut group.system;
        system.memory_limit_bytes = Measured::Exact(120 << 20);
        system.memory_used_bytes = Measured::Exact(119 << 20);
        system.active_file_bytes = Measured::Exact(0);
        system.inactive_file_bytes = Measured::Exact(118 << 20);
        group.memory_limit_path = Measured::Exact("/sys/fs/cgroup/small/memory.max".into());
        interval.cgroups.push(group);
        let step = &check(&interval)[0].next_step;
        assert!(
            !step.contains("fits into memory") && !step.contains("cat "),
            "4 GiB are available, but not to this group: {step}"
        );
        assert!(
            step.contains("(391.0 MiB) exceeds the memory available to its reader (119.0 MiB)")
                && step.contains("/sys/fs/cgroup/small/memory.max, now 120.0 MiB"),
            "the limit to raise: {step}"
        );
    }

    #[test]
    fn sequential_large_warm_and_few_reads_are_ignored() {
        assert_eq!(
            check(&run(1 << 30, 10_000, 10_000 << 12, 40)),
            [],
            "read-ahead was there first"
        );
        assert_eq!(
            check(&run(1 << 30, 1_000, 1_000 << 20, 200_000)),
            [],
            "1 MiB a request"
        );
        assert_eq!(
            check(&run(1 << 30, 10_000, 10_000 << 12, 0)),
            [],
            "all of it hit"
        );
        assert_eq!(
            check(&run(1 << 30, 100, 100 << 12, 100)),
            [],
            "a hundred of them"
        );
    }
}

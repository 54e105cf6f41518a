//! A cold start: the run spent its time fetching files that were not in the page cache.
//!
//! Known residency before the run, exact or calculated, excludes files that were warm; without it,
//! the misses themselves are the proof.

use std::path::Path;

use cachewise_units::{Bytes, grouped, shell_quoted};

use super::pressure::bytes_text;
use crate::counter::Counter;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::interval::Interval;
use crate::measured::{Count, Measured};
use crate::parts::FileRow;
use crate::value::{Datum, Value};

pub(super) const ID: &str = "cold_start";

/// A tenth of a second on the slowest device in use, a disk: less is not noticeable.
const WORTH: Bytes = Bytes(16 << 20);

/// This many percent of the cold pages in a directory are all that matter.
const MOST_PERCENT: u64 = 90;

/// The cold files, those with the most cold pages first.
pub(super) fn cold_files(interval: &Interval) -> Vec<(u64, &FileRow)> {
    let mut cold: Vec<(u64, &FileRow)> = interval
        .files
        .iter()
        .filter_map(|file| Some((cold_pages(file, interval)?, file)))
        .collect();
    cold.sort_by_key(|(pages, _)| std::cmp::Reverse(*pages));
    cold
}

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    let cold = cold_files(interval);
    let pages: u64 = cold.iter().map(|(pages, _)| pages).sum();
    let (pages_asked, bytes_asked) = (
        interval.ledger.get(Counter::ReadRequestedPages),
        interval.ledger.get(Counter::ReadRequestedBytes),
    );
    let Some(pages_asked) = pages_asked.exact() else {
        return Vec::new();
    };
    // Reads of less than a page request the same page again and again: then use the bytes.
    let asked = match bytes_asked.exact() {
        Some(bytes) => pages_asked.min(Bytes(bytes).pages_ceil(interval.page()).0),
        None => pages_asked,
    };
    let Some((_, largest)) = cold.first() else {
        return Vec::new();
    };
    // Most of the requested pages: with fewer, the run is not about its cold files.
    if pages < WORTH.pages_ceil(interval.page()).0 || pages.saturating_mul(2) < asked {
        return Vec::new();
    }
    let count = Measured::Exact(pages);
    vec![Finding {
        id: ID,
        severity: Severity::Info,
        title: String::from(if interval.run.is_none() {
            "most of the data read was not cached"
        } else {
            "cold start: most of the data read was not cached"
        }),
        figures: vec![
            ("cold_pages", count.pages()),
            (
                "read_bytes",
                interval.ledger.value(Counter::ReadRequestedBytes),
            ),
            (
                "cold_ratio",
                Value::ratio(count.ratio_of(Measured::Exact(asked.max(pages)))),
            ),
            ("cold_files", Value::Exact(Datum::Count(cold.len() as u64))),
        ],
        trial: fits(interval, pages).is_ok().then(|| "warm".to_owned()),
        next_step: next_step(interval, pages, &cold),
        subject: largest.path.clone().known(),
        kind: SubjectKind::File,
        ..Finding::default()
    }]
}

/// Pages of a file fetched for the first time, or `None` if it is not cold.
fn cold_pages(file: &FileRow, interval: &Interval) -> Option<u64> {
    let misses = file.ledger.get(Counter::ReadMissedPages);
    let first_uses = file.ledger.get(Counter::ReadaheadHitPages);
    let mut cold = misses.plus(first_uses).exact().filter(|pages| *pages > 0)?;
    // Refaulted pages belong to `working_set`.
    if file
        .ledger
        .get(Counter::RefaultPages)
        .exact()?
        .saturating_mul(2)
        > cold
    {
        return None;
    }
    if let Some(pages) = file.pages(interval.page()) {
        let before = file.resident_before_pages.known().unwrap_or(0);
        if before.saturating_mul(2) >= pages {
            return None;
        }
        cold = cold.min(pages);
    }
    Some(cold)
}

/// Whether these pages fit into the memory of the run; if not, the memory.
fn fits(interval: &Interval, pages: u64) -> Result<(), Count> {
    let bytes = pages.saturating_mul(interval.page().get());
    let around = interval.surroundings();
    let groups = interval.groups_of_tasks();
    let limits = groups
        .filter_map(|group| interval.limited_group(group.path.as_ref().known()?))
        .filter(|_| interval.run.is_some())
        .map(|group| group.system.memory_limit_bytes);
    let memory = [around.cgroup_limit_bytes, around.memory_total_bytes];
    let memory = memory.into_iter().chain(limits);
    let memory = memory.filter(|memory| memory.known().is_some());
    let memory = memory.min_by_key(|memory| memory.known());
    match memory.filter(|memory| Some(bytes) > memory.known()) {
        Some(memory) => Err(memory),
        None => Ok(()),
    }
}

/// The nearest directory that has most of the cold pages, and the number of cold files in it; `None` if the largest file
/// has them, or only the root directory has.
fn tree<'a>(pages: u64, cold: &[(u64, &'a FileRow)]) -> Option<(&'a Path, usize)> {
    let largest = cold.first()?.1.path.as_ref().known()?;
    let below = |place: &Path| {
        let files = cold.iter().filter(|(_, file)| {
            let path = file.path.as_ref().known();
            path.is_some_and(|path| path.starts_with(place))
        });
        let found = files.clone().map(|(pages, _)| pages).sum::<u64>();
        let is_most = found.saturating_mul(100) >= pages.saturating_mul(MOST_PERCENT);
        is_most.then(|| files.count())
    };
    let places = largest.ancestors().filter(|place| place.parent().is_some());
    let found = places
        .filter_map(|place| Some((place, below(place)?)))
        .next();
    found.filter(|(place, _)| *place != largest.as_path())
}

fn next_step(interval: &Interval, pages: u64, cold: &[(u64, &FileRow)]) -> String {
    let bytes = Bytes(pages.saturating_mul(interval.page().get()));
    if let Err(memory) = fits(interval, pages) {
        return format!(
            "{bytes} do not fit into {} of memory: read less, or expect it to be cold every time",
            bytes_text(memory)
        );
    }
    let mut step = if interval.run.is_none() {
        String::from("cachewise top shows which process reads it, and whether it reads it again")
    } else {
        String::from("run it again to measure it warm")
    };
    let largest = cold.first().map(|(_, file)| file);
    let path = largest.and_then(|file| file.path.as_ref().known().filter(|_| !file.deleted));
    match (tree(pages, cold), path) {
        (Some((tree, files)), _) => {
            let tree = shell_quoted(tree);
            step += &format!(
                "; to prefetch it: cachewise warm {tree} ({} cold files)",
                grouped(files as u64)
            );
        }
        (None, Some(path)) => {
            let path = shell_quoted(path);
            step += &format!("; to prefetch it: cachewise warm {path}, or cat {path} >/dev/null");
            match cold.len().saturating_sub(1) {
                0 => {}
                1 => step += " (likewise for 1 other cold file)",
                others => {
                    step += &format!(
                        " (likewise for {} other cold files)",
                        grouped(others as u64)
                    )
                }
            }
        }
        (None, None) => {}
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample::with_file;
    use crate::reason::Reason;

    const PAGES: u64 = 131_072;

    fn read(misses: u64, first_uses: u64) -> Interval {
        use Counter::{ReadMissedPages, ReadRequestedPages, ReadaheadHitPages};
        let counts = [
            (ReadRequestedPages, PAGES),
            (ReadMissedPages, misses),
            (ReadaheadHitPages, first_uses),
        ];
        with_file(512 << 20, &counts)
    }

    #[test]
    fn threshold_is_in_bytes_for_every_page_size() {
        use Counter::{ReadMissedPages, ReadRequestedBytes, ReadRequestedPages};
        for size in [4 << 10, 16 << 10, 64 << 10] {
            let size = cachewise_units::PageSize::new(size).unwrap();
            let of = |bytes: u64| {
                let pages = Bytes(bytes).pages_ceil(size).0;
                let counts = [
                    (ReadRequestedPages, pages),
                    (ReadRequestedBytes, bytes),
                    (ReadMissedPages, pages),
                ];
                let mut interval = with_file(bytes, &counts);
                crate::findings::sample::set_page_size(&mut interval, size);
                check(&interval)
            };
            assert_eq!(
                of(8 << 20),
                [],
                "{size}: 8 MiB are read before anybody notices"
            );
            let findings = of(64 << 20);
            assert_eq!(findings.len(), 1, "{size}: 64 MiB are worth it");
            let pages = (64 << 20) / size.get();
            assert_eq!(
                findings[0].figures[0].1,
                Measured::Exact(pages).pages(),
                "{size}: as many pages as that are"
            );
        }
    }

    #[test]
    fn cold_read_is_reported_with_warm_command() {
        let findings = check(&read(512, PAGES - 512));
        assert_eq!(findings.len(), 1, "one finding for the run");
        assert!(
            findings[0].next_step.contains("cat /data >/dev/null"),
            "the command is given"
        );
        assert_eq!(
            findings[0].figures[0].1,
            Measured::Exact(PAGES).pages(),
            "all of it was cold"
        );
    }

    #[test]
    fn calculated_residency_is_accepted() {
        let mut interval = read(512, PAGES - 512);
        interval.files[0].resident_before_pages = Measured::Estimated(0, Reason::SizeSeenLast);
        assert_eq!(
            check(&interval).len(),
            1,
            "it only serves to leave out warm files"
        );
        interval.files[0].resident_before_pages = Measured::Estimated(PAGES, Reason::SizeSeenLast);
        assert_eq!(check(&interval), [], "and this one was warm");
    }

    #[test]
    fn warm_small_and_refaulting_reads_are_ignored() {
        assert_eq!(check(&read(0, 0)), [], "a warm read");
        assert_eq!(check(&read(1000, 0)), [], "4 MiB of 512 MiB");
        let mut interval = read(PAGES, 0);
        interval.files[0].ledger.set(Counter::RefaultPages, PAGES);
        assert_eq!(
            check(&interval),
            [],
            "pages that came back were there before"
        );
    }

    #[test]
    fn directory_of_many_cold_files_is_named() {
        use Counter::{ReadMissedPages, ReadRequestedPages};
        let mut interval = crate::findings::sample::run();
        let cold = |path: &str, pages: u64| {
            let mut file = crate::findings::sample::file(path, pages << 12);
            file.ledger.set(ReadRequestedPages, pages);
            file.ledger.set(ReadMissedPages, pages);
            file
        };
        let names = ["/src/a/1.c", "/src/b/2.c", "/src/b/3.c"];
        let files = names.iter().map(|name| cold(name, 4000));
        interval.files = files.chain([cold("/usr/lib/libc.so", 40)]).collect();
        interval.ledger.set(ReadRequestedPages, 12_040);
        let finding = &check(&interval)[0];
        assert!(
            finding
                .next_step
                .ends_with(": cachewise warm /src (3 cold files)"),
            "{}",
            finding.next_step
        );
        interval.files.push(cold("/srv/large", 200_000));
        let step = &check(&interval)[0].next_step;
        assert!(step.contains("cachewise warm /srv/large, "), "{step}");
        interval.files.push(cold("/var/as/large", 200_000));
        let step = &check(&interval)[0].next_step;
        assert!(
            step.contains("cachewise warm /srv/large, "),
            "not the root: {step}"
        );
    }

    #[test]
    fn file_larger_than_memory_is_not_warmed() {
        let mut interval = read(512, PAGES - 512);
        interval.run_mut().surroundings.cgroup_limit_bytes = Measured::Exact(64 << 20);
        let step = &check(&interval)[0].next_step;
        assert!(
            step.contains("do not fit into 64.0 MiB"),
            "the limit counts: {step}"
        );
    }
}

//! The answer of a run, in one sentence: whether the page cache cost it anything.

use cachewise_units::{Bytes, Pages, grouped};

use crate::counter::Counter;
use crate::finding::Severity;
use crate::findings::Diagnosis;
use crate::interval::Interval;
use crate::times::TimeUse;

/// One fetched page in this many requested ones is no problem.
const NO_PROBLEM: u64 = 100;
/// One in this many: the run was cold.
const COLD: u64 = 2;
/// Below this a cold run is not worth a finding; as for `cold_start`.
const LITTLE: Bytes = Bytes(16 << 20);
/// Below this a run that did not wait for it is no problem, however cold it was.
const NOTHING: Bytes = Bytes(1 << 20);

impl Interval {
    /// The answer: in seconds, and in pages where the rules found nothing. Without times it is in pages whatever the rules
    /// found. `None` if a counter behind both is not exact.
    #[must_use]
    pub fn verdict(&self, diagnosis: &Diagnosis) -> Option<String> {
        let findings = &diagnosis.findings;
        let is_clean = findings.is_empty();
        let is_warned = findings
            .iter()
            .any(|finding| finding.severity == Severity::Warn);
        let times = TimeUse::of(self);
        let waits = times.as_ref().map(TimeUse::waits_for_cold_data);
        let is_direct = times.as_ref().is_some_and(TimeUse::waits_for_direct_io);
        let times = times.map(|times| times.verdict());
        let pages = match times {
            Some(_) if !is_clean => None,
            _ => self.verdict_in_pages(waits, is_warned),
        };
        match (pages, times) {
            (Some(pages), Some(times)) => Some(format!("{pages}; {times}")),
            (None, Some(times)) if is_direct => {
                Some(format!("direct I/O, not the page cache: {times}"))
            }
            (None, Some(times)) => Some(format!("page cache: {times}")),
            (pages, None) => pages,
        }
    }

    /// The answer in pages; `None` if a counter behind it is not exact. `waits`: whether the run waited long for cold data, if
    /// times were measured. `is_warned`: the rules found a problem, so that the answer is the counts alone.
    fn verdict_in_pages(&self, waits: Option<bool>, is_warned: bool) -> Option<String> {
        let exact = |counter| self.ledger.get(counter).exact();
        let faults = exact(Counter::FaultRequests)?;
        let requested = exact(Counter::ReadRequestedPages)?.saturating_add(faults);
        let missed = exact(Counter::ReadMissedPages)? + exact(Counter::FaultMissPages)?;
        let by_faults = exact(Counter::FaultMissPages)? + exact(Counter::FaultReadaheadPages)?;
        let metadata = exact(Counter::MetadataPages)?;
        let fetched = self
            .ledger
            .fetched_pages()
            .exact()?
            .saturating_add(metadata);
        let direct = exact(Counter::DirectReadBytes)?;
        let bytes = |pages: u64| Pages(pages).bytes(self.page());
        let counts = format!(
            "{} of {} pages missed, {} fetched",
            grouped(missed),
            grouped(requested),
            bytes(fetched)
        );
        if is_warned {
            return Some(format!("page cache: {counts}"));
        }
        if requested == 0 && fetched == 0 {
            return Some(match direct {
                0 => "the page cache is not your problem: no page was requested".to_owned(),
                direct => format!(
                    "the page cache was not used: {} by direct I/O",
                    Bytes(direct)
                ),
            });
        }
        let is_warm = fetched.saturating_mul(NO_PROBLEM) < requested;
        if is_warm || waits == Some(false) && bytes(fetched) < NOTHING {
            // Directories and inodes may be cold without a page of a file.
            let answer = match waits {
                Some(true) => "page cache",
                Some(false) | None => "the page cache is not your problem",
            };
            return Some(format!("{answer}: {counts}"));
        }
        if fetched.saturating_mul(COLD) < requested {
            return Some(format!(
                "partly cold: {} fetched for {} requested pages",
                bytes(fetched),
                grouped(requested)
            ));
        }
        let by_reads = fetched - by_faults.saturating_add(metadata).min(fetched);
        Some(if by_faults > by_reads.max(metadata) {
            format!("cold, by faults: {} fetched", bytes(by_faults))
        } else if metadata > by_reads {
            format!("cold, by metadata: {} fetched", bytes(metadata))
        } else if bytes(fetched) < LITTLE {
            format!("cold, but only {} fetched", bytes(fetched))
        } else {
            format!("cold: {} fetched", bytes(fetched))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Finding;
    use crate::findings::sample::with_file;
    use crate::reason::Reason;

    fn verdict(counts: &[(Counter, u64)]) -> Option<String> {
        let interval = with_file(1 << 30, counts);
        interval.verdict(&Diagnosis::of(&interval))
    }

    #[test]
    fn each_kind_of_run_has_its_own_answer() {
        use Counter::*;
        let requested = (ReadRequestedPages, 12_000);
        for (counts, answer) in [
            (
                &[requested][..],
                "the page cache is not your problem: 0 of 12,000 pages missed, 0 B fetched",
            ),
            (
                &[][..],
                "the page cache is not your problem: no page was requested",
            ),
            (
                &[(ReadRequestedPages, 2_048), (ReadMissedPages, 2_048)][..],
                "cold, but only 8.0 MiB fetched",
            ),
            (
                &[
                    (FaultRequests, 900),
                    (FaultMissPages, 300),
                    (FaultReadaheadPages, 11_220),
                ][..],
                "cold, by faults: 45.0 MiB fetched",
            ),
            (
                &[requested, (ReadMissedPages, 512)][..],
                "partly cold: 2.0 MiB fetched for 12,000 requested pages",
            ),
        ] {
            assert_eq!(verdict(counts).as_deref(), Some(answer), "{counts:?}");
        }
    }

    #[test]
    fn times_decide_where_pages_and_seconds_disagree() {
        use Counter::*;
        let answer = |misses: u64, waited: u64| {
            let counts = [
                (ReadRequestedPages, 1_000),
                (ReadMissedPages, misses),
                (TaskSeconds, 1_000_000_000),
                (WaitedMissed, waited),
            ];
            let mut interval = with_file(1 << 30, &counts);
            interval.elapsed = std::time::Duration::from_secs(1);
            let verdict = interval.verdict(&Diagnosis::of(&interval));
            verdict.expect("times are known")
        };
        assert_eq!(
            answer(0, 200_000_000),
            "page cache: 0 of 1,000 pages missed, 0 B fetched; 0.200 of 1.00 s waiting for cold data; warm, \
             this would take about 0.800 s",
            "metadata was cold"
        );
        let little = answer(100, 1_000_000);
        assert!(
            little.starts_with(
                "the page cache is not your problem: 100 of 1,000 pages missed, 400.0 KiB"
            ),
            "{little}"
        );
        let random = answer(100, 200_000_000);
        assert!(random.starts_with("partly cold: 400.0 KiB"), "{random}");
        let more = answer(300, 1_000_000);
        assert!(more.starts_with("partly cold: 1.2 MiB"), "{more}");
    }

    #[test]
    fn wait_for_direct_io_is_none_for_the_page_cache() {
        use Counter::*;
        let counts = [
            (ReadRequestedPages, 1_000),
            (TaskSeconds, 1_000_000_000),
            (WaitedDirect, 500_000_000),
        ];
        let mut interval = with_file(1 << 30, &counts);
        interval.elapsed = std::time::Duration::from_secs(1);
        let mut diagnosis = Diagnosis::of(&interval);
        diagnosis.findings = vec![Finding {
            id: "direct_io",
            ..Finding::default()
        }];
        let verdict = interval.verdict(&diagnosis).expect("times are known");
        assert!(
            verdict.starts_with("direct I/O, not the page cache: 0.000 of 1.00 s"),
            "{verdict}"
        );
    }

    #[test]
    fn findings_do_not_replace_the_verdict() {
        use Counter::*;
        let requested = (ReadRequestedPages, 100_000);
        assert_eq!(
            verdict(&[requested, (ReadMissedPages, 100_000)]).as_deref(),
            Some("cold: 390.6 MiB fetched"),
            "a note has its finding, and the run its answer"
        );
        let thrashing = [
            requested,
            (ReadMissedPages, 100_000),
            (EvictedReclaimPages, 100_000),
            (RefaultPages, 50_000),
        ];
        let interval = with_file(1 << 30, &thrashing);
        let diagnosis = Diagnosis::of(&interval);
        assert_eq!(diagnosis.findings[0].severity, Severity::Warn);
        assert_eq!(
            interval.verdict(&diagnosis).as_deref(),
            Some("page cache: 100,000 of 100,000 pages missed, 390.6 MiB fetched"),
            "counts, and no judgement beside that of the finding"
        );
        let mut twice = with_file(64 << 20, &[requested]);
        let mut diagnosis = Diagnosis::of(&twice);
        diagnosis.findings = vec![Finding {
            id: "cached_twice",
            ..Finding::default()
        }];
        assert_eq!(
            twice.verdict(&diagnosis).as_deref(),
            Some("the page cache is not your problem: 0 of 100,000 pages missed, 0 B fetched"),
            "the data is in memory twice, and costs no wait"
        );
        twice.ledger.set(TaskSeconds, 1_000_000_000);
        twice.elapsed = std::time::Duration::from_secs(1);
        let timed = twice.verdict(&diagnosis).expect("times are known");
        assert!(timed.starts_with("page cache: 0.000 of 1.00 s"), "{timed}");
    }

    #[test]
    fn missing_counters_have_no_verdict() {
        use Counter::*;
        let mut interval = with_file(1 << 30, &[]);
        interval
            .ledger
            .set_estimated(ReadMissedPages, 0, Reason::ByVmstat);
        let diagnosis = Diagnosis::of(&interval);
        assert_eq!(interval.verdict(&diagnosis), None, "never without data");
    }
}

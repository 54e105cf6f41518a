//! A backlog of dirty pages: later writes will run at the speed of the device.

use cachewise_units::Bytes;

use crate::counter::Counter;
use crate::finding::{Finding, Severity};
use crate::interval::Interval;
use crate::measured::Count;

pub(super) const ID: &str = "dirty_backlog";

/// The run itself must have made a good part of the backlog: one in this many of the limit.
const OWN_PART: u64 = 10;

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    let around = interval.surroundings();
    let dirtied = interval.ledger.get(Counter::DirtiedPages);
    let page = interval.page().get();
    let own: Count = dirtied.map(|pages| pages.saturating_mul(page));
    let (Some(own), Some(dirty), Some(limit), Some(background)) = (
        own.exact(),
        around.dirty_bytes.exact(),
        around.dirty_limit_bytes.exact(),
        around.dirty_background_bytes.exact(),
    ) else {
        return Vec::new();
    };
    // The kernel starts to throttle writers half-way between its two limits.
    let held_back = background.saturating_add(limit) / 2;
    if limit == 0 || dirty < held_back || own < limit / OWN_PART {
        return Vec::new();
    }
    vec![Finding {
        id: ID,
        severity: Severity::Warn,
        title: String::from("dirty pages pile up: writers are throttled"),
        figures: vec![
            ("dirtied_pages", dirtied.pages()),
            ("dirty_bytes", around.dirty_bytes.bytes()),
            (
                "dirty_background_bytes",
                around.dirty_background_bytes.bytes(),
            ),
            ("dirty_limit_bytes", around.dirty_limit_bytes.bytes()),
        ],
        next_step: format!(
            "write back as you go: sync_file_range or fdatasync every few MiB; or start \
             writeback earlier: sysctl vm.dirty_background_bytes={} (now {})",
            // A quarter: early enough to keep the device busy, late enough to merge writes.
            background / 4,
            Bytes(background)
        ),
        subject: None,
        ..Finding::default()
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample::with_file;
    use crate::measured::Measured;
    use crate::reason::Reason;

    fn run(dirtied_pages: u64, dirty: Count) -> Interval {
        let mut interval = with_file(1 << 30, &[(Counter::DirtiedPages, dirtied_pages)]);
        interval.run_mut().surroundings.dirty_bytes = dirty;
        interval
    }

    #[test]
    fn writer_at_the_dirty_limit_is_reported() {
        let findings = check(&run(250_000, Measured::Exact(900 << 20)));
        assert_eq!(
            findings.len(),
            1,
            "900 MiB of 1 GiB, writeback began at 512 MiB"
        );
        assert!(
            findings[0].next_step.contains("sync_file_range"),
            "the calls are named"
        );
        assert!(
            findings[0].next_step.contains("=134217728"),
            "and a number to set"
        );
    }

    #[test]
    fn foreign_low_and_unknown_backlogs_are_ignored() {
        assert_eq!(
            check(&run(1_000, Measured::Exact(900 << 20))),
            [],
            "somebody else's backlog"
        );
        assert_eq!(
            check(&run(250_000, Measured::Exact(600 << 20))),
            [],
            "writers run freely"
        );
        assert_eq!(
            check(&run(250_000, Measured::unknown(Reason::NotCounted))),
            [],
            "nobody looked"
        );
        let mut interval = run(250_000, Measured::Exact(900 << 20));
        interval.run_mut().surroundings.dirty_limit_bytes =
            Measured::not_offered(Reason::NotCounted);
        assert_eq!(check(&interval), [], "no limit, no closeness to it");
    }
}

//! Time that a recording does not have, or has in one piece.

use std::time::Duration;

use cachewise_model::{Gap, GapKind, Measured, Reason};
use jiff::{SignedDuration, Timestamp};

use crate::sample::Sample;

/// A sample is late if it took longer than this number of intervals.
const LATE: u32 = 3;
/// Shorter delays are not reported, however short the interval.
const SHORTEST: Duration = Duration::from_millis(500);
/// A clock that is drawn near the right time by NTP stays below it.
const CLOCK: SignedDuration = SignedDuration::from_millis(500);

/// Finds gaps in samples that come in their order.
#[derive(Debug, Default)]
pub struct Gaps {
    before: Option<Timestamp>,
}

impl Gaps {
    /// Returns the gap before or in this sample, which was due after `interval`.
    pub fn find(&mut self, sample: &Sample, interval: Duration) -> Option<Gap> {
        let end: Timestamp = sample.interval.time.parse().ok()?;
        let elapsed = sample.interval.elapsed;
        let begin = SignedDuration::try_from(elapsed)
            .ok()
            .and_then(|elapsed| end.checked_sub(elapsed).ok())?;
        let before = self.before.replace(end);
        let gap = |kind, begin: Timestamp, end: Timestamp, length| Gap {
            begin: told(begin),
            end: told(end),
            length: Measured::Exact(length),
            kind,
        };
        if let Some(before) = before {
            let missing = begin.duration_since(before);
            let length = missing.unsigned_abs();
            let kind = match sample {
                _ if sample.after_loss => Some(GapKind::Unreadable),
                _ if sample.begins => Some(GapKind::NotRecorded),
                _ if missing.abs() > CLOCK => Some(GapKind::ClockSet),
                _ => None,
            };
            if let Some(kind) = kind {
                return Some(gap(kind, before, begin, length));
            }
        }
        if before.is_none() && sample.after_loss {
            return Some(Gap {
                begin: Measured::unknown(Reason::NothingBefore),
                end: told(begin),
                length: Measured::unknown(Reason::NothingBefore),
                kind: GapKind::Unreadable,
            });
        }
        if sample.suspended >= SHORTEST {
            return Some(gap(GapKind::Suspended, begin, end, sample.suspended));
        }
        let late = (interval * LATE).max(SHORTEST);
        (!interval.is_zero() && elapsed > late).then(|| gap(GapKind::Late, begin, end, elapsed))
    }

    /// The gap after the last sample, where more was recorded and cannot be read.
    #[must_use]
    pub fn after_last(&self) -> Option<Gap> {
        Some(Gap {
            begin: told(self.before?),
            end: Measured::unknown(Reason::NothingAfter),
            length: Measured::unknown(Reason::NothingAfter),
            kind: GapKind::Unreadable,
        })
    }
}

fn told(time: Timestamp) -> Measured<String> {
    Measured::Exact(format!("{time:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::example;

    const SECOND: Duration = Duration::from_secs(1);

    fn sample(time: &str, elapsed: Duration) -> Sample {
        let mut interval = example();
        interval.time = format!("2026-01-02T{time}Z");
        interval.elapsed = elapsed;
        Sample::from_interval(interval)
    }

    #[test]
    fn samples_one_after_the_other_have_no_gap() {
        let mut gaps = Gaps::default();
        for time in ["03:04:05.000", "03:04:06.001", "03:04:07.100"] {
            let gap = gaps.find(&sample(time, SECOND), SECOND);
            assert_eq!(gap, None, "{time} is near enough");
        }
    }

    #[test]
    fn what_is_missing_is_told_by_its_reason() {
        let mut gaps = Gaps::default();
        let mut kinds = Vec::new();
        let first = sample("03:00:00.000", SECOND);
        let stopped = Sample {
            begins: true,
            ..sample("03:10:01.000", SECOND)
        };
        let lost = Sample {
            after_loss: true,
            ..sample("03:20:01.000", SECOND)
        };
        let slept = Sample {
            suspended: Duration::from_secs(3_599),
            ..sample("04:20:01.000", Duration::from_secs(3_600))
        };
        let late = sample("04:20:11.000", Duration::from_secs(10));
        let set = sample("09:20:12.000", SECOND);
        for sample in [first, stopped, lost, slept, late, set] {
            kinds.push(
                gaps.find(&sample, SECOND)
                    .map(|gap| (gap.kind, gap.length.known().map(|length| length.as_secs()))),
            );
        }
        assert_eq!(
            kinds,
            [
                None,
                Some((GapKind::NotRecorded, Some(600))),
                Some((GapKind::Unreadable, Some(599))),
                Some((GapKind::Suspended, Some(3_599))),
                Some((GapKind::Late, Some(10))),
                Some((GapKind::ClockSet, Some(5 * 3_600))),
            ],
            "each by its reason and its length"
        );
    }

    #[test]
    fn what_is_lost_at_an_end_has_no_other_end() {
        let mut gaps = Gaps::default();
        assert_eq!(gaps.after_last(), None, "nothing was read at all");
        let first = Sample {
            after_loss: true,
            ..sample("03:00:01.000", SECOND)
        };
        let gap = gaps.find(&first, SECOND).expect("something was before it");
        assert_eq!(
            (gap.kind, gap.begin.known(), gap.end.known().as_deref()),
            (GapKind::Unreadable, None, Some("2026-01-02T03:00:00.000Z")),
            "since when is not known"
        );
        let gap = gaps.after_last().expect("there is a last one");
        assert_eq!(
            (gap.begin.known().as_deref(), gap.length.known()),
            (Some("2026-01-02T03:00:01.000Z"), None),
            "nor until when"
        );
    }
}

//! Time that a recording does not have, or has in one piece.

use std::time::Duration;

use cachewise_model::{Gap, GapKind};
use jiff::{SignedDuration, Timestamp};

use crate::sample::Sample;

/// A sample that took longer than so many intervals is late.
const LATE: u32 = 3;
/// Below this nobody cares, however short the interval.
const SHORTEST: Duration = Duration::from_millis(500);
/// A clock that is drawn near the right time by NTP stays below it.
const CLOCK: SignedDuration = SignedDuration::from_millis(500);

/// Finds gaps in samples that come in their order.
#[derive(Debug, Default)]
pub struct Gaps {
    before: Option<Timestamp>,
}

impl Gaps {
    /// The gap before or in this sample, which was asked for after `interval`.
    pub fn find(&mut self, sample: &Sample, interval: Duration) -> Option<Gap> {
        let end: Timestamp = sample.stretch.time.parse().ok()?;
        let elapsed = sample.stretch.elapsed;
        let begin = SignedDuration::try_from(elapsed)
            .ok()
            .and_then(|elapsed| end.checked_sub(elapsed).ok())?;
        let before = self.before.replace(end);
        let gap = |kind, begin: Timestamp, end: Timestamp, length| Gap {
            begin: format!("{begin:.3}"),
            end: format!("{end:.3}"),
            length,
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
        if sample.suspended >= SHORTEST {
            return Some(gap(GapKind::Suspended, begin, end, sample.suspended));
        }
        let late = (interval * LATE).max(SHORTEST);
        (!interval.is_zero() && elapsed > late).then(|| gap(GapKind::Late, begin, end, elapsed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::example;

    const SECOND: Duration = Duration::from_secs(1);

    fn sample(time: &str, elapsed: Duration) -> Sample {
        let mut stretch = example();
        stretch.time = format!("2026-01-02T{time}Z");
        stretch.elapsed = elapsed;
        Sample::of(stretch)
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
                    .map(|gap| (gap.kind, gap.length.as_secs())),
            );
        }
        assert_eq!(
            kinds,
            [
                None,
                Some((GapKind::NotRecorded, 600)),
                Some((GapKind::Unreadable, 599)),
                Some((GapKind::Suspended, 3_599)),
                Some((GapKind::Late, 10)),
                Some((GapKind::ClockSet, 5 * 3_600)),
            ],
            "each by its reason and its length"
        );
    }
}

//! [`History`]: the past of the charts, the coarser the longer ago.
//!
//! Its memory is bounded, whatever the interval of the ticks: short ticks are summed, and each slot is kept as the
//! text that is sent.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cachewise_model::Interval;

use crate::events;

/// The longest time that [`History::points`] covers.
pub(crate) const MOST: Duration = Duration::from_secs(3600);
/// The length of a slot, and how long slots are kept, finest first.
const LEVELS: [(Duration, Duration); 3] = [
    (Duration::from_millis(100), Duration::from_secs(60)),
    (Duration::from_secs(1), Duration::from_secs(300)),
    (COARSE, MOST),
];
/// Length of the longest slot, if ticks are no longer.
pub(crate) const COARSE: Duration = Duration::from_secs(10);

/// The past of the charts.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Sum of the lengths of all ticks.
    end: Duration,
    levels: [Level; LEVELS.len()],
}

/// Slots of one length.
#[derive(Debug, Default)]
struct Level {
    slots: VecDeque<Slot>,
    open: Option<Interval>,
}

/// A point of the charts.
#[derive(Debug)]
struct Slot {
    /// Watched time up to its end.
    end: Duration,
    length: Duration,
    /// The JSON text of the point.
    point: Arc<str>,
}

impl Slot {
    fn begin(&self) -> Duration {
        self.end.saturating_sub(self.length)
    }
}

impl Level {
    /// Adds an interval that ends at `end`, with its point if that is known; returns the slot that it fills.
    fn add(
        &mut self,
        (interval, point): (Interval, Option<Arc<str>>),
        end: Duration,
        (length, kept): (Duration, Duration),
    ) -> Option<(Interval, Option<Arc<str>>)> {
        // An interval takes a little more or less than its length.
        let slack = interval.elapsed.min(length).mul_f64(0.5);
        let point = point.filter(|_| self.open.is_none());
        append(&mut self.open, interval);
        let full = self.open.take_if(|open| open.elapsed + slack > length)?;
        let point = point.unwrap_or_else(|| events::point(&full).to_string().into());
        self.slots.push_back(Slot {
            end,
            length: full.elapsed,
            point: point.clone(),
        });
        while self.slots.front().is_some_and(|slot| slot.end + kept < end) {
            self.slots.pop_front();
        }
        Some((full, Some(point)))
    }
}

impl History {
    /// Adds a tick.
    pub(crate) fn add(&mut self, tick: &Interval) {
        self.end += tick.elapsed;
        let mut full = Some((of_machine(tick), None));
        for (level, lengths) in self.levels.iter_mut().zip(LEVELS) {
            let Some(interval) = full else { return };
            full = level.add(interval, self.end, lengths);
        }
    }

    /// The points of this long a time as a list in JSON, oldest first, each of the time since the one before.
    pub(crate) fn points(&self, time: Duration) -> String {
        let from = self.end.saturating_sub(time);
        let mut known = Duration::ZERO;
        let mut points: Vec<&str> = Vec::new();
        for (place, level) in self.levels.iter().enumerate().rev() {
            // Slots up to where finer ones begin.
            let finer = self.levels[..place]
                .iter()
                .rev()
                .find_map(|finer| finer.slots.front());
            let finer = finer.map_or(Duration::MAX, Slot::begin);
            for slot in &level.slots {
                if slot.end > from && slot.begin() >= known && slot.begin() < finer {
                    points.push(&slot.point);
                    known = slot.end;
                }
            }
        }
        let open = self.levels[0].open.as_ref();
        let open = open.map(|open| events::point(open).to_string());
        points.extend(open.as_deref());
        format!("[{}]", points.join(","))
    }
}

/// An interval without processes, files, devices and control groups: the machine's own counters.
pub(crate) fn of_machine(tick: &Interval) -> Interval {
    Interval {
        elapsed: tick.elapsed,
        ledger: tick.ledger.clone(),
        system: tick.system.clone(),
        device_read_bytes: tick.device_read_bytes,
        device_write_bytes: tick.device_write_bytes,
        lost: tick.lost.clone(),
        ..Interval::new(Arc::clone(&tick.source), tick.time.clone())
    }
}

/// Adds an interval to those before it.
pub(crate) fn append(sum: &mut Option<Interval>, later: Interval) {
    match sum {
        Some(sum) => sum.append(later),
        None => *sum = Some(later),
    }
}

#[cfg(test)]
mod tests {
    use cachewise_model::Counter;
    use serde_json::Value as Json;

    use super::*;
    use crate::sample::tick;

    fn filled(ticks: usize, milliseconds: u64) -> History {
        let mut history = History::default();
        for _ in 0..ticks {
            let mut tick = tick(milliseconds, Vec::new());
            tick.ledger.set(Counter::ReadRequestedPages, milliseconds);
            history.add(&tick);
        }
        history
    }

    fn points(history: &History, seconds: u64) -> Vec<Json> {
        let text = history.points(Duration::from_secs(seconds));
        serde_json::from_str(&text).expect("it is a list in JSON")
    }

    fn sum(points: &[Json], id: &str) -> f64 {
        points.iter().filter_map(|point| point[id].as_f64()).sum()
    }

    #[test]
    fn history_is_bounded_and_covers_an_hour() {
        for milliseconds in [2000, 4003] {
            let history = filled(4_000_000 / milliseconds as usize, milliseconds);
            let slots: usize = history.levels.iter().map(|level| level.slots.len()).sum();
            assert!(slots < 1300, "{milliseconds} ms: {slots} slots");
            let all = points(&history, 3600);
            let covered = sum(&all, "elapsed_seconds");
            assert!(
                (3570.0..3700.0).contains(&covered),
                "{milliseconds} ms: an hour, not {covered} s"
            );
            assert!(all.len() < 1250, "{milliseconds} ms: {} points", all.len());
        }
    }

    #[test]
    fn slots_follow_each_other_without_gap_or_overlap() {
        for milliseconds in [400, 1000, 7000] {
            let history = filled(1_000_000 / milliseconds as usize, milliseconds);
            let pages = sum(&points(&history, 700), "read_requested_pages");
            let seconds = sum(&points(&history, 700), "elapsed_seconds");
            assert!(
                (pages - seconds * 1000.0).abs() < 1.0,
                "{pages} pages in {seconds} s"
            );
            assert!(
                (699.0..720.0).contains(&seconds),
                "each second once: {seconds}"
            );
        }
    }

    #[test]
    fn points_are_finer_the_newer_they_are() {
        let history = filled(4000, 100);
        for (seconds, range) in [(30, 295..=305), (60, 590..=605), (300, 820..=860)] {
            let points = points(&history, seconds).len();
            assert!(range.contains(&points), "{seconds} s: {points} points");
        }
    }
}

//! Points of a plot: a few times the columns of a screen. With more samples, each point sums up the counts of several.

use cachewise_model::{Gap, Interval, Row};

/// Between half of it and all of it.
const MOST: usize = 4096;

/// Points that are put together as they become too many.
#[derive(Debug, Default)]
pub struct Points {
    /// With whether time is missing before it.
    points: Vec<(Row, bool)>,
    /// Samples per point, except for the last one.
    each: u64,
    in_last: u64,
}

impl Points {
    /// Adds a sample, and the gap before it.
    pub fn add(&mut self, interval: &Interval, gap: Option<&Gap>) {
        let is_apart = gap.is_some_and(|gap| gap.kind.loses_counts());
        self.each = self.each.max(1);
        match self.points.last_mut() {
            Some((last, _)) if self.in_last < self.each && !is_apart => {
                last.append(&interval.row());
                self.in_last += 1;
            }
            _ => {
                self.points.push((interval.row(), is_apart));
                self.in_last = 1;
            }
        }
        if self.points.len() > MOST {
            self.halve();
        }
    }

    /// The points, and how many samples are in each.
    pub fn finish(self) -> (Vec<(Row, bool)>, u64) {
        (self.points, self.each.max(1))
    }

    fn halve(&mut self) {
        let mut halved: Vec<(Row, bool)> = Vec::with_capacity(MOST);
        let mut is_whole = true;
        for (row, is_apart) in self.points.drain(..) {
            match halved.last_mut() {
                Some((last, _)) if !is_whole && !is_apart => {
                    last.append(&row);
                    is_whole = true;
                }
                _ => {
                    halved.push((row, is_apart));
                    is_whole = false;
                }
            }
        }
        self.points = halved;
        self.each *= 2;
        // The last point is as full as it will be, but for one sample that may be missing to it.
        self.in_last = self.each;
    }
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Counter, GapKind, Measured, Reason};

    use super::*;

    #[test]
    fn many_samples_are_few_points_and_the_same_sum() {
        let mut points = Points::default();
        let mut interval = cachewise_recording::example();
        interval.ledger.set(Counter::ReadRequestedPages, 3);
        let gap = Gap {
            begin: Measured::unknown(Reason::NothingBefore),
            end: Measured::unknown(Reason::NothingBefore),
            length: Measured::unknown(Reason::NothingBefore),
            kind: GapKind::NotRecorded,
        };
        for number in 0..50_000_u64 {
            points.add(&interval, (number == 777).then_some(&gap));
        }
        let (rows, each) = points.finish();
        assert!(
            (MOST / 2..=MOST).contains(&rows.len()),
            "{} points",
            rows.len()
        );
        assert_eq!(each, 16, "a power of two");
        let sum: u64 = rows
            .iter()
            .map(|(row, _)| row.ledger[Counter::ReadRequestedPages])
            .sum();
        assert_eq!(sum, 150_000, "nothing is lost");
        let apart = rows.iter().filter(|(_, is_apart)| *is_apart).count();
        assert_eq!(apart, 1, "what is missing stays missing");
    }
}

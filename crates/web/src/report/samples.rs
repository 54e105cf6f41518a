//! [`ReportSamples`]: what a page needs of the samples, in bounded memory.

use std::cmp::Reverse;
use std::sync::Arc;

use cachewise_model::{Counter, Interval, Ledger, Sum};

use crate::history::of_machine;

/// Points of the charts.
const MOST_POINTS: usize = 3600;
/// Points of the chart of a process, file, control group or device.
const MOST_PARTS: usize = 60;
/// Processes, files and control groups in such a point: those that did most.
const MOST_ROWS: usize = 250;

/// The samples of a recording. With many of them, a point sums up the counts of several.
#[derive(Debug)]
pub struct ReportSamples {
    points: Halved,
    parts: Halved,
}

impl Default for ReportSamples {
    fn default() -> Self {
        ReportSamples {
            points: Halved::new(MOST_POINTS, |_| ()),
            parts: Halved::new(MOST_PARTS, limit_rows),
        }
    }
}

impl ReportSamples {
    /// Adds a sample. `is_apart`: counts are missing before it.
    pub fn add(&mut self, sample: &Interval, is_apart: bool) {
        self.points.add(of_machine(sample), is_apart);
        self.parts.add(busy_rows(sample), is_apart);
    }

    /// The machine over time.
    pub(super) fn points(&self) -> impl Iterator<Item = &Interval> {
        self.points.all()
    }

    /// The processes, files, control groups and devices over time.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Interval> {
        self.parts.all()
    }

    /// The number of samples in a point of the machine.
    pub(super) fn samples_each(&self) -> u32 {
        self.points.each
    }
}

/// Intervals in order. When there are too many, each two become one.
#[derive(Debug)]
struct Halved {
    most: usize,
    /// Bounds a whole one.
    bound: fn(&mut Interval),
    whole: Vec<Part>,
    open: Option<Open>,
    /// Samples in each, except for the last one.
    each: u32,
}

#[derive(Debug)]
struct Part {
    interval: Interval,
    is_apart: bool,
}

/// The last part, while samples are added to it.
#[derive(Debug)]
struct Open {
    sum: Sum,
    samples: u32,
    is_apart: bool,
}

impl Halved {
    fn new(most: usize, bound: fn(&mut Interval)) -> Halved {
        Halved {
            most,
            bound,
            whole: Vec::new(),
            open: None,
            each: 1,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Interval> {
        let open = self.open.iter().map(|open| open.sum.whole());
        self.whole.iter().map(|part| &part.interval).chain(open)
    }

    fn add(&mut self, interval: Interval, is_apart: bool) {
        match &mut self.open {
            Some(open) if open.samples < self.each && !is_apart => {
                open.sum.add(interval);
                open.samples += 1;
            }
            _ => {
                self.close();
                self.open = Some(Open {
                    sum: Sum::of(interval),
                    samples: 1,
                    is_apart,
                });
            }
        }
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let mut interval = open.sum.into_whole();
        (self.bound)(&mut interval);
        self.whole.push(Part {
            interval,
            is_apart: open.is_apart,
        });
        // With the one that opens next.
        if self.whole.len() >= self.most {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let mut halved: Vec<Part> = Vec::with_capacity(self.most);
        let mut is_whole = true;
        for part in self.whole.drain(..) {
            match halved.last_mut() {
                Some(last) if !is_whole && !part.is_apart => {
                    last.interval.append(part.interval);
                    (self.bound)(&mut last.interval);
                    is_whole = true;
                }
                _ => {
                    halved.push(part);
                    is_whole = false;
                }
            }
        }
        self.whole = halved;
        self.each = self.each.saturating_mul(2);
    }
}

/// An interval with the rows that did something, and without the machine's own numbers.
fn busy_rows(sample: &Interval) -> Interval {
    fn busy<T: Clone>(rows: &[T], ledger: impl Fn(&T) -> &Ledger) -> Vec<T> {
        let rows = rows.iter().filter(|row| !ledger(row).is_zero());
        rows.cloned().collect()
    }
    Interval {
        elapsed: sample.elapsed,
        processes: busy(&sample.processes, |row| &row.ledger),
        files: busy(&sample.files, |row| &row.ledger),
        cgroups: busy(&sample.cgroups, |row| &row.ledger),
        devices: busy(&sample.devices, |row| &row.ledger),
        ..Interval::new(Arc::clone(&sample.source), sample.time.clone())
    }
}

fn limit_rows(part: &mut Interval) {
    fn limit<T>(rows: &mut Vec<T>, ledger: impl Fn(&T) -> &Ledger) {
        if rows.len() > MOST_ROWS {
            rows.sort_by_key(|row| {
                let count = |counter: Counter| ledger(row).counts()[counter as usize];
                let missed = count(Counter::ReadMissedPages);
                Reverse((missed, count(Counter::ReadRequestedPages)))
            });
            rows.truncate(MOST_ROWS);
        }
    }
    limit(&mut part.processes, |row| &row.ledger);
    limit(&mut part.files, |row| &row.ledger);
    limit(&mut part.cgroups, |row| &row.ledger);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tick;

    #[test]
    fn many_samples_are_few_points_and_the_same_sum() {
        let mut samples = ReportSamples::default();
        let mut sample = tick(1000, Vec::new());
        sample.ledger.set(Counter::ReadRequestedPages, 3);
        for number in 0..20_000_u32 {
            samples.add(&sample, number == 777);
        }
        let points: Vec<&Interval> = samples.points().collect();
        assert!(
            (MOST_POINTS / 2..=MOST_POINTS).contains(&points.len()),
            "{} points",
            points.len()
        );
        assert_eq!(samples.samples_each(), 8, "a power of two");
        let sum: u64 = points
            .iter()
            .map(|point| point.ledger[Counter::ReadRequestedPages])
            .sum();
        assert_eq!(sum, 60_000, "nothing is lost");
        let apart = samples.points.whole.iter().filter(|part| part.is_apart);
        assert_eq!(apart.count(), 1, "missing time stays missing");
        assert!(samples.parts().count() <= MOST_PARTS, "subjects have fewer");
    }
}

//! A whole recording in one, in bounded memory: however long it is, it is read once.

use std::time::Duration;

use cachewise_model::{
    Diagnosis, Gap, Interval, Ledger, Measured, Missing, Reason, Row, Stall, Statistics, Sum,
    Value, field,
};
use jiff::Timestamp;

use crate::error::Error;
use crate::gap::Gaps;
use crate::reader::Reader;
use crate::reduce::reduce;
use crate::sample::Sample;
use crate::session::Session;
use crate::spreads::{Spreads, number};

/// Samples from one time to another: those whose interval ends after `from`, and not after `to`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Range {
    /// From here on.
    pub from: Option<Timestamp>,
    /// Up to here.
    pub to: Option<Timestamp>,
}

impl Range {
    /// Returns whether a sample is in the range. A sample without a readable time is in an
    /// unbounded range only.
    #[must_use]
    pub fn has(&self, sample: &Sample) -> bool {
        if *self == Range::default() {
            return true;
        }
        sample.interval.time.parse::<Timestamp>().is_ok_and(|time| {
            self.from.is_none_or(|from| time > from) && self.to.is_none_or(|to| time <= to)
        })
    }

    /// Returns whether a gap overlaps the range. A gap without a known end has no end.
    fn meets(&self, gap: &Gap) -> bool {
        let time = |time: &Measured<String>| time.as_ref().known()?.parse::<Timestamp>().ok();
        let ends_before = (time(&gap.end).zip(self.from)).is_some_and(|(end, from)| end <= from);
        let begins_after = (time(&gap.begin).zip(self.to)).is_some_and(|(begin, to)| begin >= to);
        !ends_before && !begins_after
    }
}

/// More gaps than this are counted, not listed.
const MOST_GAPS: usize = 1000;
/// More parts of a kind than this are not kept apart: the least active are summed up.
const MOST_PARTS: usize = 4096;

/// Reads what is left of a recording; `each` sees the samples of the range as they come, with the gap
/// before them, and may change what is summed up.
///
/// Returns nothing where the range has no sample.
///
/// # Errors
/// As [`Reader::next`], or what `each` says.
pub fn summarize<E: From<Error>>(
    reader: &mut Reader,
    range: Range,
    mut each: impl FnMut(&mut Sample, Option<&Gap>) -> Result<(), E>,
) -> Result<Option<Statistics>, E> {
    let mut sums: Option<Sums> = None;
    let mut gaps = Gaps::default();
    let mut is_in = false;
    while let Some(mut sample) = reader.next()? {
        let Some(session) = reader.session() else {
            continue;
        };
        // Time before the range is not a gap in it.
        let gap = gaps
            .find(&sample, session.interval)
            .filter(|gap| !gap.kind.loses_counts() || range.meets(gap));
        is_in = range.has(&sample);
        if !is_in {
            // The range may end in time that is missing.
            if let (Some(sums), Some(gap)) = (&mut sums, gap.filter(|gap| gap.kind.loses_counts()))
            {
                sums.add_gap(gap);
            }
            continue;
        }
        let sums = sums.get_or_insert_with(|| Sums::new(session));
        each(&mut sample, gap.as_ref())?;
        sums.add(sample, gap, session);
    }
    if let (Some(sums), true) = (&mut sums, is_in && reader.loses_after_last()) {
        let gap = gaps.after_last().filter(|gap| range.meets(gap));
        gap.into_iter().for_each(|gap| sums.add_gap(gap));
    }
    Ok(sums.and_then(|sums| sums.finish(reader.told())))
}

struct Sums {
    session: Session,
    sessions: u64,
    samples: u64,
    begin: String,
    sum: Option<Sum>,
    spreads: Spreads,
    worst: [Option<(f64, String)>; STALLS.len()],
    gaps: Vec<Gap>,
    more_gaps: u64,
}

const STALLS: [(&str, &str, &str, &str); 5] = [
    ("cpu", "some", "psi_cpu_some_seconds", "psi_cpu_some_ratio"),
    (
        "memory",
        "some",
        "psi_memory_some_seconds",
        "psi_memory_some_ratio",
    ),
    (
        "memory",
        "full",
        "psi_memory_full_seconds",
        "psi_memory_full_ratio",
    ),
    ("io", "some", "psi_io_some_seconds", "psi_io_some_ratio"),
    ("io", "full", "psi_io_full_seconds", "psi_io_full_ratio"),
];

impl Sums {
    fn new(session: &Session) -> Sums {
        Sums {
            session: session.clone(),
            sessions: 0,
            samples: 0,
            begin: String::new(),
            sum: None,
            spreads: Spreads::default(),
            worst: std::array::from_fn(|_| None),
            gaps: Vec::new(),
            more_gaps: 0,
        }
    }

    fn add(&mut self, sample: Sample, gap: Option<Gap>, session: &Session) {
        let interval = sample.interval;
        if self.samples == 0 || sample.begins {
            self.sessions += 1;
            self.session = session.clone();
        }
        gap.into_iter().for_each(|gap| self.add_gap(gap));
        let row = interval.row();
        self.spreads.add(&row);
        for ((_, _, _, ratio), worst) in STALLS.iter().zip(&mut self.worst) {
            let share = known(ratio, &row).known();
            if let Some(share) = share
                && worst.as_ref().is_none_or(|(most, _)| share > *most)
            {
                *worst = Some((share, interval.time.clone()));
            }
        }
        self.samples += 1;
        let sum = match self.sum.take() {
            Some(mut sum) => {
                sum.add(interval);
                sum
            }
            None => {
                self.begin = begin(&interval);
                Sum::of(interval)
            }
        };
        let whole = sum.whole();
        let rows = [
            whole.processes.len(),
            whole.files.len(),
            whole.cgroups.len(),
            (whole.stacks.as_ref()).map_or(0, |stacks| stacks.stacks.len()),
        ];
        // Sums up the least active processes and files, and drops the least active control groups.
        self.sum = Some(match rows.into_iter().any(|rows| rows > MOST_PARTS) {
            true => {
                let mut whole = sum.into_whole();
                reduce(&mut whole, MOST_PARTS / 2);
                Sum::of(whole)
            }
            false => sum,
        });
    }

    fn add_gap(&mut self, gap: Gap) {
        match self.gaps.len() < MOST_GAPS {
            true => self.gaps.push(gap),
            false => self.more_gaps += 1,
        }
    }

    fn finish(self, problems: Vec<String>) -> Option<Statistics> {
        let mut total = self.sum?.into_whole();
        reduce(&mut total, MOST_PARTS);
        let heaviest = |ledger: &Ledger| std::cmp::Reverse(crate::reduce::activity(ledger));
        total
            .cgroups
            .sort_by_cached_key(|row| heaviest(&row.ledger));
        total
            .devices
            .sort_by_cached_key(|row| heaviest(&row.ledger));
        let row = total.row();
        let stalls = STALLS.iter().zip(self.worst);
        let stalls = stalls.map(|((resource, kind, seconds, ratio), worst)| {
            let none = Missing::NotOffered(Reason::NeverSampled);
            Stall {
                resource,
                kind,
                seconds: known(seconds, &row),
                ratio: known(ratio, &row),
                worst_ratio: (worst.as_ref()).map_or(Measured::Missing(none), |(share, _)| {
                    Measured::Exact(*share)
                }),
                worst_time: worst
                    .map_or(Measured::Missing(none), |(_, time)| Measured::Exact(time)),
            }
        });
        Some(Statistics {
            diagnosis: Diagnosis::of(&total),
            begin: self.begin,
            scope: self.session.scope,
            command: self.session.command,
            interval: self.session.interval,
            samples: self.samples,
            sessions: self.sessions,
            stalls: stalls.collect(),
            spreads: self.spreads.finish(&row),
            total,
            gaps: self.gaps,
            more_gaps: self.more_gaps,
            problems,
        })
    }
}

/// A field of the machine as a plain number.
fn known(id: &str, row: &Row) -> Measured<f64> {
    let value = field(id).map_or(Value::not_offered(Reason::NoSuchField), |field| {
        field.of(row)
    });
    value.map(|datum| number(&datum).unwrap_or(f64::NAN))
}

/// Returns the begin of an interval, as RFC 3339.
fn begin(interval: &Interval) -> String {
    let begin = interval.time.parse::<Timestamp>().ok().and_then(|end| {
        let elapsed: Duration = interval.elapsed;
        end.checked_sub(elapsed).ok()
    });
    begin.map_or(interval.time.clone(), |begin| format!("{begin:.3}"))
}

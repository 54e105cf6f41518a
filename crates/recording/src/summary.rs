//! A whole recording in one, in bounded memory: however long it is, it is read once.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::PathBuf;
use std::time::Duration;

use cachewise_model::{
    CgroupRow, DeviceRow, FileRow, Gap, Interval, Ledger, Lost, Measured, Missing, ProcessRow,
    Reason, Report, Row, Stall, Summary, Value, blind, field,
};
use cachewise_units::PageSize;
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
/// before them.
///
/// Returns nothing where the range has no sample.
///
/// # Errors
/// As [`Reader::next`], or what `each` says.
pub fn summarize<E: From<Error>>(
    reader: &mut Reader,
    range: Range,
    mut each: impl FnMut(&Sample, Option<&Gap>) -> Result<(), E>,
) -> Result<Option<Summary>, E> {
    let mut sums: Option<Sums> = None;
    let mut gaps = Gaps::default();
    let mut is_in = false;
    while let Some(sample) = reader.next()? {
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
        each(&sample, gap.as_ref())?;
        sums.add(sample, gap, session);
    }
    if let (Some(sums), true) = (&mut sums, is_in && reader.loses_after_last()) {
        let gap = gaps.after_last().filter(|gap| range.meets(gap));
        gap.into_iter().for_each(|gap| sums.add_gap(gap));
    }
    Ok(sums.map(|sums| sums.finish(reader.told())))
}

struct Sums {
    session: Session,
    sessions: u64,
    samples: u64,
    begin: String,
    machine: Interval,
    processes: Parts<(u32, Option<u64>), ProcessRow>,
    files: Parts<(String, u64, Option<PathBuf>), FileRow>,
    cgroups: Parts<Option<String>, CgroupRow>,
    devices: Parts<String, DeviceRow>,
    lost: Parts<&'static str, Lost>,
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
            machine: crate::sample::example(),
            processes: Parts::default(),
            files: Parts::default(),
            cgroups: Parts::default(),
            devices: Parts::default(),
            lost: Parts::default(),
            spreads: Spreads::default(),
            worst: std::array::from_fn(|_| None),
            gaps: Vec::new(),
            more_gaps: 0,
        }
    }

    fn add(&mut self, sample: Sample, gap: Option<Gap>, session: &Session) {
        let mut interval = sample.interval;
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
        for row in interval.processes.drain(..) {
            self.processes
                .add((row.pid, row.started.known()), row, ProcessRow::append);
        }
        for row in interval.files.drain(..) {
            let key = (row.device.clone(), row.inode, row.path.clone().known());
            self.files.add(key, row, FileRow::append);
        }
        for row in interval.cgroups.drain(..) {
            self.cgroups
                .add(row.path.clone().known(), row, CgroupRow::append);
        }
        for row in interval.devices.drain(..) {
            self.devices.add(row.device.clone(), row, DeviceRow::append);
        }
        for row in interval.lost.drain(..) {
            self.lost.add(row.id, row, |sum, later| {
                sum.count = sum.count.saturating_add(later.count);
            });
        }
        if self.samples == 0 {
            self.begin = begin(&interval);
            self.machine = interval;
        } else {
            let machine = &mut self.machine;
            machine.ledger += &interval.ledger;
            machine.elapsed += interval.elapsed;
            machine.time = interval.time;
            machine.system = machine.system.followed_by(&interval.system);
            machine.device_read_bytes = machine.device_read_bytes.plus(interval.device_read_bytes);
            machine.device_write_bytes =
                machine.device_write_bytes.plus(interval.device_write_bytes);
        }
        self.samples += 1;
        if self.processes.is_full() || self.files.is_full() || self.cgroups.is_full() {
            self.crowd();
        }
    }

    fn add_gap(&mut self, gap: Gap) {
        match self.gaps.len() < MOST_GAPS {
            true => self.gaps.push(gap),
            false => self.more_gaps += 1,
        }
    }

    /// Sums up the least active processes and files, and drops the least active control groups, there being
    /// too many.
    fn crowd(&mut self) {
        let mut interval = crate::sample::example();
        interval.processes = std::mem::take(&mut self.processes).rows;
        interval.files = std::mem::take(&mut self.files).rows;
        interval.cgroups = std::mem::take(&mut self.cgroups).rows;
        reduce(&mut interval, MOST_PARTS / 2);
        for row in interval.processes {
            self.processes
                .add((row.pid, row.started.known()), row, ProcessRow::append);
        }
        for row in interval.files {
            let key = (row.device.clone(), row.inode, row.path.clone().known());
            self.files.add(key, row, FileRow::append);
        }
        for row in interval.cgroups {
            self.cgroups
                .add(row.path.clone().known(), row, CgroupRow::append);
        }
    }

    fn finish(self, problems: Vec<String>) -> Summary {
        let mut total = self.machine;
        total.processes = self.processes.rows;
        total.files = self.files.rows;
        total.cgroups = self.cgroups.rows;
        total.devices = self.devices.rows;
        total.lost = self.lost.rows;
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
        // Nothing better is known where a recording says what none can be.
        let page_size = self.session.page().unwrap_or(PageSize::SMALLEST);
        let mut report = Report::new(
            total.time.clone(),
            self.session.hostname.clone(),
            page_size,
            self.session.kernel.clone(),
        );
        report.backend = self.session.backend();
        let report = report.of_interval(&total);
        Summary {
            blind: blind(&report),
            findings: report.findings,
            begin: self.begin,
            end: total.time.clone(),
            hostname: self.session.hostname.clone(),
            page_size,
            kernel: self.session.kernel.clone(),
            backend: self.session.backend(),
            scope: self.session.scope.clone(),
            command: self.session.command.clone(),
            interval: self.session.interval,
            samples: self.samples,
            sessions: self.sessions,
            stalls: stalls.collect(),
            spreads: self.spreads.finish(&row),
            total,
            gaps: self.gaps,
            more_gaps: self.more_gaps,
            problems,
        }
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

/// Rows of one kind, summed up by what they are of.
#[derive(Debug)]
struct Parts<K, T> {
    rows: Vec<T>,
    places: HashMap<K, usize>,
}

impl<K, T> Default for Parts<K, T> {
    fn default() -> Self {
        Parts {
            rows: Vec::new(),
            places: HashMap::new(),
        }
    }
}

impl<K: Hash + Eq, T> Parts<K, T> {
    fn add(&mut self, key: K, row: T, sum: impl Fn(&mut T, T)) {
        match self.places.get(&key) {
            Some(place) => sum(&mut self.rows[*place], row),
            None => {
                self.places.insert(key, self.rows.len());
                self.rows.push(row);
            }
        }
    }

    fn is_full(&self) -> bool {
        self.rows.len() > MOST_PARTS
    }
}

//! A sample as rows of cells, and back. Both ways go through the columns in the order of `columns`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{
    CgroupRow, Count, Counter, Culprit, DeviceRow, Eviction, EvictionCause, Exit, FileNumber,
    FileRow, GroupNames, Interval, Ledger, Lost, Measured, Missing, NOT_APPLICABLE, ProcessRow,
    Reason, Stack, StackKind, Stacks, System, Weight,
};
use cachewise_units::{Bytes, Pages};

use crate::calls::{self, MOST_CALLS};
use crate::columns::TableLayout;
use crate::names::{NamesIn, NamesOut};
use crate::sample::Sample;
use crate::table::Cell;
use crate::varint::{Malformed, apply, difference};

/// Counters of unserved requests. Earlier versions did not subtract them from the requested pages
/// and bytes.
const UNSERVED: [Counter; 3] = [
    Counter::ReadUnservedPages,
    Counter::ReadUnservedBytes,
    Counter::WriteUnservedBytes,
];
const OF_ANOTHER: Missing = Missing::NotOffered(Reason::OtherVersion);

/// The culprit of an eviction by a kernel thread.
const NO_CULPRIT: Count = Measured::Missing(NOT_APPLICABLE);

const NANOSECONDS: f64 = 1e9;

/// The numbers that are recorded for the row of all other files.
const ALL_OTHERS: (&str, u64) = ("0:0", 0);

/// Makes rows.
pub(crate) struct RowOut<'a> {
    names: &'a mut NamesOut,
    cells: Vec<Cell>,
}

impl<'a> RowOut<'a> {
    pub(crate) fn new(names: &'a mut NamesOut) -> RowOut<'a> {
        RowOut {
            names,
            cells: Vec::with_capacity(96),
        }
    }

    fn count(&mut self, count: Count) {
        let mut because =
            |kind: u64, reason: Reason| 1 + self.names.number(reason.code().as_bytes()) * 3 + kind;
        let (value, quality) = match count {
            Measured::Exact(value) => (value, 0),
            Measured::Estimated(value, how) => (value, because(0, how)),
            Measured::Missing(Missing::Unknown(why)) => (0, because(1, why)),
            Measured::Missing(Missing::NotOffered(why)) => (0, because(2, why)),
        };
        self.cells.push(Cell { value, quality });
    }

    fn number(&mut self, value: u64) {
        self.cells.push(Cell { value, quality: 0 });
    }

    fn text(&mut self, text: Measured<&[u8]>) {
        let number = text.map(|text| self.names.number(text));
        self.count(number);
    }

    fn string(&mut self, text: &Measured<String>) {
        self.text(text.as_ref().map(String::as_bytes));
    }

    fn path(&mut self, path: &Measured<PathBuf>) {
        self.text(path.as_ref().map(|path| path.as_os_str().as_bytes()));
    }

    fn ledger(&mut self, ledger: &Ledger) {
        for counter in Counter::ALL {
            self.count(ledger.booked(*counter));
        }
    }

    fn system(&mut self, system: &System) {
        for number in system.numbers() {
            self.count(number);
        }
    }

    pub(crate) fn machine(mut self, sample: &Sample, milliseconds: i64) -> Vec<Cell> {
        let interval = &sample.interval;
        self.number(difference(milliseconds as u64, 0));
        self.number(nanoseconds(interval.elapsed));
        self.number(nanoseconds(sample.suspended));
        self.count(interval.device_read_bytes);
        self.count(interval.device_write_bytes);
        self.number(interval.stacks.is_some().into());
        self.ledger(&interval.ledger);
        self.system(&interval.system);
        self.cells
    }

    pub(crate) fn process(mut self, row: &ProcessRow) -> Vec<Cell> {
        self.number(row.pid.map_or(0, u64::from));
        self.count(row.started);
        self.count(row.ppid.map(u64::from));
        self.string(&row.command);
        self.string(&row.cgroup);
        let signed = |number: i32| difference(i64::from(number) as u64, 0);
        self.count(match row.exit {
            Exit::Running => Measured::Exact(0),
            Exit::Code(code) => Measured::Exact(1 + 2 * signed(code)),
            Exit::Signal(signal) => Measured::Exact(2 + 2 * signed(signal)),
            Exit::Unknown(why) => Measured::unknown(why),
        });
        self.count(
            row.cpu_seconds
                .map(|seconds| (seconds * NANOSECONDS).round() as u64),
        );
        self.count(row.device_read_bytes);
        self.count(row.device_write_bytes);
        self.ledger(&row.ledger);
        self.cells
    }

    pub(crate) fn file(mut self, row: &FileRow) -> Vec<Cell> {
        let number = row.number.as_ref();
        let (device, inode) = number.map_or(ALL_OTHERS, |file| (&*file.device, file.inode));
        self.text(Measured::Exact(device.as_bytes()));
        self.number(inode);
        self.path(&row.path);
        self.number(row.deleted.into());
        self.string(&row.filesystem);
        self.count(row.size_bytes);
        self.count(row.resident_before_pages);
        self.count(row.resident_after_pages);
        self.number(row.direct.into());
        self.string(&row.label);
        self.ledger(&row.ledger);
        self.cells
    }

    pub(crate) fn cgroup(mut self, row: &CgroupRow) -> Vec<Cell> {
        self.string(&row.path);
        let names = &row.names;
        for name in [
            &names.unit,
            &names.container,
            &names.container_id,
            &names.pod,
        ] {
            self.string(name);
        }
        self.ledger(&row.ledger);
        self.system(&row.system);
        self.cells
    }

    pub(crate) fn device(mut self, row: &DeviceRow) -> Vec<Cell> {
        self.text(Measured::Exact(row.device.as_bytes()));
        self.path(&row.path);
        self.string(&row.filesystem);
        self.count(row.device_read_bytes);
        self.count(row.device_write_bytes);
        self.count(row.busy);
        self.ledger(&row.ledger);
        self.cells
    }

    /// The file is its place among the files of the sample.
    pub(crate) fn eviction(mut self, row: &Eviction) -> Vec<Cell> {
        self.number(row.file as u64);
        self.text(Measured::Exact(row.cause.id().as_bytes()));
        self.string(&row.charged);
        let culprit = row.culprit.as_ref();
        self.count(culprit.map_or(NO_CULPRIT, |culprit| Measured::Exact(culprit.started)));
        let kernel = Measured::Missing(NOT_APPLICABLE);
        self.string(culprit.map_or(&kernel, |culprit| &culprit.cgroup));
        let pid = culprit.map(|culprit| culprit.pid.map(u64::from));
        self.count(pid.unwrap_or(NO_CULPRIT));
        self.string(culprit.map_or(&kernel, |culprit| &culprit.command));
        self.number(row.own.into());
        self.number(row.pages);
        self.cells
    }

    pub(crate) fn stack(mut self, row: &Stack) -> Vec<Cell> {
        let cut = match row.frames.len() > MOST_CALLS {
            true => Some(Reason::StackTooDeep),
            false => row.cut,
        };
        let calls = calls::encoded(&row.frames, self.names);
        self.text(Measured::Exact(row.kind.id().as_bytes()));
        self.text(Measured::Exact(row.command.as_bytes()));
        self.count(cut.map_or(Measured::Exact(0), Measured::unknown));
        self.text(Measured::Exact(&calls));
        self.number(row.weight.pages.0);
        self.number(row.weight.bytes.0);
        self.number(nanoseconds(row.weight.waited));
        self.cells
    }

    pub(crate) fn lost(mut self, row: &Lost) -> Vec<Cell> {
        self.text(Measured::Exact(row.id.as_bytes()));
        self.number(row.count);
        self.text(Measured::Exact(row.meaning.as_bytes()));
        self.cells
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Takes a row apart.
pub(crate) struct RowIn<'a> {
    pub table: &'a TableLayout,
    pub names: &'a NamesIn,
    pub cells: &'a [Cell],
    pub next: usize,
}

impl RowIn<'_> {
    fn cell(&mut self) -> Option<Cell> {
        let place = self.table.places.get(self.next).copied().flatten();
        self.next += 1;
        self.cells.get(place?).copied()
    }

    fn count(&mut self) -> Result<Count, Malformed> {
        let Some(Cell { value, quality }) = self.cell() else {
            return Ok(Measured::Missing(OF_ANOTHER));
        };
        let Some(quality) = quality.checked_sub(1) else {
            return Ok(Measured::Exact(value));
        };
        let reason = self.names.reason(quality / 3)?;
        Ok(match quality % 3 {
            0 => Measured::Estimated(value, reason),
            1 => Measured::unknown(reason),
            _ => Measured::not_offered(reason),
        })
    }

    /// A number that is always known; 0 where this recording does not have it.
    fn number(&mut self) -> u64 {
        self.cell().map_or(0, |cell| cell.value)
    }

    fn name<T>(
        &mut self,
        of: impl Fn(&NamesIn, u64) -> Result<T, Malformed>,
    ) -> Result<Measured<T>, Malformed> {
        Ok(match self.count()? {
            Measured::Exact(number) => Measured::Exact(of(self.names, number)?),
            Measured::Estimated(number, how) => Measured::Estimated(of(self.names, number)?, how),
            Measured::Missing(missing) => Measured::Missing(missing),
        })
    }

    fn string(&mut self) -> Result<Measured<String>, Malformed> {
        self.name(NamesIn::string)
    }

    fn path(&mut self) -> Result<Measured<PathBuf>, Malformed> {
        self.name(|names, number| {
            Ok(PathBuf::from(OsString::from_vec(
                names.text(number)?.to_vec(),
            )))
        })
    }

    fn known(&mut self) -> Result<String, Malformed> {
        Ok(self.string()?.known().unwrap_or_default())
    }

    fn ledger(&mut self) -> Result<Ledger, Malformed> {
        let mut ledger = Ledger::default();
        for counter in Counter::ALL {
            let count = match self.count()? {
                // Earlier versions took every requested byte for one that moved.
                Measured::Missing(OF_ANOTHER) if UNSERVED.contains(counter) => {
                    Measured::Estimated(0, Reason::UnservedNotCounted)
                }
                count => count,
            };
            ledger.book(*counter, count);
        }
        if ledger.booked(Counter::ReadHitPages) == Measured::Missing(OF_ANOTHER) {
            ledger.derive_hits();
        }
        Ok(ledger)
    }

    fn system(&mut self) -> Result<System, Malformed> {
        let mut numbers = [Measured::Exact(0); System::IDS.len()];
        for number in &mut numbers {
            *number = self.count()?;
        }
        Ok(System::from_numbers(numbers))
    }

    pub(crate) fn machine(mut self) -> Result<Sample, Malformed> {
        let milliseconds = apply(self.number(), 0) as i64;
        let time = jiff::Timestamp::from_millisecond(milliseconds)
            .map_err(|_| Malformed("a time that no calendar has"))?;
        let elapsed = Duration::from_nanos(self.number());
        let suspended = Duration::from_nanos(self.number());
        let device_read_bytes = self.count()?;
        let device_write_bytes = self.count()?;
        let has_stacks = self.number() != 0;
        let ledger = self.ledger()?;
        Ok(Sample {
            interval: Interval {
                elapsed,
                ledger,
                system: self.system()?,
                device_read_bytes,
                device_write_bytes,
                stacks: has_stacks.then(Stacks::default),
                ..Interval::new(Arc::default(), format!("{time:.3}"))
            },
            suspended,
            begins: false,
            after_loss: false,
        })
    }

    pub(crate) fn process(mut self) -> Result<ProcessRow, Malformed> {
        let too_large = Malformed("a process id is too large");
        let signed = |number: u64| {
            i32::try_from(apply(number, 0) as i64).map_err(|_| Malformed("a status is too large"))
        };
        let pid = u32::try_from(self.number()).map_err(|_| too_large)?;
        let (started, ppid) = (self.count()?, self.count()?.map(|pid| pid as u32));
        let command = self.string()?;
        Ok(ProcessRow {
            pid: Some(pid).filter(|pid| *pid > 0 || command.missing().is_none()),
            started,
            ppid,
            command,
            cgroup: self.string()?,
            exit: match self.count()? {
                Measured::Missing(missing) => Exit::Unknown(missing.reason()),
                Measured::Exact(0) | Measured::Estimated(..) => Exit::Running,
                Measured::Exact(code) if code % 2 == 1 => Exit::Code(signed((code - 1) / 2)?),
                Measured::Exact(signal) => Exit::Signal(signed((signal - 2) / 2)?),
            },
            cpu_seconds: self
                .count()?
                .map(|time| Duration::from_nanos(time).as_secs_f64()),
            device_read_bytes: self.count()?,
            device_write_bytes: self.count()?,
            ledger: self.ledger()?,
        })
    }

    pub(crate) fn file(mut self) -> Result<FileRow, Malformed> {
        let (device, inode): (String, u64) = (self.known()?, self.number());
        let path = self.path()?;
        let is_one = path.missing().is_none() || (&*device, inode) != ALL_OTHERS;
        Ok(FileRow {
            number: is_one.then_some(FileNumber { device, inode }),
            path,
            deleted: self.number() != 0,
            filesystem: self.string()?,
            size_bytes: self.count()?,
            resident_before_pages: self.count()?,
            resident_after_pages: self.count()?,
            direct: self.number() != 0,
            label: match self.string()? {
                // Earlier versions have no labels.
                Measured::Missing(OF_ANOTHER) => Measured::Missing(NOT_APPLICABLE),
                label => label,
            },
            ledger: self.ledger()?,
        })
    }

    pub(crate) fn cgroup(mut self) -> Result<CgroupRow, Malformed> {
        Ok(CgroupRow {
            path: self.string()?,
            names: GroupNames {
                unit: self.string()?,
                container: self.string()?,
                container_id: self.string()?,
                pod: self.string()?,
            },
            ledger: self.ledger()?,
            system: self.system()?,
            memory_limit_path: Measured::not_offered(Reason::NotMeasured),
        })
    }

    pub(crate) fn device(mut self) -> Result<DeviceRow, Malformed> {
        Ok(DeviceRow {
            device: self.known()?,
            path: self.path()?,
            filesystem: self.string()?,
            device_read_bytes: self.count()?,
            device_write_bytes: self.count()?,
            busy: self.count()?,
            ledger: self.ledger()?,
        })
    }

    pub(crate) fn eviction(mut self) -> Result<Eviction, Malformed> {
        let file = usize::try_from(self.number()).map_err(|_| Malformed("too many files"))?;
        let cause = self.known()?;
        let charged = self.string()?;
        let (started, cgroup) = (self.count()?, self.string()?);
        let pid = self.count()?.map(|pid| pid as u32);
        let command = self.string()?;
        Ok(Eviction {
            file,
            charged,
            // A later version may know more of them.
            cause: EvictionCause::find(&cause).unwrap_or(EvictionCause::Unknown),
            culprit: started.known().map(|started| Culprit {
                pid,
                started,
                command,
                cgroup,
            }),
            own: self.number() != 0,
            pages: self.number(),
        })
    }

    /// `None`: at an event of a later version.
    pub(crate) fn stack(mut self) -> Result<Option<Stack>, Malformed> {
        let kind = self.known()?;
        let command = self.known()?;
        let cut = self.count()?.missing().map(Missing::reason);
        let calls = self.name(|names, number| calls::decoded(names.text(number)?, names))?;
        let weight = Weight {
            pages: Pages(self.number()),
            bytes: Bytes(self.number()),
            waited: Duration::from_nanos(self.number()),
        };
        let kind = StackKind::ALL.into_iter().find(|known| known.id() == kind);
        Ok(kind.map(|kind| Stack {
            kind,
            command,
            frames: calls.known().unwrap_or_default(),
            cut,
            weight,
        }))
    }

    pub(crate) fn lost(mut self) -> Result<Lost, Malformed> {
        let Measured::Exact(name) = self.count()? else {
            return Err(Malformed("what was lost has no name"));
        };
        // The meaning, in the last column, is for earlier versions.
        Ok(Lost::new(&self.names.string(name)?, self.number()))
    }
}

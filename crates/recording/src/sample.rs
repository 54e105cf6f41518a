//! What is recorded at each tick.

use std::time::Duration;

use cachewise_model::{Ledger, Measured, Stretch, System};
use cachewise_units::PageSize;

use crate::cells::{RowIn, RowOut};
use crate::columns::{Table, Which};
use crate::error::ErrorKind;
use crate::names::{NamesIn, NamesOut};
use crate::session::Session;
use crate::table::{ENOUGH_CELLS, TableOut, TablesIn};
use crate::varint::{Input, Malformed};

/// One sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// What happened since the one before; who used which file is not kept.
    pub stretch: Stretch,
    /// So much of it the machine slept.
    pub suspended: Duration,
    /// Whether recording began with it. Set on reading.
    pub begins: bool,
    /// Whether samples before it could not be read. Set on reading.
    pub after_loss: bool,
}

impl Sample {
    /// A sample of a machine that did not sleep.
    #[must_use]
    pub fn of(stretch: Stretch) -> Sample {
        Sample {
            stretch,
            suspended: Duration::ZERO,
            begins: false,
            after_loss: false,
        }
    }
}

/// Writes samples as differences.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    names: NamesOut,
    tables: [TableOut; Which::ALL.len()],
}

impl Encoder {
    /// Forgets what was written: the next sample needs none before it.
    pub(crate) fn clear(&mut self) {
        self.names.clear();
        self.tables.iter_mut().for_each(TableOut::clear);
    }

    /// Whether it has so much in mind that it had better begin anew.
    pub(crate) fn is_full(&self) -> bool {
        self.tables.iter().map(TableOut::cells).sum::<usize>() > ENOUGH_CELLS
    }

    pub(crate) fn put(&mut self, sample: &Sample, out: &mut Vec<u8>) -> Result<(), ErrorKind> {
        let stretch = &sample.stretch;
        let time: jiff::Timestamp = (stretch.time.parse())
            .map_err(|error| ErrorKind::Sample(format!("the sample's time: {error}")))?;
        let names = &mut self.names;
        let rows = Which::ALL.map(|which| match which {
            Which::Machine => vec![RowOut::new(names).machine(sample, time.as_millisecond())],
            Which::Process => rows(&stretch.processes, |row| RowOut::new(names).process(row)),
            Which::File => rows(&stretch.files, |row| RowOut::new(names).file(row)),
            Which::Cgroup => rows(&stretch.cgroups, |row| RowOut::new(names).cgroup(row)),
            Which::Device => rows(&stretch.devices, |row| RowOut::new(names).device(row)),
            Which::Lost => rows(&stretch.lost, |row| RowOut::new(names).lost(row)),
        });
        self.names.tell(out);
        for ((which, table), rows) in Which::ALL.iter().zip(&mut self.tables).zip(&rows) {
            table.put(rows, which.key(), out);
        }
        Ok(())
    }
}

fn rows<T, R>(parts: &[T], row: impl FnMut(&T) -> R) -> Vec<R> {
    parts.iter().map(row).collect()
}

/// Reads them.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    columns: Vec<Table>,
    page_size: Option<PageSize>,
    names: NamesIn,
    tables: TablesIn,
}

impl Decoder {
    /// What a session's tables look like, and what it was measured in.
    pub(crate) fn begin(&mut self, session: &Session) {
        self.columns = session.tables();
        self.page_size = session.page();
        self.clear();
    }

    /// Forgets what was read.
    pub(crate) fn clear(&mut self) {
        self.names.clear();
        self.tables.clear();
    }

    pub(crate) fn take(&mut self, payload: &[u8]) -> Result<Sample, Malformed> {
        let mut input = Input(payload);
        self.names.learn(&mut input)?;
        let mut sample = None;
        let names = &self.names;
        for (place, table) in self.columns.iter().enumerate() {
            self.tables.take(place, table.width, &mut input, |cells| {
                let row = RowIn {
                    table,
                    names,
                    cells,
                    next: 0,
                };
                match (table.which, &mut sample) {
                    (None, _) => {}
                    (Some(Which::Machine), sample) => *sample = Some(row.machine()?),
                    (Some(_), None) => return Err(Malformed("the machine comes first")),
                    (Some(which), Some(sample)) => add(&mut sample.stretch, which, row)?,
                }
                Ok(())
            })?;
        }
        let mut sample: Sample = sample.ok_or(Malformed("nothing of the machine is in it"))?;
        sample.stretch.page_size = self.page_size;
        Ok(sample)
    }
}

fn add(stretch: &mut Stretch, which: Which, row: RowIn<'_>) -> Result<(), Malformed> {
    match which {
        Which::Machine => {}
        Which::Process => stretch.processes.push(row.process()?),
        Which::File => stretch.files.push(row.file()?),
        Which::Cgroup => stretch.cgroups.push(row.cgroup()?),
        Which::Device => stretch.devices.push(row.device()?),
        Which::Lost => stretch.lost.push(row.lost()?),
    }
    Ok(())
}

/// A stretch in which nothing happened, for examples.
#[doc(hidden)]
#[must_use]
pub fn example() -> Stretch {
    Stretch {
        time: "2026-01-02T03:04:05.000Z".into(),
        elapsed: Duration::from_secs(1),
        page_size: Some(PageSize::SMALLEST),
        ledger: Ledger::default(),
        system: System::default(),
        device_read_bytes: Measured::Exact(0),
        device_write_bytes: Measured::Exact(0),
        processes: Vec::new(),
        files: Vec::new(),
        cgroups: Vec::new(),
        devices: Vec::new(),
        uses: Vec::new(),
        lost: Vec::new(),
    }
}

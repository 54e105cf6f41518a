//! Samples as differences to the ones before: [`Encoder`], [`Decoder`].

use std::sync::Arc;

use cachewise_model::{Interval, Source};

use crate::cells::{RowIn, RowOut};
use crate::columns::{RowKind, TableLayout};
use crate::error::ErrorKind;
use crate::names::{NamesIn, NamesOut};
use crate::sample::Sample;
use crate::session::Session;
use crate::table::{ENOUGH_CELLS, TableOut, TablesIn};
use crate::varint::{Input, Malformed};

/// Writes samples as differences.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    names: NamesOut,
    tables: [TableOut; RowKind::ALL.len()],
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
        let interval = &sample.interval;
        let time: jiff::Timestamp = (interval.time.parse())
            .map_err(|error| ErrorKind::Sample(format!("the sample's time: {error}")))?;
        let names = &mut self.names;
        let stacks = interval.stacks.as_ref();
        let stacks = stacks.map_or(&[][..], |stacks| &stacks.stacks);
        let rows = RowKind::ALL.map(|which| match which {
            RowKind::Machine => vec![RowOut::new(names).machine(sample, time.as_millisecond())],
            RowKind::Process => rows(&interval.processes, |row| RowOut::new(names).process(row)),
            RowKind::File => rows(&interval.files, |row| RowOut::new(names).file(row)),
            RowKind::Cgroup => rows(&interval.cgroups, |row| RowOut::new(names).cgroup(row)),
            RowKind::Device => rows(&interval.devices, |row| RowOut::new(names).device(row)),
            RowKind::Lost => rows(&interval.lost, |row| RowOut::new(names).lost(row)),
            RowKind::Eviction => rows(&interval.evictions, |row| RowOut::new(names).eviction(row)),
            RowKind::Stack => rows(stacks, |row| RowOut::new(names).stack(row)),
        });
        self.names.tell(out);
        for ((which, table), rows) in RowKind::ALL.iter().zip(&mut self.tables).zip(&rows) {
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
    columns: Vec<TableLayout>,
    source: Arc<Source>,
    names: NamesIn,
    tables: TablesIn,
}

impl Decoder {
    /// Starts a session: takes the layouts of its tables and its page size.
    pub(crate) fn begin(&mut self, session: &Session) {
        self.columns = session.tables();
        self.source = Arc::new(session.source());
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
                    (Some(RowKind::Machine), sample) => *sample = Some(row.machine()?),
                    (Some(_), None) => return Err(Malformed("the machine comes first")),
                    (Some(which), Some(sample)) => add(&mut sample.interval, which, row)?,
                }
                Ok(())
            })?;
        }
        let mut sample: Sample = sample.ok_or(Malformed("nothing of the machine is in it"))?;
        sample.interval.source = Arc::clone(&self.source);
        Ok(sample)
    }
}

fn add(interval: &mut Interval, which: RowKind, row: RowIn<'_>) -> Result<(), Malformed> {
    match which {
        RowKind::Machine => {}
        RowKind::Process => interval.processes.push(row.process()?),
        RowKind::File => interval.files.push(row.file()?),
        RowKind::Cgroup => interval.cgroups.push(row.cgroup()?),
        RowKind::Device => interval.devices.push(row.device()?),
        RowKind::Lost => interval.lost.push(row.lost()?),
        RowKind::Eviction => {
            let eviction = row.eviction()?;
            if eviction.file >= interval.files.len() {
                return Err(Malformed("the evicted pages belong to no file"));
            }
            interval.evictions.push(eviction);
        }
        RowKind::Stack => {
            // An event of a later version has no kind here.
            if let Some(stack) = row.stack()? {
                interval.stacks.get_or_insert_default().stacks.push(stack);
            }
        }
    }
    Ok(())
}

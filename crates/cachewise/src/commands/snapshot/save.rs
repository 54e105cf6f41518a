//! `snapshot save`: what is resident.

use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use cachewise_cli::output::{self, FAILED, tell};
use cachewise_residency::snapshot::{SnapshotEntry, SnapshotError, Writer};
use cachewise_residency::{Error, Inode, Unknown, map};
use cachewise_sys::page_size;
use cachewise_units::{ByteRange, Pages, counted, escaped};

use super::read::STREAM;
use super::telling::Telling;
use crate::acting::listed::nothing;
use crate::acting::pool::{Done, Purpose, each_file};
use crate::interrupt::Interrupt;
use crate::options::Select;
use crate::progress::Meter;

/// Saves the resident pages of files.
pub fn save(file: &Path, paths: &[PathBuf], select: &Select) -> Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    let among = (paths, select, &interrupt);
    if file == Path::new(STREAM) {
        let out = BufWriter::with_capacity(1 << 16, io::stdout());
        let name = "the snapshot on standard output";
        return write(Writer::new(out)?, &[], name, among, |_| Ok(()));
    }
    let writer = Writer::create(file)?;
    let own = writer.own();
    let name = escaped(file).into_owned();
    write(writer, &own, &name, among, |whole| whole.commit())
}

/// Writes what is resident, and has the whole take its place.
fn write<W: Write>(
    mut writer: Writer<W>,
    own: &[Inode],
    name: &str,
    (paths, select, interrupt): (&[PathBuf], &Select, &Interrupt),
    commit: impl FnOnce(W) -> Result<(), SnapshotError>,
) -> Result<ExitCode> {
    let meter = Meter::new();
    let telling = Telling::new(&meter);
    let mut empty = 0u64;
    let look = |path: &Path, file: &std::fs::File| {
        let inode = Inode::of_fd(file.as_fd())?;
        // Of itself, and of the one whose place it takes, a snapshot would have nothing to bring back.
        if own
            .iter()
            .any(|own| (own.device, own.number) == (inode.device, inode.number))
        {
            return Ok(Done::Nothing);
        }
        let map = map(file, ByteRange::starting_at(0))?;
        Ok(Done::File(SnapshotEntry::new(path, &inode, map)))
    };
    each_file(
        paths,
        select,
        Purpose::Examine,
        interrupt.flag(),
        look,
        |done| {
            meter.file();
            match done {
                Done::File(entry) if entry.cached() > Pages::ZERO => writer.add(&entry)?,
                Done::File(_) | Done::Opened(..) => empty += 1,
                Done::NotOpened(path, _) => {
                    let why = Unknown::FuseNotOpened;
                    let error = Error::Unknown {
                        path: Some(path),
                        why,
                    };
                    telling.tell(&error.to_string());
                }
                Done::Vanished | Done::Nothing | Done::Beyond => {}
                Done::Failed(error) => telling.tell(&error),
            }
            Ok(())
        },
    )?;
    let failed = telling.end();
    let totals = writer.totals();
    if let Some(status) = interrupt.status() {
        tell(&format!(
            "interrupted: {} resident in {} so far; {name} was not written",
            counted(totals.pages.0, "page"),
            counted(totals.files + empty, "file"),
        ));
        return Ok(status);
    }
    if totals.files + empty == 0 {
        if failed == 0 {
            tell(&nothing("save", select, paths));
        }
        tell(&format!("{name} was not written"));
        return Ok(ExitCode::from(FAILED));
    }
    commit(writer.finish()?)?;
    tell(&format!(
        "{name}: {} resident ({}), of {}; {} had none",
        counted(totals.pages.0, "page"),
        totals.pages.bytes(page_size()),
        counted(totals.files, "file"),
        counted(empty, "file")
    ));
    Ok(output::status(failed > 0))
}

//! [`Writer`]: a snapshot is written.

use std::fs::{File, Permissions};
use std::io::{BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cachewise_sys::page_size;
use serde::Serialize;
use tempfile::TempPath;

use crate::Inode;

use super::{
    End, Entry, FORMAT, Head, Line, Reader, SnapshotError, SnapshotFault, Totals, VERSION,
};

/// Writes a snapshot, file by file. Without [`finish`](Self::finish) it is not complete, and readers say so.
///
/// # Cost
/// Memory for one file's ranges.
#[derive(Debug)]
pub struct Writer<W> {
    writer: W,
    /// The snapshot's own path, where it is known.
    path: Option<PathBuf>,
    totals: Totals,
}

impl Writer<Replacement> {
    /// Begins a snapshot that is going to be, or to replace, the file at `path`: nothing is there, or what was
    /// there is, until [`Replacement::commit`].
    ///
    /// # Errors
    /// No file can be made in that directory; what is there is something else than a snapshot, which nobody
    /// means to lose.
    pub fn create(path: &Path) -> Result<Self, SnapshotError> {
        may_be_replaced(path).map_err(|error| error.at(path))?;
        let mut new = Self::new(Replacement::of(path)?).map_err(|error| error.at(path))?;
        new.path = Some(path.to_owned());
        Ok(new)
    }

    /// Returns the file that is written, and the one that it is going to replace: what a snapshot of the tree
    /// that it is in should leave out.
    #[must_use]
    pub fn own(&self) -> Vec<Inode> {
        let Replacement { file, path, .. } = &self.writer;
        let inode = |file: &File| Inode::of(file.as_fd()).ok();
        let replaced = File::open(path).ok().and_then(|file| inode(&file));
        inode(file.get_ref()).into_iter().chain(replaced).collect()
    }
}

impl<W: Write> Writer<W> {
    /// Begins a snapshot on any stream. It is written in small pieces: pass a buffered one.
    ///
    /// # Errors
    /// The stream takes nothing.
    pub fn new(writer: W) -> Result<Self, SnapshotError> {
        let created = SystemTime::now().duration_since(UNIX_EPOCH);
        let page_size = page_size().get();
        let head = Head {
            format: FORMAT.to_owned(),
            version: VERSION,
            page_size_bytes: u32::try_from(page_size).unwrap_or(u32::MAX),
            created_seconds: created.map_or(0, |since| since.as_secs()),
        };
        let totals = Totals::default();
        let mut new = Self {
            writer,
            path: None,
            totals,
        };
        new.line(&head)?;
        Ok(new)
    }

    /// Adds a file; a relative path is completed from the working directory. Files of which nothing is resident may
    /// be left out: [`restore()`](super::restore()) has nothing to do for them.
    ///
    /// # Errors
    /// The stream takes no more; there is no working directory.
    pub fn add(&mut self, entry: &Entry) -> Result<(), SnapshotError> {
        let line =
            Line::of(entry).map_err(|source| SnapshotError::io("working directory", source))?;
        self.line(&line)?;
        self.totals.files += 1;
        self.totals.pages += entry.cached();
        Ok(())
    }

    /// Returns what was added so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Ends the snapshot and returns the stream, flushed.
    ///
    /// # Errors
    /// The stream takes no more.
    pub fn finish(mut self) -> Result<W, SnapshotError> {
        self.line(&End {
            end: true,
            files: self.totals.files,
            pages: self.totals.pages.0,
        })?;
        let flushed = self.writer.flush();
        flushed.map_err(|source| self.failed(source))?;
        Ok(self.writer)
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), SnapshotError> {
        let written = serde_json::to_writer(&mut self.writer, line)
            .map_err(std::io::Error::from)
            .and_then(|()| self.writer.write_all(b"\n"));
        written.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: std::io::Error) -> SnapshotError {
        let error = SnapshotError::io("write", source);
        match &self.path {
            Some(path) => error.at(path),
            None => error,
        }
    }
}

/// A file that takes its place only when it is complete. Dropped before, it leaves nothing behind.
#[derive(Debug)]
pub struct Replacement {
    file: BufWriter<File>,
    /// Dropped, it removes the file.
    name: TempPath,
    path: PathBuf,
}

impl Replacement {
    fn of(path: &Path) -> Result<Self, SnapshotError> {
        let (file, name) = tempfile::Builder::new()
            .prefix(".cachewise-")
            // What the umask leaves of it, as of any other new file.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory(path))
            .map_err(|error| why_not(directory(path), error))
            .map_err(|source| SnapshotError::io("create a file in its directory", source).at(path))?
            .into_parts();
        Ok(Self {
            file: BufWriter::with_capacity(1 << 16, file),
            name,
            path: path.to_owned(),
        })
    }

    /// Has the disk take the file, and gives it its name, in the place of what had it before. After a crash there is
    /// the one or the other.
    ///
    /// # Errors
    /// The disk does not take it; the name is a directory's.
    pub fn commit(self) -> Result<(), SnapshotError> {
        let commit = || -> std::io::Result<()> {
            let file = self.file.into_inner().map_err(|error| error.into_error())?;
            file.sync_all()?;
            let persisted = self.name.persist(&self.path);
            persisted.map_err(|error| error.error)?;
            File::open(directory(&self.path))?.sync_all()
        };
        commit().map_err(|source| SnapshotError::io("write", source).at(&self.path))
    }
}

/// Only a snapshot, or an empty file, gives its place to another.
fn may_be_replaced(path: &Path) -> Result<(), SnapshotError> {
    let found = match std::fs::metadata(path) {
        // What is not there, or not seen, shows when the new one takes its place.
        Err(_) => return Ok(()),
        Ok(found) => found,
    };
    if !found.is_file() {
        return Err(SnapshotError::new(None, SnapshotFault::InTheWay));
    }
    let Err(error) = Reader::open(path) else {
        return Ok(());
    };
    match error.fault {
        SnapshotFault::Empty | SnapshotFault::Newer(_) => Ok(()),
        // Damaged as it may be, it begins as one.
        _ if error.line > Some(1) => Ok(()),
        _ => Err(SnapshotError::new(None, SnapshotFault::InTheWay)),
    }
}

/// Why no file can be made in a directory, without the name of the one that was tried, which nobody gave.
fn why_not(directory: &Path, error: std::io::Error) -> std::io::Error {
    use rustix::fs::Access;
    match rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK) {
        Err(errno) => errno.into(),
        Ok(()) => error.kind().into(),
    }
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

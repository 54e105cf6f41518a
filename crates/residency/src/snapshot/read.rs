//! [`Reader`]: a snapshot is read.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cachewise_sys::open_to_act;
use cachewise_units::{PageSize, Pages};

use super::{
    End, FORMAT, Head, Line, SnapshotEntry, SnapshotError, SnapshotFault, Totals, VERSION,
};

/// Reads a snapshot, file by file: an iterator that ends after an error.
///
/// # Cost
/// Memory for one file's ranges.
#[derive(Debug)]
pub struct Reader<R> {
    reader: R,
    /// The snapshot's own path, where it is known.
    path: Option<PathBuf>,
    line: Vec<u8>,
    number: u64,
    /// How many bytes were read.
    pub(super) offset: u64,
    page_size: PageSize,
    created: SystemTime,
    seen: Totals,
    announced: Option<Totals>,
    has_ended: bool,
    cancel: Option<Arc<AtomicBool>>,
}

/// No line is longer: 10 million ranges.
const LONGEST: u64 = 256 << 20;

impl Reader<BufReader<File>> {
    /// Opens a snapshot, and checks that it is complete before its entries are used. Never blocks
    /// on a FIFO.
    ///
    /// # Errors
    /// That it cannot be read, is no file (a FIFO, a directory), is empty, none at all, of a later version, or was cut off.
    pub fn open(path: &Path) -> Result<Self, SnapshotError> {
        // A FIFO is refused unopened: opening it would block until a writer comes.
        let mut reader = open_to_act(path)
            .map_err(SnapshotError::from)
            .and_then(Self::from_file)
            .map_err(|error| error.at(path))?;
        reader.path = Some(path.to_owned());
        Ok(reader)
    }

    /// Takes a file that is open, as [`open`](Self::open) does.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), without a path.
    pub fn from_file(mut file: File) -> Result<Self, SnapshotError> {
        let end = last_line(&mut file).map_err(|source| SnapshotError::io("read", source))?;
        let mut reader = Self::new(BufReader::with_capacity(1 << 16, file))?;
        let end = end
            .as_deref()
            .and_then(|line| serde_json::from_slice(line).ok());
        let end: End = end.ok_or_else(|| reader.first_fault())?;
        reader.announced = Some(end.totals());
        Ok(reader)
    }

    /// Goes to a line whose place was noted, and reads the file there.
    pub(super) fn entry_at(
        &mut self,
        offset: u64,
        number: u64,
    ) -> Result<Option<SnapshotEntry>, SnapshotError> {
        self.reader
            .seek(SeekFrom::Start(offset))
            .map_err(|source| self.located(SnapshotError::io("seek", source)))?;
        (self.offset, self.number, self.has_ended) = (offset, number, false);
        // Totals are correct only from the first line to the last.
        match self.next_line() {
            Ok(ParsedLine::Entry(entry)) => Ok(Some(entry)),
            Ok(ParsedLine::End(_)) => Ok(None),
            Err(error) => Err(self.located(error)),
        }
    }
}

/// The last line of a file, if it is complete and not longer than one that ends a snapshot.
fn last_line(file: &mut File) -> std::io::Result<Option<Vec<u8>>> {
    const LONGEST: u64 = 4 << 10;
    let size = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(size.saturating_sub(LONGEST)))?;
    let mut tail = Vec::new();
    file.by_ref().take(LONGEST).read_to_end(&mut tail)?;
    file.rewind()?;
    let Some(tail) = tail.strip_suffix(b"\n") else {
        return Ok(None);
    };
    Ok(tail
        .rsplit(|byte| *byte == b'\n')
        .next()
        .map(<[u8]>::to_vec))
}

enum ParsedLine {
    Entry(SnapshotEntry),
    End(Totals),
}

impl<R> Reader<R> {
    /// Ends the reading early, without an error, once this is set.
    #[must_use]
    pub fn cancelled_by(mut self, flag: Arc<AtomicBool>) -> Self {
        self.cancel = Some(flag);
        self
    }

    pub(super) fn is_cancelled(&self) -> bool {
        let flag = self.cancel.as_ref();
        flag.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

impl<R: BufRead> Reader<R> {
    /// Begins to read a snapshot from any stream.
    ///
    /// # Errors
    /// That it cannot be read, is empty, none at all, or of a later version.
    pub fn new(reader: R) -> Result<Self, SnapshotError> {
        let mut new = Self {
            reader,
            path: None,
            line: Vec::new(),
            number: 0,
            offset: 0,
            page_size: cachewise_sys::page_size(),
            created: UNIX_EPOCH,
            seen: Totals::default(),
            announced: None,
            has_ended: false,
            cancel: None,
        };
        if !new.read_line()? {
            return Err(SnapshotError::new(None, SnapshotFault::Empty));
        }
        let other = |why: String| SnapshotError::new(Some(1), SnapshotFault::Other(why));
        let head: serde_json::Value =
            serde_json::from_slice(&new.line).map_err(|error| other(what(&error)))?;
        if head["format"] != FORMAT {
            return Err(other(format!("no \"format\":\"{FORMAT}\"")));
        }
        match head["version"].as_u64() {
            Some(VERSION) => {}
            Some(newer) => return Err(SnapshotError::new(Some(1), SnapshotFault::Newer(newer))),
            None => return Err(other("no \"version\"".to_owned())),
        }
        let head: Head = serde_json::from_value(head).map_err(|error| other(what(&error)))?;
        new.page_size = PageSize::new(head.page_size_bytes)
            .ok_or_else(|| other(format!("{} is no size of a page", head.page_size_bytes)))?;
        new.created = UNIX_EPOCH
            .checked_add(Duration::from_secs(head.created_seconds))
            .ok_or_else(|| other(format!("{} s is no time", head.created_seconds)))?;
        Ok(new)
    }

    /// Returns when the snapshot was begun.
    #[must_use]
    pub fn created(&self) -> SystemTime {
        self.created
    }

    /// Returns the totals at the end of the snapshot, if they were read: by [`Reader::open`] and [`Reader::from_file`].
    #[must_use]
    pub fn announced(&self) -> Option<Totals> {
        self.announced
    }

    /// Returns the number of the line that was read last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the first fault of a snapshot without an end.
    fn first_fault(&mut self) -> SnapshotError {
        let fault = self.find_map(Result::err);
        fault.unwrap_or_else(|| SnapshotError::new(Some(self.number), SnapshotFault::Truncated))
    }

    /// Reads a line with its end; returns whether there was one.
    fn read_line(&mut self) -> Result<bool, SnapshotError> {
        self.line.clear();
        let read = (&mut self.reader)
            .take(LONGEST)
            .read_until(b'\n', &mut self.line);
        let read = read.map_err(|source| SnapshotError::io("read", source))?;
        self.number += 1;
        self.offset += read as u64;
        match self.line.last() {
            None => Ok(false),
            Some(b'\n') => Ok(true),
            Some(_) if read as u64 == LONGEST => {
                Err(self.malformed("the line is longer than 256 MiB".to_owned()))
            }
            // Of a head that is no snapshot's this would say too much.
            Some(_) if self.number == 1 && !self.line.starts_with(b"{\"format\":") => Ok(true),
            Some(_) => Err(SnapshotError::new(
                Some(self.number),
                SnapshotFault::Truncated,
            )),
        }
    }

    fn located(&self, error: SnapshotError) -> SnapshotError {
        match &self.path {
            Some(path) => error.at(path),
            None => error,
        }
    }

    fn malformed(&self, why: String) -> SnapshotError {
        SnapshotError::new(Some(self.number), SnapshotFault::Malformed(why))
    }

    fn next_line(&mut self) -> Result<ParsedLine, SnapshotError> {
        if !self.read_line()? {
            return Err(SnapshotError::new(
                Some(self.number),
                SnapshotFault::Truncated,
            ));
        }
        let inside = self
            .line
            .trim_ascii_start()
            .strip_prefix(b"{")
            .unwrap_or_default();
        if inside.trim_ascii_start().starts_with(b"\"end\"") {
            let end: End =
                serde_json::from_slice(&self.line).map_err(|error| self.malformed(what(&error)))?;
            return Ok(ParsedLine::End(end.totals()));
        }
        let line: Line =
            serde_json::from_slice(&self.line).map_err(|error| self.malformed(what(&error)))?;
        let pages: u64 = line
            .ranges
            .iter()
            .map(|(start, end)| end.saturating_sub(*start))
            .fold(0, u64::saturating_add);
        let entry = line
            .entry(self.page_size)
            .map_err(|why| self.malformed(why))?;
        self.seen.files += 1;
        self.seen.pages += Pages(pages);
        Ok(ParsedLine::Entry(entry))
    }

    fn step(&mut self) -> Result<Option<SnapshotEntry>, SnapshotError> {
        match self.next_line()? {
            ParsedLine::Entry(entry) => Ok(Some(entry)),
            ParsedLine::End(totals) if totals != self.seen => Err(self.malformed(format!(
                "{} files and {} pages were written, but {} and {} are here",
                totals.files, totals.pages, self.seen.files, self.seen.pages
            ))),
            ParsedLine::End(_) => match self.read_line()? {
                true => Err(self.malformed("there is more behind the end".to_owned())),
                false => Ok(None),
            },
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<SnapshotEntry, SnapshotError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended || self.is_cancelled() {
            return None;
        }
        let step = self.step().map_err(|error| self.located(error));
        self.has_ended = !matches!(step, Ok(Some(_)));
        step.transpose()
    }
}

impl End {
    fn totals(&self) -> Totals {
        Totals {
            files: self.files,
            pages: Pages(self.pages),
        }
    }
}

/// Returns the message of a parser, without its line number, which is always 1.
fn what(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line 1 column ") {
        Some((what, column)) => format!("{what}, column {column}"),
        None => text,
    }
}

//! The files of a recording: `FILE`, and older parts beside it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cachewise_units::Bytes;
use rustix::fs::OFlags;

use crate::error::{Error, ErrorKind};
use crate::frame::Start;
use crate::window::Window;

/// How large a recording may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// All parts together.
    pub max_size: Bytes,
    /// The number of parts; when the newest is full, the oldest is removed.
    pub keep: usize,
    /// The maximum number of samples from one key frame to the next.
    pub key_every: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_size: Bytes(64 << 20),
            keep: 8,
            key_every: 60,
        }
    }
}

impl Limits {
    /// Of one part.
    pub(crate) fn part_size(&self) -> u64 {
        self.max_size.0 / self.keep.max(1) as u64
    }
}

/// The present content of the path that a recording will be written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetFile {
    /// Nothing, or a file without anything in it.
    Empty,
    /// A recording.
    Recording,
}

/// Looks at what is there.
///
/// # Errors
/// If it is something that must not be written over, or cannot be looked at.
pub fn check_target(path: &Path) -> Result<TargetFile, Error> {
    let wrong = |kind| Error::new("record into", path, kind);
    match open(path) {
        Ok((_, _, Err(ErrorKind::Empty))) => Ok(TargetFile::Empty),
        Ok((_, _, Err(kind))) => Err(wrong(kind)),
        Ok((_, _, Ok(_))) => Ok(TargetFile::Recording),
        Err(ErrorKind::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            // Killed between two names, a recorder leaves only older parts.
            let older = parts(path).map_err(wrong)?;
            Ok(match older.is_empty() {
                true => TargetFile::Empty,
                false => TargetFile::Recording,
            })
        }
        Err(kind) => Err(wrong(kind)),
    }
}

/// Opens a file that may be a part; nothing else is opened, and a FIFO is not waited for.
pub(crate) fn open(path: &Path) -> Result<(File, u64, Result<Start, ErrorKind>), ErrorKind> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32)
        .open(path)?;
    let stat = file.metadata()?;
    let kind = stat.file_type();
    if !kind.is_file() {
        return Err(ErrorKind::NotAFile(match kind {
            kind if kind.is_dir() => "a directory",
            kind if kind.is_fifo() => "a FIFO",
            kind if kind.is_char_device() || kind.is_block_device() => "a device",
            _ => "no file",
        }));
    }
    let mut window = Window::new(file.try_clone()?, stat.len());
    let start = Start::from_bytes(window.slice(0, Start::LENGTH)?);
    Ok((file, stat.len(), start))
}

/// A part of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub path: PathBuf,
    pub start: Start,
    /// 0 for `FILE`, 1 for `FILE.1`.
    pub number: usize,
}

/// `FILE.number`.
pub(crate) fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = OsString::from(path);
    if number > 0 {
        name.push(format!(".{number}"));
    }
    name.into()
}

/// The directory that a path is in.
pub(crate) fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Returns the numbers of files beside `path` with names of its parts.
fn numbers(path: &Path) -> io::Result<Vec<usize>> {
    let Some(name) = path.file_name() else {
        return Ok(Vec::new());
    };
    let entries = match fs::read_dir(directory(path)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut numbers = vec![0];
    for entry in entries {
        let found = entry?.file_name();
        let rest = found
            .as_encoded_bytes()
            .strip_prefix(name.as_encoded_bytes())
            .and_then(|rest| rest.strip_prefix(b"."));
        let number: Option<usize> = rest
            .and_then(|rest| std::str::from_utf8(rest).ok())
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
            .filter(|digits| !digits.starts_with('0'))
            .and_then(|digits| digits.parse().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Returns the parts of a recording, the oldest first. Skips other files with names of parts.
pub(crate) fn parts(path: &Path) -> Result<Vec<Part>, ErrorKind> {
    let mut parts = Vec::new();
    for number in numbers(path)? {
        let path = numbered(path, number);
        if let Ok((_, _, Ok(start))) = open(&path) {
            parts.push(Part {
                path,
                start,
                number,
            });
        }
    }
    // The newest says which recording it is.
    let newest = parts.iter().min_by_key(|part| part.number);
    if let Some(recording) = newest.map(|part| part.start.recording) {
        parts.retain(|part| part.start.recording == recording);
    }
    parts.sort_by_key(|part| part.start.sequence);
    Ok(parts)
}

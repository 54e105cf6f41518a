//! Preparation of the file: made, filled, evicted.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cachewise_residency::{EvictOptions, evict, query};
use cachewise_units::{ByteRange, Bytes, Pages};

use crate::access::Spread;
use crate::random::Random;
use crate::{Error, Fill, Workload};

/// Bytes written or read at a time.
const PIECE: usize = 1 << 20;

/// A file made for a measurement; removed on drop, unless kept.
#[derive(Debug)]
pub struct Made {
    path: PathBuf,
    is_kept: bool,
}

impl Made {
    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the file.
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.is_kept {
            // If another program removed it, nothing is left to do.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Makes a file of this size with incompressible data, except for `compress_pct` per cent, and
/// writes it to disk. `progress` receives the bytes written so far.
///
/// # Errors
/// The file exists; its file system has no room, or cannot be written. No file is left behind.
pub fn make(
    path: &Path,
    size: Bytes,
    compress_pct: u8,
    progress: &mut dyn FnMut(Bytes),
    cancel: &AtomicBool,
) -> Result<Made, Error> {
    make_as(path, path, size, compress_pct, progress, cancel)
}

/// The same, for a file with a temporary name: errors use the final one.
pub(crate) fn make_as(
    name: &Path,
    path: &Path,
    size: Bytes,
    compress_pct: u8,
    progress: &mut dyn FnMut(Bytes),
    cancel: &AtomicBool,
) -> Result<Made, Error> {
    room_for(name, size)?;
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|source| Error::file("create", name, source))?;
    let made = Made {
        path: path.to_owned(),
        is_kept: false,
    };
    let mut done = 0;
    let mut contents = Contents::new(compress_pct);
    while done < size.0 {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let piece = contents.next_piece();
        let piece = &piece[..piece.len().min((size.0 - done) as usize)];
        file.write_all(piece)
            .map_err(|source| Error::file("write", name, source))?;
        done += piece.len() as u64;
        progress(Bytes(done));
    }
    file.sync_all()
        .map_err(|source| Error::file("fsync", name, source))?;
    Ok(made)
}

/// Refuses a file that does not fit, before anything is written.
fn room_for(path: &Path, wanted: Bytes) -> Result<(), Error> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let found =
        rustix::fs::statvfs(directory).map_err(|errno| Error::file("create", path, errno))?;
    let free = Bytes(found.f_bavail.saturating_mul(found.f_frsize));
    match free < wanted {
        true => Err(Error::NoRoom {
            path: path.to_owned(),
            wanted,
            free,
        }),
        false => Ok(()),
    }
}

/// Content of a file.
struct Contents {
    random: Random,
    piece: Vec<u8>,
    compress_pct: u8,
}

impl Contents {
    fn new(compress_pct: u8) -> Contents {
        Contents {
            random: Random::new(0, 0),
            piece: vec![0; PIECE],
            compress_pct,
        }
    }

    fn next_piece(&mut self) -> &[u8] {
        // By page, because zram and zswap compress pages: the compressible part is the zeros at the
        // end of each.
        let page = cachewise_sys::page_size().get() as usize;
        let incompressible = page - page * usize::from(self.compress_pct) / 100;
        for page in self.piece.chunks_mut(page) {
            let part = incompressible.min(page.len());
            self.random.fill(&mut page[..part]);
        }
        &self.piece
    }
}

/// Resident pages of the file; `None` if unknown.
pub(crate) fn resident(file: &File) -> Option<Pages> {
    query(file, ByteRange::starting_at(0))
        .ok()
        .map(|counts| counts.cached)
}

/// Evicts the file, and verifies it.
///
/// # Errors
/// Pages stayed, or their residency is unknown.
pub(crate) fn put_out(file: &File, path: &Path) -> Result<(), Error> {
    /// A page that was in use, by a reader or a reclaimer, is free by the next try.
    const TRIES: u32 = 10;
    /// Before the second try; twice as long before each later one: half a second in all.
    const PAUSE: Duration = Duration::from_millis(1);
    let options = EvictOptions {
        sync: true,
        holders: true,
    };
    let mut left = None;
    for number in 0..TRIES {
        if let Some(earlier) = number.checked_sub(1) {
            std::thread::sleep(PAUSE * (1 << earlier));
        }
        let evicted = evict(file, ByteRange::starting_at(0), &options)
            .map_err(|error| error.with_path(path))?;
        let after = match evicted.after {
            Ok(after) => after.cached,
            Err(why) => {
                return Err(Error::NotEvicted {
                    path: path.to_owned(),
                    stayed: evicted.pages,
                    why: format!("their residency is unknown, {why}; {}", why.advice()),
                });
            }
        };
        if after.is_zero() {
            return Ok(());
        }
        left = Some((after, evicted.stayed));
    }
    let Some((stayed, reasons)) = left else {
        return Ok(());
    };
    let reasons = reasons.unwrap_or_default();
    let why = [
        (
            reasons.only_copy,
            "are the only copy (tmpfs): take a file on a disk",
        ),
        (
            reasons.locked,
            "are locked by a process: `cachewise evict` names it",
        ),
        (
            reasons.mapped,
            "are mapped by a process: `cachewise evict` names it",
        ),
        (
            reasons.dirty + reasons.writeback,
            "are dirty: wait until no process writes to it",
        ),
    ];
    let why = why.iter().find(|(pages, _)| !pages.is_zero());
    Err(Error::NotEvicted {
        path: path.to_owned(),
        stayed,
        why: why.map_or_else(
            || "a process uses it: wait until none does, or measure `--fill as-found`".to_owned(),
            |(pages, why)| format!("{pages} {why}"),
        ),
    })
}

/// Evicts a file, and verifies it.
///
/// # Errors
/// It cannot be opened; pages stayed, or their residency is unknown.
pub fn evict_all(path: &Path) -> Result<(), Error> {
    let file = cachewise_residency::open(path)?;
    put_out(&file, path)
}

/// Brings the file's pages into the requested state.
///
/// # Errors
/// They are not in that state; the file cannot be read or written.
pub(crate) fn fill(
    workload: &Workload,
    size: Bytes,
    progress: &mut dyn FnMut(Bytes),
    cancel: &AtomicBool,
) -> Result<(), Error> {
    let path = &workload.file;
    if workload.fill == Fill::AsFound {
        return Ok(());
    }
    let is_written = workload.fill == Fill::Write;
    let mut options = File::options();
    let file = options.read(true).write(is_written).open(path);
    let file = file.map_err(|source| Error::file("open", path, source))?;
    if workload.fill != Fill::Preread {
        put_out(&file, path)?;
    }
    let mut contents = Contents::new(workload.compress_pct);
    let page = cachewise_sys::page_size().get();
    let (piece, count) = match workload.fill {
        Fill::AsFound | Fill::Cold => return Ok(()),
        Fill::Preread | Fill::Sequential | Fill::Write => {
            (PIECE as u64, size.0.div_ceil(PIECE as u64))
        }
        Fill::Random => (page, size.0.div_ceil(page)),
    };
    if workload.fill == Fill::Random {
        cachewise_sys::fadvise_random(file.as_fd()).map_err(|error| error.with_path(path))?;
    }
    let mut buffer = vec![0; piece as usize];
    let spread = Spread::new(count);
    for number in 0..count {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let number = match workload.fill {
            Fill::Random => spread.place(number),
            _ => number,
        };
        let offset = number * piece;
        let wanted = piece.min(size.0 - offset) as usize;
        if is_written {
            let written = file.write_all_at(&contents.next_piece()[..wanted], offset);
            written.map_err(|source| Error::file("write", path, source))?;
        } else {
            let read = file.read_exact_at(&mut buffer[..wanted], offset);
            read.map_err(|source| Error::file("read", path, source))?;
        }
        progress(Bytes(wanted as u64));
    }
    if is_written {
        cachewise_sys::sync_data(file.as_fd()).map_err(|error| error.with_path(path))?;
    }
    Ok(())
}

//! The strategies: in which order a cycle reads the files.

use std::cmp::Reverse;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use cachewise_residency::order::{Keep, Mode, Scanner};
use cachewise_sys::cachestat;
use cachewise_units::{ByteRange, Bytes};

use crate::Outcome;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// File after file, as given.
    InOrder,
    /// Files with most pages in the cache first: the article's.
    FileSort,
    /// The resident ranges of all files first, in the order of the files, then the others.
    ExtentsFirst,
    /// A plan of this crate's.
    Planned(Mode, Keep),
}

/// Another order in each cycle, as for fresh samples: its number becomes the seed.
const SHUFFLE: Mode = Mode::Shuffle(0);

pub const ALL: [Strategy; 9] = [
    Strategy::InOrder,
    Strategy::FileSort,
    Strategy::ExtentsFirst,
    Strategy::Planned(Mode::Free, Keep::Keep),
    Strategy::Planned(Mode::Fixed, Keep::Keep),
    Strategy::Planned(SHUFFLE, Keep::Keep),
    Strategy::Planned(Mode::Free, Keep::Share),
    Strategy::Planned(Mode::Fixed, Keep::Share),
    Strategy::Planned(SHUFFLE, Keep::Share),
];

impl Strategy {
    pub fn name(self) -> &'static str {
        match self {
            Self::InOrder => "a fixed order",
            Self::FileSort => "b files by nr_cache",
            Self::ExtentsFirst => "c resident extents first",
            Self::Planned(Mode::Free, Keep::Share) => "free, share",
            Self::Planned(Mode::Free, _) => "free, keep",
            Self::Planned(Mode::Fixed, Keep::Share) => "fixed, share",
            Self::Planned(Mode::Fixed, _) => "fixed, keep",
            Self::Planned(Mode::Shuffle(_), Keep::Share) => "shuffle, share",
            Self::Planned(Mode::Shuffle(_), _) => "shuffle, keep",
        }
    }

    /// Whether it is held against the bound.
    pub fn has_goal(self) -> bool {
        matches!(self, Self::Planned(Mode::Free | Mode::Fixed, Keep::Keep))
    }
}

/// Reads all files, cycle after cycle.
pub enum Reader {
    Plain(Strategy, Vec<PathBuf>),
    Planned(Box<Scanner>, Mode),
}

/// Read at a time by the plain strategies, as `cat` and `sha256sum` do.
const BLOCK: usize = 128 << 10;
const EXTENT: u64 = 1 << 20;

impl Reader {
    pub fn new(
        strategy: Strategy,
        files: &[PathBuf],
        headroom: impl FnMut() -> Option<Bytes> + Send + 'static,
    ) -> Self {
        match strategy {
            Strategy::Planned(mode, keep) => {
                let scanner = Scanner::new(files).mode(mode).keep(keep).headroom(headroom);
                Self::Planned(Box::new(scanner), mode)
            }
            _ => Self::Plain(strategy, files.to_vec()),
        }
    }

    /// Reads each byte once, and returns how many there were.
    pub fn cycle(&mut self, number: u64) -> Outcome<Bytes> {
        match self {
            Self::Plain(strategy, files) => match strategy {
                Strategy::FileSort => {
                    files.sort();
                    let mut files: Vec<_> = (files.iter())
                        .map(|path| Ok((cached(path, None)?, path)))
                        .collect::<Outcome<_>>()?;
                    files.sort_by_key(|(cached, _)| Reverse(*cached));
                    read(
                        files
                            .into_iter()
                            .map(|(_, path)| (path.as_path(), whole(path))),
                    )
                }
                Strategy::ExtentsFirst => read_extents(files),
                _ => read(files.iter().map(|path| (path.as_path(), whole(path)))),
            },
            Self::Planned(scanner, mode) => {
                if matches!(mode, Mode::Shuffle(_)) {
                    scanner.set_mode(Mode::Shuffle(number));
                }
                let mut scan = scanner.scan();
                let mut total = Bytes::ZERO;
                for block in &mut scan {
                    total += Bytes(block?.bytes().len() as u64);
                }
                scan.finish();
                Ok(total)
            }
        }
    }
}

fn whole(path: &Path) -> ByteRange {
    let len = std::fs::metadata(path).map_or(0, |found| found.len());
    ByteRange { start: 0, len }
}

/// Resident pages of a file.
pub fn cached(path: &Path, range: Option<ByteRange>) -> Outcome<u64> {
    let file = File::open(path)?;
    Ok(cachestat(file.as_fd(), range)?.cached.0)
}

fn read<'p>(parts: impl Iterator<Item = (&'p Path, ByteRange)>) -> Outcome<Bytes> {
    let mut buffer = vec![0; BLOCK];
    let mut total = 0;
    let mut open: Option<(&Path, File)> = None;
    for (path, range) in parts {
        if open.as_ref().is_none_or(|(opened, _)| *opened != path) {
            open = Some((path, File::open(path)?));
        }
        let Some((_, file)) = &open else { continue };
        let mut offset = range.start;
        while offset < range.end() {
            let want = buffer.len().min((range.end() - offset) as usize);
            match file.read_at(&mut buffer[..want], offset)? {
                0 => break,
                len => offset += len as u64,
            }
        }
        total += offset - range.start;
    }
    Ok(Bytes(total))
}

fn read_extents(files: &[PathBuf]) -> Outcome<Bytes> {
    let mut extents = Vec::new();
    for path in files {
        let file = File::open(path)?;
        let size = whole(path).len;
        for start in (0..size).step_by(EXTENT as usize) {
            let len = EXTENT.min(size - start);
            let range = ByteRange { start, len };
            let pages = range.pages(cachewise_sys::page_size());
            let is_resident = cachestat(file.as_fd(), Some(range))?.cached >= pages;
            extents.push((!is_resident, path.as_path(), range));
        }
    }
    // Stable: within each of both, the order of the files.
    extents.sort_by_key(|(is_absent, ..)| *is_absent);
    read(extents.into_iter().map(|(_, path, range)| (path, range)))
}

//! Programs and libraries that code was seen in, and their addresses.
//!
//! A file is known by what was mapped, not by its name: one that was built anew meanwhile has other lines. So those
//! that samples are in are opened while they are seen, and kept open.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use addr2line::{Loader, demangle_auto};
use object::{Object as _, ObjectSegment, ReadCache};

use crate::mapping::{in_root_of, regular};
use crate::program::source::own_frame;

/// Different files, before new ones go without a name.
const MOST_OBJECTS: usize = 16_384;

/// Files that are kept open.
pub(super) const MOST_OPEN: usize = 256;

/// Evidence that a file is the mapped one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Identity {
    /// The build ID of the linker.
    BuildId(Vec<u8>),
    /// Its number in its file system. Which file system that is, some call by several names.
    Inode(u64),
}

#[derive(Debug, Default)]
pub(super) struct Objects {
    known: Vec<Object>,
    numbers: HashMap<(PathBuf, Identity), usize>,
    open: usize,
}

#[derive(Debug)]
struct Object {
    name: PathBuf,
    identity: Identity,
    /// Whether it was tried to open it.
    is_seen: bool,
    file: Option<Kept>,
}

/// A file that was opened while it was used.
#[derive(Debug)]
struct Kept {
    file: File,
    stamp: Option<Stamp>,
}

/// Values that change when a file is written: its size and its modification time.
type Stamp = (u64, i64, i64);

fn stamp(file: &File) -> Option<Stamp> {
    let found = file.metadata().ok()?;
    Some((found.size(), found.mtime(), found.mtime_nsec()))
}

impl Objects {
    /// The number of what is called so; nothing if there are too many.
    pub(super) fn number(&mut self, name: &Path, identity: Identity) -> Option<usize> {
        let key = (name.to_owned(), identity);
        if let Some(known) = self.numbers.get(&key) {
            return Some(*known);
        }
        if self.known.len() >= MOST_OBJECTS {
            return None;
        }
        let number = self.known.len();
        self.known.push(Object {
            name: key.0.clone(),
            identity: key.1.clone(),
            is_seen: false,
            file: None,
        });
        self.numbers.insert(key, number);
        Some(number)
    }

    /// There is a sample in it, of this process.
    pub(super) fn seen(&mut self, number: usize, pid: u32) {
        let Some(object) = self.known.get_mut(number) else {
            return;
        };
        if std::mem::replace(&mut object.is_seen, true) || self.open >= MOST_OPEN {
            return;
        }
        object.file = object.find(Some(pid)).map(|file| Kept {
            stamp: stamp(&file),
            file,
        });
        self.open += usize::from(object.file.is_some());
    }

    /// Returns its name: a path, or the kernel's name of memory without a file.
    pub(super) fn name(&self, number: usize) -> String {
        let name = self.known.get(number).map(|object| object.name.as_path());
        let name = name.unwrap_or(Path::new(""));
        match name.to_str() {
            Some("//anon" | "") => "anonymous memory".to_owned(),
            _ => name.to_string_lossy().into_owned(),
        }
    }

    /// Its symbols and lines; nothing if it is no file, or is another one in the meantime.
    pub(super) fn code(&self, number: usize) -> Option<Code> {
        let object = self.known.get(number)?;
        let again = match &object.file {
            // It may have been written over in place.
            Some(kept) if !object.is_still(kept) => return None,
            Some(_) => None,
            None => object.find(None),
        };
        let kept = object.file.as_ref().map(|kept| &kept.file);
        let file = kept.or(again.as_ref())?;
        let cache = ReadCache::new(file);
        let parsed = object::File::parse(&cache).ok()?;
        let segments = parsed.segments();
        let segments = segments.map(|segment| (segment.file_range(), segment.address()));
        let segments = segments.collect();
        // By its path if that is still the same file, as separate debug information is searched beside it.
        let same = |path: &Path| {
            let (found, own) = (path.metadata().ok()?, file.metadata().ok()?);
            ((found.dev(), found.ino()) == (own.dev(), own.ino())).then(|| path.to_owned())
        };
        let path = same(&object.name)
            .unwrap_or_else(|| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())));
        // Distributions have the names and lines of what they strip in packages of their own.
        let has_lines = parsed.section_by_name(".debug_info").is_some();
        let build_id = parsed.build_id().ok().flatten().filter(|_| !has_lines);
        let apart = build_id.and_then(debug_file);
        let loader = apart.and_then(|path| Loader::new(path).ok());
        Some(Code {
            loader: loader.or_else(|| Loader::new(path).ok())?,
            segments,
        })
    }
}

impl Object {
    fn find(&self, pid: Option<u32>) -> Option<File> {
        if !self.name.is_absolute() {
            return None;
        }
        let of_process = pid.and_then(|pid| in_root_of(pid, &self.name));
        let mut places = of_process.into_iter().chain([self.name.clone()]);
        places.find_map(|place| regular(&place).filter(|file| self.is_it(file)))
    }

    /// Whether the file has the code that ran, still.
    fn is_still(&self, kept: &Kept) -> bool {
        match self.identity {
            Identity::Inode(_) => kept.stamp.is_some() && kept.stamp == stamp(&kept.file),
            Identity::BuildId(_) => self.is_it(&kept.file),
        }
    }

    fn is_it(&self, file: &File) -> bool {
        match &self.identity {
            Identity::Inode(number) => file.metadata().is_ok_and(|file| file.ino() == *number),
            Identity::BuildId(wanted) => {
                let cache = ReadCache::new(file);
                let found = object::File::parse(&cache).ok();
                let found = found.as_ref().and_then(|object| object.build_id().ok()?);
                // The kernel may give it with zeros behind.
                found.is_some_and(|found| !found.is_empty() && wanted.starts_with(found))
            }
        }
    }
}

/// Where debuggers look for the debug information of a file that is without.
fn debug_file(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = format!("/usr/lib/debug/.build-id/{first:02x}/{rest}.debug");
    Some(PathBuf::from(path)).filter(|path| path.is_file())
}

/// Function and line of an address in a file.
pub(super) struct Code {
    loader: Loader,
    /// Where in the file, how much of it, and at which address.
    segments: Vec<((u64, u64), u64)>,
}

impl Code {
    /// The function and the line; either may be unknown.
    pub(super) fn place(&self, offset: u64) -> (Option<String>, Option<(String, u32)>) {
        let address = self.segments.iter().find_map(|((start, len), address)| {
            let within = offset.checked_sub(*start).filter(|within| within < len)?;
            address.checked_add(within)
        });
        let Some(address) = address else {
            return (None, None);
        };
        if let Some((function, line)) = own_frame(&self.loader, address) {
            return (Some(function), line);
        }
        let symbol = self.loader.find_symbol(address);
        let symbol = symbol.map(|name| demangle_auto(name.into(), None).into_owned());
        (symbol, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_another_one_has_no_lines() {
        let own = std::env::current_exe().unwrap();
        let inode = own.metadata().unwrap().ino();
        let mut objects = Objects::default();
        let right = objects.number(&own, Identity::Inode(inode)).unwrap();
        let wrong = objects.number(&own, Identity::Inode(inode + 1)).unwrap();
        let none = objects
            .number(&own, Identity::BuildId(vec![7; 20]))
            .unwrap();
        for number in [right, wrong, none] {
            objects.seen(number, std::process::id());
        }
        assert!(objects.code(right).is_some(), "the one that was mapped");
        assert!(objects.code(wrong).is_none(), "another file of that name");
        assert!(objects.code(none).is_none(), "built anew");
        let again = objects.number(&own, Identity::Inode(inode));
        assert_eq!(again, Some(right), "known");
    }

    #[test]
    fn a_deleted_program_is_still_known() {
        let place = tempfile::tempdir().unwrap();
        let copy = place.path().join("program");
        std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
        let inode = copy.metadata().unwrap().ino();
        let mut objects = Objects::default();
        let number = objects.number(&copy, Identity::Inode(inode)).unwrap();
        objects.seen(number, std::process::id());
        std::fs::remove_file(&copy).unwrap();
        assert!(objects.code(number).is_some(), "it was kept open");
    }

    #[test]
    fn a_program_that_was_written_over_has_no_lines() {
        let place = tempfile::tempdir().unwrap();
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let parsed = object::File::parse(&*own).unwrap();
        let build_id = parsed.build_id().unwrap().map(<[u8]>::to_vec);
        let is_named = build_id.is_some();
        let copy = place.path().join("program");
        std::fs::write(&copy, &own).unwrap();
        let inode = Identity::Inode(copy.metadata().unwrap().ino());
        let mut objects = Objects::default();
        let identities = [Some(inode), build_id.map(Identity::BuildId)];
        let numbers: Vec<usize> = identities
            .into_iter()
            .flatten()
            .filter_map(|identity| objects.number(&copy, identity))
            .collect();
        assert_eq!(numbers.len(), 1 + usize::from(is_named), "all have one");
        for number in &numbers {
            objects.seen(*number, std::process::id());
            assert!(objects.code(*number).is_some(), "as it ran");
        }
        // The same file with other code in it, as cp(1) does.
        let other = std::fs::read("/bin/sh").unwrap();
        std::fs::write(&copy, other).unwrap();
        for number in numbers {
            assert!(objects.code(number).is_none(), "another program");
        }
    }

    #[test]
    fn memory_that_is_no_file_has_a_name_and_no_code() {
        let mut objects = Objects::default();
        for (name, shown) in [
            ("//anon", "anonymous memory"),
            ("[vdso]", "[vdso]"),
            ("/memfd:code (deleted)", "/memfd:code (deleted)"),
            ("/dev/zero", "/dev/zero"),
        ] {
            let number = objects.number(Path::new(name), Identity::Inode(0)).unwrap();
            objects.seen(number, std::process::id());
            assert_eq!(objects.name(number), shown, "{name}");
            assert!(objects.code(number).is_none(), "{name} has no lines");
        }
    }

    #[test]
    fn there_is_an_end_to_them() {
        let mut objects = Objects::default();
        let last = (0..=MOST_OBJECTS as u64)
            .map(|inode| objects.number(Path::new("/x"), Identity::Inode(inode)))
            .last();
        assert_eq!(last, Some(None), "one too many");
    }
}

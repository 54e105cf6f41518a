//! The allocator that pads: a library of ours in front of the C library's, for a program that is about to be run.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, ReadCache, elf};

use crate::Error;

/// Built by build.rs from `preload/padded.rs`.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/padded.so"));

/// The loader's own variable, and the one by which the library knows where to tell that it was loaded.
const PRELOAD: &str = "LD_PRELOAD";
const PROOF: &str = "CACHEWISE_PADDED";

/// The library in a file of its own, as long as this lives.
#[derive(Debug)]
pub struct Padding {
    place: tempfile::TempDir,
}

/// In which programs the library was, since that was asked last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Padded {
    /// In how many.
    pub programs: usize,
    /// What CPU time those took that have ended in the usual way.
    pub cpu: Duration,
}

impl Padding {
    /// Objects begin and end at multiples of so many bytes.
    pub const LINE: u64 = 128;

    /// Writes it into a directory that only this user can enter.
    ///
    /// # Errors
    /// If there is no place for it.
    pub fn new() -> Result<Padding, Error> {
        let place = tempfile::Builder::new()
            .prefix("cachewise-")
            .tempdir()
            .map_err(Error::io("make a directory in", std::env::temp_dir()))?;
        let padding = Padding { place };
        let library = padding.library();
        fs::write(&library, LIBRARY).map_err(Error::io("write", library))?;
        padding.padded()?;
        Ok(padding)
    }

    /// The variables with which a program is to be run; what is preloaded already stays so, behind it.
    #[must_use]
    pub fn environment(&self) -> [(&'static str, OsString); 2] {
        let mut preload = self.library().into_os_string();
        if let Some(others) = std::env::var_os(PRELOAD).filter(|others| !others.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        [(PRELOAD, preload), (PROOF, self.proof().into_os_string())]
    }

    /// Where it was since this was last asked.
    ///
    /// # Errors
    /// If the file that tells it cannot be read or emptied.
    pub fn padded(&self) -> Result<Padded, Error> {
        let path = self.proof();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read.map_err(Error::io("read", &path))?,
        };
        fs::write(&path, "").map_err(Error::io("write", path))?;
        Ok(parse(&text))
    }

    fn library(&self) -> PathBuf {
        self.place.path().join("padded.so")
    }

    fn proof(&self) -> PathBuf {
        self.place.path().join("padded")
    }
}

fn parse(text: &str) -> Padded {
    let times = text
        .lines()
        .filter_map(|line| line.trim_start_matches('+').parse::<u64>().ok());
    Padded {
        programs: text.bytes().filter(|byte| *byte == b'+').count(),
        cpu: Duration::from_micros(times.sum()),
    }
}

/// Why a program takes no preloaded library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CannotPreload {
    /// It has all libraries in itself.
    Static,
    /// Its addresses have 32 bits.
    OtherWidth,
    /// It is for another kind of CPU, or another system.
    OtherMachine,
    /// It runs as another user or with capabilities, to whom the loader's variables do not apply.
    OtherUser,
    /// None of these.
    NotKnown,
}

impl fmt::Display for CannotPreload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CannotPreload::Static => "it is linked statically, so nothing can be preloaded",
            CannotPreload::OtherWidth => "it is a 32-bit program, and the library is a 64-bit one",
            CannotPreload::OtherMachine => "it is for another kind of CPU",
            CannotPreload::OtherUser => {
                "it is setuid or setgid, and the loader preloads nothing into such programs"
            }
            CannotPreload::NotKnown => {
                "the loader did not take the library: does it clear its environment, is it not the C library's \
                 own program, or is the directory for temporary files mounted noexec?"
            }
        })
    }
}

impl CannotPreload {
    /// Why this one did not; what is found out is only the reason, that it did not is seen when it runs.
    #[must_use]
    pub fn of(program: &Path) -> CannotPreload {
        let Ok(file) = fs::File::open(program) else {
            return CannotPreload::NotKnown;
        };
        const SET_ID: u32 = 0o6000;
        if file
            .metadata()
            .is_ok_and(|found| found.mode() & SET_ID != 0)
        {
            return CannotPreload::OtherUser;
        }
        let cache = ReadCache::new(file);
        let Ok(header) = object::ReadRef::read_bytes_at(&cache, 0, 20) else {
            return CannotPreload::NotKnown;
        };
        match header {
            [0x7f, b'E', b'L', b'F', class, ..] => match elf::FileClass(*class) {
                elf::ELFCLASS32 => CannotPreload::OtherWidth,
                _ => of_elf(&cache),
            },
            _ => CannotPreload::NotKnown,
        }
    }
}

fn of_elf(cache: &ReadCache<fs::File>) -> CannotPreload {
    let Ok(file) = ElfFile64::<Endianness, _>::parse(cache) else {
        return CannotPreload::NotKnown;
    };
    let endian = file.endian();
    let ours = match std::env::consts::ARCH {
        "x86_64" => Some(elf::EM_X86_64),
        "aarch64" => Some(elf::EM_AARCH64),
        _ => None,
    };
    if ours.is_some_and(|ours| file.elf_header().e_machine(endian) != ours) {
        return CannotPreload::OtherMachine;
    }
    let headers = file.elf_program_headers();
    match headers
        .iter()
        .any(|header| header.p_type(endian) == elf::PT_INTERP)
    {
        true => CannotPreload::NotKnown,
        false => CannotPreload::Static,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_program_runs_padded_and_tells_so() {
        let padding = Padding::new().unwrap();
        assert_eq!(padding.padded().unwrap().programs, 0, "nothing has run");
        // Sorting allocates, and what it gives must be right.
        let output = Command::new("sort")
            .arg("-r")
            .arg("/proc/self/maps")
            .envs(padding.environment())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("padded.so"),
            "it is mapped: {text}"
        );
        let seen = padding.padded().unwrap();
        assert_eq!(seen.programs, 1, "and has told: {seen:?}");
        assert!(
            seen.cpu > Duration::ZERO,
            "with the time that it took: {seen:?}"
        );
        assert_eq!(padding.padded().unwrap().programs, 0, "each is told once");
    }

    #[test]
    fn what_programs_tell_is_added_up() {
        assert_eq!(
            parse("+\n1500\n++\n20\n\n+"),
            Padded {
                programs: 4,
                cpu: Duration::from_micros(1520)
            },
            "two of four have ended in the usual way"
        );
    }

    #[test]
    fn why_it_was_not_taken_is_known() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(
            CannotPreload::of(&own),
            CannotPreload::NotKnown,
            "this one would take it"
        );
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("program");
        let of = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            CannotPreload::of(&file)
        };
        assert_eq!(
            of(b"\x7fELF\x01\x01\x01 and so on until twenty"),
            CannotPreload::OtherWidth
        );
        assert_eq!(
            of(b"\x7fELF\x02\x01\x01"),
            CannotPreload::NotKnown,
            "cut off"
        );
        assert_eq!(of(b"#!/bin/sh\n# a script\n"), CannotPreload::NotKnown);
        assert_eq!(
            CannotPreload::of(Path::new("/nowhere")),
            CannotPreload::NotKnown
        );
    }
}

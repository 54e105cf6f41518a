//! Where a program's variables are: from its symbols and its mappings.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use addr2line::demangle_auto;
use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};
use rustix::fs::OFlags;

use crate::Error;

/// A variable of a program that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its address there.
    pub address: u64,
    /// Its size in bytes; 0 where the symbol does not tell.
    pub size: u64,
    /// The program or library that has it.
    pub object: PathBuf,
}

/// One line of a process's maps.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    path: PathBuf,
}

impl Mapping {
    /// What is mapped here; nothing where that is no file, or cannot be had. The process may see other files by these
    /// names than we do, so it is asked for the file itself: by the mapping, which is for root, or by its own root.
    fn open(&self, pid: u32, is_program: bool) -> Option<fs::File> {
        let mapping = format!("/proc/{pid}/map_files/{:x}-{:x}", self.start, self.end);
        // Though its name may be another one's in the meantime.
        let program = is_program.then(|| format!("/proc/{pid}/exe"));
        let name = self.path.strip_prefix("/").ok()?;
        let of_process = Path::new(&format!("/proc/{pid}/root")).join(name);
        let places = program
            .into_iter()
            .chain([mapping])
            .map(PathBuf::from)
            .chain([of_process, self.path.clone()]);
        places.into_iter().find_map(|place| regular(&place))
    }
}

/// Opens a regular file. A device or a pipe would do something, or wait.
fn regular(path: &Path) -> Option<fs::File> {
    let is_file = |found: fs::Metadata| found.is_file().then_some(());
    is_file(fs::metadata(path).ok()?)?;
    // It may be another one in the meantime.
    let mut options = fs::OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32);
    let file = file.open(path).ok()?;
    is_file(file.metadata().ok()?)?;
    Some(file)
}

fn mappings(text: &str) -> Vec<Mapping> {
    let parse = |line: &str| {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let offset = words.nth(1)?;
        Some(Mapping {
            start: hex(start)?,
            end: hex(end)?,
            offset: hex(offset)?,
            path: words.nth(2).unwrap_or_default().trim_start().into(),
        })
    };
    text.lines().filter_map(parse).collect()
}

fn mappings_of(pid: u32) -> Result<Vec<Mapping>, Error> {
    let path = format!("/proc/{pid}/maps");
    let text = fs::read_to_string(&path).map_err(Error::io("read", path))?;
    Ok(mappings(&text))
}

/// Whether a process has memory at this address.
///
/// # Errors
/// If its mappings cannot be read.
pub fn is_mapped(pid: u32, address: u64) -> Result<bool, Error> {
    let mappings = mappings_of(pid)?;
    Ok(mappings
        .iter()
        .any(|one| (one.start..one.end).contains(&address)))
}

/// A variable of a process by its name: as in the symbol table, or as written in the source, with or without the
/// modules before it. The program itself is looked at first, then its libraries. `None` if there is none.
///
/// # Errors
/// If its mappings cannot be read. Objects that cannot be read have no symbols.
pub fn find_variable(pid: u32, name: &str) -> Result<Option<Variable>, Error> {
    let mappings = mappings_of(pid)?;
    let mut objects: Vec<&Path> = Vec::new();
    for mapping in &mappings {
        if mapping.path.is_absolute() && !objects.contains(&mapping.path.as_path()) {
            objects.push(&mapping.path);
        }
    }
    let own = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    objects.sort_by_key(|path| *path != own);
    for object in objects {
        let of_object = mappings.iter().filter(|mapping| mapping.path == object);
        let Some(file) = of_object
            .clone()
            .find_map(|one| one.open(pid, object == own))
        else {
            continue;
        };
        if let Some((address, size)) = in_object(file, of_object, name) {
            return Ok(Some(Variable {
                address,
                size,
                object: object.to_owned(),
            }));
        }
    }
    Ok(None)
}

/// Address and size of a variable of an object that is mapped so.
fn in_object<'a>(
    file: fs::File,
    mut mapped: impl Iterator<Item = &'a Mapping>,
    name: &str,
) -> Option<(u64, u64)> {
    let cache = ReadCache::new(file);
    let object = object::File::parse(&cache).ok()?;
    // How far it was moved: where a segment is, less where it wanted to be. Mappings begin at whole pages.
    let moved = mapped.find_map(|mapping| {
        object.segments().find_map(|segment| {
            let (offset, _) = segment.file_range();
            let before = offset.checked_sub(mapping.offset)?;
            let is_here = before < segment.align().max(1)
                && offset < mapping.offset + (mapping.end - mapping.start);
            is_here.then(|| {
                mapping
                    .start
                    .wrapping_add(before)
                    .wrapping_sub(segment.address())
            })
        })
    })?;
    let symbols = object.symbols().chain(object.dynamic_symbols());
    let mut variables = symbols.filter(|symbol| {
        let is_variable = matches!(symbol.kind(), SymbolKind::Data | SymbolKind::Unknown);
        is_variable && symbol.is_definition() && symbol.address() != 0
    });
    let found =
        variables.find(|symbol| symbol.name().is_ok_and(|symbol| is_called(symbol, name)))?;
    Some((found.address().wrapping_add(moved), found.size()))
}

/// Whether a symbol is what is called so.
fn is_called(symbol: &str, name: &str) -> bool {
    if symbol == name {
        return true;
    }
    let plain = demangle_auto(symbol.into(), None);
    plain
        .strip_suffix(name)
        .is_some_and(|before| before.is_empty() || before.ends_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[unsafe(no_mangle)]
    static CACHEWISE_TEST_PLAIN: [u64; 3] = [1, 2, 3];

    static MANGLED: [u64; 5] = [4; 5];

    #[test]
    fn a_variable_of_this_program_is_where_it_is() {
        let own = std::process::id();
        for (name, place, size) in [
            (
                "CACHEWISE_TEST_PLAIN",
                CACHEWISE_TEST_PLAIN.as_ptr().addr(),
                24,
            ),
            ("symbol::tests::MANGLED", MANGLED.as_ptr().addr(), 40),
            ("MANGLED", MANGLED.as_ptr().addr(), 40),
        ] {
            // Used, or the linker leaves it out.
            std::hint::black_box((&CACHEWISE_TEST_PLAIN, &MANGLED));
            let found = find_variable(own, name).unwrap();
            let found = found.unwrap_or_else(|| panic!("{name} is here"));
            assert_eq!(
                (found.address, found.size),
                (place as u64, size),
                "{name}: {found:?}"
            );
            assert!(is_mapped(own, found.address).unwrap(), "there is memory");
        }
        assert_eq!(
            find_variable(own, "NO_SUCH_VARIABLE_HERE").unwrap(),
            None,
            "not there"
        );
        assert!(!is_mapped(own, 8).unwrap(), "the first page is nobody's");
    }

    #[test]
    fn only_files_are_opened() {
        let place = tempfile::tempdir().unwrap();
        let pipe = place.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        for no_file in [
            pipe.as_path(),
            place.path(),
            Path::new("/dev/zero"),
            Path::new("/nowhere"),
        ] {
            assert!(regular(no_file).is_none(), "{}", no_file.display());
        }
        assert!(regular(Path::new("/proc/self/exe")).is_some(), "a file");
        let own = Mapping {
            start: 0,
            end: 4096,
            offset: 0,
            path: std::env::current_exe().unwrap(),
        };
        // No such mapping: by the process's own root.
        let opened = own.open(std::process::id(), false);
        assert!(opened.is_some(), "{own:?}");
    }

    #[test]
    fn names_are_those_of_the_source() {
        let mangled = "_ZN7program8COUNTERS17h0123456789abcdefE";
        assert!(is_called(mangled, "COUNTERS"), "its last part");
        assert!(is_called(mangled, "program::COUNTERS"), "all of it");
        assert!(is_called("counters", "counters"), "as in C");
        assert!(!is_called(mangled, "OUNTERS"), "not a part of a word");
    }

    #[test]
    fn maps_are_read() {
        let text = "\
55d0c0000000-55d0c0002000 r-xp 00001000 fe:00 1234                       /bin/with space
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0
nonsense
";
        let found = mappings(text);
        assert_eq!(found.len(), 2, "what is no mapping is left out: {found:?}");
        assert_eq!(
            found[0].path,
            Path::new("/bin/with space"),
            "names may have spaces"
        );
        assert_eq!(
            (found[0].offset, found[1].end),
            (0x1000, 0x7ffd_0002_1000),
            "{found:?}"
        );
    }
}

//! Where a program's variables are: from its symbols and its mappings.

use std::fs;
use std::path::{Path, PathBuf};

use addr2line::demangle_auto;
use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};

use crate::Error;
use crate::mapping::{Mapping, mappings_of};

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
/// modules before it. The program is searched first, then its libraries. `None` if none has it.
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
    fn names_are_those_of_the_source() {
        let mangled = "_ZN7program8COUNTERS17h0123456789abcdefE";
        assert!(is_called(mangled, "COUNTERS"), "its last part");
        assert!(is_called(mangled, "program::COUNTERS"), "all of it");
        assert!(is_called("counters", "counters"), "as in C");
        assert!(!is_called(mangled, "OUNTERS"), "not a part of a word");
    }
}

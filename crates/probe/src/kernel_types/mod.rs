//! The kernel's description of its own types (BTF), cut down to those that the programs look into.
//!
//! libbpf finds each type of a program by going through all of the kernel's, 126,000 here, comparing
//! names: 0.7 ms a type, 20 ms a start. Given a description of a few hundred types it needs none. One
//! pass over the kernel's copies the named types and what they hold by value; what they point to becomes
//! `void`, because relocation looks at members and not behind pointers.
//!
//! A module's description goes on where that of the kernel proper ends.

mod btf;
mod contents;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use libbpf_rs::ObjectBuilder;

use self::btf::{MAGIC, Name, Type, Types, kind};
use self::contents::Contents;
use crate::error::Error;

/// Names of the structures, unions and enums in the programs' objects, as clang left them.
const WANTED: &[&str] = &include!(concat!(env!("OUT_DIR"), "/wanted_types.rs"));

/// Directory of the kernel's types: one file for the kernel proper, and one for each module.
const DIRECTORY: &str = "/sys/kernel/btf";

/// The name of a function, between the ends of its neighbours.
const RDONLY_CAST: &[u8] = b"\0bpf_rdonly_cast\0";

/// Modules whose types programs look into, where they are not part of the kernel proper.
const MODULES: [&str; 1] = ["btrfs"];

/// The types that the programs need, for libbpf, and where the kernel has them.
#[derive(Debug)]
pub(crate) struct KernelTypes {
    description: Vec<u8>,
    ids: HashMap<&'static str, u32>,
    rdonly_cast: Option<u32>,
    /// The files that the types were read from.
    blobs: Vec<Contents>,
}

impl KernelTypes {
    /// Reads them from the running kernel.
    pub(crate) fn read() -> Result<Self, Error> {
        let directory = Path::new(DIRECTORY);
        let kernel = directory.join("vmlinux");
        let read = |path: &Path| {
            Contents::of(path).map_err(|source| Error::KernelTypes {
                path: path.to_owned(),
                source,
            })
        };
        let mut blobs = vec![read(&kernel)?];
        for module in MODULES {
            let path = directory.join(module);
            if path.exists() {
                blobs.push(read(&path)?);
            }
        }
        let mut types = cut(&blobs).map_err(|what| Error::KernelTypes {
            path: kernel,
            source: io::Error::new(io::ErrorKind::InvalidData, what),
        })?;
        types.blobs = blobs;
        Ok(types)
    }

    /// Returns whether anything in the kernel has this name. A function of that name may still refuse fentry and kprobes:
    /// only an attempt shows it.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        let wanted = [b"\0", name.as_bytes(), b"\0"].concat();
        self.blobs
            .iter()
            .any(|blob| memchr::memmem::find(btf::strings(blob), &wanted).is_some())
    }

    /// Returns whether the kernel proper, or a module that was read, has this tracepoint.
    pub(crate) fn has_tracepoint(&self, name: &str) -> bool {
        self.has_name(&format!("btf_trace_{name}"))
    }

    /// The kernel's own number for a type; 0 where it has no such type.
    pub(crate) fn id(&self, name: &str) -> u32 {
        self.ids.get(name).copied().unwrap_or(0)
    }

    /// The kernel's own number for its function `bpf_rdonly_cast` (6.2 and later).
    pub(crate) fn rdonly_cast(&self) -> Option<u32> {
        self.rdonly_cast
    }

    /// Has libbpf look here for the kernel's types. It reads the file when it loads: keep it until then.
    pub(crate) fn give_to(&self, builder: &mut ObjectBuilder) -> Result<OwnedFd, Error> {
        let file = self.to_file().map_err(Error::Memory)?;
        builder
            .btf_custom_path(format!("/proc/self/fd/{}", file.as_raw_fd()))
            .map_err(|source| Error::Refused {
                operation: "take a description of the kernel's types".into(),
                source: source.into(),
            })?;
        Ok(file)
    }

    /// A file in memory with the description, for a library that wants a path.
    fn to_file(&self) -> io::Result<OwnedFd> {
        let fd = rustix::fs::memfd_create(c"kernel types", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut file = File::from(fd);
        file.write_all(&self.description)?;
        Ok(file.into())
    }
}

/// The description that is being written.
struct Cut<'a> {
    from: Types<'a>,
    types: Vec<u8>,
    count: u32,
    strings: Vec<u8>,
    /// By where they stand: their numbers here; none while what they hold is being copied.
    known: HashMap<*const u8, Option<u32>>,
    names: HashMap<&'a [u8], u32>,
}

impl<'a> Cut<'a> {
    fn name(&mut self, of: Type<'a>, offset: u32) -> u32 {
        let name = self.from.string(of.blob, offset);
        if name.is_empty() {
            return 0;
        }
        *self.names.entry(name).or_insert_with(|| {
            let at = self.strings.len() as u32;
            self.strings.extend_from_slice(name);
            self.strings.push(0);
            at
        })
    }

    /// Writes words whose meaning needs no change but for the name in the first.
    fn write(&mut self, words: &[u32]) -> u32 {
        for word in words {
            self.types.extend_from_slice(&word.to_ne_bytes());
        }
        self.count += 1;
        self.count
    }

    /// Copies a type and what it holds; its number here. Names and modifiers that mean nothing to
    /// relocation (typedef, const, ...) are left out.
    fn take(&mut self, id: u32, blob: usize) -> Option<u32> {
        if id == 0 {
            return Some(0);
        }
        let mut of = self.from.get(blob, id)?;
        while matches!(
            of.kind(),
            kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG
        ) {
            if of.word(2) == 0 {
                return Some(0);
            }
            of = self.from.get(of.blob, of.word(2))?;
        }
        if let Some(known) = self.known.get(&of.words.as_ptr()) {
            return *known;
        }
        self.known.insert(of.words.as_ptr(), None);
        let info = of.word(1);
        let mut words = vec![self.name(of, of.name()), info, of.word(2)];
        match of.kind() {
            kind::PTR => words[2] = 0,
            kind::ARRAY => {
                words.push(self.take(of.word(3), of.blob)?);
                words.push(self.take(of.word(4), of.blob)?);
                words.push(of.word(5));
            }
            kind::STRUCT | kind::UNION => {
                for member in (0..of.count()).map(|member| 3 + 3 * member) {
                    words.push(self.name(of, of.word(member)));
                    words.push(self.take(of.word(member + 1), of.blob)?);
                    words.push(of.word(member + 2));
                }
            }
            kind::ENUM | kind::ENUM64 => {
                let width = if of.kind() == kind::ENUM { 2 } else { 3 };
                for value in (0..of.count()).map(|value| 3 + width * value) {
                    words.push(self.name(of, of.word(value)));
                    words.extend((1..width).map(|word| of.word(value + word)));
                }
            }
            kind::INT => words.push(of.word(3)),
            kind::FLOAT | kind::FWD => {}
            // nothing else can be held by value
            _ => return None,
        }
        let number = self.write(&words);
        self.known.insert(of.words.as_ptr(), Some(number));
        Some(number)
    }

    fn finish(self) -> Vec<u8> {
        let header_length = 24u32;
        let mut bytes = Vec::with_capacity(self.types.len() + self.strings.len() + 24);
        bytes.extend(MAGIC.to_ne_bytes());
        bytes.extend([1, 0]); // version, flags
        for word in [
            header_length,
            0,
            self.types.len() as u32,
            self.types.len() as u32,
            self.strings.len() as u32,
        ] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(self.types);
        bytes.extend(self.strings);
        bytes
    }
}

fn cut(blobs: &[Contents]) -> Result<KernelTypes, &'static str> {
    let mut names: HashMap<(&[u8], bool), &'static str> = HashMap::new();
    for name in WANTED {
        for is_enum in [false, true] {
            names.insert((name.as_bytes(), is_enum), name);
        }
    }
    let cast = blobs
        .first()
        .and_then(|blob| memchr::memmem::find(btf::strings(blob), RDONLY_CAST))
        .map(|end| end as u32 + 1);
    let is_wanted = |kind, name: Name<'_, '_>| match kind {
        _ if name.offset == 0 => false,
        kind::STRUCT | kind::UNION => names.contains_key(&(name.text(), false)),
        kind::ENUM | kind::ENUM64 => names.contains_key(&(name.text(), true)),
        kind::FUNC => name.blob == 0 && Some(name.offset) == cast,
        _ => false,
    };
    let mut cut = Cut {
        from: Types::new(blobs, is_wanted)?,
        types: Vec::new(),
        count: 0,
        strings: vec![0],
        known: HashMap::new(),
        names: HashMap::new(),
    };
    let mut ids = HashMap::new();
    let mut rdonly_cast = None;
    for (blob, index) in cut.from.take_wanted() {
        let Some(of) = cut.from.at(blob, index as usize) else {
            continue;
        };
        let first = if blob == 0 { 0 } else { cut.from.len(0) };
        let id = first as u32 + index + 1;
        if of.kind() == kind::FUNC {
            rdonly_cast = Some(id);
            continue;
        }
        let is_enum = matches!(of.kind(), kind::ENUM | kind::ENUM64);
        let name = cut.from.string(blob, of.name());
        let Some(name) = names.get(&(name, is_enum)) else {
            continue;
        };
        ids.entry(*name).or_insert(id);
        cut.take(id, blob)
            .ok_or("a type holds one that is not there, or itself")?;
    }
    Ok(KernelTypes {
        ids,
        rdonly_cast,
        description: cut.finish(),
        blobs: Vec::new(),
    })
}

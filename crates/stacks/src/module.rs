//! Mapped files: segments, unwind information, and a descriptor that outlives the process.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use cachewise_kstat::{CodeMapping, Device};
use cachewise_sys::open_quietly;
use framehop::ExplicitModuleSectionInfo;
use object::SegmentFlags;
use object::elf::PF_X;
use object::read::{Object, ObjectSection, ObjectSegment, ReadCache};

/// Files that are kept open at most; a process may have 1024 descriptors.
const MAX_FILES: usize = 400;

/// Files that are known at most when an interval ends, open or not.
const MANY_FILES: usize = 300;

/// Unwind information of one file that is read at most.
const MAX_SECTION_BYTES: u64 = 64 << 20;

/// A part of a file that is mapped as a whole, as executable.
struct Segment {
    /// Its bytes in the file.
    offsets: Range<u64>,
    /// Its first address, before the file is loaded anywhere.
    address: u64,
}

/// A mapped file.
pub(crate) struct Module {
    /// In the process's view.
    pub(crate) path: PathBuf,
    /// `None`: it could not be opened, or too many are open.
    pub(crate) file: Option<File>,
    segments: Vec<Segment>,
    sections: ExplicitModuleSectionInfo<Arc<[u8]>>,
}

/// The files of all processes, by number.
#[derive(Default)]
pub(crate) struct Modules {
    all: Vec<Arc<Module>>,
    by_identity: HashMap<(Device, u64), u32>,
    open: usize,
}

impl Modules {
    /// Whether the files of the next interval may not find room.
    pub(crate) fn are_nearly_full(&self) -> bool {
        self.all.len() > MANY_FILES
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Arc<Module>> {
        self.all.get(number as usize)
    }

    /// The number of a mapping's file, which is opened where it is new; `None`: memory without a file.
    pub(crate) fn number(&mut self, mapping: &CodeMapping) -> Option<u32> {
        let identity = mapping.identity?;
        if let Some(number) = self.by_identity.get(&identity)
            && self
                .get(*number)
                .is_some_and(|module| module.file.is_some())
        {
            return Some(*number);
        }
        let number = u32::try_from(self.all.len()).ok()?;
        let file = match self.open < MAX_FILES {
            true => open(mapping, identity.1),
            false => None,
        };
        self.open += usize::from(file.is_some());
        let module = Module::read(mapping.path.clone(), file);
        self.all.push(Arc::new(module));
        self.by_identity.insert(identity, number);
        Some(number)
    }
}

/// Opens the mapped file; another file that has taken its path meanwhile has another inode number.
fn open(mapping: &CodeMapping, inode: u64) -> Option<File> {
    mapping.links.iter().find_map(|link| {
        let file = open_quietly(link).ok()?;
        let found = file.metadata().ok()?;
        (found.is_file() && found.ino() == inode).then_some(file)
    })
}

impl Module {
    fn read(path: PathBuf, file: Option<File>) -> Module {
        let parts = file.as_ref().and_then(|file| parts(file).ok());
        let (segments, sections) = parts.unwrap_or_default();
        Module {
            path,
            file,
            segments,
            sections,
        }
    }

    /// The difference between the addresses of a mapping and those that the file has.
    pub(crate) fn bias(&self, mapping: &CodeMapping) -> Option<u64> {
        let length = mapping.addresses.end - mapping.addresses.start;
        let end = mapping.offset.saturating_add(length);
        // A mapping begins at the start of the page in which its segment begins.
        let segment = self
            .segments
            .iter()
            .find(|segment| segment.offsets.start < end && mapping.offset < segment.offsets.end)?;
        let address = segment
            .address
            .wrapping_sub(segment.offsets.start)
            .wrapping_add(mapping.offset);
        Some(mapping.addresses.start.wrapping_sub(address))
    }

    pub(crate) fn sections(&self) -> ExplicitModuleSectionInfo<Arc<[u8]>> {
        self.sections.clone()
    }
}

type Parts = (Vec<Segment>, ExplicitModuleSectionInfo<Arc<[u8]>>);

fn parts(file: &File) -> object::Result<Parts> {
    // Only the tables and the sections below are read.
    let Ok(file) = file.try_clone() else {
        return Ok(Parts::default());
    };
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache)?;
    let is_code = |flags| match flags {
        SegmentFlags::Elf { p_flags, .. } => p_flags.contains(PF_X),
        _ => false,
    };
    let code = elf.segments().filter(|segment| is_code(segment.flags()));
    let segments = code.map(|segment| {
        let (offset, size) = segment.file_range();
        Segment {
            offsets: offset..offset.saturating_add(size),
            address: segment.address(),
        }
    });
    let segments = segments.collect();
    let addresses = |name| {
        let section = elf.section_by_name(name)?;
        let end = section.address().saturating_add(section.size());
        Some(section.address()..end)
    };
    let data = |name| {
        let section = elf.section_by_name(name)?;
        let is_small = section.size() <= MAX_SECTION_BYTES;
        let data = is_small.then(|| section.data().ok())??;
        (!data.is_empty()).then(|| Arc::<[u8]>::from(data))
    };
    Ok((
        segments,
        ExplicitModuleSectionInfo {
            text_svma: addresses(".text"),
            got_svma: addresses(".got"),
            eh_frame_svma: addresses(".eh_frame"),
            eh_frame: data(".eh_frame"),
            eh_frame_hdr_svma: addresses(".eh_frame_hdr"),
            eh_frame_hdr: data(".eh_frame_hdr"),
            ..ExplicitModuleSectionInfo::default()
        },
    ))
}

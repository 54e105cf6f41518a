//! [`holders()`]: which processes have pages of a file in their memory.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use cachewise_sys::{Mapping, page_size};
use cachewise_units::{Bytes, PageRange, Pages};

use crate::ranges::{merged, push, total};
use crate::{Error, Inode};

/// A process that has mapped a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number, in the PID namespace of `/proc`.
    pub pid: u32,
    /// Its name, cut to 15 bytes by the kernel; `?` where it ended meanwhile.
    pub name: String,
    /// Pages of the file that are in its page tables: those that it touched, and some around them.
    pub mapped: Pages,
    /// Pages of those that it has locked, by `mlock` and its kin.
    pub locked: Pages,
}

/// Processes that have pages of a file in memory, as far as the caller may see them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Processes that map any of it, also those without a page of it in their tables.
    pub holders: Vec<Holder>,
    /// Processes that could not be examined: those of other users, without `CAP_SYS_PTRACE`.
    pub hidden: usize,
    pub(crate) mapped: Vec<PageRange>,
    pub(crate) locked: Vec<PageRange>,
}

/// Finds the processes that have mapped a file.
///
/// It examines the processes in `/proc`: inside a container, not those of other containers.
///
/// # Errors
/// That there is no `/proc`; that the file cannot be mapped, as `direct_io` of FUSE.
///
/// # Kernel
/// Any; `Locked` pages since 4.4 (`VmFlags`).
///
/// # Cost
/// About 20 µs for each process, and 1 to 3 ms more for each that has mapped it: too much for each file of many.
pub fn holders(file: impl AsFd) -> Result<Holders, Error> {
    let fd = file.as_fd();
    let inode = Inode::of_fd(fd)?;
    let all = PageRange {
        start: 0,
        end: inode.size.pages_ceil(page_size()).0,
    };
    find(fd, all)
}

/// Looks for those who have mapped any of these pages.
pub(crate) fn find(fd: BorrowedFd<'_>, pages: PageRange) -> Result<Holders, Error> {
    let mut found = Holders::default();
    if pages.is_empty() {
        return Ok(found);
    }
    // On btrfs and overlayfs, `stat` and `maps` name different devices for a file: a mapping of our
    // own shows the name that mappings of other processes have.
    let page = PageRange {
        start: pages.start,
        end: pages.start + 1,
    };
    let mapping = Mapping::of_pages(fd, page)?;
    let address = mapping.address() as u64;
    let own = address..address + page_size().get();
    let failed = |source| cachewise_sys::Error::Io {
        operation: "read",
        path: Some("/proc".into()),
        source,
    };
    let wanted = areas(Path::new("/proc/self"), "maps", |_| true)
        .map_err(failed)?
        .into_iter()
        .find(|area| area.addresses.contains(&own.start));
    let Some(wanted) = wanted else {
        return Err(failed(ErrorKind::NotFound.into()).into());
    };
    let me = std::process::id();
    for entry in std::fs::read_dir("/proc").map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let process = entry.path();
        match areas(&process, "maps", |area| area.is_of(&wanted)) {
            Ok(areas) => {
                // One that is larger is another's that the kernel has joined with ours.
                let is_ours = |area: &Area| pid == me && area.addresses == own;
                if areas.iter().any(|area| !is_ours(area)) {
                    look_at(&process, pid, &wanted, pages, &mut found);
                }
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => found.hidden += 1,
            // It ended meanwhile.
            Err(_) => {}
        }
    }
    found.mapped = merged(found.mapped);
    found.locked = merged(found.locked);
    Ok(found)
}

/// Looks at the pages that a process has.
fn look_at(process: &Path, pid: u32, file: &Area, pages: PageRange, found: &mut Holders) {
    // Only here are the flags of each area, at the price of a walk through all page tables.
    let of_file = |area: &Area| area.is_of(file);
    let areas = areas(process, "smaps", of_file).unwrap_or_default();
    let (mut mapped, mut locked) = (Vec::new(), Vec::new());
    for area in areas {
        let Ok(present) = present(process, &area, pages) else {
            continue;
        };
        if area.is_locked {
            locked.extend(&present);
        }
        mapped.extend(present);
    }
    let name = std::fs::read(process.join("comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(name.trim_ascii_end()).into_owned();
    found.holders.push(Holder {
        pid,
        name: if name.is_empty() {
            "?".to_owned()
        } else {
            name
        },
        mapped: total(&merged(mapped.clone())),
        locked: total(&merged(locked.clone())),
    });
    found.mapped.extend(mapped);
    found.locked.extend(locked);
}

/// A range of addresses of a process that is mapped from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Area {
    addresses: std::ops::Range<u64>,
    /// The offset of the first byte in the file.
    offset: u64,
    device: Vec<u8>,
    inode: u64,
    is_locked: bool,
}

impl Area {
    fn is_of(&self, other: &Self) -> bool {
        self.inode == other.inode && self.device == other.device
    }

    /// Reads a line as `55d0c8000000-55d0c8021000 r--p 00001000 fd:00 1234 /usr/bin/x`.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line
            .split(|byte| *byte == b' ')
            .filter(|word| !word.is_empty());
        let hexadecimal = |word: &str| u64::from_str_radix(word, 16).ok();
        let (start, end) = str::from_utf8(words.next()?).ok()?.split_once('-')?;
        let _permissions = words.next()?;
        let offset = hexadecimal(str::from_utf8(words.next()?).ok()?)?;
        let device = words.next()?;
        let inode = str::from_utf8(words.next()?.trim_ascii_end()).ok()?;
        Some(Self {
            addresses: hexadecimal(start)?..hexadecimal(end)?,
            offset,
            device: device.to_vec(),
            inode: inode.parse().ok()?,
            is_locked: false,
        })
    }
}

/// The areas of a process with a file behind them that are wanted; from `maps`, or with all that `smaps` has.
///
/// By hand, because names of files are bytes: parsers that take the lines for text give up at a name that
/// is none.
fn areas(process: &Path, name: &str, wanted: impl Fn(&Area) -> bool) -> std::io::Result<Vec<Area>> {
    let mut reader = BufReader::with_capacity(1 << 16, File::open(process.join(name))?);
    let (mut found, mut line) = (Vec::new(), Vec::new());
    let mut is_wanted = false;
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(found);
        }
        if let Some(flags) = line.strip_prefix(b"VmFlags:") {
            if is_wanted && let Some(last) = found.last_mut() {
                let last: &mut Area = last;
                last.is_locked = flags
                    .split(u8::is_ascii_whitespace)
                    .any(|flag| flag == b"lo");
            }
        } else if !line.first().is_some_and(u8::is_ascii_uppercase)
            && let Some(area) = Area::parse(&line)
        {
            is_wanted = area.inode != 0 && wanted(&area);
            if is_wanted {
                found.push(area);
            }
        }
    }
}

/// Those of the pages of a file that are in the page table of a process, in an area.
fn present(process: &Path, area: &Area, pages: PageRange) -> std::io::Result<Vec<PageRange>> {
    let size = page_size();
    let first = area.offset >> size.shift();
    let area_pages = Bytes(area.addresses.end - area.addresses.start)
        .pages_floor(size)
        .0;
    let whole = PageRange {
        start: first,
        end: first + area_pages,
    };
    let Some(wanted) = whole.intersection(pages) else {
        return Ok(Vec::new());
    };
    let base = area.addresses.start >> size.shift();
    let table = File::open(process.join("pagemap"))?;
    in_table(&table, base + (wanted.start - first), wanted)
}

/// Those of the pages of a file that are in a page table, from the number of the first one's virtual page.
pub(crate) fn in_table(
    table: &File,
    virtual_page: u64,
    pages: PageRange,
) -> std::io::Result<Vec<PageRange>> {
    /// Entries that are read at a time.
    const ENTRIES: u64 = 1 << 12;
    const ENTRY: usize = size_of::<u64>();
    /// In the page table, and of a file: not a private copy of what was written to.
    const PRESENT_AND_OF_FILE: u64 = 1 << 63 | 1 << 61;
    let mut buffer = vec![0; ENTRIES.min(pages.len().0) as usize * ENTRY];
    let mut found = Vec::new();
    let mut page = pages.start;
    while page < pages.end {
        let count = ENTRIES.min(pages.end - page) as usize;
        let place = (virtual_page + (page - pages.start)) * ENTRY as u64;
        table.read_exact_at(&mut buffer[..count * ENTRY], place)?;
        for entry in buffer[..count * ENTRY].chunks_exact(ENTRY) {
            let entry = u64::from_ne_bytes(entry.try_into().unwrap_or_default());
            if entry & PRESENT_AND_OF_FILE == PRESENT_AND_OF_FILE {
                let (start, end) = (page, page + 1);
                push(&mut found, PageRange { start, end });
            }
            page += 1;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_are_read_whatever_the_name_of_the_file() {
        let line = b"7f00-7f02 r-xs 00003000 fd:01 77 /a \xff b\n";
        let area = Area::parse(line).unwrap();
        assert_eq!(area.addresses, 0x7f00..0x7f02, "from and to");
        assert_eq!((area.offset, area.inode), (0x3000, 77), "of which file");
        assert_eq!(area.device, b"fd:01", "on which device");
        assert!(
            Area::parse(b"7f00-7f02 rw-p 0 00:00 0\n").is_some(),
            "anonymous"
        );
        for broken in [
            &b"\n"[..],
            b"7f00 r-xp 0 fd:01 7\n",
            b"a-b r-xp 0 fd:01 x\n",
        ] {
            assert_eq!(Area::parse(broken), None, "{broken:?} is none");
        }
    }
}

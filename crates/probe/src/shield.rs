//! The shield: the pages that programs bring into the page cache, which of them they have passed, and who else used them.
//!
//! It notes and decides; the caller drops the pages. [`Shield::wait`] returns when programs have gone through some more
//! pages, [`Shield::passed`] says in which blocks, and [`Shield::decide`] which folios of a block can be dropped by the
//! rule: the program inserted them and has passed them; no other process has used them; they are clean, not locked, not
//! mapped and not held.
//!
//! # Kernel
//! 6.12 and later, with BTF: the tracepoint `mm_filemap_get_pages` tells who uses a page that is resident. CAP_BPF and
//! CAP_PERFMON.
//!
//! # Cost
//! 13 MiB of kernel memory; 0.2 to 0.5 us for each insertion of a folio and each read of the programs. Of other programs
//! each event costs some 50 ns, and 0.3 us if it is of a file that a shielded program reads too.

mod skeleton;

use std::io::Read as _;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use cachewise_units::Pages;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Iter, IterOpts, Link, MapCore, MapFlags, MapHandle, ProgramInput, ProgramMut};

use crate::error::Error;
use crate::kernel_types::KernelTypes;
use crate::loading::{Storage, quietly};
use crate::options::CgroupFilter;
use crate::record::Raw;
use crate::ring::Ring;
use crate::table::each;

use skeleton::{ShieldSkel, ShieldSkelBuilder, types};

/// The event without which there is no shield.
const USES: &str = "mm_filemap_get_pages";

/// Records of one [`Shield::passed`] at most.
const BATCH: usize = 4096;

/// Pages of a block, which holds whole folios.
pub const BLOCK_PAGES: u64 = 512;

const WORDS: usize = BLOCK_PAGES as usize / 64;

/// The shielded programs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// These processes, those under them, and what they start.
    pub pids: Vec<u32>,
    /// What this process starts from now on.
    pub children: bool,
    /// The tasks under this control group, instead.
    pub cgroup: Option<CgroupFilter>,
    /// Control groups are those of the version 1 memory hierarchy.
    pub cgroup_v1: bool,
    /// All tasks, instead, each process for itself: pages of a file are noted from when a process has inserted this many
    /// one after the other.
    pub streams_from: Option<Pages>,
}

/// A block of a file: pages `block * BLOCK_PAGES` and those that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block {
    /// The file, by the address of its mapping in the kernel.
    pub mapping: u64,
    /// The number of the block in the file.
    pub number: u64,
}

impl Block {
    /// The first page of the block in its file.
    #[must_use]
    pub fn first_page(self) -> u64 {
        self.number * BLOCK_PAGES
    }
}

/// A bit for each page of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageSet([u64; WORDS]);

impl PageSet {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Their number.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Runs of pages, each with its first page and its length, in ascending order.
    pub fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        let has = |page: u64| {
            let word = self.0.get((page / 64) as usize);
            word.is_some_and(|word| word >> (page % 64) & 1 == 1)
        };
        let mut page = 0;
        std::iter::from_fn(move || {
            while page < BLOCK_PAGES && !has(page) {
                page += 1;
            }
            let first = page;
            while has(page) {
                page += 1;
            }
            (page > first).then_some((first, page - first))
        })
    }

    fn with_both(&self, other: &PageSet) -> PageSet {
        PageSet(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }
}

/// Why a resident page that a shielded program inserted stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kept {
    /// Another process has used it.
    Other,
    /// The program came back to it, or to its file.
    Again,
    /// The program has not used it so far.
    Ahead,
    /// The program wrote it.
    Written,
    /// It is dirty.
    Dirty,
    /// It is under writeback.
    Writeback,
    /// The kernel has it locked, as while it is read.
    Locked,
    /// A process has it locked in memory.
    Mlocked,
    /// It is mapped.
    Mapped,
    /// The kernel uses it.
    InUse,
    /// It shares a folio with a page that was resident before.
    Mixed,
}

impl Kept {
    /// In the order of `enum shield_reason`.
    pub const ALL: [Kept; 11] = [
        Kept::Other,
        Kept::Again,
        Kept::Ahead,
        Kept::Written,
        Kept::Dirty,
        Kept::Writeback,
        Kept::Locked,
        Kept::Mlocked,
        Kept::Mapped,
        Kept::InUse,
        Kept::Mixed,
    ];
}

/// What to do with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Decision {
    /// The file of this block is not known any more.
    pub is_gone: bool,
    /// Pages to drop: whole folios.
    pub drop: PageSet,
    /// Pages to write back, if written pages are to be dropped.
    pub write: PageSet,
    kept: [u32; Kept::ALL.len()],
}

impl Decision {
    /// Resident pages that stay for this reason.
    #[must_use]
    pub fn kept(&self, reason: Kept) -> u64 {
        self.kept[reason as usize].into()
    }

    /// Resident pages that stay.
    #[must_use]
    pub fn all_kept(&self) -> u64 {
        self.kept.iter().map(|pages| u64::from(*pages)).sum()
    }
}

/// What is known of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    /// The block.
    pub block: Block,
    /// Resident pages that the program inserted.
    pub ours: u64,
    /// Of these, those that it has passed.
    pub passed: u64,
    /// When the program used it last, on the monotonic clock; `None`: not so far.
    pub touched: Option<Duration>,
    /// All pages that were inserted until pages of it were dropped last.
    pub dropped_at: u64,
}

/// A file that a shielded program inserts pages into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShieldedFile {
    /// Inode number.
    pub inode: u64,
    /// Generation of the inode.
    pub generation: u32,
    /// Major and minor number of its file system's device.
    pub device: (u32, u32),
    /// statfs(2) magic number of its file system.
    pub magic: u64,
    /// The process that inserted its first page; `None`: it has no id here.
    pub pid: Option<u32>,
    /// The program came back to it: its pages are not dropped any more.
    pub is_stopped: bool,
    /// Inserted pages.
    pub inserted: Pages,
    /// Dropped pages.
    pub dropped: Pages,
    /// Dropped pages that the program used again.
    pub returned: Pages,
}

/// Sums over all files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Pages that the programs inserted into regular files.
    pub inserted: Pages,
    /// Pages that this process dropped.
    pub dropped: Pages,
    /// Pages that were reclaimed, or cut off, before they could be dropped.
    pub left: Pages,
    /// Dropped pages that the programs used again.
    pub returned: Pages,
    /// Of these, those that would still have been resident.
    pub returned_near: Pages,
    /// Dropped pages that other processes inserted again.
    pub needed: Pages,
    /// Pages that were not noted because a table was full; they are not dropped.
    pub untracked: Pages,
    /// Pages of files on FUSE, which are not opened and so not dropped.
    pub never_open: Pages,
}

impl Totals {
    /// Noted pages that are resident.
    #[must_use]
    pub fn resident(&self) -> Pages {
        let away = self.dropped.0 + self.left.0 + self.untracked.0 + self.never_open.0;
        Pages(self.inserted.0.saturating_sub(away))
    }
}

/// The attached programs. Dropping it removes everything from the kernel.
pub struct Shield {
    // Dropped in this order: links, the ring, the skeleton, then the storage that it lives in.
    _links: Vec<Link>,
    ring: Ring<Block>,
    skeleton: ShieldSkel<'static>,
    _storage: Storage,
}

// SAFETY: an object of libbpf belongs to no thread, and this is its only owner.
unsafe impl Send for Shield {}

impl std::fmt::Debug for Shield {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shield").finish_non_exhaustive()
    }
}

impl Shield {
    /// Attaches the programs.
    ///
    /// # Errors
    /// [`Error::Refused`] if the kernel does not let them be loaded; [`Error::NoUses`] before Linux 6.12;
    /// [`Error::NoProcess`] if a process is not there.
    pub fn attach(options: &Options) -> Result<Shield, Error> {
        let kernel = KernelTypes::read()?;
        if !kernel.has_tracepoint(USES) {
            return Err(Error::NoUses);
        }
        let storage = Storage::new();
        // SAFETY: called once, and the skeleton that lives in it is dropped before it: on an early return as the later of
        // two locals, else by the order of the fields.
        let place = unsafe { storage.get() };
        let mut builder = ShieldSkelBuilder::default();
        let types = kernel.give_to(builder.object_builder_mut())?;
        let refused = |operation: &str| {
            let operation = operation.to_owned();
            move |source: libbpf_rs::Error| Error::Refused {
                operation,
                source: source.into(),
            }
        };
        let mut open =
            quietly(|| builder.open(place)).map_err(refused("open the shield's object"))?;
        configure(&mut open, options)?;
        let skeleton = quietly(|| open.load()).map_err(refused("load the shield's programs"))?;
        drop(types); // libbpf has read it
        let ring = MapHandle::try_from(&skeleton.maps.ring).map_err(map_error("open its ring"))?;
        let ring = Ring::open(ring, BATCH, "read the ring of the shield", parse_block)?;
        let mut shield = Shield {
            _links: Vec::new(),
            ring,
            skeleton,
            _storage: storage,
        };
        run(
            &shield.skeleton.progs.meet_owner,
            "tell the shield whose it is",
        )?;
        shield.attach_all()?;
        for pid in &options.pids {
            shield.follow(*pid)?;
        }
        Ok(shield)
    }

    fn attach_all(&mut self) -> Result<(), Error> {
        for program in self.skeleton.object().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            if !name.starts_with("on_") {
                continue;
            }
            let link = program.attach().map_err(|source| Error::Refused {
                operation: format!("attach the program {name}"),
                source: source.into(),
            })?;
            self._links.push(link);
        }
        Ok(())
    }

    /// Follows a process and those under it.
    fn follow(&mut self, pid: u32) -> Result<(), Error> {
        let failed = map_error("walk over the tasks");
        self.bss()?.walk_root = pid;
        let link = self
            .skeleton
            .progs
            .walk
            .attach_iter_with_opts(IterOpts::None)
            .map_err(&failed)?;
        let mut output = Vec::new();
        Iter::new(&link)
            .map_err(&failed)?
            .read_to_end(&mut output)
            .map_err(|error| failed(libbpf_rs::Error::from(error)))?;
        match std::path::Path::new(&format!("/proc/{pid}")).exists() {
            true => Ok(()),
            false => Err(Error::NoProcess(pid)),
        }
    }

    /// Says how many pages could stay in memory at most, for a file: its dropped pages that are used again within so many
    /// insertions would still have been resident. A file of which many pages come back so is not dropped any more; without
    /// this call none is.
    ///
    /// # Errors
    /// [`Error::Run`].
    pub fn set_room(&mut self, mapping: u64, room: Pages) -> Result<(), Error> {
        let request = &mut self.bss()?.request;
        request.mapping = mapping;
        request.room = room.0;
        run(&self.skeleton.progs.set_room, "set the room of a file").map(|_| ())
    }

    /// Waits until programs have passed 4 MiB, and at most this long.
    pub fn wait(&self, longest: Duration) {
        self.ring.wait(longest);
    }

    /// Replaces `blocks` by those that programs have passed since the last call.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn passed(&self, blocks: &mut Vec<Block>) -> Result<(), Error> {
        self.ring.read(blocks)
    }

    /// Decides on a block. `ahead`: pages that the program has not used can be dropped too; `writes`: those that it wrote.
    ///
    /// # Errors
    /// [`Error::Run`].
    ///
    /// # Cost
    /// 2 us, and 30 ns for each folio.
    pub fn decide(&mut self, block: Block, ahead: bool, writes: bool) -> Result<Decision, Error> {
        let request = &mut self.bss()?.request;
        request.mapping = block.mapping;
        request.block = block.number;
        request.ahead = ahead.into();
        request.writes = writes.into();
        run(&self.skeleton.progs.decide, "decide on a block of a file")?;
        let answer = &self.bss()?.answer;
        Ok(Decision {
            is_gone: answer.state != 0,
            drop: PageSet(answer.drop),
            write: PageSet(answer.write),
            kept: answer.kept,
        })
    }

    /// Whether the open file is the one at this mapping.
    ///
    /// # Errors
    /// [`Error::Run`].
    pub fn is_same(&mut self, file: BorrowedFd<'_>, mapping: u64) -> Result<bool, Error> {
        let request = &mut self.bss()?.request;
        request.fd = file.as_raw_fd().cast_unsigned();
        request.mapping = mapping;
        Ok(run(&self.skeleton.progs.is_same, "compare two files")? != 0)
    }

    /// The file at this mapping; `None`: it is not noted.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn file(&self, mapping: u64) -> Result<Option<ShieldedFile>, Error> {
        let files = &self.skeleton.maps.files;
        let found = files.lookup(&mapping.to_ne_bytes(), MapFlags::ANY);
        let found = found.map_err(map_error("read a file of the shield"))?;
        found.map(|bytes| parse_file(&bytes)).transpose()
    }

    /// All files, by their mappings.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn files(&self) -> Result<Vec<(u64, ShieldedFile)>, Error> {
        let mut all = Vec::new();
        each(&self.skeleton.maps.files, |key, value| {
            let mapping = Raw::new(key, "file of the shield", size_of::<u64>())?.u64(0);
            all.push((mapping, parse_file(value)?));
            Ok(())
        })?;
        Ok(all)
    }

    /// All blocks.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn blocks(&self) -> Result<Vec<Noted>, Error> {
        let mut all = Vec::new();
        each(&self.skeleton.maps.blocks, |key, value| {
            let raw = Raw::new(
                value,
                "block of the shield",
                size_of::<types::shield_block>(),
            )?;
            let set =
                |offset: usize| PageSet(std::array::from_fn(|word| raw.u64(offset + 8 * word)));
            let ours = set(offset_of!(types::shield_block, ours));
            let passed = set(offset_of!(types::shield_block, passed));
            let touched = raw.u64(offset_of!(types::shield_block, touched));
            let Some(block) = parse_block(key) else {
                return Ok(());
            };
            all.push(Noted {
                block,
                ours: ours.count(),
                passed: ours.with_both(&passed).count(),
                touched: (touched > 0).then(|| Duration::from_nanos(touched)),
                dropped_at: raw.u64(offset_of!(types::shield_block, dropped_at)),
            });
            Ok(())
        })?;
        Ok(all)
    }

    /// Forgets a block: its pages are not dropped, and it is not noticed if dropped pages are used again.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn forget_block(&self, block: Block) -> Result<(), Error> {
        let key = [block.mapping.to_ne_bytes(), block.number.to_ne_bytes()].concat();
        match self.skeleton.maps.blocks.delete(&key) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                Err(map_error("forget a block of the shield")(error))
            }
            _ => Ok(()),
        }
    }

    /// Forgets a file.
    ///
    /// # Errors
    /// [`Error::Run`].
    pub fn forget_file(&mut self, mapping: u64) -> Result<(), Error> {
        self.bss()?.request.mapping = mapping;
        run(&self.skeleton.progs.forget, "forget a file").map(|_| ())
    }

    /// Blocks that there is room for; a block that finds no room is not dropped.
    #[must_use]
    pub fn most_blocks(&self) -> usize {
        self.skeleton.maps.blocks.max_entries() as usize
    }

    /// Files that there is room for.
    #[must_use]
    pub fn most_files(&self) -> usize {
        self.skeleton.maps.files.max_entries() as usize
    }

    /// The sums so far.
    ///
    /// # Errors
    /// [`Error::Shape`].
    pub fn totals(&mut self) -> Result<Totals, Error> {
        let totals = &self.bss()?.totals;
        Ok(Totals {
            inserted: Pages(totals.inserted),
            dropped: Pages(totals.dropped),
            left: Pages(totals.left),
            returned: Pages(totals.returned),
            returned_near: Pages(totals.near),
            needed: Pages(totals.needed),
            untracked: Pages(totals.untracked),
            never_open: Pages(totals.never_open),
        })
    }

    fn bss(&mut self) -> Result<&mut types::bss, Error> {
        self.skeleton
            .maps
            .bss_data
            .as_deref_mut()
            .ok_or(Error::Shape {
                what: "state of the shield",
                found: 0,
                expected: size_of::<types::bss>(),
            })
    }
}

fn configure(open: &mut skeleton::OpenShieldSkel<'_>, options: &Options) -> Result<(), Error> {
    let Some(data) = open.maps.rodata_data.as_deref_mut() else {
        return Err(Error::Shape {
            what: "settings of the shield",
            found: 0,
            expected: size_of::<types::shield_config>(),
        });
    };
    let config = &mut data.config;
    config.page_shift = cachewise_sys::page_size().shift();
    config.children = options.children.into();
    config.cgroup_v1 = options.cgroup_v1.into();
    if let Some(cgroup) = options.cgroup {
        config.cgroup_filter = 1;
        config.cgroup_level = cgroup.level;
        config.cgroup_id = cgroup.id;
    }
    if let Some(pages) = options.streams_from {
        config.whole_machine = 1;
        config.stream_pages = pages.0;
    }
    Ok(())
}

fn run(program: &ProgramMut<'_>, operation: &'static str) -> Result<u32, Error> {
    match program.test_run(ProgramInput::default()) {
        Ok(output) => Ok(output.return_value),
        Err(source) => Err(Error::Run {
            operation,
            source: source.into(),
        }),
    }
}

fn parse_block(bytes: &[u8]) -> Option<Block> {
    let raw = Raw::new(bytes, "key of a block", size_of::<types::shield_key>()).ok()?;
    Some(Block {
        mapping: raw.u64(offset_of!(types::shield_key, mapping)),
        number: raw.u64(offset_of!(types::shield_key, block)),
    })
}

fn parse_file(bytes: &[u8]) -> Result<ShieldedFile, Error> {
    let raw = Raw::new(bytes, "file of the shield", size_of::<types::shield_file>())?;
    let pages = |offset| Pages(raw.u64(offset));
    // As the kernel keeps it: twenty bits of it are the minor number.
    let device = raw.u32(offset_of!(types::shield_file, device));
    let pid = raw.u32(offset_of!(types::shield_file, pid));
    Ok(ShieldedFile {
        inode: raw.u64(offset_of!(types::shield_file, inode)),
        generation: raw.u32(offset_of!(types::shield_file, generation)),
        device: (device >> 20, device & 0xf_ffff),
        magic: raw.u64(offset_of!(types::shield_file, magic)),
        pid: (pid != 0).then_some(pid),
        is_stopped: raw.u32(offset_of!(types::shield_file, stopped)) != 0,
        inserted: pages(offset_of!(types::shield_file, inserted)),
        dropped: pages(offset_of!(types::shield_file, dropped)),
        returned: pages(offset_of!(types::shield_file, returned)),
    })
}

fn map_error(operation: &'static str) -> impl Fn(libbpf_rs::Error) -> Error {
    move |source| Error::Map {
        operation,
        source: source.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_set_are_its_pages_in_order() {
        let mut set = PageSet::default();
        assert_eq!(set.runs().count(), 0, "an empty set has none");
        set.0[0] = 0b1101;
        set.0[1] = 1;
        set.0[7] = 1 << 63;
        let runs: Vec<_> = set.runs().collect();
        assert_eq!(runs, [(0, 1), (2, 2), (64, 1), (511, 1)], "{set:?}");
        set.0[0] = !0;
        set.0[1] = !0;
        assert_eq!(set.runs().next(), Some((0, 128)), "over words");
        assert_eq!(set.count(), 129, "{set:?}");
    }

    #[test]
    fn reasons_are_those_of_the_kernels_side() {
        let header = include_str!("bpf/shield.h");
        let list = header.split("enum shield_reason {").nth(1).unwrap();
        let list = list.split("KEPT_REASONS").next().unwrap();
        let names = list.split("KEPT_").skip(1);
        let names: Vec<String> = names
            .map(|name| {
                let end = name.find(|byte: char| !byte.is_ascii_uppercase() && byte != '_');
                name[..end.unwrap_or(name.len())].replace('_', "")
            })
            .collect();
        let own: Vec<String> = Kept::ALL
            .iter()
            .map(|kept| format!("{kept:?}").to_uppercase())
            .collect();
        assert_eq!(own, names, "one order on both sides");
    }
}

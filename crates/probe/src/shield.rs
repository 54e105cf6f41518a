//! The shield: the pages that programs insert into the page cache, which of them they have passed, and who else used them.
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

mod decision;
mod records;
mod skeleton;

use std::io::Read as _;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use cachewise_units::Pages;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Iter, IterOpts, Link, MapCore, MapFlags, MapHandle};

use crate::error::Error;
use crate::kernel_types::KernelTypes;
use crate::loading::{Storage, quietly, run};
use crate::options::CgroupFilter;
use crate::record::Raw;
use crate::ring::Ring;
use crate::table::each;

pub use decision::{BLOCK_PAGES, Block, Decision, Kept, PageSet};
pub use records::{Noted, Resident, ShieldedFile, Totals};
use records::{parse_block, parse_file, parse_noted, resident};
use skeleton::{ShieldSkel, ShieldSkelBuilder, types};

/// The event without which there is no shield.
const USES: &str = "mm_filemap_get_pages";

/// Records of one [`Shield::passed`] at most.
const BATCH: usize = 4096;

/// The shielded programs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// These processes, those under them, and what they start.
    pub pids: Vec<u32>,
    /// Processes that this process starts from now on.
    pub children: bool,
    /// Limits the processes to those of this name, as `/proc/PID/comm` shows it: the kernel keeps 15 bytes.
    pub name: Option<String>,
    /// The tasks under this control group, instead.
    pub cgroup: Option<CgroupFilter>,
    /// Control groups are those of the version 1 memory hierarchy.
    pub cgroup_v1: bool,
    /// All tasks, instead, each process for itself: pages of a file are noted from when a process has inserted this many
    /// one after the other.
    pub streams_from: Option<Pages>,
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

    /// Says how many pages could stay in memory at most, for a file: its dropped pages that are used again within as many
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

    /// Waits until programs have passed 2,048 pages, and at most this long.
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

    /// Decides on a block. `ahead`: pages that the program has not used can be dropped too; `writes`: those that it wrote;
    /// `held`: those that the kernel holds a reference to. Advice to drop such a page drops it if the kernel gives the
    /// reference back when it empties the lists that each CPU has, and leaves it otherwise.
    ///
    /// # Errors
    /// [`Error::Run`].
    ///
    /// # Cost
    /// 2 us, and 30 ns for each folio.
    pub fn decide(
        &mut self,
        block: Block,
        ahead: bool,
        writes: bool,
        held: bool,
    ) -> Result<Decision, Error> {
        let request = &mut self.bss()?.request;
        request.mapping = block.mapping;
        request.block = block.number;
        request.ahead = ahead.into();
        request.writes = writes.into();
        request.held = held.into();
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

    /// Replaces `found` by the blocks with resident pages, and returns the number of all blocks.
    ///
    /// # Errors
    /// [`Error::Run`].
    ///
    /// # Cost
    /// 0.1 ms, and 50 ns for each block; [`Shield::blocks`] copies all of them.
    pub fn look(&mut self, found: &mut Vec<Resident>) -> Result<usize, Error> {
        run(&self.skeleton.progs.look, "look at the blocks of files")?;
        let looked = &self.bss()?.looked;
        found.clear();
        found.extend(
            looked
                .of
                .iter()
                .take(looked.resident as usize)
                .map(resident),
        );
        Ok(looked.blocks as usize)
    }

    /// Files that have got an entry so far, modulo 2^32; an upper limit of what [`Shield::files`] has more than before.
    ///
    /// # Errors
    /// [`Error::Shape`].
    pub fn files_made(&mut self) -> Result<u32, Error> {
        Ok(self.bss()?.epochs)
    }

    /// All blocks.
    ///
    /// # Errors
    /// [`Error::Map`].
    pub fn blocks(&self) -> Result<Vec<Noted>, Error> {
        let mut all = Vec::new();
        each(&self.skeleton.maps.blocks, |key, value| {
            if let Some(block) = parse_block(key) {
                all.push(parse_noted(block, value)?);
            }
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
            noted: Pages(totals.noted),
            dropped: Pages(totals.dropped),
            left: Pages(totals.left),
            returned: Pages(totals.returned),
            returned_near: Pages(totals.near),
            needed: Pages(totals.needed),
            evicted: Pages(totals.evicted),
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
    if let Some(name) = &options.name {
        let mut bytes = [0; 16];
        for (place, byte) in bytes.iter_mut().zip(name.bytes().take(15)) {
            *place = byte;
        }
        config.by_name = 1;
        let (first, second) = bytes.split_at(8);
        config.name =
            [first, second].map(|half| half.try_into().map(u64::from_ne_bytes).unwrap_or_default());
    }
    if let Some(pages) = options.streams_from {
        config.whole_machine = 1;
        config.stream_pages = pages.0;
    }
    Ok(())
}

fn map_error(operation: &'static str) -> impl Fn(libbpf_rs::Error) -> Error {
    move |source| Error::Map {
        operation,
        source: source.into(),
    }
}

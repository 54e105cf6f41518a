//! Loading and attaching the programs. All are tried at once; where the kernel lacks or refuses some,
//! those are left out group by group, and what they would have counted is known to be missing.

mod walk;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::mpsc;

use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{
    AsRawLibbpf, Link, MapCore, MapFlags, ProgramInput, ProgramMut, RawTracepointOpts, libbpf_sys,
};

use crate::accesses::{EVERY_BLOCK, THRESHOLD};
use crate::back_end::BackEnd;
use crate::cast::ledger_with_cast;
use crate::error::Error;
use crate::groups::{ASYNC_READAHEAD, GROUPS, Group, Means, needless_groups};
use crate::kernel_types::KernelTypes;
use crate::loading::{Storage, quietly};
use crate::offer::Offer;
use crate::options::{Detail, Options, Scope};
use crate::record::file_key;
use crate::skeleton::{LEDGER_BY_HELPER, LedgerSkel, LedgerSkelBuilder, OpenLedgerSkel, types};
use crate::snapshot::FileId;

/// Run by user space or by other programs, not attached to anything.
const RUN_ON_DEMAND: [&str; 6] = [
    "walk",
    "flush",
    "meet_owner",
    "look_again",
    "name_waiting",
    "settle_over",
];

/// Programs with which others go on, in the order of `enum service` in maps.h.
const SERVICES: [&str; 7] = [
    "name_waiting",
    "settle_over",
    "on_get_pages",
    "on_insert",
    "on_delete",
    "on_direct_begin",
    "on_exit",
];

/// Programs that are loaded beside the others, by a second thread, as an object of their own that shares
/// the others' maps: verifying takes most of a start. A little more than half of that, as the first thread
/// makes the maps.
const BESIDE: [&str; 32] = [
    "on_uring_submit",
    "on_uring_complete",
    "on_ext4_write",
    "on_xfs_write",
    "on_btrfs_write",
    "on_btrfs_dirty",
    "on_dirty",
    "on_bio",
    "on_direct_begin",
    "on_direct_complete",
    "on_direct_begin_kprobe",
    "on_direct_complete_kprobe",
    "on_device_read_fentry",
    "on_device_read_fexit",
    "on_device_read_kprobe",
    "on_device_read_kretprobe",
    "on_device_write_fentry",
    "on_device_write_fexit",
    "on_device_write_kprobe",
    "on_device_write_kretprobe",
    "on_fork",
    "on_exit",
    "on_group_reclaim",
    "on_direct_reclaim",
    "on_reclaim_end",
    "on_switch",
    "on_wake",
    "on_throttle",
    "on_sys_enter",
    "on_delete",
    "settle_over",
    "name_waiting",
];

/// Programs for which an object is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    All,
    /// All but those [`BESIDE`].
    Most,
    Beside,
    /// The walk over all tasks alone.
    Walk,
}

impl Share {
    fn has(self, program: &str) -> bool {
        match self {
            Share::All => true,
            Share::Most => !BESIDE.contains(&program),
            Share::Beside => BESIDE.contains(&program),
            Share::Walk => program == WALK,
        }
    }
}

/// The walk over all tasks. Of a tree that is followed from its start it is loaded when it is needed: mostly all tasks have
/// ended by then, and have settled their accounts.
const WALK: &str = "walk";

/// The way that is taken to have what a group tells.
#[derive(Clone, Copy)]
pub(crate) struct Chosen {
    pub(crate) group: &'static Group,
    pub(crate) means: &'static Means,
}

impl Chosen {
    pub(crate) fn is_reads(&self) -> bool {
        self.group.is_reads()
    }
}

/// An object with the memory that it lives in.
struct Loaded {
    // Dropped in this order.
    skeleton: LedgerSkel<'static>,
    _storage: Storage,
}

// SAFETY: an object of libbpf belongs to no thread, and this is its only owner.
unsafe impl Send for Loaded {}

/// The same before it is loaded.
struct Opened {
    // Dropped in this order.
    skeleton: OpenLedgerSkel<'static>,
    storage: Storage,
    /// libbpf reads it when it loads.
    _types: OwnedFd,
}

/// The loaded programs with their links. Dropping it removes everything from the kernel.
pub(crate) struct Programs {
    // Fields are dropped in this order: links before what they link.
    links: Vec<(Option<&'static str>, Link)>,
    most: Loaded,
    beside: Option<Loaded>,
    /// With [`WALK`] where the others are without it.
    late: Option<Loaded>,
    /// With which they were loaded.
    options: Options,
    /// The back-end of each group.
    pub(crate) chosen: Vec<Chosen>,
    /// Groups that this kernel did without.
    pub(crate) missing: Vec<&'static Group>,
    /// Magic numbers of the file systems whose buffered writes are seen.
    pub(crate) writes_seen: Vec<u64>,
}

impl Programs {
    pub(crate) fn load(options: &Options) -> Result<Self, Error> {
        quietly(|| Self::load_what_goes(options))
    }

    fn load_what_goes(options: &Options) -> Result<Self, Error> {
        let kernel = KernelTypes::read()?;
        let offer = Offer::new(&kernel, options);
        let best = GROUPS.iter().filter_map(|group| {
            let means = offer.means(group).next()?;
            Some(Chosen { group, means })
        });
        let best: Vec<Chosen> = best.collect();
        if !best.iter().any(Chosen::is_reads) {
            return Err(Error::NoBackEnd);
        }
        let everything = match Self::load_chosen(options, &kernel, best.clone()) {
            // A group that was refused at attaching may have another back-end.
            Ok(programs) => {
                let mut missing = programs.missing.iter().copied();
                if !missing.any(|group| offer.means(group).nth(1).is_some()) {
                    return Ok(programs);
                }
                None
            }
            Err(error) => Some(error),
        };
        // Is it some of them that are refused, or BPF as a whole?
        let mut chosen: Vec<Chosen> = Vec::new();
        for group in &GROUPS {
            let mut ways = offer.means(group).peekable();
            while let Some(means) = ways.next() {
                let mut more = chosen.clone();
                more.push(Chosen { group, means });
                let Ok(programs) = Self::load_chosen(options, &kernel, more.clone()) else {
                    continue;
                };
                if ways.peek().is_none() || !programs.is_missing(group) {
                    chosen = more;
                    break;
                }
            }
            if chosen.is_empty() {
                // Without reads, which come first, there is nothing to add to. Where all was loaded a moment
                // ago, that is better than nothing.
                return match everything {
                    Some(error) => Err(error),
                    None => Self::load_chosen(options, &kernel, best),
                };
            }
        }
        Self::load_chosen(options, &kernel, chosen)
    }

    fn load_chosen(
        options: &Options,
        kernel: &KernelTypes,
        mut chosen: Vec<Chosen>,
    ) -> Result<Self, Error> {
        let needless = needless_groups(options);
        let is_among = |groups: &[&'static Group], group: &Group| {
            groups.iter().any(|other| other.name == group.name)
        };
        let missing = GROUPS
            .iter()
            .filter(|group| !chosen.iter().any(|chosen| chosen.group.name == group.name))
            .collect();
        chosen.retain(|chosen| !is_among(&needless, chosen.group));
        let writes_seen = chosen
            .iter()
            .filter_map(|chosen| chosen.group.file_system_magic())
            .collect();
        let open = |share| Opened::new(options, kernel, &chosen, share);
        let two = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
        let all = || Ok((open(Share::All)?.load()?, None));
        let (most, beside) = if two {
            std::thread::scope(|scope| {
                let (give, take) = mpsc::channel::<Vec<OwnedFd>>();
                let load_beside = move || {
                    let mut beside = open(Share::Beside)?;
                    // There are none if the other thread has failed.
                    let Ok(maps) = take.recv() else {
                        return Ok(None);
                    };
                    beside.share(&maps)?;
                    beside.load().map(Some)
                };
                let Ok(beside) = cachewise_sys::start_thread_in(scope, "load", load_beside) else {
                    return all();
                };
                let mut most = open(Share::Most)?;
                // It fails only if the other thread has: its error is what `join` returns.
                _ = give.send(most.prepare()?);
                let most = most.load();
                match beside.join() {
                    Ok(beside) => Ok((most?, beside?)),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            })?
        } else {
            all()?
        };
        let mut programs = Programs {
            links: Vec::new(),
            most,
            beside,
            late: None,
            options: options.clone(),
            chosen,
            missing,
            writes_seen,
        };
        programs.fill_maps(options)?;
        programs.meet_owner()?;
        programs.attach()?;
        Ok(programs)
    }

    /// Tells the programs who this process is. In a PID namespace it does not know its number itself.
    fn meet_owner(&self) -> Result<(), Error> {
        let program = &self.skeleton().progs.meet_owner;
        if program.autoload() {
            // Without a CPU to run on it runs here, in this process.
            program
                .test_run(ProgramInput::default())
                .map_err(|source| Error::Map {
                    operation: "tell the probe whose it is",
                    source: source.into(),
                })?;
        }
        Ok(())
    }

    fn fill_maps(&self, options: &Options) -> Result<(), Error> {
        let map_error = |source: libbpf_rs::Error| Error::Map {
            operation: "prepare the probe's maps",
            source: source.into(),
        };
        let maps = &self.skeleton().maps;
        if options.detail == Detail::Rows {
            self.make_overflow_rows()?;
        }
        let loaded = [Some(&self.most), self.beside.as_ref()]
            .into_iter()
            .flatten();
        let programs = loaded.flat_map(|loaded| loaded.skeleton.object().progs());
        for program in programs.filter(|program| program.autoload()) {
            let name = program.name().to_string_lossy();
            if let Some(number) = SERVICES.iter().position(|service| *service == name) {
                let (number, program) = (number as u32, program.as_fd().as_raw_fd());
                maps.services
                    .update(&number.to_ne_bytes(), &program.to_ne_bytes(), MapFlags::ANY)
                    .map_err(map_error)?;
            }
        }
        if options.accesses {
            maps.sample
                .update(
                    &THRESHOLD.to_ne_bytes(),
                    &EVERY_BLOCK.to_ne_bytes(),
                    MapFlags::ANY,
                )
                .map_err(map_error)?;
        }
        for file in &options.files {
            let any_generation = FileId {
                major: file.major,
                minor: file.minor,
                inode: file.inode,
                generation: 0,
                volume: 0,
            };
            maps.wanted
                .update(
                    &file_key(any_generation),
                    &1u32.to_ne_bytes(),
                    MapFlags::ANY,
                )
                .map_err(map_error)?;
        }
        Ok(())
    }

    /// Events that find the table full are booked on a row of its own, so that sums stay whole.
    pub(crate) fn make_overflow_rows(&self) -> Result<(), Error> {
        let maps = &self.skeleton().maps;
        let zero = |size: u32| vec![0u8; size as usize];
        let tables = [
            &maps.rows,
            &maps.rows_other,
            &maps.evictions,
            &maps.evictions_other,
        ];
        for table in tables {
            let (key, value) = (zero(table.key_size()), zero(table.value_size()));
            match table.update(&key, &value, MapFlags::NO_EXIST) {
                Err(source) if source.kind() != libbpf_rs::ErrorKind::AlreadyExists => {
                    return Err(Error::Map {
                        operation: "prepare the probe's maps",
                        source: source.into(),
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Has rows be made on the other side from now on; returns whether it was the second side so far.
    pub(crate) fn turn_over(&mut self) -> Result<bool, Error> {
        let Some(bss) = self.skeleton_mut().maps.bss_data.as_deref_mut() else {
            return Err(Error::Shape {
                what: "state",
                found: 0,
                expected: size_of::<u32>(),
            });
        };
        let other = bss.side != 0;
        bss.side = u32::from(!other);
        Ok(other)
    }

    fn attach(&mut self) -> Result<(), Error> {
        let objects = [Some(&mut self.most), self.beside.as_mut()];
        let mut programs: Vec<_> = objects
            .into_iter()
            .flatten()
            .flat_map(|loaded| loaded.skeleton.object().progs_mut())
            .collect();
        // Of a function its return first: a call between the two would be seen to begin and not to end.
        programs.sort_by_key(|program| !is_at_return(&program.name().to_string_lossy()));
        for program in programs {
            let name = program.name().to_string_lossy().into_owned();
            if RUN_ON_DEMAND.contains(&name.as_str()) || !program.autoload() {
                continue;
            }
            let link = |attached: libbpf_rs::Result<Link>| {
                attached.map_err(|source| Error::Refused {
                    operation: format!("attach the program {name}"),
                    source: source.into(),
                })
            };
            let Some(chosen) = self.chosen.iter().find(|chosen| chosen.means.has(&name)) else {
                self.links.push((None, link(program.attach())?));
                continue;
            };
            for target in chosen.means.targets(&name) {
                let attached = match chosen.means.back_end {
                    BackEnd::Tracepoints | BackEnd::SysExit => {
                        attach_raw_tracepoint(&program, target)
                    }
                    // The hook is part of the program.
                    BackEnd::Fentry | BackEnd::Kprobes | BackEnd::Procfs => program.attach(),
                };
                match link(attached) {
                    Ok(link) => self.links.push((Some(chosen.group.name), link)),
                    Err(error) if chosen.is_reads() => return Err(error),
                    // This kernel does not have it, or keeps it to itself.
                    Err(_)
                        if self
                            .missing
                            .iter()
                            .any(|known| known.name == chosen.group.name) => {}
                    Err(_) => self.missing.push(chosen.group),
                }
            }
        }
        // Half of a group is worse than nothing of it: calls would be seen to begin and not to end.
        let missing = &self.missing;
        self.links.retain(|(group, _)| {
            !group.is_some_and(|group| missing.iter().any(|known| known.name == group))
        });
        Ok(())
    }

    fn is_missing(&self, group: &Group) -> bool {
        self.missing.iter().any(|known| known.name == group.name)
    }

    /// Events that the kernel left out because a program of ours was running on that CPU.
    pub(crate) fn skipped(&self) -> u64 {
        [Some(&self.most), self.beside.as_ref(), self.late.as_ref()]
            .into_iter()
            .flatten()
            .flat_map(|loaded| loaded.skeleton.object().progs())
            .filter(|program| program.autoload())
            .map(|program| recursion_misses(program.as_fd()))
            .sum()
    }

    /// The object with the maps, and with what is run on demand.
    pub(crate) fn skeleton(&self) -> &LedgerSkel<'static> {
        &self.most.skeleton
    }

    pub(crate) fn skeleton_mut(&mut self) -> &mut LedgerSkel<'static> {
        &mut self.most.skeleton
    }
}

fn attach_raw_tracepoint(program: &ProgramMut<'_>, target: &str) -> libbpf_rs::Result<Link> {
    if target != ASYNC_READAHEAD {
        return program.attach_raw_tracepoint(target);
    }
    let told = RawTracepointOpts {
        cookie: 1,
        ..RawTracepointOpts::default()
    };
    program.attach_raw_tracepoint_with_opts(target, told)
}

fn is_at_return(program: &str) -> bool {
    program.ends_with("_fexit") || program.ends_with("_kretprobe")
}

fn refused(operation: &str) -> impl Fn(libbpf_rs::Error) -> Error {
    let operation = operation.to_owned();
    move |source| Error::Refused {
        operation: operation.clone(),
        source: source.into(),
    }
}

impl Opened {
    fn new(
        options: &Options,
        kernel: &KernelTypes,
        chosen: &[Chosen],
        share: Share,
    ) -> Result<Self, Error> {
        let storage = Storage::new();
        // SAFETY: called once, and here and in `Loaded` the skeleton is dropped before the storage; on an
        // early return the locals are dropped in reverse order, the skeleton first.
        let place = unsafe { storage.get() };
        let mut builder = LedgerSkelBuilder {
            data: kernel
                .rdonly_cast()
                .map_or(LEDGER_BY_HELPER, ledger_with_cast),
            ..LedgerSkelBuilder::default()
        };
        let types = kernel.give_to(builder.object_builder_mut())?;
        let mut skeleton = builder
            .open(place)
            .map_err(refused("open the probe's object"))?;
        configure(&mut skeleton, options, kernel, chosen, share)?;
        Ok(Opened {
            skeleton,
            storage,
            _types: types,
        })
    }

    /// Makes the maps, and returns them, before any program is loaded.
    fn prepare(&mut self) -> Result<Vec<OwnedFd>, Error> {
        let object = self.skeleton.open_object_mut();
        // SAFETY: an open object that no other code reaches; loading continues from here.
        let failed = unsafe { libbpf_sys::bpf_object__prepare(object.as_libbpf_object().as_ptr()) };
        if failed != 0 {
            let source = libbpf_rs::Error::from_raw_os_error(-failed);
            return Err(refused("make the probe's tables")(source));
        }
        object
            .maps()
            .map(|map| {
                // SAFETY: the map was made just now; its descriptor is the object's, and open.
                let fd = unsafe {
                    BorrowedFd::borrow_raw(libbpf_sys::bpf_map__fd(map.as_libbpf_object().as_ptr()))
                };
                fd.try_clone_to_owned().map_err(Error::Memory)
            })
            .collect()
    }

    /// Has it use these maps, of an object of the same programs, instead of its own.
    fn share(&mut self, maps: &[OwnedFd]) -> Result<(), Error> {
        let own = self.skeleton.open_object_mut().maps_mut();
        for (mut map, shared) in own.zip(maps) {
            map.reuse_fd(shared.as_fd())
                .map_err(refused("share the probe's tables"))?;
        }
        Ok(())
    }

    fn load(self) -> Result<Loaded, Error> {
        Ok(Loaded {
            skeleton: self
                .skeleton
                .load()
                .map_err(refused("load the probe's programs"))?,
            _storage: self.storage,
        })
    }
}

fn configure(
    open: &mut OpenLedgerSkel<'_>,
    options: &Options,
    kernel: &KernelTypes,
    chosen: &[Chosen],
    share: Share,
) -> Result<(), Error> {
    let rows = options.detail == Detail::Rows;
    let tree = options.scope != Scope::System;
    for mut program in open.open_object_mut().progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let left_out = GROUPS.iter().any(|group| group.has(&name))
            && !chosen.iter().any(|chosen| {
                let by_functions =
                    matches!(chosen.means.back_end, BackEnd::Fentry | BackEnd::Kprobes);
                let mut targets = chosen.means.targets(&name).peekable();
                targets.peek().is_some()
                    && (!by_functions || targets.all(|target| kernel.has_name(target)))
            });
        let idle = match name.as_str() {
            "on_fork" => !tree,
            WALK => match options.scope {
                Scope::Children => share != Share::Walk,
                Scope::Process(_) => false,
                Scope::System => !rows,
            },
            "meet_owner" => !tree && !rows,
            "flush" | "look_again" | "name_waiting" | "on_group_reclaim" | "on_direct_reclaim"
            | "on_reclaim_end" => !rows,
            "on_switch" | "on_wake" | "on_throttle" => !options.has_times(),
            "on_sys_enter" => !options.changes,
            _ => false,
        };
        program.set_autoload(share.has(&name) && !left_out && !idle);
    }
    // Memory for a table's buckets is taken when it is made, needed or not.
    let maps = &mut open.maps;
    let sized = if rows {
        let most = options.max_rows.max(1);
        [&mut maps.rows, &mut maps.files, &mut maps.evictions]
            .into_iter()
            .try_for_each(|map| map.set_max_entries(most))
            .and_then(|()| {
                let other = if options.intervals { most } else { 1 };
                maps.evictions_other.set_max_entries(other)?;
                maps.rows_other.set_max_entries(other)
            })
            .and_then(|()| {
                let outside = if options.outside { most } else { 1 };
                maps.outside.set_max_entries(outside)
            })
            .and_then(|()| match tree {
                true => maps.idle_tasks.set_max_entries(1),
                false => Ok(()),
            })
            .and_then(|()| match options.has_times() {
                true => Ok(()),
                false => maps.timings.set_max_entries(1),
            })
    } else {
        [
            &mut maps.rows,
            &mut maps.rows_other,
            &mut maps.evictions,
            &mut maps.evictions_other,
            &mut maps.culprits,
            &mut maps.reclaims,
            &mut maps.files,
            &mut maps.file_systems,
            &mut maps.processes,
            &mut maps.timings,
            &mut maps.gone,
            &mut maps.idle_tasks,
        ]
        .into_iter()
        .try_for_each(|map| map.set_max_entries(1))
    };
    let page = cachewise_sys::page_size().bytes().0 as u32;
    let sized = sized
        .and_then(|()| match options.accesses {
            true => Ok(()),
            false => maps.accesses.set_max_entries(page),
        })
        .and_then(|()| {
            if options.has_stacks() {
                let cpus = libbpf_rs::num_possible_cpus()?;
                return maps.stack_scratches.set_max_entries(cpus as u32);
            }
            maps.stacks.set_max_entries(page)?;
            maps.stack_memories.set_max_entries(1)?;
            maps.evictors.set_max_entries(1)
        });
    sized.map_err(|source| Error::Map {
        operation: "size the probe's tables",
        source: source.into(),
    })?;
    let Some(data) = open.maps.rodata_data.as_deref_mut() else {
        return Err(Error::Shape {
            what: "settings",
            found: 0,
            expected: size_of::<types::config>(),
        });
    };
    data.kernel_types = kernel_type_ids(kernel);
    let config = &mut data.config;
    config.scope = tree.into();
    config.detail = rows.into();
    config.page_shift = cachewise_sys::page_size().shift();
    config.children = (options.scope == Scope::Children).into();
    config.cgroup_v1 = options.cgroup_v1.into();
    if let Some(cgroup) = options.cgroup {
        config.cgroup_filter = 1;
        config.cgroup_level = cgroup.level;
        config.cgroup_id = cgroup.id;
    }
    let by_sys_exit = |chosen: &Chosen| chosen.means.back_end == BackEnd::SysExit;
    config.by_sys_exit = chosen.iter().any(by_sys_exit).into();
    config.intervals = (rows && options.intervals).into();
    config.times = options.has_times().into();
    config.accesses = options.accesses.into();
    config.fault_around = (options.accesses && options.fault_around).into();
    config.stacks = options.has_stacks().into();
    config.outside = (rows && options.outside).into();
    config.file_filter = (!options.files.is_empty()).into();
    Ok(())
}

/// The kernel's numbers for the types that pointers are cast to.
fn kernel_type_ids(kernel: &KernelTypes) -> types::kernel_types {
    macro_rules! ids {
        ($($name:ident),* $(,)?) => {
            types::kernel_types { $($name: kernel.id(stringify!($name))),* }
        };
    }
    ids!(
        address_space,
        bio,
        dentry,
        file,
        folio,
        inode,
        io_kiocb,
        iov_iter,
        kiocb,
        mem_cgroup,
        task_struct,
    )
}

fn recursion_misses(program: BorrowedFd<'_>) -> u64 {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = size_of_val(&info) as u32;
    // SAFETY: the kernel writes at most `length` bytes to `info`, which is that large and plain data.
    let failed = unsafe {
        libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut length)
    };
    if failed == 0 {
        info.recursion_misses
    } else {
        0
    }
}

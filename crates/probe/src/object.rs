//! Loading and attaching the programs. All are tried at once; where the kernel lacks or refuses some,
//! those are left out group by group, and what they would have counted is known to be missing.

mod opened;
mod walk;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::mpsc;

use libbpf_rs::skel::Skel;
use libbpf_rs::{Link, MapCore, MapFlags, ProgramInput, ProgramMut, RawTracepointOpts, libbpf_sys};

use crate::accesses::{EVERY_BLOCK, THRESHOLD};
use crate::back_end::BackEnd;
use crate::error::Error;
use crate::groups::{ASYNC_READAHEAD, Chosen, GROUPS, Group, needless_groups};
use crate::kernel_types::KernelTypes;
use crate::loading::quietly;
use crate::offer::Offer;
use crate::options::{Detail, Options};
use crate::record::file_key;
use crate::skeleton::LedgerSkel;
use crate::snapshot::FileId;

use opened::{Loaded, Opened, Share};

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
                let load_most = |give: mpsc::Sender<_>| {
                    let mut most = open(Share::Most)?;
                    // It fails only if the other thread has: its error is what `join` returns.
                    _ = give.send(most.prepare()?);
                    most.load()
                };
                let most = load_most(give);
                // After an error too: a thread that was not joined counts towards a limit on processes for a while.
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

//! An object of the programs: its programs are selected and its tables sized, then it is loaded.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{AsRawLibbpf, libbpf_sys};

use crate::back_end::BackEnd;
use crate::cast::ledger_with_cast;
use crate::error::Error;
use crate::groups::{Chosen, GROUPS};
use crate::kernel_types::KernelTypes;
use crate::loading::Storage;
use crate::options::{Detail, Options, Scope};
use crate::skeleton::{LEDGER_BY_HELPER, LedgerSkel, LedgerSkelBuilder, OpenLedgerSkel, types};

/// Programs that are loaded beside the others, by a second thread, as an object of their own that shares
/// the others' maps: verifying takes most of a start. Half of that: the first thread makes the maps, and the second one waits
/// for them.
const BESIDE: [&str; 31] = [
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
    "settle_over",
    "name_waiting",
];

/// Programs for which an object is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
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

/// Slots of all CPUs together, in which reads and writes are summed, and of one. Each takes 192 bytes.
const SLOTS: u32 = 16384;
const LEAST_SLOTS: u32 = 64;
const MOST_SLOTS: u32 = 8192; // SLOTS_MAX

/// The walk over all tasks. Of a tree that is followed from its start it is loaded when it is needed: mostly all tasks have
/// ended by then, and have settled their accounts.
pub(super) const WALK: &str = "walk";

/// An object with the memory that it lives in.
pub(super) struct Loaded {
    // Dropped in this order.
    pub(super) skeleton: LedgerSkel<'static>,
    _storage: Storage,
}

// SAFETY: an object of libbpf belongs to no thread, and this is its only owner.
unsafe impl Send for Loaded {}

/// The same before it is loaded.
pub(super) struct Opened {
    // Dropped in this order.
    skeleton: OpenLedgerSkel<'static>,
    storage: Storage,
    /// libbpf reads it when it loads.
    _types: OwnedFd,
}

impl Opened {
    pub(super) fn new(
        options: &Options,
        kernel: &KernelTypes,
        chosen: &[Chosen],
        share: Share,
    ) -> Result<Self, Error> {
        let storage = Storage::new();
        // SAFETY: called once, and here and in `Loaded` the skeleton is dropped before the storage; on an
        // early return the locals are dropped in reverse order, the skeleton first.
        let place = unsafe { storage.get() };
        let counts_only = !options.has_stacks() && !options.accesses;
        let mut builder = LedgerSkelBuilder {
            data: kernel.rdonly_cast().map_or(LEDGER_BY_HELPER, |number| {
                ledger_with_cast(number, counts_only)
            }),
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
    pub(super) fn prepare(&mut self) -> Result<Vec<OwnedFd>, Error> {
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
    pub(super) fn share(&mut self, maps: &[OwnedFd]) -> Result<(), Error> {
        let own = self.skeleton.open_object_mut().maps_mut();
        for (mut map, shared) in own.zip(maps) {
            map.reuse_fd(shared.as_fd())
                .map_err(refused("share the probe's tables"))?;
        }
        Ok(())
    }

    pub(super) fn load(self) -> Result<Loaded, Error> {
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
    let cpus = libbpf_rs::num_possible_cpus().unwrap_or(1).max(1) as u32;
    let slots = (SLOTS / cpus).clamp(LEAST_SLOTS, MOST_SLOTS);
    let slot_bits = slots.ilog2();
    let sized = sized
        .and_then(|()| match rows {
            true => maps.slots.set_max_entries(cpus << slot_bits),
            false => Ok(()),
        })
        .and_then(|()| match options.accesses {
            true => Ok(()),
            false => maps.accesses.set_max_entries(page),
        })
        .and_then(|()| {
            if options.has_stacks() {
                return maps.stack_scratches.set_max_entries(cpus);
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
    config.slot_bits = slot_bits;
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

fn refused(operation: &str) -> impl Fn(libbpf_rs::Error) -> Error {
    let operation = operation.to_owned();
    move |source| Error::Refused {
        operation: operation.clone(),
        source: source.into(),
    }
}

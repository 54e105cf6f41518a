//! Stacks of tasks at events that wait for storage, and at evictions: a ring buffer of records, and of their weights.

use std::mem::{offset_of, size_of};
use std::time::Duration;

use cachewise_model::StackKind;
use libbpf_rs::MapHandle;

use crate::error::Error;
use crate::record::Raw;
use crate::ring::{Ring, RingWaiter};
use crate::skeleton::types;

/// Records that one reading returns at most: 16 KiB each.
const BATCH: usize = 64;

/// Lower ids name no stack (`ledger.h`).
const NO_STACKS: u64 = 2;

/// The address space of a process: another one once it replaces its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AddressSpace {
    /// The address of its description in the kernel; 0: a kernel thread has none.
    pub memory: u64,
    /// The start of the process: addresses are used again.
    pub start: u64,
}

/// The kind of task that a stack is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A thread of a program.
    User,
    /// A kernel thread; it has no user stack.
    KernelThread,
    /// A worker of io_uring; it has no user stack.
    Worker,
    /// A thread of a 32-bit program, whose stack is not copied.
    Program32Bit,
}

/// The stack of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackSample {
    /// Weights refer to it.
    pub id: u64,
    /// The event.
    pub kind: StackKind,
    /// The kind of task.
    pub origin: Origin,
    /// Its address space.
    pub space: AddressSpace,
    /// Executable pages of the address space: their number changes when code is mapped.
    pub executable_pages: u64,
    /// Its process; 0: not in this process's PID namespace.
    pub pid: u32,
    /// The name of the task.
    pub command: String,
    /// Instruction pointer in user mode.
    pub ip: u64,
    /// Stack pointer.
    pub sp: u64,
    /// Frame pointer, if the program has one.
    pub bp: u64,
    /// The user's stack from its pointer on.
    pub user: Vec<u8>,
    /// Words behind that copy to which frame pointers point, by address.
    pub behind: Vec<(u64, u64)>,
    /// Addresses in the kernel, the innermost first.
    pub kernel: Vec<u64>,
}

/// Unit of a weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StackUnit {
    /// Pages.
    Pages,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
}

/// More weight, or less, for a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackWeight {
    /// The stack.
    pub id: u64,
    /// Its event.
    pub kind: StackKind,
    /// The unit.
    pub unit: StackUnit,
    /// The difference.
    pub weight: i64,
}

impl StackWeight {
    /// Whether the probe sent its stack, or tried to.
    #[must_use]
    pub const fn has_stack(&self) -> bool {
        self.id >= NO_STACKS
    }
}

/// A record of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StackRecord {
    /// A stack.
    Sample(Box<StackSample>),
    /// Weight for one that came before.
    Weight(StackWeight),
}

/// Weights that have no stack.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StackRest {
    /// Pages that were evicted by the latest call of each task, with the ids of stacks.
    pub evicted: Vec<StackWeight>,
    /// Weights of events in no call of a task.
    pub outside_calls: Vec<StackWeight>,
    /// Weights whose stack or record was lost.
    pub lost: Vec<StackWeight>,
    /// Number of stacks that were lost.
    pub lost_stacks: u64,
}

/// The stacks of watched tasks. Another thread may read them than the probe's.
pub struct Stacks {
    ring: Ring<StackRecord>,
}

impl std::fmt::Debug for Stacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stacks").finish_non_exhaustive()
    }
}

impl Stacks {
    pub(crate) fn open(map: MapHandle) -> Result<Self, Error> {
        let ring = Ring::open(map, BATCH, "read the ring of stacks", parse)?;
        Ok(Stacks { ring })
    }

    /// Waits for the first stack of an address space or of newly mapped code, until an eighth of the ring is full, and at
    /// most so long.
    pub fn wait(&self, longest: Duration) {
        self.ring.wait(longest);
    }

    /// The same for a thread that shares the stacks with another one.
    ///
    /// # Errors
    /// [`Error::Map`] if there are too many open files.
    pub fn waiter(&self) -> Result<RingWaiter, Error> {
        self.ring.waiter()
    }

    /// Replaces `records` by those that have come; at most [`Stacks::BATCH`] at once.
    ///
    /// # Errors
    /// [`Error::Map`] if the ring cannot be read.
    pub fn read(&self, records: &mut Vec<StackRecord>) -> Result<(), Error> {
        self.ring.read(records)
    }

    /// Records that one call of [`Stacks::read`] returns at most.
    pub const BATCH: usize = BATCH;
}

/// One record; `None`: it is not as this crate was built to read it, which the size of the ring's records rules out.
fn parse(bytes: &[u8]) -> Option<StackRecord> {
    let head = offset_of!(types::stack_record, user);
    if bytes.len() < head {
        let raw = Raw::new(bytes, "weight", size_of::<types::stack_weight>()).ok()?;
        return Some(StackRecord::Weight(StackWeight {
            id: raw.u64(offset_of!(types::stack_weight, id)),
            kind: kind(raw.u32(offset_of!(types::stack_weight, kind)))?,
            unit: unit(raw.u32(offset_of!(types::stack_weight, unit)))?,
            weight: raw
                .u64(offset_of!(types::stack_weight, weight))
                .cast_signed(),
        }));
    }
    let raw = Raw::new(bytes, "stack", head).ok()?;
    let user_bytes = raw.u32(offset_of!(types::stack_record, user_bytes)) as usize;
    let frames = raw.u32(offset_of!(types::stack_record, kernel_frames)) as usize;
    let kernel = raw.tail(offset_of!(types::stack_record, kernel));
    let chain = offset_of!(types::stack_record, chain);
    let kernel = kernel.get(..chain - offset_of!(types::stack_record, kernel))?;
    Some(StackRecord::Sample(Box::new(StackSample {
        id: raw.u64(offset_of!(types::stack_weight, id)),
        kind: kind(raw.u32(offset_of!(types::stack_weight, kind)))?,
        origin: origin(raw.u32(offset_of!(types::stack_record, origin)))?,
        space: AddressSpace {
            memory: raw.u64(offset_of!(types::stack_record, memory)),
            start: raw.u64(offset_of!(types::stack_record, start)),
        },
        executable_pages: raw.u64(offset_of!(types::stack_record, executable_pages)),
        pid: raw.u32(offset_of!(types::stack_record, tgid)),
        command: raw.text(offset_of!(types::stack_record, comm)),
        ip: raw.u64(offset_of!(types::stack_record, ip)),
        sp: raw.u64(offset_of!(types::stack_record, sp)),
        bp: raw.u64(offset_of!(types::stack_record, bp)),
        behind: raw
            .tail(offset_of!(types::stack_record, chain))
            .chunks_exact(size_of::<types::stack_frame>())
            .take(raw.u32(offset_of!(types::stack_record, frames)) as usize)
            .filter_map(|frame| Raw::new(frame, "frame", size_of::<types::stack_frame>()).ok())
            .flat_map(|frame| {
                let at = frame.u64(offset_of!(types::stack_frame, address));
                let next = frame.u64(offset_of!(types::stack_frame, next));
                let caller = frame.u64(offset_of!(types::stack_frame, caller));
                [(at, next), (at.wrapping_add(8), caller)]
            })
            .collect(),
        user: raw.tail(head).get(..user_bytes)?.to_vec(),
        kernel: kernel
            .chunks_exact(size_of::<u64>())
            .take(frames)
            .map(|word| Raw::new(word, "address", size_of::<u64>()).map(|raw| raw.u64(0)))
            .collect::<Result<_, _>>()
            .ok()?,
    })))
}

fn kind(number: u32) -> Option<StackKind> {
    StackKind::ALL.get(number as usize).copied()
}

const UNITS: [StackUnit; 3] = [StackUnit::Pages, StackUnit::Bytes, StackUnit::Nanoseconds];

fn unit(number: u32) -> Option<StackUnit> {
    UNITS.get(number as usize).copied()
}

fn origin(number: u32) -> Option<Origin> {
    let origins = [
        Origin::User,
        Origin::KernelThread,
        Origin::Worker,
        Origin::Program32Bit,
    ];
    origins.get(number as usize).copied()
}

/// The pages of a task that evicts, not sent so far.
pub(crate) fn evicted(value: &[u8]) -> Result<StackWeight, Error> {
    let raw = Raw::new(value, "task that evicts", size_of::<types::evictor>())?;
    Ok(StackWeight {
        id: raw.u64(offset_of!(types::evictor, stack)),
        kind: StackKind::Eviction,
        unit: StackUnit::Pages,
        weight: raw.u64(offset_of!(types::evictor, pages)).cast_signed(),
    })
}

/// Weights by kind and unit, in the order of the probe's numbers.
pub(crate) fn weights(table: &[[i64; 3]; 6]) -> Vec<StackWeight> {
    let rows = StackKind::ALL.into_iter().zip(table);
    rows.flat_map(|(kind, of_kind)| {
        let units = UNITS.into_iter().zip(of_kind);
        units.map(move |(unit, weight)| StackWeight {
            id: 0,
            kind,
            unit,
            weight: *weight,
        })
    })
    .filter(|weight| weight.weight != 0)
    .collect()
}

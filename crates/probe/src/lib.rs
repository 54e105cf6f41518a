//! Exact page-cache accounting of programs, in the kernel by eBPF.
//!
//! A [`Probe`] counts from the moment that it is attached until it is dropped: the pages that reads, faults on mapped
//! files and writes requested, the pages that had to be inserted for them, readahead and its hits, and direct I/O, which
//! bypasses the page cache. [`cachewise_model::Counter`] defines the numbers; `hits + misses = requested pages` holds
//! for every row.
//!
//! The probe is not a tracer: it sums up events in the kernel and sends none of them, unless [`Options::accesses`] asks
//! for a sample of accesses, or [`Options::stacks`] for the stacks of tasks that wait. It changes nothing that it
//! watches, and leaves nothing behind: the kernel removes its programs with the process.
//!
//! ```no_run
//! use cachewise_probe::{Counter, Detail, Options, Probe, Scope};
//!
//! let mut probe = Probe::attach(&Options::new(Scope::Children, Detail::Rows))?;
//! std::process::Command::new("true").status()?;
//! let snapshot = probe.snapshot()?;
//! println!("{} pages requested", snapshot.total[Counter::ReadRequestedPages]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Census`] lists every inode of the machine that has pages in the page cache at present.
//!
//! # Kernel
//! 6.1 and later, with BTF; CAP_BPF and CAP_PERFMON. The probe uses raw tracepoints, and fentry or kprobes on the
//! functions behind tracepoints that a kernel lacks ([`BackEnd`]). Programs that a kernel lacks or refuses altogether are
//! omitted, and their counters are marked as missing.
//!
//! # Layout
//! - [`options`]: scope and detail of counting
//! - `object`: loading the programs, with fall-backs if some are refused
//! - [`BackEnd`]: the ways to count, with what each counts
//! - `groups`: groups of programs, with their back-ends and the counters that are missing without them; `offer`: the
//!   back-ends that this kernel may have
//! - `kernel_types`: the types of the kernel that the programs need
//! - `skeleton`: the programs as built; `loading`: parts of loading that all objects share
//! - `probe`: the attached probe and its snapshots
//! - `intervals`: state between snapshots that each cover an interval of their own
//! - `record`: structures of the kernel as bytes
//! - `table`: reading whole maps; `ring`: reading a ring buffer in batches
//! - [`accesses`]: accesses one by one, from another ring buffer
//! - [`stacks`]: stacks of tasks that wait or evict, from a third ring buffer
//! - `names`: records of files from the ring buffer
//! - [`snapshot`]: the counts of a probe
//! - [`census`]: every inode of the machine that has pages in the cache
//! - [`shield`]: pages that programs insert, use and leave behind
//! - [`bare`]: programs that do nothing, to measure the cost of the hooks
//! - `trial`: tests of what programs may hook into on this kernel
//! - `src/bpf/`: the programs themselves (GPL-2.0)

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod accesses;
mod back_end;
pub mod bare;
mod carried;
mod cast;
pub mod census;
mod error;
mod groups;
mod intervals;
mod kernel_types;
mod loading;
mod mounted;
mod names;
mod object;
mod offer;
pub mod options;
mod probe;
mod record;
mod ring;
pub mod shield;
mod skeleton;
pub mod snapshot;
pub mod stacks;
mod table;
mod trial;

pub use cachewise_kstat::{Device, Error as KernelError, Kernel, Mounts};
pub use cachewise_model::{Counter, EvictionCause, Ledger, StackKind};
pub use cachewise_units::{Bytes, Pages};

pub use accesses::{Access, AccessKind, AccessReader, Accesses};
pub use back_end::BackEnd;
pub use census::Census;
pub use error::{BpfError, Error, ErrorKind};
pub use options::{Detail, Options, Scope};
pub use probe::{Part, Probe};
pub use ring::RingWaiter;
pub use snapshot::{
    Change, Culprit, Eviction, FileId, FileInfo, FileKind, Lost, ProcessId, ProcessInfo, Row,
    Snapshot,
};
pub use stacks::{
    AddressSpace, Origin, StackRecord, StackRest, StackSample, StackUnit, StackWeight, Stacks,
};
pub use trial::Way;

//! Exact accounts of what programs ask of the page cache, made in the kernel by eBPF.
//!
//! A [`Probe`] counts from the moment that it is attached until it is dropped: which pages were asked
//! for by reads, mapped-file faults and writes, which of them had to be brought in, what read-ahead
//! brought and whether it was used, and what went around the cache. The definitions of the numbers are
//! those of [`cachewise_model::Counter`]; `hits + misses = pages asked for` holds for every row.
//!
//! It is not a tracer: events are added up in the kernel, and nothing is sent for each of them. It
//! changes nothing that it watches, and it leaves nothing behind: its programs go with the process.
//!
//! ```no_run
//! use cachewise_probe::{Counter, Detail, Options, Probe, Scope};
//!
//! let mut probe = Probe::attach(&Options::new(Scope::Children, Detail::Rows))?;
//! std::process::Command::new("true").status()?;
//! let snapshot = probe.snapshot()?;
//! println!("{} pages asked for", snapshot.total[Counter::ReadRequestedPages]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Census`] does not count, it looks: every inode of the machine that has pages in the page cache, now.
//!
//! # Kernel
//! 6.1 and later, with BTF: raw tracepoints, and where a kernel lacks one, the functions that it would be in,
//! by fentry or kprobes ([`BackEnd`]). What a kernel lacks or refuses altogether is left out, and what it
//! would have counted is marked as missing. CAP_BPF and CAP_PERFMON are needed.
//!
//! # Layout
//! - [`options`]: what to watch, and how finely
//! - `object`: loading the programs, with fall-back where some are refused
//! - [`BackEnd`]: the ways to count, and what each can tell
//! - `groups`: those that a kernel may do without, the ways to have them, and what is missing then; `offer`: which
//!   of these ways this kernel may have
//! - `kernel_types`: the kernel's types that the programs need
//! - `skeleton`: the programs as the build made them; `loading`: parts of loading that all objects share
//! - `probe`: the attached probe and its snapshots
//! - `stretches`: what is kept from one snapshot to the next where each has its own stretch of time
//! - `record`: the kernel's structures as bytes
//! - `table`: whole tables of the kernel's
//! - `names`: the files' records from the ring buffer
//! - [`snapshot`]: what a probe has counted
//! - [`census`]: every inode of the machine that has pages in the cache
//! - [`bare`]: programs that do nothing, to measure the price of the hooks
//! - `trial`: what this kernel lets a program hook into
//! - `src/bpf/`: the programs themselves (GPL-2.0)

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod back_end;
pub mod bare;
pub mod census;
mod error;
mod groups;
mod kernel_types;
mod loading;
mod mounted;
mod names;
mod object;
mod offer;
pub mod options;
mod probe;
mod record;
mod skeleton;
pub mod snapshot;
mod stretches;
mod table;
mod trial;

pub use cachewise_kstat::{Device, Error as KernelError, Kernel, Mounts};
pub use cachewise_model::{Counter, Ledger};
pub use cachewise_units::{Bytes, Pages};

pub use back_end::BackEnd;
pub use census::Census;
pub use error::{BpfError, Error, ErrorKind};
pub use options::{Detail, Options, Scope};
pub use probe::{Part, Probe};
pub use snapshot::{FileId, FileInfo, FileKind, Lost, ProcessId, ProcessInfo, Row, Snapshot};
pub use trial::Way;

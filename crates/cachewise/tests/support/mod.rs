//! Support for tests of the real binary.
//!
//! No test waits for a fixed time: each polls until its condition holds, and a limit that is never reached in practice
//! turns a hang into a failure. Whatever a test makes is owned by a guard that removes it, also after a panic.
//!
//! # Layout
//! - `suite`: tests with and without root
//! - `command`: running the binary to its end, or in the background
//! - `terminal`: the binary on a pseudo-terminal, and its screen
//! - `siblings`: the program of this package, and those beside it
//! - `disk`: files of known content and residency, loop devices, scratch directories, a full pipe
//! - `group`: control groups
//! - `mounted`: a file system of its own; `bindfs`: a directory on FUSE
//! - `report`: the JSON of a run
//! - `program`: measured programs for which the system has no equivalent
//! - `sysctl`: settings of the kernel, restored at the end
//! - `bpf`: BPF objects of a process

// Every test file is a crate of its own and uses some of this.
#![allow(dead_code, unused_imports, unused_macros)]

mod bindfs;
mod bpf;
mod command;
mod disk;
mod group;
mod mounted;
mod program;
mod report;
mod siblings;
mod suite;
mod sysctl;
mod terminal;

pub use bindfs::Bindfs;
pub use bpf::{Held, held_by};
pub use command::{
    Ended, Started, as_nobody, cachewise, cachewise_as_nobody, copy_for_everyone, copy_program,
    has_terminals, on_terminal, signal, until,
};
pub use disk::{
    FullPipe, LoopDevice, Scratch, evict, page_size, pages_of, pin, resident, undisturbed, warm,
};
pub use group::Group;
pub use mounted::{Mounted, Slow};
pub use program::{Busy, Reader, program};
pub use report::{Report, means, number, report_of};
pub use siblings::{PROGRAM, programs, sibling};
pub(crate) use suite::trials;
pub use suite::{Trial, needs_root, part, plain, run};
pub use sysctl::{DirtyLimits, Sysctl};
pub use terminal::OnTerminal;

//! What the tests of the real binary share.
//!
//! Nothing here waits for a time to pass: what has to be waited for is looked at until it is there,
//! and a limit that is never reached where things work turns a hang into a failure. Whatever is made
//! is owned by a guard that takes it away again, also when a test panics.
//!
//! # Layout
//! - `suite`: trials that need root, and those that do not
//! - `command`: running the binary to its end, or having it run meanwhile
//! - `terminal`: the binary on a pseudo-terminal, and what is on its screen
//! - `siblings`: the program of this package, and those beside it
//! - `disk`: files of known content and residency, loop devices, scratch directories, a full pipe
//! - `group`: control groups
//! - `report`: the JSON of a run
//! - `program`: the programs that are measured, where the system has none that would do
//! - `sysctl`: settings of the kernel, restored at the end
//! - `bpf`: what the kernel still holds of ours

// Every test file is a crate of its own and uses some of this.
#![allow(dead_code, unused_imports, unused_macros)]

mod bpf;
mod command;
mod disk;
mod group;
mod program;
mod report;
mod siblings;
mod suite;
mod sysctl;
mod terminal;

pub use bpf::{Held, held_by};
pub use command::{
    Ended, Started, as_nobody, cachewise, cachewise_as_nobody, copy_for_everyone, copy_program,
    has_terminals, on_terminal, signal, until,
};
pub use disk::{
    FullPipe, LoopDevice, Scratch, evict, page_size, pages_of, pin, resident, undisturbed, warm,
};
pub use group::Group;
pub use program::{Busy, Reader, program};
pub use report::{Report, number, report_of};
pub use siblings::{PROGRAM, programs, sibling};
pub(crate) use suite::trials;
pub use suite::{Trial, needs_root, part, plain, run};
pub use sysctl::Sysctl;
pub use terminal::OnTerminal;

//! Changes what a machine does with memory, and puts it back: settings, and control groups of one's own.
//!
//! It is *not* a place for measuring: `cachewise-kstat` reads, this crate is the only one that writes to
//! `/proc/sys`, `/sys` and control groups. What it changes it can undo, after a crash too.
//!
//! ```no_run
//! use std::process::Command;
//!
//! use cachewise_control::{Group, Limits};
//! use cachewise_kstat::Kernel;
//! use cachewise_units::Bytes;
//!
//! let group = Group::create(&Kernel::new(), "example")?;
//! let limits = Limits { max: Some(Bytes(64 << 20)), ..Limits::default() };
//! group.limit(&limits)?;
//! let mut command = Command::new("cat");
//! group.admit(command.arg("file"))?;
//! command.status()?;
//! println!("{:?} of memory charged", group.used()?);
//! group.remove()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Kernel
//! Control groups of version 2 with the memory controller, or of version 1; both are found by their mounts.
//!
//! # Layout
//! - `group`: [`Group`], [`Limits`]; `sweep`: [`sweep`] removes those that a crash left.
//! - `journal`: [`Journal`], what was there before, in a file; `recover`: [`recover`] puts back what a crash left.
//! - `setting`: [`Setting`], one line of [`SETTINGS`] (`table`); [`Kind`], its values.
//! - `guard`: [`Guard`], which keeps memory available; `means`: by what; `event`: what it did.
//! - `owner`: [`Owner`], the process that made something, told apart from a later one of the same id.
//! - `reclaim`: [`reclaim`], of a group's memory.
//! - `error`: [`Error`].

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod error;
mod file;
mod group;
mod guard;
mod journal;
mod owner;
mod reclaim;
mod recover;
mod setting;
mod sweep;
mod table;

pub use error::Error;
pub use group::{Group, Limits};
pub use guard::{Action, Event, Guard, Kept, Means, Options, Watched};
pub use journal::{Entry, Journal, Restored, state_directory};
pub use owner::{Life, Owner};
pub use reclaim::{Reclaimed, reclaim};
pub use recover::{Recovered, Running, Unsure, recover, running};
pub use setting::{Kind, Place, Setting, Target};
pub use sweep::{Swept, sweep};
pub use table::SETTINGS;

//! Changes settings and control groups, and restores them.
//!
//! This crate measures nothing: `cachewise-kstat` reads, and this crate is the only one that writes
//! to `/proc/sys`, `/sys` and control groups. It can undo its changes, after a crash too.
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
//! Control groups of version 2 with the memory controller, or of version 1; both are found by their
//! mounts.
//!
//! # Layout
//! - `group`: [`Group`], [`Limits`]; `sweep`: [`sweep`] removes the groups that a crash left.
//! - `state_file`: files that hold old values, and their locks. `journal`: [`Journal`] writes them;
//!   `recover`: [`recover`] restores the values after a crash.
//! - `setting`: [`Setting`], one line of [`SETTINGS`] (`table`); [`SettingKind`], its values.
//! - `guard`: [`Guard`], which keeps memory available, with its means of reclaim and its events.
//! - `owner`: [`Owner`], the process that made a group or file, distinguished from later ones with
//!   its pid.
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
mod state_file;
mod sweep;
mod table;

pub use error::Error;
pub use group::{Group, Limits};
pub use guard::{Guard, GuardAction, GuardEvent, GuardOptions, Kept, Means, Watched};
pub use journal::{Journal, Restored};
pub use owner::{Life, Owner};
pub use reclaim::{Reclaimed, reclaim};
pub use recover::{Recovered, Running, Unsure, recover, running};
pub use setting::{Setting, SettingKind, SettingLocation, SettingTarget};
pub use state_file::{JournalEntry, state_directory};
pub use sweep::{Swept, sweep};
pub use table::SETTINGS;

//! Thin, safe calls on the page cache of Linux: what is resident, and advice about it.
//!
//! It is *not* a library about files: it walks nothing, retries nothing, decides nothing and
//! prints nothing. `cachewise-residency` builds on it. It is the only crate of the workspace
//! with system calls that `rustix` does not offer, and so the only one with `unsafe` for them.
//!
//! ```
//! use cachewise_units::Bytes;
//!
//! # let file = tempfile::NamedTempFile::new()?;
//! # std::fs::write(file.path(), vec![1; 100_000])?;
//! # let path = file.path();
//! match cachewise_sys::resident(path) {
//!     Ok(found) => {
//!         let size = found.cached.bytes(cachewise_sys::page_size());
//!         assert!(size >= Bytes(100_000), "just written, so resident");
//!     }
//!     // Not allowed to know is not the same as nothing there.
//!     Err(error) => eprintln!("{error}"),
//! }
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Kernel
//! Everything but [`cachestat()`] works on any Linux since 2.6; `cachestat` needs 6.5.
//!
//! # Layout
//! - `page`: [`page_size`].
//! - `cachestat`: [`cachestat()`], [`cachestat_raw`], [`cachestat_exactly`], [`CacheStat`], [`resident`].
//! - `mincore`: [`mincore()`], [`mincore_tells`].
//! - `mapping`: [`Mapping`], which locks pages.
//! - `memory`: [`lock_memory`], for this process's own; `limits`: [`allow_open_files`].
//! - `region`: [`fadvise_dont_need_range`], [`fadvise_will_need_range`], [`write_back_range`],
//!   [`begin_write_back_range`]; `handle`: [`open_by_inode`].
//! - `device`: [`device_size`]; `extents`: [`is_all_on_device`], [`place_on_device`]; `uuid`: [`file_system_uuid`]; `access`: [`may_read`].
//! - `advise`: [`fadvise_dont_need`] and its sisters, [`sync_data`].
//! - `private`: [`PrivateDirectory`], [`check_private`]: files that no other user can read or replace.
//! - `open`: [`open_quietly`], [`open_quietly_at`], [`open_to_act`]; `file_kind`: [`FileKind`]; `fuse`: [`opening_drops_pages`],
//!   [`names_of_mounts_that_may_drop_pages`]; `overlay`: [`OverlayMount`];
//!   `close`: [`close_together`]; `duplicate`: [`duplicate()`].
//! - `input`: [`open_input`], [`read_input`], [`read_input_text`]: small files that a user names.
//! - `signal`: [`is_ignored`].
//! - `spawn`: [`exec_untouched, spawn_untouched`], [`join_before_exec`], [`die_with_spawner`].
//! - `trace`: [`Traced`]: a program that stops behind the calls that open and map files.
//! - `threads`: [`start_thread`], [`start_thread_in`], [`start_thread_apart`], [`check_threads`]: threads that may not be had.
//! - `counters`: [`try_counter`]: whether perf_event_open(2) lets this process count.
//! - `usage`: [`thread_usage`], [`process_usage`], [`children_usage`], [`thread_scheduled`].
//! - `error`: [`Error`], [`ErrorKind`].

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod access;
mod advise;
mod cachestat;
mod close;
mod counters;
mod device;
mod duplicate;
mod error;
mod extents;
mod file_kind;
mod fuse;
mod handle;
mod input;
mod limits;
mod mapping;
mod memory;
mod mincore;
mod open;
mod overlay;
mod page;
mod private;
mod region;
mod secure;
mod signal;
mod spawn;
mod threads;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod trace;
mod usage;
mod uuid;

pub use access::may_read;
pub use advise::{fadvise_dont_need, fadvise_normal, fadvise_random, fadvise_will_need, sync_data};
pub use cachestat::{CacheStat, cachestat, cachestat_exactly, cachestat_raw, resident};
pub use close::close_together;
pub use counters::{CounterKind, try_counter};
pub use device::device_size;
pub use duplicate::duplicate;
pub use error::{Error, ErrorKind};
pub use extents::{is_all_on_device, place_on_device};
pub use file_kind::FileKind;
pub use fuse::{names_of_mounts_that_may_drop_pages, opening_drops_pages};
pub use handle::open_by_inode;
pub use input::{open_input, read_input, read_input_text};
pub use limits::allow_open_files;
pub use mapping::Mapping;
pub use memory::{LaterMappings, limit_heaps, lock_memory};
pub use mincore::{mincore, mincore_tells};
pub use open::{open_quietly, open_quietly_at, open_to_act};
pub use overlay::OverlayMount;
pub use page::page_size;
pub use private::{Distrust, PrivateDirectory, check_private};
pub use region::{
    begin_write_back_range, fadvise_dont_need_range, fadvise_will_need_range, write_back_range,
};
pub use secure::{give_up_rights_over_files, has_rights_of_its_own};
pub use signal::is_ignored;
pub use spawn::{
    die_with_spawner, exec_untouched, fixed_addresses, join_before_exec, spawn_untouched,
};
pub use threads::{
    check_threads, start_thread, start_thread_apart, start_thread_in, until_released,
};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use trace::{Call, MapAdvice, MappedFile, OpenedFile, StoppedTask, TraceEnd, Traced};
pub use usage::{Scheduled, Usage, children_usage, process_usage, thread_scheduled, thread_usage};
pub use uuid::file_system_uuid;

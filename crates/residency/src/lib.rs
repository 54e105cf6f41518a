//! Page-cache residency of files on Linux: number of resident pages, their positions, and the
//! reason where residency is unknown.
//!
//! The crate examines files by path or descriptor (`cachewise-probe` covers the whole machine), and
//! prints nothing. It needs no root: the kernel shows the residency of a file to its owner and to
//! users who may write to it.
//!
//! Unknown residency is never 0 and never 100 %: every query returns numbers or an [`Unknown`] with the
//! reason and the next step.
//!
//! ```
//! use cachewise_residency::{ByteRange, Pages, map, query};
//!
//! # let page = cachewise_sys::page_size();
//! # let file = tempfile::NamedTempFile::new()?;
//! # std::fs::write(file.path(), vec![1; 3 * page.get() as usize])?;
//! # let path = file.path();
//! let file = cachewise_residency::open(path)?;
//! let whole = ByteRange::starting_at(0);
//! match query(&file, whole) {
//!     Ok(counts) => assert_eq!((counts.cached, counts.total), (Pages(3), Pages(3)), "just written"),
//!     Err(error) => eprintln!("{error}"),
//! }
//! for range in map(&file, whole)?.ranges {
//!     println!("pages {} to {} are resident", range.start, range.end - 1);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Kernel
//! `cachestat(2)` of Linux 6.5; before that, and if a seccomp profile refuses it, `mincore(2)`,
//! which reports residency only. [`query()`] lists the cases.
//!
//! # Layout
//! - `query`: [`query()`], [`open`] and [`open_to_act`]: how many pages of a file; `counts`: [`Counts`], [`States`].
//! - `named`: [`NamedFiles`]: files of a list, those of one directory from there; [`query_inode`].
//! - `map`: [`map()`]: which pages, [`ResidentMap`]; `ranges`: [`merged`].
//! - [`order`]: reading files in the order that costs the least I/O.
//! - `inode`: [`Inode`]: identity and size of a file.
//! - `walk`: [`Walk`]: trees of files, by several threads; [`WalkItem`], [`WalkedFile`], [`Summary`], [`Patterns`].
//! - `top`: [`Top`], the largest of many; `tree`: [`Tree`], sums of directories.
//! - `warm`: [`warm()`], [`Warmed`]; `limiter`: [`Limiter`]; `watch`: [`Watch`], progress and cancellation of work.
//! - `evict`: [`evict()`], [`Evicted`], [`Stayed`]; `holders`: [`holders()`], processes that map a file.
//! - `baseline`: [`Baseline`]: drops pages that were inserted since.
//! - `lock`: [`lock()`], [`Lock`]; `memlock`: the memory that may be locked; `memlock_limit`: [`MemlockLimit`].
//! - [`snapshot`]: residency, saved to a file, restored and compared.
//! - `ranges`: sets of pages.
//! - `unknown`: [`Unknown`]: reasons for unknown residency; `error`: [`Error`].
//! - `file_system`: reliability of answers by file system; `sysfs`: properties of a device.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod baseline;
mod counts;
mod error;
mod evict;
mod file_system;
mod holders;
mod inode;
mod limiter;
mod lock;
mod map;
mod memlock;
mod memlock_limit;
mod named;
pub mod order;
mod query;
mod ranges;
pub mod snapshot;
mod sysfs;
mod top;
mod tree;
mod unknown;
mod walk;
mod warm;
mod watch;

pub use cachewise_sys::{Error as SystemError, ErrorKind, FileKind};
pub use cachewise_units::{ByteRange, Bytes, PageRange, PageSize, Pages, Ratio};

pub use baseline::{Baseline, DroppedPages};
pub use counts::{Counts, Source, States};
pub use error::Error;
pub use evict::{EvictOptions, Evicted, Stayed, WouldEvict, evict, would_evict};
pub use holders::{Holder, Holders, holders};
pub use inode::Inode;
pub use limiter::Limiter;
pub use lock::{Lock, LockOptions, Pick, lock, may_lock};
pub use map::{ResidentMap, map};
pub use memlock_limit::MemlockLimit;
pub use named::{Looked, NamedFiles, query_inode};
pub use query::{open, open_to_act, query};
pub use ranges::merged;
pub use top::Top;
pub use tree::{Directory, Sum, Tree};
pub use unknown::Unknown;
pub use walk::{Patterns, Summary, Walk, WalkItem, WalkedFile};
pub use warm::{WarmOptions, WarmShortfall, Warmed, WouldWarm, warm, would_warm};
pub use watch::{Progress, Watch};

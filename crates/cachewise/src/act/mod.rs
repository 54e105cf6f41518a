//! `warm`, `evict`, `lock`, `snapshot`: acting on the page cache, and what really changed by it.
//!
//! # Layout
//! - `pool`: files of paths and trees, worked on by several threads
//! - `warm`, `evict`, `lock`, `follow`, `snapshot`: the commands
//! - this file: what they share

mod evict;
mod follow;
mod lock;
mod pool;
mod snapshot;
mod warm;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use anyhow::{Context, Result};
use cachewise_model::Field;

use crate::cli::{SortKey, Target};
use crate::files::{Order, Plan};
use crate::signals::{self, Caught};

pub use evict::evict;
pub use lock::lock;
pub use snapshot::snapshot;
pub use warm::warm;

/// The exit status of what was ended by Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;

/// How the work of the given kind is shown.
fn plan(columns: Vec<&'static Field>, target: &Target, paths: &[PathBuf]) -> Plan {
    Plan {
        columns,
        columns_are_chosen: target.columns.is_some(),
        all_are_named: !paths.iter().any(|path| path.is_dir()),
        // The order is by change, which only the listing knows.
        order: Order {
            key: SortKey::Resident,
            reverse: false,
        },
        order_is_chosen: false,
        top: target.top,
        only_cached: false,
        maps: false,
        strips: false,
        repeated: false,
    }
}

/// A flag that Ctrl-C raises: work ends soon after, with what was done until then.
fn cancelled_by_signals() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let (sender, signals) = channel::<Caught>();
    signals::catch_ending(sender)?;
    let raised = Arc::clone(&flag);
    std::thread::Builder::new()
        .name("cancel".into())
        .spawn(move || {
            if signals.recv().is_ok() {
                raised.store(true, Ordering::Relaxed);
            }
            // A second signal finds the channel closed, and ends the process.
        })
        .context("cannot start the thread that waits for Ctrl-C")?;
    Ok(flag)
}

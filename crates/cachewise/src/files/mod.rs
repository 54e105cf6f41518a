//! `files`: what of files, directories, processes or the whole machine is in the page cache.
//!
//! # Layout
//! - `walk`, `process`, `census`: where files come from; each hands them to a `Show`
//! - `found`: one file; `order`: which are shown; `tree`, `ncdu`: sums of directories
//! - this file: what is asked, and how it is shown

mod census;
mod found;
mod ncdu;
mod order;
mod process;
mod show;
mod tree;
mod walk;

use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};

use anyhow::{Result, bail};
use cachewise_kstat::Kernel;

use crate::cli::{Files, SortKey};
use crate::output::FAILED;
use crate::signals::{self, Caught};

pub use found::Found;
pub use order::Order;
pub use show::{Answer, Plan, Show};
pub use walk::{plan, reason};

/// The answer is no: less is resident than was asked for.
const TOO_LITTLE: u8 = 1;

/// Shows them once, or again and again.
pub fn files(arguments: &Files) -> Result<ExitCode> {
    let Some(interval) = arguments.watch else {
        return once(
            arguments,
            &mut Show::open(&arguments.output, shown(arguments))?,
        );
    };
    let (sender, interrupts) = channel::<Caught>();
    signals::catch_ending(sender)?;
    let mut show = Show::open(&arguments.output, shown(arguments))?;
    loop {
        let status = once(arguments, &mut show)?;
        match interrupts.recv_timeout(interval.get()) {
            Ok(_) => return Ok(status),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("the thread for signals ended"),
        }
    }
}

fn shown(arguments: &Files) -> Plan {
    let by = if arguments.evicted {
        SortKey::Evicted
    } else {
        SortKey::Resident
    };
    Plan {
        columns: arguments.fields(),
        columns_are_chosen: arguments.columns.is_some(),
        all_are_named: !arguments.all
            && !arguments.evicted
            && !arguments.paths.iter().any(|path| path.is_dir()),
        order: Order {
            key: arguments.sort.unwrap_or(by),
            reverse: arguments.reverse,
        },
        order_is_chosen: arguments.sort.is_some() || arguments.reverse || !arguments.pid.is_empty(),
        top: arguments.top,
        only_cached: arguments.only_cached,
        maps: arguments.map,
        strips: arguments.histogram,
        repeated: arguments.watch.is_some(),
    }
}

fn once(arguments: &Files, show: &mut Show) -> Result<ExitCode> {
    let answer = if arguments.all || arguments.evicted {
        census::show(arguments, &Kernel::new(), show)?
    } else if !arguments.pid.is_empty() {
        process::show(arguments, &Kernel::new(), show)?
    } else {
        walk::show(arguments, show)?
    };
    Ok(status(arguments, &answer))
}

fn status(arguments: &Files, answer: &Answer) -> ExitCode {
    if answer.failed > 0 || answer.unknown > 0 {
        return ExitCode::from(FAILED);
    }
    match (arguments.fail_below, answer.counts.ratio()) {
        // Of files without pages nothing is missing.
        (Some(least), Some(ratio)) if ratio.get() < least => ExitCode::from(TOO_LITTLE),
        _ => ExitCode::SUCCESS,
    }
}

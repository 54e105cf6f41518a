//! `guard`: keeps memory available by reclaiming from chosen control groups.
//!
//! # Layout
//! - `state`: state files; `event_writer`: events as text and for programs
//! - `wanted_groups`: the groups that memory is reclaimed from; `watchdog`: a child that restores settings after `kill -9`
//! - this file: the steps of the guard

pub mod arguments;
mod event_writer;
mod state;
mod wanted_groups;
mod watchdog;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cachewise_control::{Guard, GuardOptions, Journal, Kept, Means, Unsure};
use cachewise_kstat::Kernel;
use cachewise_units::Bytes;

use crate::interrupt::Interrupt;
use arguments::{By, Guard as Arguments, KeptOf};
use event_writer::EventWriter;
use wanted_groups::WantedGroups;
use watchdog::Watchdog;

pub use event_writer::COLUMNS;
pub use state::{directory, recovered, report_restored};

/// Interval at which groups that have come are looked for.
const LOOK: Duration = Duration::from_secs(1);

/// The default target: a fifth above the mark, or half of the memory above it if that is less.
fn usual_target(mark: Bytes, total: Bytes) -> Bytes {
    let above = total.saturating_sub(mark);
    Bytes(mark.0 + (mark.0 / 5).min(above.0 / 2))
}

/// Guards until interrupted or the duration is over.
pub fn guard(arguments: &Arguments) -> Result<ExitCode> {
    let kernel = Kernel::new();
    let mut lines = EventWriter::open(arguments)?;
    let total = kernel.meminfo()?.total;
    let mark = arguments.keep.of(total);
    let target = match arguments.target {
        Some(target) => target.of(total),
        None => usual_target(mark, total),
    };
    let groups = WantedGroups::new(arguments)?;
    let options = GuardOptions {
        kept: match arguments.of {
            KeptOf::Available => Kept::Available,
            KeptOf::Free => Kept::Free,
        },
        mark,
        target,
        step: arguments.step,
        leave: arguments.leave.of(total),
        most_stall: f64::from(arguments.most_stall) / 100.0,
        means: arguments.by.map(|by| match by {
            By::Reclaim => Means::Reclaim,
            By::High => Means::High,
            By::ForceEmpty => Means::ForceEmpty,
            By::SoftLimit => Means::SoftLimit,
        }),
        follows: groups.follows,
        stall: arguments.on_stall.map(|percent| f64::from(percent) / 100.0),
        dry_run: arguments.dry_run,
    };
    let now = groups.now(&kernel)?;
    let directory = directory(arguments.state.as_deref());
    if !arguments.dry_run {
        // Restored first: otherwise the limit of a killed run would count as an administrator's.
        recovered(&directory, Unsure::Leave)?;
    }
    // Signals are caught before the first change.
    let interrupt = Interrupt::catch()?;
    let journal = Journal::open(&directory, "guard")?;
    let mut guard =
        Guard::new(&kernel, now, options, journal).context("cannot guard this machine's memory")?;
    let _watchdog = match arguments.dry_run {
        true => None,
        false => Some(Watchdog::start(&directory)?),
    };
    lines.begin(&guard, &options)?;
    let began = Instant::now();
    loop {
        if groups.follows {
            for event in guard.follow(groups.now(&kernel)?)? {
                lines.write(&event)?;
            }
        }
        for event in guard.step(interrupt.flag())? {
            lines.write(&event)?;
        }
        let mut pause = guard.pause()?;
        if groups.follows {
            pause = pause.min(LOOK);
        }
        if let Some(duration) = arguments.duration {
            let left = duration.get().saturating_sub(began.elapsed());
            if left.is_zero() {
                break;
            }
            pause = pause.min(left);
        }
        if interrupt.wait_for(pause.max(Duration::from_millis(1)))? {
            break;
        }
    }
    for event in guard.end()? {
        lines.write(&event)?;
    }
    lines.end()?;
    Ok(interrupt.status().unwrap_or(ExitCode::SUCCESS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_target_is_at_most_total_memory() {
        for (mark, total, target) in [(1000, 8000, 1200), (7600, 8000, 7800), (8000, 8000, 8000)] {
            assert_eq!(
                usual_target(Bytes(mark), Bytes(total)),
                Bytes(target),
                "{mark} of {total}"
            );
        }
        assert_eq!(
            usual_target(Bytes(9000), Bytes(8000)),
            Bytes(9000),
            "a mark of all memory is refused"
        );
    }
}

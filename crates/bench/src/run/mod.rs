//! [`run()`]: one measurement, from the preparation of the file to the sums.

mod event;
mod measurement;
mod setup;
mod thread;

use std::sync::atomic::{AtomicBool, Ordering};

use cachewise_control::Group;
use cachewise_units::Bytes;

use crate::bloat::Bloater;
use crate::counters::Counters;
use crate::prepare::{fill, resident};
use crate::target::Target;
use crate::{Engine, Error, Fill, Summary, Workload};

pub use event::{Event, Preparation};
use measurement::{CHECK_INTERVAL, Measurement, hit_source};

/// Runs the workload, reports events, and sums up. When `cancel` becomes true it ends early with
/// the results so far. Run only one at a time: the counters are those of the process.
///
/// # Errors
/// A setting is invalid; the file cannot be made, read, or prepared; the control group cannot be
/// made. Files and groups made for it are removed.
pub fn run(
    workload: &Workload,
    watch: &mut dyn FnMut(&Event<'_>),
    cancel: &AtomicBool,
) -> Result<Summary, Error> {
    workload.check()?;
    let made = setup::made(workload, watch, cancel)?;
    let writers = [
        ("engine", workload.engine == Engine::Write),
        ("fill", workload.fill == Fill::Write),
    ];
    for (what, writes) in writers {
        if writes && made.is_none() && !workload.overwrite {
            return Err(Error::Invalid {
                what,
                why: format!(
                    "write would overwrite {}, which is there already: use a size and a new name, or set \
                     --overwrite",
                    cachewise_units::escaped(&workload.file)
                ),
            });
        }
    }
    if workload.engine == Engine::Write || workload.fill == Fill::Write {
        Target::is_free(&workload.file)?;
    }
    let target = Target::open(workload)?;
    setup::buffers_fit(workload)?;
    // Made before any charge, and dropped last, after all charges.
    let group = setup::group(workload)?;
    let summary = prepared(workload, &target, group.as_ref(), watch, cancel);
    drop(target);
    drop(made);
    match (summary, group.map(Group::remove)) {
        (Ok(mut summary), Some(Err(error))) => {
            summary
                .warnings
                .push(format!("the control group stayed: {error}"));
            Ok(summary)
        }
        (summary, _) => summary,
    }
}

/// All steps after the file exists.
fn prepared(
    workload: &Workload,
    target: &Target,
    group: Option<&Group>,
    watch: &mut dyn FnMut(&Event<'_>),
    cancel: &AtomicBool,
) -> Result<Summary, Error> {
    let mut filled = Bytes::ZERO;
    let total = target.size;
    let mut tell = |more| {
        filled += more;
        watch(&Event::Preparing {
            what: Preparation::Filling,
            done: filled,
            total,
        });
    };
    fill(workload, target.size, &mut tell, cancel)?;
    let counters = Counters::of_this_process(group)?;
    let before = resident(&target.file);
    let mut warnings: Vec<String> = counters.charged_elsewhere(before)?.into_iter().collect();
    warnings.extend(setup::no_swap(workload)?);
    let mut bloater = match workload.bloat {
        Some(settings) => Some(Bloater::start(settings)?),
        None => None,
    };
    if let Some(bloater) = &mut bloater {
        bloater.ask(0);
        while bloater.is_growing_first() {
            if cancel.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            watch(&Event::Preparing {
                what: Preparation::Growing,
                done: Bytes(bloater.has()),
                total: workload.bloat.map_or(Bytes::ZERO, |bloat| bloat.size),
            });
            std::thread::sleep(CHECK_INTERVAL);
        }
    }
    let course = Measurement {
        workload,
        hit_source: hit_source(workload, target),
        counters: &counters,
        watch,
        cancel,
        bloater: &mut bloater,
    };
    let (figures, interrupted) = course.measured(target)?;
    let bloat = bloater.map(Bloater::end);
    if let Some((signal, after)) = bloat.as_ref().and_then(|bloat| bloat.killed) {
        let bytes = Bytes(bloat.as_ref().map_or(0, |bloat| bloat.bytes));
        let why = match signal {
            libc::SIGKILL => " (out of memory, if oom_kills counts it)",
            _ => "",
        };
        warnings.push(format!(
            "the bloating process was killed by signal {signal}{why} {after:.1} s after the start, when it had {bytes}; \
             the measurement went on without it"
        ));
    }
    Ok(Summary {
        workload: workload.clone(),
        figures,
        file_size_bytes: target.size.0,
        resident_before_pages: before.map(|pages| pages.0),
        resident_after_pages: resident(&target.file).map(|pages| pages.0),
        cgroup: counters.group.as_ref().map(|(_, path)| path.clone()),
        interrupted,
        bloat,
        warnings,
    })
}

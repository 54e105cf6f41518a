//! Before a measurement: memory for buffers, the file, the control group, swap.

use std::sync::atomic::AtomicBool;

use cachewise_control::{Group, Limits};
use cachewise_kstat::Kernel;
use cachewise_units::Bytes;

use super::event::{Event, Preparation};
use crate::prepare::make;
use crate::{Error, Made, Workload};

/// Refuses buffers larger than available memory: all of them are touched.
pub(super) fn buffers_fit(workload: &Workload) -> Result<(), Error> {
    let buffers = workload.buffers();
    match Kernel::new().meminfo()?.available {
        Some(available) if buffers.0 > available.0 / 2 => Err(Error::Invalid {
            what: "chunk",
            why: format!(
                "{} buffers of {} take {buffers}, but only {available} of memory are available: use fewer threads and \
                 requests, or smaller chunks",
                workload.threads as u64 * u64::from(workload.depth),
                workload.chunk
            ),
        }),
        _ => Ok(()),
    }
}

/// Makes a missing file if there is a size.
pub(super) fn made(
    workload: &Workload,
    watch: &mut dyn FnMut(&Event<'_>),
    cancel: &AtomicBool,
) -> Result<Option<Made>, Error> {
    let path = &workload.file;
    let Some(size) = workload.size else {
        return Ok(None);
    };
    if size < workload.chunk {
        return Err(Error::TooSmall {
            path: path.clone(),
            size,
            chunk: workload.chunk,
        });
    }
    if let Ok(found) = std::fs::metadata(path) {
        // A file of another size must not be measured silently.
        if found.is_file() && found.len() != size.0 {
            return Err(Error::Invalid {
                what: "size",
                why: format!(
                    "{} is there already, with {}: remove it, or leave out the size",
                    cachewise_units::escaped(path),
                    Bytes(found.len())
                ),
            });
        }
        return Ok(None);
    }
    let mut tell = |done| {
        watch(&Event::Preparing {
            what: Preparation::Making,
            done,
            total: size,
        });
    };
    make(path, size, workload.compress_pct, &mut tell, cancel).map(Some)
}

/// Makes a group with limits, and moves this process into it.
pub(super) fn group(workload: &Workload) -> Result<Option<Group>, Error> {
    let Some(max) = workload.memory_max else {
        return Ok(None);
    };
    let kernel = Kernel::new();
    // Groups of killed runs; those that cannot be removed now do no harm.
    let _ = cachewise_control::sweep(&kernel, &[]);
    let group = Group::create(&kernel, "bench")?;
    group.limit(&Limits {
        max: Some(max),
        swap_max: workload.swap_max,
        high: workload.memory_high,
        swappiness: workload.swappiness,
    })?;
    group.take_in(std::process::id())?;
    Ok(Some(group))
}

/// Warns if the workload needs swap and there is none free.
pub(super) fn no_swap(workload: &Workload) -> Result<Option<String>, Error> {
    if workload.swap_max.is_none_or(Bytes::is_zero) {
        return Ok(None);
    }
    let memory = Kernel::new().meminfo()?;
    Ok(
        match (memory.swap_total.is_zero(), memory.swap_free.is_zero()) {
            (true, _) => Some(
                "this machine has no swap, so none is used, whatever its limit (swapon)".to_owned(),
            ),
            (false, true) => Some(format!(
                "swap is full, all {}: no more memory can be swapped, whatever its limit",
                memory.swap_total
            )),
            (false, false) => None,
        },
    )
}

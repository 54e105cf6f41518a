//! The machine around a run, at its end: memory, what is dirty, and the limit that holds for the run.

use cachewise_kstat::{Error, ErrorKind, Kernel, MemoryLimit};
use cachewise_model::{Interval, Measured, Missing, Reason, Surroundings};

use cachewise_cli::child::Course;

const NO_LIMIT: Missing = Missing::NotOffered(Reason::NoMemoryLimit);
const NO_HIERARCHY: Missing = Missing::NotOffered(Reason::NoMemoryController);
const GONE: Missing = Missing::Unknown(Reason::GroupNotSeen);
const UNREADABLE: Missing = Missing::Unknown(Reason::LimitNotRead);

/// Looks at the machine; the report has its rows already.
pub fn of(interval: &Interval, course: &Course, kernel: &Kernel) -> Surroundings {
    let mut surroundings = Surroundings::default();
    if let Ok(memory) = kernel.meminfo() {
        surroundings.memory_total_bytes = Measured::Exact(memory.total.0);
        if let Some(available) = memory.available {
            surroundings.memory_available_bytes = Measured::Exact(available.0);
        }
        surroundings.dirty_bytes = Measured::Exact(course.peak_dirty.max(memory.unwritten()).0);
    }
    if let Ok(vmstat) = kernel.vmstat() {
        if let Some(pages) = vmstat.dirty_threshold {
            surroundings.dirty_limit_bytes = Measured::Exact(pages.bytes(interval.page()).0);
        }
        if let Some(pages) = vmstat.dirty_background_threshold {
            surroundings.dirty_background_bytes = Measured::Exact(pages.bytes(interval.page()).0);
        }
    }
    match limit(interval, kernel) {
        Ok(limit) => {
            surroundings.cgroup_limit_bytes = Measured::Exact(limit.bytes.0);
            surroundings.cgroup_limit_path = Measured::Exact(limit.path);
            surroundings.cgroup_limit_reached = limit
                .reached
                .map_or(Measured::not_offered(Reason::NotCounted), Measured::Exact);
        }
        Err(missing) => {
            surroundings.cgroup_limit_bytes = Measured::Missing(missing);
            surroundings.cgroup_limit_path = Measured::Missing(missing);
            surroundings.cgroup_limit_reached = Measured::Missing(missing);
        }
    }
    surroundings
}

/// The memory limit of the most active group of the rows: a command may have moved into its own group before its work.
/// Else that of the followed process, or ours, which a command inherits.
fn limit(interval: &Interval, kernel: &Kernel) -> Result<MemoryLimit, Missing> {
    let group = match interval
        .cgroups
        .first()
        .map(|heaviest| heaviest.path.as_ref())
    {
        Some(Measured::Missing(missing)) => return Err(missing),
        Some(Measured::Exact(name) | Measured::Estimated(name, _)) => {
            kernel.resolve_cgroup(name).map_err(why)?
        }
        None => {
            let pid = interval.run().followed.unwrap_or_else(std::process::id);
            kernel.cgroup_of(pid).map_err(why)?.ok_or(NO_HIERARCHY)?
        }
    };
    kernel.memory_limit(&group).map_err(why)?.ok_or(NO_LIMIT)
}

fn why(error: Error) -> Missing {
    match error.kind() {
        ErrorKind::NotFound => GONE,
        ErrorKind::Unsupported => NO_HIERARCHY,
        _ => UNREADABLE,
    }
}

//! What both commands ask of the machine around them.

use anyhow::{Context, Result};
use cachewise_kstat::{Hierarchy, Kernel};
use cachewise_kstat::{Pressure, Resource};
use cachewise_model::{Measured, System};
use cachewise_probe::{Error, ErrorKind};
use cachewise_units::Ratio;

/// What to say where no exact numbers can be had, and how to get them.
pub fn why_estimates(error: &Error) -> String {
    let way_out = match error.kind() {
        ErrorKind::Denied => "run it as root, or with CAP_BPF and CAP_PERFMON",
        ErrorKind::Unsupported => "it needs a kernel with BTF tracepoints of 6.12 or later",
        _ => "set CACHEWISE_BPF_LOG=1 to see what the kernel said",
    };
    format!("these are estimates from procfs, because {error}; for exact numbers {way_out}")
}

/// Whether control groups are named by the version 1 memory hierarchy.
pub fn uses_cgroup_v1(kernel: &Kernel) -> bool {
    matches!(kernel.cgroup_hierarchy(), Ok(Hierarchy::V1Memory { .. }))
}

/// Now, in UTC, to the millisecond.
pub fn timestamp() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

/// The state of the machine, as far as it can be read.
pub fn system(kernel: &Kernel) -> Result<System> {
    let memory = kernel
        .meminfo()
        .context("cannot read the state of memory")?;
    let mut system = System {
        buffers_bytes: Measured::Exact(memory.buffers.0),
        cached_bytes: Measured::Exact(memory.cached.0),
        dirty_bytes: Measured::Exact(memory.dirty.0),
        writeback_bytes: Measured::Exact(memory.writeback.0),
        free_bytes: Measured::Exact(memory.free.0),
        available_bytes: memory.available.map_or(
            Measured::not_offered("this kernel does not estimate it"),
            |bytes| Measured::Exact(bytes.0),
        ),
        ..System::default()
    };
    for (resource, some, full) in [
        (
            Resource::Memory,
            &mut system.psi_memory_some,
            &mut system.psi_memory_full,
        ),
        (
            Resource::Io,
            &mut system.psi_io_some,
            &mut system.psi_io_full,
        ),
    ] {
        let pressure = kernel.pressure(resource).ok().flatten();
        *some = share(pressure.as_ref(), |pressure| {
            pressure.some.as_ref().map(|stall| stall.avg10)
        });
        *full = share(pressure.as_ref(), |pressure| {
            pressure.full.as_ref().map(|stall| stall.avg10)
        });
    }
    Ok(system)
}

fn share(pressure: Option<&Pressure>, pick: impl Fn(&Pressure) -> Option<f64>) -> Measured<Ratio> {
    const PARTS: u64 = 1_000_000;
    match pressure.and_then(pick) {
        Some(share) => Ratio::of((share * PARTS as f64) as u64, PARTS)
            .map_or(Measured::unknown("not a share"), Measured::Exact),
        None => Measured::not_offered("this kernel has no pressure stall information"),
    }
}

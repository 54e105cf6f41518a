//! Whether perf_event_open(2) lets this process count.

use rustix::io::Errno;

use crate::error::Error;

/// Kind of a hardware or software counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CounterKind {
    /// By the kernel: the CPU's clock.
    Software,
    /// By the CPU: cycles in user mode. Many virtual machines have no such counters.
    Hardware,
    /// By the CPU: reads that miss its last-level cache.
    HardwareCache,
}

/// The first version of the kernel's `struct perf_event_attr`, which every later kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// From linux/perf_event.h.
const PERF_TYPE_HARDWARE: u32 = 0;
const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_TYPE_HW_CACHE: u32 = 3;
const PERF_COUNT_HW_CPU_CYCLES: u64 = 0;
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
/// Last level, reads, misses: a byte each.
const LAST_LEVEL_READ_MISSES: u64 = 2 | 1 << 16;
const DISABLED: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;

/// Opens a counter on this thread, and closes it again: says whether there is one.
///
/// # Errors
/// What the kernel says: [`NotFound`](crate::ErrorKind::NotFound) or
/// [`Unsupported`](crate::ErrorKind::Unsupported) where this machine has no such counter, [`Denied`](crate::ErrorKind::Denied) where `kernel.perf_event_paranoid` forbids it.
pub fn try_counter(kind: CounterKind) -> Result<(), Error> {
    let (kind, config) = match kind {
        CounterKind::Software => (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK),
        CounterKind::Hardware => (PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES),
        CounterKind::HardwareCache => (PERF_TYPE_HW_CACHE, LAST_LEVEL_READ_MISSES),
    };
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        flags: DISABLED | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
        ..Attributes::default()
    };
    let (this_thread, any_cpu, no_group, no_flags) = (0, -1, -1, 0);
    // SAFETY: the structure is as large as it says, and outlives the call, which only reads it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_thread,
            any_cpu,
            no_group,
            no_flags,
        )
    };
    if fd < 0 {
        let said = std::io::Error::last_os_error();
        let errno = Errno::from_io_error(&said).unwrap_or(Errno::IO);
        return Err(Error::io("perf_event_open", errno));
    }
    // SAFETY: the descriptor was opened just now, and no other code has it.
    unsafe { libc::close(fd as libc::c_int) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_there_or_the_reason_is() {
        for kind in [
            CounterKind::Software,
            CounterKind::Hardware,
            CounterKind::HardwareCache,
        ] {
            if let Err(error) = try_counter(kind) {
                let said = error.to_string();
                assert!(
                    said.contains("perf_event_open"),
                    "the call is named: {said}"
                );
            }
        }
    }
}

//! What the children of this process used.

use std::time::Duration;

use cachewise_units::Bytes;

/// What ended and waited-for children used, with those under them that they waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Fetched from block devices.
    pub device_read: Bytes,
    /// Sent to block devices, or to be sent.
    pub device_written: Bytes,
    /// Page faults that waited for I/O.
    pub major_faults: u64,
}

/// getrusage(2) counts blocks of this size, whatever the device's.
const BLOCK: u64 = 512;

/// The sum over all children that this process has waited for so far.
///
/// # Cost
/// One system call.
#[must_use]
pub fn children_usage() -> Usage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills in the structure that the pointer gives; all-zero is a valid one, so it
    // may be read even if the call failed, which with these arguments it cannot.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |value: libc::timeval| {
        Duration::from_secs(value.tv_sec.unsigned_abs())
            + Duration::from_micros(value.tv_usec.unsigned_abs())
    };
    Usage {
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        device_read: Bytes(usage.ru_inblock.unsigned_abs() * BLOCK),
        device_written: Bytes(usage.ru_oublock.unsigned_abs() * BLOCK),
        major_faults: usage.ru_majflt.unsigned_abs(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_worked_shows_in_the_sum() {
        let before = children_usage();
        let status = std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
            .status()
            .unwrap();
        assert!(status.success(), "the shell counts");
        let after = children_usage();
        assert!(
            after.user > before.user,
            "counting to 200,000 takes some user time"
        );
    }
}

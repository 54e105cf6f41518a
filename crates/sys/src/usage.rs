//! CPU time and device I/O of this thread, this process and its children.

use std::time::Duration;

use cachewise_units::Bytes;

/// CPU time and block-device I/O of threads or processes.
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
    /// Page faults that did not.
    pub minor_faults: u64,
}

/// getrusage(2) counts blocks of this size, whatever the device's.
const BLOCK: u64 = 512;

/// The sum over all children that this process has waited for so far, with those under them that they
/// waited for.
///
/// # Cost
/// One system call.
#[must_use]
pub fn children_usage() -> Usage {
    usage_of(libc::RUSAGE_CHILDREN)
}

/// Returns the usage of the calling thread so far.
///
/// [`Usage::device_read`] is the `read_bytes` of `/proc/thread-self/io`: bytes that this thread
/// itself requested from devices, readahead included. It stays 0 on kernels without
/// `CONFIG_TASK_IO_ACCOUNTING`.
///
/// # Cost
/// One system call.
///
/// # Kernel
/// Since 2.6.26.
#[must_use]
pub fn thread_usage() -> Usage {
    usage_of(libc::RUSAGE_THREAD)
}

/// Returns the usage of all threads of this process so far, ended threads included.
///
/// # Cost
/// One system call, and a look at each thread.
#[must_use]
pub fn process_usage() -> Usage {
    usage_of(libc::RUSAGE_SELF)
}

/// Times of a thread on CPUs and in front of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scheduled {
    /// CPU time.
    pub ran: Duration,
    /// Time that the thread waited for a CPU while it was runnable.
    pub waited: Duration,
}

/// Returns the times of the calling thread so far; `None`: the kernel does not tell.
///
/// # Cost
/// One file of /proc is read: three system calls.
///
/// # Kernel
/// Needs `CONFIG_SCHED_INFO`.
#[must_use]
pub fn thread_scheduled() -> Option<Scheduled> {
    scheduled(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

fn scheduled(text: &str) -> Option<Scheduled> {
    let mut times = text.split_whitespace().map(str::parse);
    Some(Scheduled {
        ran: Duration::from_nanos(times.next()?.ok()?),
        waited: Duration::from_nanos(times.next()?.ok()?),
    })
}

fn usage_of(who: libc::c_int) -> Usage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills in the structure that the pointer gives; all-zero is a valid one, so it
    // may be read even if the call failed, which with these arguments it cannot.
    let usage = unsafe {
        libc::getrusage(who, usage.as_mut_ptr());
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
        minor_faults: usage.ru_minflt.unsigned_abs(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn times_on_cpus_and_in_front_of_them_are_told_apart() {
        let times = scheduled("1500 20 7\n").unwrap();
        assert_eq!(times.ran, Duration::from_nanos(1500));
        assert_eq!(times.waited, Duration::from_nanos(20));
        assert_eq!(scheduled("1500\n"), None);
    }

    #[test]
    fn a_thread_counts_for_itself() {
        const SIZE: usize = 1 << 20;
        let path = std::env::temp_dir().join(format!("cachewise-usage-{}", std::process::id()));
        std::fs::write(&path, vec![1; SIZE]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let read_cold = || {
            crate::sync_data(file.as_fd()).unwrap();
            crate::fadvise_dont_need(file.as_fd()).unwrap();
            let before = thread_usage();
            file.read_exact_at(&mut vec![0; SIZE], 0).unwrap();
            thread_usage()
                .device_read
                .saturating_sub(before.device_read)
        };
        let before = thread_usage();
        let by_another = std::thread::scope(|scope| scope.spawn(read_cold).join().unwrap());
        assert_eq!(
            thread_usage().device_read,
            before.device_read,
            "what another thread reads is not ours"
        );
        if by_another == Bytes::ZERO {
            println!(
                "skipped: reads of a thread: {} is on no device",
                path.display()
            );
            return;
        }
        assert!(read_cold() >= Bytes(SIZE as u64), "what we read is");
    }

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

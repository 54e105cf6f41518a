//! [`lock_memory`]: this process's memory stays where it is, also when memory is short.

use std::io;
use std::ptr;

use cachewise_units::Bytes;

use crate::error::Error;
use crate::page_size;

const OPERATION: &str = "mlockall";
const ADVICE: &str =
    "raise RLIMIT_MEMLOCK (ulimit -l unlimited, LimitMEMLOCK=infinity), or have CAP_IPC_LOCK";

/// Which pages of mappings that are made later [`lock_memory`] locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaterMappings {
    /// All of them: a file that is mapped is read as a whole.
    Whole,
    /// Those that are used (Linux 4.4).
    AsTouched,
}

/// Keeps all memory of this process in memory, what it has and what it will get, and gets so much of it
/// now: what is allocated later, up to that, needs nothing from the kernel.
///
/// It is done whole or not at all. Under a limit it is not: as soon as the limit is reached every allocation
/// would fail, and the process with it.
///
/// Children do not inherit it.
///
/// # Errors
/// [`Error::Denied`] where `RLIMIT_MEMLOCK` holds for this process; what mlockall(2) says otherwise.
///
/// # Kernel
/// Since 2.6; the check that no limit holds needs 4.4.
pub fn lock_memory(ahead: Bytes, later: LaterMappings) -> Result<(), Error> {
    let ahead = usize::try_from(ahead.0).unwrap_or(usize::MAX);
    if !is_free_of_limits() {
        return Err(Error::Denied {
            operation: OPERATION,
            path: None,
            advice: ADVICE,
            source: io::Error::from_raw_os_error(libc::ENOMEM),
        });
    }
    keep_freed_memory();
    let calls = match later {
        LaterMappings::Whole => [libc::MCL_CURRENT | libc::MCL_FUTURE, 0],
        LaterMappings::AsTouched => [libc::MCL_CURRENT, libc::MCL_FUTURE | libc::MCL_ONFAULT],
    };
    let calls = calls.into_iter().filter(|flags| *flags != 0);
    let lock = |flags| {
        // SAFETY: changes where this process's pages are, not what is in them.
        unsafe { libc::mlockall(flags) }
    };
    if calls.map(lock).any(|result| result != 0) {
        return Err(Error::Io {
            operation: OPERATION,
            path: None,
            source: io::Error::last_os_error(),
        });
    }
    // Below the size from which on allocations are mappings of their own, so that it stays in the heap.
    const PIECE: usize = 1 << 20;
    let pieces: Vec<Vec<u8>> = (0..ahead / PIECE).map(|_| vec![1; PIECE]).collect();
    drop(std::hint::black_box(pieces));
    Ok(())
}

/// Limits the heaps of the C library (glibc's arenas) that threads of this process get. Each reserves 64 MiB of addresses,
/// which `RLIMIT_AS` counts although most of them have no memory. Without effect with other C libraries.
pub fn limit_heaps(most: u8) {
    #[cfg(target_env = "gnu")]
    // SAFETY: a setting of the allocator, which takes numbers alone.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, most.into());
    }
    #[cfg(not(target_env = "gnu"))]
    let _ = most;
}

/// Whether this process may lock more than its limit: tried with a mapping that takes no memory.
///
/// Asking for CAP_IPC_LOCK would not do: inside a user namespace a process has it and may not.
fn is_free_of_limits() -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel fills in the structure that the pointer gives.
    if unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } != 0 {
        return false;
    }
    if limit.rlim_cur == libc::RLIM_INFINITY {
        return true;
    }
    let page = page_size().get() as usize;
    let Some(length) = usize::try_from(limit.rlim_cur)
        .ok()
        .and_then(|limit| limit.checked_next_multiple_of(page)?.checked_add(page))
    else {
        return false;
    };
    // SAFETY: a new mapping where the kernel finds room; nothing else has its address, and it is taken away
    // again before it is given to anybody.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mapping = libc::mmap(ptr::null_mut(), length, libc::PROT_NONE, flags, -1, 0);
        if mapping == libc::MAP_FAILED {
            return false;
        }
        let locked = libc::mlock2(mapping, length, libc::MLOCK_ONFAULT as libc::c_uint) == 0;
        libc::munmap(mapping, length);
        locked
    }
}

/// Has the allocator keep what is freed.
#[cfg(target_env = "gnu")]
fn keep_freed_memory() {
    // SAFETY: sets parameters of the allocator, which may be set at any time.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
    }
}

/// Other allocators have no such settings.
#[cfg(not(target_env = "gnu"))]
fn keep_freed_memory() {}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::ErrorKind;

    const ASKED: &str = "CACHEWISE_TEST_LOCK_MEMORY";

    fn locked() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.and_then(|number| number.parse().ok()).unwrap()
    }

    /// It is for the whole process, and for good: each case is a process of its own.
    #[test]
    fn memory_is_locked_or_it_is_said_why_not() {
        if let Some(limit) = std::env::var_os(ASKED) {
            match lock_memory(Bytes(8 << 20), LaterMappings::AsTouched) {
                Ok(()) => assert!(locked() >= 8 << 10, "8 MiB are there and stay"),
                Err(error) => {
                    assert_ne!(
                        limit, "unlimited",
                        "without a limit nothing is refused: {error}"
                    );
                    assert_eq!(error.kind(), ErrorKind::Denied, "there is a limit: {error}");
                    assert_eq!(locked(), 0, "half of it would end the process later");
                }
            }
            return;
        }
        let test = "memory::tests::memory_is_locked_or_it_is_said_why_not";
        for limit in ["unlimited", "64"] {
            let script = format!("ulimit -l {limit} || exit 0; exec \"$0\" --exact {test}");
            let status = Command::new("sh")
                .args(["-c", &script])
                .arg(std::env::current_exe().unwrap())
                .env(ASKED, limit)
                .status()
                .unwrap();
            assert!(status.success(), "with a limit of {limit}");
        }
    }
}

//! [`Memlock`]: the memory that this process may lock.

use cachewise_sys::page_size;
use cachewise_units::{Bytes, Pages};
use rustix::io::Errno;
use rustix::process::Resource;

use crate::Error;
use crate::memlock_limit::MemlockLimit;

/// The limits of locked memory of this process, and its use of them.
pub(crate) struct Memlock {
    /// `None` for no limit.
    soft: Option<Bytes>,
    hard: Option<Bytes>,
    locked: Bytes,
    is_privileged: bool,
}

impl Memlock {
    pub(crate) fn now() -> Result<Self, Error> {
        let limits = rustix::process::getrlimit(Resource::Memlock);
        let path = "/proc/self/status";
        let status = std::fs::read_to_string(path).map_err(|source| cachewise_sys::Error::Io {
            operation: "read",
            path: Some(path.into()),
            source,
        })?;
        let is_privileged = rustix::thread::capabilities(None).is_ok_and(|held| {
            held.effective
                .contains(rustix::thread::CapabilitySet::IPC_LOCK)
        });
        Ok(Self {
            soft: limits.current.map(Bytes),
            hard: limits.maximum.map(Bytes),
            locked: locked(&status),
            is_privileged,
        })
    }

    /// Checks whether the limit allows this number of further pages. Processes with the capability
    /// may always try.
    pub(crate) fn allows(&self, more: Pages) -> Result<(), MemlockLimit> {
        match self.exceeded(more) {
            Some(exceeded) if !self.is_privileged => Err(exceeded),
            _ => Ok(()),
        }
    }

    fn exceeded(&self, more: Pages) -> Option<MemlockLimit> {
        let wanted = more.bytes(page_size());
        let limit = self.soft?;
        // The kernel counts whole pages of the limit.
        let allowed = limit.pages_floor(page_size()).bytes(page_size());
        (self.locked + wanted > allowed).then_some(MemlockLimit {
            wanted,
            locked: self.locked,
            limit,
            hard: self.hard,
        })
    }

    /// Tells a refusal for the limit's sake from another.
    pub(crate) fn explain(&self, error: cachewise_sys::Error, more: Pages) -> Error {
        let refused = [Errno::PERM, Errno::NOMEM].map(|errno| Some(errno.raw_os_error()));
        match self.exceeded(more) {
            Some(exceeded) if refused.contains(&error.os_error()) => exceeded.into(),
            _ => error.into(),
        }
    }
}

/// Finds `VmLck` in `/proc/PID/status`.
fn locked(status: &str) -> Bytes {
    let kibibytes = status.lines().find_map(|line| {
        let value = line.strip_prefix("VmLck:")?.trim().strip_suffix("kB")?;
        value.trim().parse::<u64>().ok()
    });
    Bytes(kibibytes.unwrap_or(0) << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memlock(soft: u64, locked: u64) -> Memlock {
        Memlock {
            soft: Some(Bytes(soft)),
            hard: Some(Bytes(1 << 30)),
            locked: Bytes(locked),
            is_privileged: false,
        }
    }

    #[test]
    fn the_limit_is_for_all_that_is_locked_together() {
        let page = page_size().get();
        let limit = memlock(10 * page + 7, 4 * page);
        assert_eq!(limit.allows(Pages(6)), Ok(()), "ten pages in all");
        let error = limit.allows(Pages(7)).unwrap_err();
        assert_eq!(error.wanted, Bytes(7 * page), "one too many");
        let text = error.to_string();
        let kibibytes = 11 * page / 1024;
        for part in [
            "RLIMIT_MEMLOCK",
            &format!("ulimit -l {kibibytes}`"),
            &format!("LimitMEMLOCK={}", 11 * page),
            "limits.conf",
            "CAP_IPC_LOCK",
        ] {
            assert!(text.contains(part), "{part:?} should be in {text:?}");
        }
        assert!(
            !text.contains("as root"),
            "the hard limit is larger: {text}"
        );
        let error = limit.allows(Pages(1 << 40)).unwrap_err();
        assert!(
            error.to_string().contains("as root"),
            "here it is not: {error}"
        );
        let unlimited = Memlock {
            soft: None,
            ..limit
        };
        assert_eq!(
            unlimited.allows(Pages(1 << 40)),
            Ok(()),
            "there is no limit"
        );
    }

    #[test]
    fn locked_memory_is_found() {
        let status = "Name:\tx\nVmPin:\t       3 kB\nVmLck:\t      64 kB\n";
        assert_eq!(locked(status), Bytes(64 << 10), "in KiB");
        assert_eq!(locked("Name:\tx\n"), Bytes::ZERO, "a kernel without memory");
    }
}

//! Keeping a thread on one CPU.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::{CpuList, Error};

/// The CPUs that this thread may run on: fewer than the machine has in a container or under taskset(1).
///
/// # Errors
/// The error of the kernel.
pub fn allowed() -> Result<CpuList, Error> {
    let set = sched_getaffinity(None).map_err(|errno| Error::Affinity(errno.into()))?;
    Ok(CpuList::new(
        (0..CpuSet::MAX_CPU)
            .filter(|cpu| set.is_set(*cpu))
            .map(|cpu| cpu as u32),
    ))
}

/// Keeps this thread on one CPU; dropped, it may run where it could before.
#[derive(Debug)]
pub struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// To this CPU.
    ///
    /// # Errors
    /// If it is offline, or not for this process.
    pub fn to(cpu: u32) -> Result<Pinned, Error> {
        let before = sched_getaffinity(None).map_err(|errno| Error::Affinity(errno.into()))?;
        let mut set = CpuSet::new();
        if cpu as usize >= CpuSet::MAX_CPU || !before.is_set(cpu as usize) {
            return Err(Error::NotOurs {
                cpu,
                allowed: allowed()?,
            });
        }
        set.set(cpu as usize);
        sched_setaffinity(None, &set).map_err(|errno| Error::Affinity(errno.into()))?;
        Ok(Pinned { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // It was allowed before; if the CPU has gone since, the kernel has moved us already.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_pinned_and_let_go() {
        let before = allowed().unwrap();
        let cpu = before.iter().last().unwrap();
        let pinned = Pinned::to(cpu).unwrap();
        assert_eq!(
            allowed().unwrap(),
            CpuList::new([cpu]),
            "there and nowhere else"
        );
        let error = Pinned::to(cpu + 1).unwrap_err().to_string();
        assert!(error.contains("may use"), "not wider than it was: {error}");
        drop(pinned);
        assert_eq!(allowed().unwrap(), before, "as it was");
    }
}

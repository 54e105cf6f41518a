//! Time that the probe's programs take in the kernel, by the kernel's own account.
//!
//! It has less noise than the difference of two blocks. It leaves out what the programs do to the caches of the CPU.

use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;

use crate::Outcome;

/// While it lives, the kernel takes the time of every BPF program, which makes them slower.
pub struct Clocked {
    _statistics: OwnedFd,
    before: u64,
}

impl Clocked {
    pub fn start() -> Outcome<Self> {
        // SAFETY: the call takes a number and returns a new descriptor, or a negative error number.
        let descriptor = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        if descriptor < 0 {
            return Err(std::io::Error::from_raw_os_error(-descriptor).into());
        }
        Ok(Clocked {
            // SAFETY: it is open and new, so that this is its only owner.
            _statistics: unsafe { OwnedFd::from_raw_fd(descriptor) },
            before: run_time()?,
        })
    }

    /// Nanoseconds that the programs of this process have run since.
    pub fn nanoseconds(&self) -> Outcome<u64> {
        Ok(run_time()?.saturating_sub(self.before))
    }
}

/// Sum over the programs that this process holds, each once.
fn run_time() -> Outcome<u64> {
    let mut programs = std::collections::BTreeMap::new();
    for entry in fs::read_dir("/proc/self/fdinfo")? {
        // The descriptor of this directory is gone by now.
        let Ok(text) = fs::read_to_string(entry?.path()) else {
            continue;
        };
        let value = |key: &str| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        };
        // A link shows the number of its program, and no time.
        if let (Some(id), Some(time)) = (value("prog_id:"), value("run_time_ns:")) {
            programs.insert(id, time);
        }
    }
    Ok(programs.values().sum())
}

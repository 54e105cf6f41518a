//! A process that is watched until it ends.

use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Processes that are watched from outside.
#[derive(Debug)]
pub struct Followed(Vec<OwnedFd>);

impl Followed {
    /// Takes hold of it, so that its id cannot come to mean another process.
    pub fn open(pid: u32) -> Result<Followed> {
        let cannot = || format!("cannot follow process {pid}");
        let process = i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .with_context(cannot)?;
        match pidfd_open(process, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Followed(vec![pidfd])),
            Err(rustix::io::Errno::SRCH) => bail!("process {pid} does not exist"),
            Err(error) => Err(error).with_context(cannot),
        }
    }

    /// Takes hold of those of several processes that still run.
    ///
    /// # Errors
    /// None of them can be held.
    pub fn open_all(pids: &[u32]) -> Result<Followed> {
        let mut all = Vec::new();
        let mut failed = None;
        for pid in pids {
            match Followed::open(*pid) {
                Ok(Followed(one)) => all.extend(one),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if all.is_empty() => Err(error),
            _ => Ok(Followed(all)),
        }
    }

    /// Whether all have ended; one that waits to be reaped by its parent has.
    pub fn has_ended(&self) -> bool {
        self.poll(Some(&Timespec::default()))
    }

    /// Returns when all have ended.
    pub fn wait(&self) {
        self.poll(None);
    }

    fn poll(&self, timeout: Option<&Timespec>) -> bool {
        self.0.iter().all(|process| poll_one(process, timeout))
    }
}

fn poll_one(process: &OwnedFd, timeout: Option<&Timespec>) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    loop {
        match poll(&mut fds, timeout) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(ready) => return ready > 0,
            Err(_) => return true,
        }
    }
}

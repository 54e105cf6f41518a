//! A process that is watched until it ends.

use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process that is watched from outside.
#[derive(Debug)]
pub struct Followed(OwnedFd);

impl Followed {
    /// Takes hold of it, so that its id cannot come to mean another process.
    pub fn open(pid: u32) -> Result<Followed> {
        let cannot = || format!("cannot follow process {pid}");
        let process = i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .with_context(cannot)?;
        match pidfd_open(process, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Followed(pidfd)),
            Err(rustix::io::Errno::SRCH) => bail!("process {pid} does not exist"),
            Err(error) => Err(error).with_context(cannot),
        }
    }

    /// Whether it has ended; waiting to be reaped by its parent, it has.
    pub fn has_ended(&self) -> bool {
        self.poll(Some(&Timespec::default()))
    }

    /// Returns when it has ended.
    pub fn wait(&self) {
        self.poll(None);
    }

    fn poll(&self, timeout: Option<&Timespec>) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        loop {
            match poll(&mut fds, timeout) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(ready) => return ready > 0,
                Err(_) => return true,
            }
        }
    }
}

//! [`StoppedTask`]: a task that its tracer has stopped behind a system call.

use std::fs;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{OwnedFd, RawFd};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::registers::{Registers, for_call};
use super::request::{request, resume, syscall_info};
use super::wait::{Stop, wait_for};

/// A task that stands behind a system call which it has just made.
#[derive(Debug)]
pub struct StoppedTask {
    task: libc::pid_t,
    /// Signals that came meanwhile, for later.
    signals: Vec<libc::c_int>,
}

impl StoppedTask {
    pub(super) fn new(task: libc::pid_t) -> StoppedTask {
        StoppedTask {
            task,
            signals: Vec::new(),
        }
    }

    pub(super) fn take_signals(&mut self) -> Vec<libc::c_int> {
        std::mem::take(&mut self.signals)
    }

    /// Returns a descriptor of our own of a file that the task has open: the same open file, so that its flags and advice
    /// hold for both.
    ///
    /// # Errors
    /// The number is none of an open file, or permission is missing.
    ///
    /// # Kernel
    /// Since 5.6.
    pub fn descriptor(&self, number: RawFd) -> io::Result<OwnedFd> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.task))?;
        let group = status
            .lines()
            .find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
            .and_then(Pid::from_raw)
            .ok_or(io::ErrorKind::NotFound)?;
        let process = pidfd_open(group, PidfdFlags::empty())?;
        Ok(pidfd_getfd(process, number, PidfdGetfdFlags::empty())?)
    }

    /// Has the task call madvise(2) on a range of its own addresses.
    ///
    /// # Errors
    /// What the call returns, or the task is gone.
    pub fn advise(&mut self, address: u64, length: u64, advice: MapAdvice) -> io::Result<()> {
        let before = self.registers()?;
        let given = [address, length, advice.number()];
        self.set_registers(&for_call(&before, libc::SYS_madvise, given))?;
        let called = self.call();
        self.set_registers(&before)?;
        called
    }

    /// Lets the task make the call that its registers say.
    fn call(&mut self) -> io::Result<()> {
        // Two stops: before the call, and behind it.
        for _ in 0..2 {
            loop {
                resume(self.task, libc::PTRACE_SYSCALL, 0)?;
                match wait_for(self.task)? {
                    Stop::Syscall => break,
                    Stop::Signal(signal) => self.signals.push(signal),
                    Stop::Ended => return Err(io::ErrorKind::NotFound.into()),
                    Stop::Other => {}
                }
            }
        }
        match syscall_info(self.task)?.result {
            Some(0) => Ok(()),
            Some(error) => {
                let number = i32::try_from(-error).unwrap_or(libc::EIO);
                Err(io::Error::from_raw_os_error(number))
            }
            None => Err(io::Error::other("the task did not make the call")),
        }
    }

    fn registers(&self) -> io::Result<Registers> {
        let mut registers = MaybeUninit::<Registers>::zeroed();
        let mut vector = libc::iovec {
            iov_base: registers.as_mut_ptr().cast(),
            iov_len: size_of::<Registers>(),
        };
        request(
            libc::PTRACE_GETREGSET,
            self.task,
            libc::NT_PRSTATUS as usize,
            (&raw mut vector) as usize,
        )?;
        // SAFETY: plain integers, of which all-zero is a value; the kernel has filled them in.
        Ok(unsafe { registers.assume_init() })
    }

    fn set_registers(&self, registers: &Registers) -> io::Result<()> {
        let mut vector = libc::iovec {
            iov_base: std::ptr::from_ref(registers).cast_mut().cast(),
            iov_len: size_of::<Registers>(),
        };
        request(
            libc::PTRACE_SETREGSET,
            self.task,
            libc::NT_PRSTATUS as usize,
            (&raw mut vector) as usize,
        )
        .map(drop)
    }
}

/// Advice on a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapAdvice {
    /// No readahead: `MADV_RANDOM`.
    Random,
    /// More readahead: `MADV_SEQUENTIAL`.
    Sequential,
    /// Fetch all pages now: `MADV_POPULATE_READ`, since Linux 5.14.
    Populate,
}

impl MapAdvice {
    fn number(self) -> u64 {
        let number = match self {
            MapAdvice::Random => libc::MADV_RANDOM,
            MapAdvice::Sequential => libc::MADV_SEQUENTIAL,
            MapAdvice::Populate => libc::MADV_POPULATE_READ,
        };
        number as u64
    }
}

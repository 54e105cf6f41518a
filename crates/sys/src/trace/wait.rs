//! Stops of traced tasks, as wait(2) reports them.

use std::io;

/// A task that has stopped, or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// Before or behind a system call.
    Syscall,
    /// It is about to get this signal.
    Signal(libc::c_int),
    /// At another event.
    Other,
    /// It has ended.
    Ended,
}

/// The status of a task that has stopped or ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Report {
    pub(super) task: libc::pid_t,
    pub(super) status: libc::c_int,
}

/// Threads of a traced process too; not the children of other threads of this process.
const FOR_ALL: libc::c_int = libc::__WALL | libc::__WNOTHREAD;

/// The number of a syscall stop, with `PTRACE_O_TRACESYSGOOD`.
const SYSCALL_STOP: libc::c_int = libc::SIGTRAP | 0x80;

impl Report {
    pub(super) fn stop(self) -> Stop {
        if !libc::WIFSTOPPED(self.status) {
            return Stop::Ended;
        }
        match (libc::WSTOPSIG(self.status), self.event()) {
            (SYSCALL_STOP, _) => Stop::Syscall,
            (_, event) if event != 0 => Stop::Other,
            (signal, _) => Stop::Signal(signal),
        }
    }

    /// The `PTRACE_EVENT` of the stop; 0 for none.
    pub(super) fn event(self) -> libc::c_int {
        self.status >> 16
    }
}

/// Waits for a stop of this task.
pub(super) fn wait_for(task: libc::pid_t) -> io::Result<Stop> {
    match wait(task, 0)? {
        Waited::Report(report) => Ok(report.stop()),
        Waited::Nothing | Waited::NoTask => Ok(Stop::Ended),
    }
}

/// Result of [`wait`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Waited {
    /// A task has stopped or ended.
    Report(Report),
    /// Nothing has happened, with `WNOHANG`.
    Nothing,
    /// There is no task to wait for.
    NoTask,
}

/// Waits for a stop of this task, or of any if it is -1.
pub(super) fn wait(task: libc::pid_t, options: libc::c_int) -> io::Result<Waited> {
    loop {
        let mut status = 0;
        // SAFETY: the kernel writes to the integer that the pointer gives.
        let found = unsafe { libc::waitpid(task, &raw mut status, FOR_ALL | options) };
        match found {
            0 => return Ok(Waited::Nothing),
            task if task > 0 => return Ok(Waited::Report(Report { task, status })),
            _ => match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EINTR) => {}
                error if error.raw_os_error() == Some(libc::ECHILD) => return Ok(Waited::NoTask),
                error => return Err(error),
            },
        }
    }
}

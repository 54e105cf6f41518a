//! [`Traced`]: a program whose tasks stop behind the calls that open, map and remove files.
//!
//! A seccomp filter stops them at these calls alone, so that reads and writes run at full speed. It works for static
//! programs too, and for all that the program starts.
//!
//! # Layout
//! - `filter`: the seccomp filter; `request`: ptrace(2); `wait`: stops of tasks; `registers`: of each architecture.
//! - `task`: [`StoppedTask`], what can be done with a task that has stopped.

mod filter;
mod registers;
mod request;
mod task;
mod wait;

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use request::{request, resume, syscall_info};
pub use task::{MapAdvice, StoppedTask};
use wait::{Report, Stop, Waited, wait};

/// A call that has succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// It opened a file, or set the flags of an open file.
    Opened(OpenedFile),
    /// It mapped a file.
    Mapped(MappedFile),
    /// It removed, renamed, made or truncated a file: the name of the call.
    Changed(&'static str),
}

/// A file that was opened, or whose flags were set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenedFile {
    /// Its descriptor.
    pub file: RawFd,
    /// Whether it was opened with O_TRUNC. Of openat2 that is not seen.
    pub truncates: bool,
}

/// A mapping of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappedFile {
    /// Its first address.
    pub address: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The descriptor of the file.
    pub file: RawFd,
    /// Whether it maps a program or library: it is executable, or as the loader maps them.
    pub is_program: bool,
}

/// Calls that open files.
#[cfg(target_arch = "x86_64")]
const OPENING: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_creat,
];
#[cfg(not(target_arch = "x86_64"))]
const OPENING: &[libc::c_long] = &[libc::SYS_openat, libc::SYS_openat2];

/// Calls that change files or their names.
#[cfg(target_arch = "x86_64")]
const CHANGING: &[(libc::c_long, &str)] = &[
    (libc::SYS_unlink, "unlink"),
    (libc::SYS_unlinkat, "unlinkat"),
    (libc::SYS_rmdir, "rmdir"),
    (libc::SYS_rename, "rename"),
    (libc::SYS_renameat, "renameat"),
    (libc::SYS_renameat2, "renameat2"),
    (libc::SYS_mkdir, "mkdir"),
    (libc::SYS_mkdirat, "mkdirat"),
    (libc::SYS_link, "link"),
    (libc::SYS_linkat, "linkat"),
    (libc::SYS_symlink, "symlink"),
    (libc::SYS_symlinkat, "symlinkat"),
    (libc::SYS_truncate, "truncate"),
    (libc::SYS_ftruncate, "ftruncate"),
];
#[cfg(not(target_arch = "x86_64"))]
const CHANGING: &[(libc::c_long, &str)] = &[
    (libc::SYS_unlinkat, "unlinkat"),
    (libc::SYS_renameat2, "renameat2"),
    (libc::SYS_mkdirat, "mkdirat"),
    (libc::SYS_linkat, "linkat"),
    (libc::SYS_symlinkat, "symlinkat"),
    (libc::SYS_truncate, "truncate"),
    (libc::SYS_ftruncate, "ftruncate"),
];

const OPTIONS: libc::c_int = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_EXITKILL;

/// Time that descendants get to end after the program.
const DESCENDANTS: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

/// A program under trace. The thread that started it must wait for it. It is killed when this process ends, however
/// that ends: its calls would fail without a tracer.
#[derive(Debug)]
pub struct Traced {
    program: libc::pid_t,
    /// Tasks that run.
    tasks: HashSet<libc::pid_t>,
    /// Calls that have begun.
    calls: HashMap<libc::pid_t, (libc::c_long, [u64; 6])>,
    status: Option<ExitStatus>,
}

/// The end of a traced program.
#[derive(Debug, Clone, Copy)]
pub struct TraceEnd {
    /// How the program ended.
    pub status: ExitStatus,
    /// When it ended.
    pub at: Instant,
    /// Its descendants that still ran 10 s later, and were killed.
    pub killed: usize,
}

impl Traced {
    /// Starts the command; it stops before its first instruction.
    ///
    /// # Errors
    /// The command cannot be started, or this machine forbids to trace programs or to filter their calls.
    ///
    /// # Kernel
    /// Since 5.3.
    pub fn start(command: &mut Command) -> io::Result<Traced> {
        let changing = CHANGING.iter().map(|(call, _)| *call);
        let others = [libc::SYS_mmap, libc::SYS_fcntl];
        let calls: Vec<libc::c_long> = OPENING
            .iter()
            .copied()
            .chain(changing)
            .chain(others)
            .collect();
        let program = filter::program(&calls);
        // SAFETY: ptrace(2) and prctl(2) are system calls that touch no memory of this process but the program, which
        // the closure owns; nothing allocates.
        unsafe {
            command.pre_exec(move || {
                request(libc::PTRACE_TRACEME, 0, 0, 0)?;
                filter::install(&program)
            });
        }
        let child = crate::spawn_untouched(command)?;
        let task = child.id() as libc::pid_t;
        // Its first stop is at the end of exec.
        match wait(task, 0)? {
            Waited::Report(report) if report.stop() != Stop::Ended => {}
            _ => {
                return Err(io::Error::other(
                    "the program ended before it could be traced",
                ));
            }
        }
        request(libc::PTRACE_SETOPTIONS, task, 0, OPTIONS as usize)?;
        resume(task, libc::PTRACE_CONT, 0)?;
        Ok(Traced {
            program: task,
            tasks: HashSet::from([task]),
            calls: HashMap::new(),
            status: None,
        })
    }

    /// Returns its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.program.unsigned_abs()
    }

    /// Waits until it and all that it started have ended. `each` is called behind each call that succeeded, with the task,
    /// which goes on when it returns.
    ///
    /// # Errors
    /// Waiting failed.
    pub fn wait(mut self, mut each: impl FnMut(&mut StoppedTask, Call)) -> io::Result<TraceEnd> {
        let mut ended_at = None;
        let mut killed = 0;
        loop {
            let options = if ended_at.is_some() { libc::WNOHANG } else { 0 };
            match (wait(-1, options)?, ended_at) {
                (Waited::Report(report), _) => self.handle(report, &mut each),
                (Waited::Nothing, at) => {
                    let is_over = at.is_some_and(|at: Instant| at.elapsed() >= DESCENDANTS);
                    if is_over && killed == 0 {
                        killed = self.kill();
                    }
                    std::thread::sleep(LOOK);
                }
                (Waited::NoTask, Some(at)) => {
                    let status = self.status.unwrap_or_default();
                    return Ok(TraceEnd { status, at, killed });
                }
                (Waited::NoTask, None) => {
                    return Err(io::Error::other("the end of the program was not seen"));
                }
            }
            if self.status.is_some() && ended_at.is_none() {
                ended_at = Some(Instant::now());
            }
        }
    }

    fn kill(&self) -> usize {
        for task in &self.tasks {
            // SAFETY: a signal to a task of ours, which is not reaped yet and so keeps its number.
            unsafe { libc::kill(*task, libc::SIGKILL) };
        }
        self.tasks.len()
    }

    fn handle(&mut self, report: Report, each: &mut impl FnMut(&mut StoppedTask, Call)) {
        let task = report.task;
        match report.stop() {
            Stop::Ended => {
                self.tasks.remove(&task);
                self.calls.remove(&task);
                if task == self.program {
                    self.status = Some(ExitStatus::from_raw(report.status));
                }
            }
            // A new task begins with a stop, which is no signal for it.
            Stop::Signal(libc::SIGSTOP) if self.tasks.insert(task) => {
                go_on(task, libc::PTRACE_CONT, 0);
            }
            Stop::Signal(signal) => go_on(task, libc::PTRACE_CONT, signal),
            Stop::Syscall => {
                let mut stopped = StoppedTask::new(task);
                if let Some(call) = self.ended_call(task) {
                    each(&mut stopped, call);
                }
                let mut signals = stopped.take_signals().into_iter();
                let first = signals.next().unwrap_or(0);
                for signal in signals {
                    // SAFETY: a signal to a task that is stopped, and so keeps its number.
                    unsafe { libc::syscall(libc::SYS_tkill, task, signal) };
                }
                go_on(task, libc::PTRACE_CONT, first);
            }
            Stop::Other if report.event() == libc::PTRACE_EVENT_SECCOMP => {
                match syscall_info(task).ok().and_then(|info| info.call) {
                    Some((number, given)) if is_wanted(number, &given) => {
                        self.calls.insert(task, (number, given));
                        go_on(task, libc::PTRACE_SYSCALL, 0);
                    }
                    _ => go_on(task, libc::PTRACE_CONT, 0),
                }
            }
            Stop::Other => go_on(task, libc::PTRACE_CONT, 0),
        }
    }

    /// The call that a task has ended, if it succeeded.
    fn ended_call(&mut self, task: libc::pid_t) -> Option<Call> {
        let (number, given) = self.calls.remove(&task)?;
        let result = syscall_info(task)
            .ok()?
            .result
            .filter(|result| *result >= 0)?;
        if let Some((_, name)) = CHANGING.iter().find(|(call, _)| *call == number) {
            return Some(Call::Changed(name));
        }
        Some(match number {
            libc::SYS_mmap => Call::Mapped(MappedFile {
                address: result as u64,
                length: given[1],
                file: given[4] as RawFd,
                is_program: is_program(given[2] as libc::c_int, given[3] as libc::c_int),
            }),
            libc::SYS_fcntl => Call::Opened(OpenedFile {
                file: given[0] as RawFd,
                truncates: false,
            }),
            _ => Call::Opened(OpenedFile {
                file: result as RawFd,
                truncates: is_truncating(number, &given),
            }),
        })
    }
}

/// Whether a call that opens a file empties it.
fn is_truncating(number: libc::c_long, given: &[u64; 6]) -> bool {
    let flags = match number {
        libc::SYS_openat => given[2],
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => given[1],
        #[cfg(target_arch = "x86_64")]
        libc::SYS_creat => libc::O_TRUNC as u64,
        _ => 0,
    };
    flags & libc::O_TRUNC as u64 != 0
}

/// Whether the end of a call is looked at: of fcntl only what sets flags, of mmap only what maps a file.
fn is_wanted(number: libc::c_long, given: &[u64; 6]) -> bool {
    match number {
        libc::SYS_fcntl => given[1] as libc::c_int == libc::F_SETFL,
        libc::SYS_mmap => given[3] as libc::c_int & libc::MAP_ANONYMOUS == 0,
        _ => true,
    }
}

fn is_program(protection: libc::c_int, flags: libc::c_int) -> bool {
    protection & libc::PROT_EXEC != 0 || flags & libc::MAP_DENYWRITE != 0
}

/// A task that does not go on has been killed: its end is reported next.
fn go_on(task: libc::pid_t, how: libc::c_uint, signal: libc::c_int) {
    let _ = resume(task, how, signal);
}

#[cfg(test)]
mod tests;

//! The program: started untouched, its signals passed on, watched until it ends.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cachewise_kstat::{Kernel, ProcessIo};
use cachewise_model::{Exit, Reason};
use cachewise_sys::Usage;
use cachewise_units::Bytes;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::followed::Followed;
use crate::output::{FAILED, tell};
use crate::signals::{self, BY_SIGNAL, Caught, Pending};

/// Interval at which dirty memory of the machine is read while the program runs.
const SAMPLE: Duration = Duration::from_millis(250);

/// Interval at which the program and signals are polled if no thread could be started to wait for them.
const POLL: Duration = Duration::from_millis(5);

/// The shell's exit statuses for a command that could not be started.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;

/// The outcome of a program, except for the counts of the probe.
#[derive(Debug)]
pub struct Course {
    /// From its start, or from when it was followed, to its end.
    pub wall: Duration,
    /// How it ended.
    pub exit: Exit,
    /// The most memory that was seen to be dirty or under writeback on the machine.
    pub peak_dirty: Bytes,
    /// Resources of its process tree, of the processes that were waited for.
    pub usage: Option<Usage>,
    /// System-call I/O of the process itself, for runs without a probe.
    pub io: Option<ProcessIo>,
}

/// Why there is no course.
#[derive(Debug)]
pub enum StartError {
    /// The command could not be started.
    Start(io::Error),
    /// Something of ours went wrong.
    Other(anyhow::Error),
}

/// Events while a program runs.
#[derive(Debug)]
pub enum Event {
    /// This process received a signal.
    Signal(Caught),
    /// The program has ended.
    Ended,
}

impl From<Caught> for Event {
    fn from(caught: Caught) -> Self {
        Event::Signal(caught)
    }
}

/// A command of these words, of which there is at least one.
#[must_use]
pub fn command(words: &[OsString]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// Runs a command to its end. Limits on processes count our threads: `end_threads` ends those that are not needed.
pub fn run(
    kernel: &Kernel,
    command: impl Fn() -> Command,
    end_threads: impl FnOnce(),
) -> Result<Course, StartError> {
    let (sender, events) = channel();
    let pending = Pending::of_program().map_err(StartError::Other)?;
    let begin = Instant::now();
    let mut child = start(command, end_threads).map_err(StartError::Start)?;
    // After the command, which a limit on processes would keep from being started.
    let pending = pending.listen(sender.clone());
    let pid = child.id();
    let account = kernel.open_process_io(pid).ok();
    let wait = || -> Result<Course> {
        let process = Pid::from_raw(pid as i32).context("a process has a positive id")?;
        let is_watched = watch(sender, move || wait_unreaped(process)).is_ok();
        let polled = Polled {
            signals: pending,
            process: (!is_watched).then_some(process),
        };
        let peak_dirty = until_end(kernel, events, None, polled, |caught| {
            pass_on(caught, process);
            Flow::GoOn
        });
        let wall = begin.elapsed();
        let io = account.and_then(|account| account.read().ok());
        let status = child.wait().context("cannot learn how the command ended")?;
        let usage = Some(cachewise_sys::children_usage());
        Ok(Course {
            wall,
            exit: exit(status),
            peak_dirty,
            usage,
            io,
        })
    };
    wait().map_err(StartError::Other)
}

/// Starts the command; where a limit on processes forbids it, once more without threads that can be spared, and without
/// those that have ended but still count.
fn start(command: impl Fn() -> Command, end_threads: impl FnOnce()) -> io::Result<Child> {
    let spawn = || cachewise_sys::spawn_untouched(&mut command());
    match spawn() {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            end_threads();
            cachewise_sys::until_released();
            spawn()
        }
        spawned => spawned,
    }
}

/// Signals and a process that are polled for, as no thread could be had to wait for them.
#[derive(Default)]
struct Polled {
    signals: Option<Pending>,
    /// The child whose end is waited for.
    process: Option<Pid>,
}

impl Polled {
    /// How long may pass between two looks; nothing where there are threads.
    fn interval(&self) -> Option<Duration> {
        (self.signals.is_some() || self.process.is_some()).then_some(POLL)
    }

    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        self.process
            .is_some_and(|process| matches!(waitid(WaitId::Pid(process), options), Ok(Some(_))))
    }

    fn caught(&mut self) -> impl Iterator<Item = Caught> {
        self.signals.iter_mut().flat_map(Pending::take)
    }
}

/// Returns when a child has ended; it is left unreaped, so that its account can still be read.
pub fn wait_unreaped(process: Pid) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while waitid(WaitId::Pid(process), options).err() == Some(rustix::io::Errno::INTR) {}
}

/// Sends a signal that was caught on to the program that it is for.
pub fn pass_on(caught: Caught, process: Pid) {
    // The terminal has sent it to the program too.
    if !caught.from_terminal
        && let Some(signal) = Signal::from_named_raw(caught.signal)
    {
        // It may have ended already.
        let _ = kill_process(process, signal);
    }
}

/// Follows processes until all have ended, the time is over, or the user has seen enough. The
/// course's own I/O is that of a single process.
///
/// # Errors
/// None of them runs; or several are to be followed by `/proc` alone.
pub fn follow(
    kernel: &Kernel,
    pids: &[u32],
    limit: Option<Duration>,
    needs_io: bool,
) -> Result<Course> {
    let (sender, events) = channel();
    let followed = Arc::new(Followed::open_all(pids)?);
    let single = match pids {
        [pid] => Some(*pid),
        _ if needs_io => {
            bail!("several processes can be followed only by the probe: select one with --pid")
        }
        _ => None,
    };
    let before = match single.map(|pid| (pid, kernel.process_io(pid))) {
        Some((_, Ok(io))) => Some(io),
        Some((pid, Err(error))) if needs_io => {
            return Err(error).context(format!("process {pid} cannot be looked at without root"));
        }
        _ => None,
    };
    signals::catch_ending(sender.clone())?;
    let begin = Instant::now();
    let watched = Arc::clone(&followed);
    watch(sender, move || watched.wait())?;
    let deadline = limit.map(|limit| begin + limit);
    let peak_dirty = until_end(kernel, events, deadline, Polled::default(), |_| Flow::Stop);
    let wall = begin.elapsed();
    let exit = if followed.has_ended() {
        Exit::Unknown(Reason::NotAParent)
    } else {
        Exit::Running
    };
    let after = single.and_then(|pid| kernel.process_io(pid).ok());
    let io = before
        .zip(after)
        .map(|(before, after)| since(&after, &before));
    Ok(Course {
        wall,
        exit,
        peak_dirty,
        usage: None,
        io,
    })
}

enum Flow {
    GoOn,
    Stop,
}

/// Waits for the end and samples the machine; returns the most dirty memory seen. The receiver of signals
/// is gone when it returns.
fn until_end(
    kernel: &Kernel,
    events: Receiver<Event>,
    deadline: Option<Instant>,
    mut polled: Polled,
    mut on_signal: impl FnMut(Caught) -> Flow,
) -> Bytes {
    let mut peak_dirty = Bytes::default();
    let mut sampled = Instant::now();
    let interval = polled.interval().unwrap_or(SAMPLE);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return peak_dirty;
        }
        let mut caught: Vec<Caught> = polled.caught().collect();
        match events.recv_timeout(left.map_or(interval, |left| left.min(interval))) {
            Ok(Event::Ended) => return peak_dirty,
            // Without threads there is no sender, and no wait.
            Err(RecvTimeoutError::Disconnected) if polled.interval().is_some() => {
                std::thread::sleep(interval);
            }
            Err(RecvTimeoutError::Disconnected) => return peak_dirty,
            Ok(Event::Signal(signal)) => caught.push(signal),
            Err(RecvTimeoutError::Timeout) => {}
        }
        for signal in caught {
            if let Flow::Stop = on_signal(signal) {
                return peak_dirty;
            }
        }
        if polled.has_ended() {
            return peak_dirty;
        }
        if sampled.elapsed() >= SAMPLE {
            sampled = Instant::now();
            if let Ok(memory) = kernel.meminfo() {
                peak_dirty = peak_dirty.max(memory.unwritten());
            }
        }
    }
}

/// Sends the end once `until_ended` returns.
pub fn watch(sender: Sender<Event>, until_ended: impl FnOnce() + Send + 'static) -> Result<()> {
    let wait = move || {
        until_ended();
        // The receiver is gone if the time was over first.
        let _ = sender.send(Event::Ended);
    };
    cachewise_sys::start_thread("wait", wait).context("cannot wait for the program")?;
    Ok(())
}

/// How a command ended.
pub fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown(Reason::NoWaitStatus),
    }
}

fn since(after: &ProcessIo, before: &ProcessIo) -> ProcessIo {
    ProcessIo {
        rchar: after.rchar.saturating_sub(before.rchar),
        wchar: after.wchar.saturating_sub(before.wchar),
        syscr: after.syscr.saturating_sub(before.syscr),
        syscw: after.syscw.saturating_sub(before.syscw),
        read_bytes: after.read_bytes.saturating_sub(before.read_bytes),
        write_bytes: after.write_bytes.saturating_sub(before.write_bytes),
        cancelled_write_bytes: after
            .cancelled_write_bytes
            .saturating_sub(before.cancelled_write_bytes),
    }
}

/// The status with which we end where a command ended so.
pub fn status_of(exit: Exit) -> u8 {
    let status = match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => BY_SIGNAL + signal,
        Exit::Running | Exit::Unknown(_) => FAILED.into(),
    };
    // The kernel keeps eight bits of it.
    (status & 0xff) as u8
}

/// Says why a command was not started; the status is that of shells.
pub fn not_started(command: &OsStr, error: &io::Error) -> ExitCode {
    let (status, hint) = match error.kind() {
        io::ErrorKind::NotFound => (NOT_FOUND, "is it in PATH, and its interpreter there?"),
        io::ErrorKind::WouldBlock => (
            FAILED,
            "the limit on processes is reached: raise pids.max of the control group or `ulimit -u`",
        ),
        _ => (
            NOT_EXECUTABLE,
            "is it a program, and executable for this user?",
        ),
    };
    tell(&format!(
        "cannot run {}: {error}; {hint}",
        command.to_string_lossy()
    ));
    ExitCode::from(status)
}

//! The program, run again and again: its output is that of the first run, and its input is empty.

use std::cell::Cell;
use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cachewise_cpu::CpuList;
use cachewise_cpu::measure::busy::Busy;
use cachewise_cpu::measure::pin::{Pinned, allowed};
use cachewise_cpu::sharing::Run;
use cachewise_model::Exit;
use rustix::process::{Pid, Signal, kill_process};

use super::super::line_of;
use super::line::{self, Lines, WatchTarget};
use cachewise_cli::child::{self, Event};
use cachewise_cli::signals;

/// Runner of the program, once per variant.
pub struct Runner<'a> {
    command: &'a [OsString],
    cpus: CpuList,
    sender: Sender<Event>,
    events: Receiver<Event>,
    /// Whether its output was shown: it is that of one run.
    has_shown: Cell<bool>,
}

/// Time between SIGTERM and SIGKILL.
const KILL_AFTER: Duration = Duration::from_secs(2);

/// A run that has ended.
pub struct Ended {
    pub run: Run,
    pub exit: Exit,
}

impl Ended {
    pub fn has_succeeded(&self) -> bool {
        self.exit == Exit::Code(0)
    }
}

impl<'a> Runner<'a> {
    /// A signal that ends us ends the program first, and leaves no file behind.
    pub fn new(command: &'a [OsString]) -> Result<Runner<'a>> {
        let (sender, events) = channel();
        signals::catch_ending(sender.clone())?;
        Ok(Runner {
            command,
            cpus: allowed()?,
            sender,
            events,
            has_shown: Cell::new(false),
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).stdin(Stdio::null());
        command
    }

    /// Fails if the run failed: an aborted run costs less CPU time and cannot be compared.
    pub fn succeed(&self, ended: &Ended, which: &str) -> Result<()> {
        match ended.has_succeeded() {
            true => Ok(()),
            false => bail!(
                "{}: {which} ended with {}; all runs must succeed to be compared: provide what the program needs in \
                 each run (its input is empty)",
                line_of(self.command),
                ended.exit
            ),
        }
    }

    /// The program's output goes where ours does in the first run, and nowhere in all others.
    fn show_once(&self, command: &mut Command) {
        if self.has_shown.replace(true) {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
    }

    /// With its output where it goes, unless that was shown already.
    pub fn first(&self) -> Result<Ended> {
        let mut command = self.command();
        self.show_once(&mut command);
        self.go(command, None, |_| Ok(())).map(|(ended, ())| ended)
    }

    /// One run with these variables, on this CPU if given, without output.
    pub fn once(&self, variables: &[(&'static str, OsString)], cpu: Option<u32>) -> Result<Ended> {
        let mut command = self.command();
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        self.go(command, cpu, |_| Ok(())).map(|(ended, ())| ended)
    }

    /// By another program, which gets it as its last arguments.
    pub fn by(&self, mut other: Command) -> Result<Ended> {
        other.args(self.command).stdin(Stdio::null());
        self.show_once(&mut other);
        self.go(other, None, |_| Ok(())).map(|(ended, ())| ended)
    }

    /// With lines of it watched, as long as it runs and no longer than that.
    pub fn watched(&self, wanted: &WatchTarget, time: Duration) -> Result<Lines> {
        let mut command = self.command();
        self.show_once(&mut command);
        if wanted.is_address() {
            cachewise_sys::fixed_addresses(&mut command);
        }
        let watch = |pid| line::watch(pid, wanted, time, || self.is_interrupted());
        let (_, lines) = self.go(command, None, watch)?;
        Ok(lines)
    }

    /// Whether a signal has come; what else happens meanwhile is seen later.
    fn is_interrupted(&self) -> bool {
        match self.events.try_recv() {
            Ok(event @ Event::Signal(_)) => {
                // Receivers that wait for the end need the event too.
                let _ = self.sender.send(event);
                true
            }
            Ok(Event::Ended) => {
                let _ = self.sender.send(Event::Ended);
                true
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => false,
        }
    }

    fn go<T>(
        &self,
        mut command: Command,
        cpu: Option<u32>,
        during: impl FnOnce(u32) -> Result<T>,
    ) -> Result<(Ended, T)> {
        // One that came between two runs, or while perf wrote.
        if let Ok(Event::Signal(caught)) = self.events.try_recv() {
            bail!(stopped(caught.signal));
        }
        // Child processes inherit the affinity.
        let pinned = cpu.map(Pinned::to).transpose()?;
        let used = cachewise_sys::children_usage();
        let (busy, begin) = (Busy::now(&self.cpus), Instant::now());
        let spawned = cachewise_sys::spawn_untouched(&mut command);
        drop(pinned);
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = spawned.with_context(|| format!("cannot run {name}"))?;
        let process = Pid::from_child(&child);
        let pid = child.id();
        child::watch(self.sender.clone(), move || child::wait_unreaped(process))?;
        let done = during(pid);
        // Nothing is found in what has failed, and that is why.
        let was_over = done.is_err() && self.is_interrupted();
        let mut deadline = None;
        if done.is_err() {
            // It may have ended this moment.
            let _ = kill_process(process, Signal::TERM);
            deadline = Some(Instant::now() + KILL_AFTER);
        }
        let mut signal = None;
        loop {
            let left = deadline.map(|at: Instant| at.saturating_duration_since(Instant::now()));
            let event = match left {
                Some(left) => self.events.recv_timeout(left),
                None => self.events.recv().map_err(RecvTimeoutError::from),
            };
            match event {
                Ok(Event::Ended) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Event::Signal(caught)) => {
                    child::pass_on(caught, process);
                    signal = Some(caught.signal);
                }
                Err(RecvTimeoutError::Timeout) => {
                    // It ignored the signal.
                    let _ = kill_process(process, Signal::KILL);
                    deadline = None;
                }
            }
        }
        let wall = begin.elapsed();
        let status = child.wait().context("cannot learn how the program ended")?;
        if let Some(signal) = signal {
            bail!(stopped(signal));
        }
        let now = cachewise_sys::children_usage();
        let cpu = (now.user + now.system).saturating_sub(used.user + used.system);
        let busy = busy
            .zip(Busy::now(&self.cpus))
            .map(|(before, after)| after.since(before));
        let others =
            busy.map(|busy| busy.saturating_sub(cpu).as_secs_f64() / wall.as_secs_f64().max(1e-9));
        let run = Run { cpu, wall, others };
        let exit = child::exit(status);
        let ended = Ended { run, exit };
        if was_over {
            self.succeed(&ended, "a run")?;
        }
        Ok((ended, done?))
    }
}

fn stopped(signal: i32) -> String {
    format!("stopped by signal {signal}: nothing was found out")
}

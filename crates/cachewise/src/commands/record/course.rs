//! Course of a recording: a command or a process that is recorded, and what ends it: its end, a time, a signal.

use std::ffi::OsString;
use std::process::{Child, Command, ExitCode};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Instant;

use anyhow::{Context, Result};
use cachewise_units::Period;
use rustix::process::Pid;

use super::arguments::Record;
use crate::machine::Followed;
use crate::selection::Selected;
use cachewise_cli::child::{self, Event};
use cachewise_cli::signals;

/// From here to there.
pub struct Course {
    command: Vec<OsString>,
    child: Option<(Child, Pid)>,
    followed: Option<Followed>,
    duration: Option<Period>,
    deadline: Option<Instant>,
    sender: Sender<Event>,
    events: Receiver<Event>,
}

/// Whether there is something to record.
pub enum Start {
    /// It is under way.
    Runs,
    /// The command could not be started.
    Not(ExitCode),
}

/// The step after a sample.
pub enum Next {
    /// The next one.
    Tick,
    /// Nothing.
    End,
}

impl Course {
    /// Takes hold of what is to be recorded.
    pub fn begin(arguments: &Record, selected: &Selected) -> Result<Course> {
        let followed = selected.followed()?;
        let (sender, events) = channel();
        Ok(Course {
            command: arguments.command.clone(),
            child: None,
            followed,
            duration: arguments.duration,
            deadline: None,
            sender,
            events,
        })
    }

    /// Starts the command, if there is one, and from here on listens to signals.
    pub fn start(&mut self) -> Result<Start> {
        let sender = self.sender.clone();
        match self.command.split_first() {
            None => signals::catch_ending(sender.clone())?,
            Some((program, words)) => {
                signals::catch_for_program(sender.clone())?;
                let child = cachewise_sys::spawn_untouched(Command::new(program).args(words));
                let child = match child {
                    Ok(child) => child,
                    Err(error) => return Ok(Start::Not(child::not_started(program, &error))),
                };
                let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                let process = process.context("a process has a positive id")?;
                child::watch(sender.clone(), move || child::wait_unreaped(process))?;
                self.child = Some((child, process));
            }
        }
        if let Some(followed) = self.followed.take() {
            child::watch(sender, move || followed.wait())?;
        }
        self.deadline = self
            .duration
            .map(|duration| Instant::now() + duration.get());
        Ok(Start::Runs)
    }

    /// Waits for a tick, or for the end.
    pub fn wait(&mut self, tick: Instant) -> Next {
        loop {
            let until = self.deadline.map_or(tick, |deadline| deadline.min(tick));
            let left = until.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(Event::Signal(caught)) => match &self.child {
                    Some((_, process)) => child::pass_on(caught, *process),
                    None => return Next::End,
                },
                Ok(Event::Ended) | Err(RecvTimeoutError::Disconnected) => return Next::End,
                Err(RecvTimeoutError::Timeout) if until < tick => return Next::End,
                Err(RecvTimeoutError::Timeout) => return Next::Tick,
            }
        }
    }

    /// Waits for the command, if it still runs, and gives its status.
    pub fn end(mut self) -> Result<u8> {
        let Some((mut child, process)) = self.child.take() else {
            return Ok(0);
        };
        // Signals go to the command for as long as it runs.
        loop {
            let ended = child.try_wait();
            if let Some(status) = ended.context("cannot learn how the command ended")? {
                return Ok(child::status_of(child::exit(status)));
            }
            match self.events.recv() {
                Ok(Event::Signal(caught)) => child::pass_on(caught, process),
                Ok(Event::Ended) | Err(_) => {
                    let status = child.wait().context("cannot learn how the command ended")?;
                    return Ok(child::status_of(child::exit(status)));
                }
            }
        }
    }
}

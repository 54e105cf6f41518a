//! [`Interruption`]: signals that end the work, passed on to the command that runs.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::channel;

use anyhow::{Context, Result};
use cachewise_cli::child::pass_on;
use cachewise_cli::signals::{self, BY_SIGNAL, Caught};
use rustix::process::Pid;

/// The first ending signal goes to the command that runs; the second one ends this process at once.
#[derive(Debug)]
pub struct Interruption {
    signal: Arc<AtomicI32>,
    command: Arc<AtomicI32>,
}

impl Interruption {
    /// Catches signals from now on.
    pub fn catch() -> Result<Interruption> {
        let (sender, caught) = channel::<Caught>();
        signals::catch_ending(sender)?;
        let (signal, command): (Arc<AtomicI32>, Arc<AtomicI32>) = (Arc::default(), Arc::default());
        let interruption = Interruption {
            signal: Arc::clone(&signal),
            command: Arc::clone(&command),
        };
        let listen = move || {
            while let Ok(caught) = caught.recv() {
                signal.store(caught.signal, Ordering::Release);
                if let Some(process) = Pid::from_raw(command.load(Ordering::Acquire)) {
                    pass_on(caught, process);
                }
            }
        };
        cachewise_sys::start_thread("interruption", listen)
            .context("cannot start the thread that waits for Ctrl-C")?;
        Ok(interruption)
    }

    /// Names the command that runs; `None`: none does.
    pub fn set_command(&self, id: Option<u32>) {
        let id = id.and_then(|id| i32::try_from(id).ok()).unwrap_or(0);
        self.command.store(id, Ordering::Release);
    }

    /// Whether a signal came.
    pub fn is_raised(&self) -> bool {
        self.signal.load(Ordering::Acquire) != 0
    }

    /// The exit status that follows from the signal; `None` if none came.
    pub fn status(&self) -> Option<ExitCode> {
        let signal = self.signal.load(Ordering::Acquire);
        (signal != 0).then(|| ExitCode::from(u8::try_from(BY_SIGNAL + signal).unwrap_or(u8::MAX)))
    }
}

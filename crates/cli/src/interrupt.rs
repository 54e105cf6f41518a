//! Ctrl-C and its kin: the work ends soon after, with what was done until then.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::signals::{self, BY_SIGNAL, Caught, Descriptors};

/// Whether an ending signal came. A second one ends the process at once.
#[derive(Debug)]
pub struct Interrupt {
    flag: Arc<AtomicBool>,
    signal: Arc<AtomicI32>,
    raised: Receiver<()>,
}

impl Interrupt {
    /// Catches signals from now on.
    pub fn catch() -> Result<Interrupt> {
        Self::catch_with(Descriptors::Shared)
    }

    /// Catches signals from now on by a thread that has descriptors of its own, so that work by one thread on many files
    /// costs less. Descriptors that are open now stay open until the process ends.
    pub fn catch_apart() -> Result<Interrupt> {
        Self::catch_with(Descriptors::Own)
    }

    fn catch_with(descriptors: Descriptors) -> Result<Interrupt> {
        let (flag, signal) = (Arc::default(), Arc::default());
        let (told, raised) = channel();
        let interrupt = Interrupt {
            flag: Arc::clone(&flag),
            signal: Arc::clone(&signal),
            raised,
        };
        let mut told = Some(told);
        let heard = move |caught: Caught| {
            if let Some(told) = told.take() {
                signal.store(caught.signal, Ordering::Relaxed);
                flag.store(true, Ordering::Release);
                // Shown by ps and top: the work is about to end. Without the name nothing is lost.
                let _ = rustix::thread::set_name(c"interrupted");
                // The receiver may be gone.
                let _ = told.send(());
            }
            true
        };
        signals::call_at_ending(heard, descriptors)?;
        Ok(interrupt)
    }

    /// The flag, for work that outlives a borrow of this.
    #[must_use]
    pub fn shared(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// The flag, for those who work.
    pub fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// The exit status of what a signal ended, as shells have it; `None` if none did.
    pub fn status(&self) -> Option<ExitCode> {
        self.flag.load(Ordering::Acquire).then(|| {
            let signal = self.signal.load(Ordering::Relaxed);
            // The output may have failed and raised the flag, and no signal.
            ExitCode::from(u8::try_from(BY_SIGNAL + signal).unwrap_or(u8::MAX))
        })
    }

    /// Waits for a signal.
    pub fn wait(&self) -> Result<()> {
        self.raised.recv().context("the thread for signals ended")
    }

    /// Waits for a signal for this time; returns whether one came.
    pub fn wait_for(&self, time: Duration) -> Result<bool> {
        match self.raised.recv_timeout(time) {
            Ok(()) => Ok(true),
            Err(RecvTimeoutError::Timeout) => Ok(false),
            Err(RecvTimeoutError::Disconnected) => bail!("the thread for signals ended"),
        }
    }
}

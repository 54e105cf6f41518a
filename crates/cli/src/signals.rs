//! Signals: those meant for the program that is run go to it, those that end a measurement end it cleanly.
//!
//! A second ending signal ends the process at once, in the middle of any read or write. The kernel removes
//! the probe.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cachewise_sys::is_ignored;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::{Origin, WithOrigin};
use signal_hook::low_level::siginfo::Cause;

/// Signals that end a measurement.
const ENDING: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// Signals that a program may be sent through the process that runs it.
const PASSED_ON: [i32; 6] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];

/// Signals closer together than this are one wish: timeout(1) sends each twice, systemd a SIGHUP with
/// its SIGTERM, and no hand is as fast.
const APART: Duration = Duration::from_millis(100);

/// Directories that a second ending signal removes, because their owners no longer run.
static LEFTOVERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory for temporary files that its owner removes, unless a second signal comes first.
#[derive(Debug)]
pub struct Leftover(PathBuf);

impl Leftover {
    /// From now on.
    pub fn at(place: &Path) -> Leftover {
        let mut all = LEFTOVERS.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(place.to_owned());
        Leftover(place.to_owned())
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        let mut all = LEFTOVERS.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|place| *place != self.0);
    }
}

fn remove_leftovers() {
    let all = LEFTOVERS.lock().unwrap_or_else(PoisonError::into_inner);
    for place in all.iter() {
        // The process ends; a failure cannot be reported.
        let _ = fs::remove_dir_all(place);
    }
}

/// A process that a signal ended has this plus the signal's number as its status.
pub const BY_SIGNAL: i32 = 128;

/// A signal, and whether the terminal sent it, in which case the program got it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caught {
    /// Its number.
    pub signal: i32,
    /// Its sender reached the whole foreground group.
    pub from_terminal: bool,
}

/// The addressee of a second ending signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Second {
    /// This process: the first signal requested the end.
    Ours,
    /// The program, while this process passes signals on.
    Programs,
}

/// The descriptors of the thread that waits for signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Descriptors {
    /// Those of the process.
    Shared,
    /// Copies of those that are open when it starts, which stay open until the process ends.
    Own,
}

/// Has the first ending signal sent to `sender`; the second ends this process at once.
pub fn catch_ending<T: From<Caught> + Send + 'static>(sender: Sender<T>) -> Result<()> {
    call_at_ending(sending(sender), Descriptors::Shared)
}

/// Has the thread that waits for signals call `heard` at each ending signal; the second ends this process at once.
pub fn call_at_ending(
    heard: impl FnMut(Caught) -> bool + Send + 'static,
    descriptors: Descriptors,
) -> Result<()> {
    catch(&ENDING, heard, Second::Ours, descriptors)
}

/// Sends each signal; returns whether there still is a receiver.
fn sending<T: From<Caught> + Send + 'static>(
    sender: Sender<T>,
) -> impl FnMut(Caught) -> bool + Send + 'static {
    move |caught| sender.send(caught.into()).is_ok()
}

/// Has everything that could be for the program sent to `sender`, as long as that has a receiver.
/// After that a second ending signal ends this process at once: the first may have been the one that
/// ended the program.
pub fn catch_for_program<T: From<Caught> + Send + 'static>(sender: Sender<T>) -> Result<()> {
    catch(
        &PASSED_ON,
        sending(sender),
        Second::Programs,
        Descriptors::Shared,
    )
}

/// Signals for a program that are caught, and that no thread waits for.
#[derive(Debug)]
pub struct Pending(SignalsInfo<WithOrigin>);

impl Pending {
    /// Catches everything that could be for the program from now on.
    pub fn of_program() -> Result<Pending> {
        let signals = SignalsInfo::new(not_ignored(&PASSED_ON)).context("cannot catch signals")?;
        Ok(Pending(signals))
    }

    /// Has them sent to `sender`, as [`catch_for_program`] does; where no thread can be had, they are returned.
    pub fn listen<T: From<Caught> + Send + 'static>(self, sender: Sender<T>) -> Option<Pending> {
        // A thread that does not start would take the signals with it.
        if cachewise_sys::check_threads(1).is_err() {
            return Some(self);
        }
        let (heard, second) = (sending(sender), Second::Programs);
        match listen(self.0, heard, second, Descriptors::Shared) {
            Ok(()) => None,
            Err(_) => Pending::of_program().ok(),
        }
    }

    /// Returns those that have come since the last call.
    pub fn take(&mut self) -> impl Iterator<Item = Caught> {
        self.0.pending().map(caught)
    }
}

fn caught(Origin { signal, cause, .. }: Origin) -> Caught {
    Caught {
        signal,
        from_terminal: matches!(cause, Cause::Kernel),
    }
}

/// Those of `signals` that were not ignored when this process was started (nohup, a background job of a shell). They
/// stay ignored, for us and for the program, which would get the default back if we had a handler.
fn not_ignored(signals: &[i32]) -> Vec<i32> {
    let signals = signals.iter().copied();
    signals.filter(|signal| !is_ignored(*signal)).collect()
}

fn catch(
    signals: &[i32],
    heard: impl FnMut(Caught) -> bool + Send + 'static,
    second: Second,
    descriptors: Descriptors,
) -> Result<()> {
    let signals = SignalsInfo::new(not_ignored(signals)).context("cannot catch signals")?;
    listen(signals, heard, second, descriptors)
}

/// Has a thread call `heard` at each signal; it returns whether the signal reached what it is for.
fn listen(
    mut signals: SignalsInfo<WithOrigin>,
    mut heard: impl FnMut(Caught) -> bool + Send + 'static,
    second: Second,
    descriptors: Descriptors,
) -> Result<()> {
    let listen = move || {
        let mut asked: Option<Instant> = None;
        for caught in signals.forever().map(caught) {
            let signal = caught.signal;
            let is_heard = heard(caught);
            let ending = ENDING.contains(&signal);
            if !ending {
                continue;
            }
            let again = asked.get_or_insert_with(Instant::now).elapsed() >= APART;
            if again && (second == Second::Ours || !is_heard) {
                remove_leftovers();
                // Nothing is flushed: the writer may be what hangs.
                signal_hook::low_level::exit(BY_SIGNAL + signal);
            }
        }
    };
    match descriptors {
        Descriptors::Shared => cachewise_sys::start_thread("signals", listen),
        Descriptors::Own => cachewise_sys::start_thread_apart("signals", listen),
    }
    .context("cannot wait for signals")?;
    Ok(())
}

/// A file at the size that a limit allows (`ulimit -f`) is an error of the write, not the end of this process.
pub fn outlive_size_limit() -> Result<()> {
    // A handler, which a started program does not inherit. An ignored signal needs none.
    if !is_ignored(SIGXFSZ) {
        signal_hook::flag::register(SIGXFSZ, Arc::default()).context("cannot catch SIGXFSZ")?;
    }
    Ok(())
}

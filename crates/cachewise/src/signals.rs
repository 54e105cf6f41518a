//! Signals: those meant for the program that is run go to it, those that end a measurement end it cleanly.

use std::fs;
use std::sync::mpsc::Sender;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::{Origin, WithOrigin};
use signal_hook::low_level::siginfo::Cause;

/// Signals that end a measurement.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Signals that a program may be sent through the process that runs it.
const PASSED_ON: [i32; 6] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];

/// A signal, and whether the terminal sent it, in which case the program got it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caught {
    /// Its number.
    pub signal: i32,
    /// Its sender reached the whole foreground group.
    pub from_terminal: bool,
}

/// Has ending signals sent to `sender` from now on.
pub fn catch_ending<T: From<Caught> + Send + 'static>(sender: Sender<T>) -> Result<()> {
    catch(&ENDING, sender)
}

/// Has everything that could be for the program sent to `sender` from now on.
pub fn catch_for_program<T: From<Caught> + Send + 'static>(sender: Sender<T>) -> Result<()> {
    catch(&PASSED_ON, sender)
}

fn catch<T: From<Caught> + Send + 'static>(signals: &[i32], sender: Sender<T>) -> Result<()> {
    // What was ignored when we were started (nohup, a shell's background job) stays ignored, for us
    // and for the program, which would get the default back if we had a handler.
    let ignored = ignored_signals();
    let signals: Vec<i32> = signals
        .iter()
        .copied()
        .filter(|signal| ignored >> (signal - 1) & 1 == 0)
        .collect();
    let mut caught = SignalsInfo::<WithOrigin>::new(&signals).context("cannot catch signals")?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for Origin { signal, cause, .. } in caught.forever() {
                let from_terminal = matches!(cause, Cause::Kernel);
                if sender
                    .send(
                        Caught {
                            signal,
                            from_terminal,
                        }
                        .into(),
                    )
                    .is_err()
                {
                    break;
                }
            }
        })
        .context("cannot start the thread for signals")?;
    Ok(())
}

/// The mask of ignored signals, as the kernel shows it.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}

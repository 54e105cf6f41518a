//! Starting a program as if by whoever started us.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether SIGPIPE was ignored when this process was started.
///
/// Rust's start-up code ignores it always, and `Command` gives the program the default back, so what was
/// there before has to be looked at before `main`.
static SIGPIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Whether SIGCHLD was: then the kernel reaps children itself, and nobody learns how they ended.
static SIGCHLD_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

// SAFETY: a pointer to a function of the type that the loader calls from this section, which runs before
// `main` and touches nothing but static atomics and its own disposition of a signal.
#[unsafe(link_section = ".init_array")]
#[used]
static LOOK_AT_SIGNALS: extern "C" fn() = look_at_signals;

extern "C" fn look_at_signals() {
    SIGPIPE_WAS_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    if is_ignored(libc::SIGCHLD) {
        SIGCHLD_WAS_IGNORED.store(true, Ordering::Relaxed);
        // SAFETY: sets a disposition that every program starts with; no other thread exists yet.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
}

fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with no new action the call only fills in the old one; all-zero is a valid one.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init().sa_sigaction == libc::SIG_IGN
    }
}

/// Spawns the command with SIGPIPE and SIGCHLD as this process was given them.
///
/// # Errors
/// As [`Command::spawn`].
pub fn spawn_untouched(command: &mut Command) -> io::Result<Child> {
    let ignored = [
        (libc::SIGPIPE, SIGPIPE_WAS_IGNORED.load(Ordering::Relaxed)),
        (libc::SIGCHLD, SIGCHLD_WAS_IGNORED.load(Ordering::Relaxed)),
    ];
    if ignored.iter().any(|(_, ignored)| *ignored) {
        // SAFETY: signal(2) is async-signal-safe, so it may be called between fork and exec.
        unsafe {
            command.pre_exec(move || {
                for (signal, _) in ignored.iter().filter(|(_, ignored)| *ignored) {
                    libc::signal(*signal, libc::SIG_IGN);
                }
                Ok(())
            });
        }
    }
    command.spawn()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_runs_and_an_unknown_one_is_an_error() {
        let status = spawn_untouched(&mut Command::new("true"))
            .unwrap()
            .wait()
            .unwrap();
        assert!(status.success(), "true is true");
        let error = spawn_untouched(&mut Command::new("/no/such/program")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "as Command says it");
    }
}

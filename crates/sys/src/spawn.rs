//! Starting a program with the signal dispositions that this process inherited; ties to this
//! process and its group.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

/// Whether SIGPIPE was ignored when this process was started.
///
/// Rust's start-up code ignores it always, and `Command` gives the program the default back, so what was
/// there before has to be looked at before `main`.
static SIGPIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Whether SIGCHLD was ignored: the kernel then reaps children itself, and their exit status is
/// lost.
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

/// Has the command start with SIGPIPE and SIGCHLD as this process was given them.
fn leave_signals(command: &mut Command) {
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
}

/// Replaces this process with the command, with SIGPIPE and SIGCHLD as this process was given them.
///
/// It returns only if that fails, with the reason.
pub fn exec_untouched(command: &mut Command) -> io::Error {
    leave_signals(command);
    command.exec()
}

/// Spawns the command with SIGPIPE and SIGCHLD as this process was given them.
///
/// # Errors
/// The errors of [`Command::spawn`].
pub fn spawn_untouched(command: &mut Command) -> io::Result<Child> {
    leave_signals(command);
    match command.spawn() {
        // A seccomp filter that forbids clone3(2) forbids posix_spawn(3), and not fork(2).
        Err(error)
            if matches!(
                Errno::from_io_error(&error),
                Some(Errno::PERM | Errno::NOSYS)
            ) =>
        {
            // SAFETY: nothing is called between fork and exec.
            unsafe { command.pre_exec(|| Ok(())) };
            command.spawn()
        }
        spawned => spawned,
    }
}

/// Has the command join control groups before it is executed, so that no page of it is charged elsewhere:
/// these are their `cgroup.procs`, open for writing.
///
/// Spawning fails with what joining says.
pub fn join_before_exec(command: &mut Command, groups: Vec<File>) {
    // SAFETY: between fork and exec only write(2) is called, which is async-signal-safe, and reading errno does
    // not allocate; the descriptors are owned by the closure, and closed by exec.
    unsafe {
        command.pre_exec(move || {
            for group in &groups {
                // 0 is who writes.
                if libc::write(group.as_raw_fd(), c"0".as_ptr().cast(), 1) != 1 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        });
    }
}

/// Has the command and what it starts laid out in memory in the same way each time, as debuggers do: an address of one
/// run is that of the next.
pub fn fixed_addresses(command: &mut Command) {
    // SAFETY: personality(2) is a single system call that touches no memory of this process.
    unsafe {
        command.pre_exec(|| {
            // Asks what it is, and changes nothing.
            let present = libc::personality(0xffff_ffff);
            let wanted = present | libc::ADDR_NO_RANDOMIZE;
            match present >= 0 && libc::personality(wanted as libc::c_ulong) >= 0 {
                true => Ok(()),
                false => Err(io::Error::last_os_error()),
            }
        });
    }
}

/// Has the command killed when the *thread* that spawns it ends, however it ends: a worker does not outlive
/// who would stop it.
pub fn die_with_spawner(command: &mut Command) {
    let spawner = std::process::id();
    // SAFETY: prctl(2) and getppid(2) are single system calls that touch no memory of this process.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The kernel sends no signal for a parent that ended before the call.
            match u32::try_from(libc::getppid()) == Ok(spawner) {
                true => Ok(()),
                false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_joined_by_writing_0_and_a_refusal_is_an_error() {
        let procs = tempfile::NamedTempFile::new().unwrap();
        let mut command = Command::new("true");
        join_before_exec(&mut command, vec![procs.reopen().unwrap()]);
        assert!(command.status().unwrap().success(), "it runs");
        let written = std::fs::read_to_string(procs.path()).unwrap();
        assert_eq!(written, "0", "by the program itself, before it was one");

        let mut command = Command::new("true");
        join_before_exec(&mut command, vec![File::open(procs.path()).unwrap()]);
        let error = command.status().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF), "not to be written");
    }

    #[test]
    fn addresses_stay_the_same() {
        let maps = || {
            let mut command = Command::new("cat");
            fixed_addresses(command.arg("/proc/self/maps"));
            let output = command.output().unwrap();
            assert!(output.status.success(), "it runs");
            // Where the program and its stack are; what the kernel adds beside them is its own affair.
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let lines = text
                .lines()
                .filter(|line| line.contains("cat") || line.contains("[stack]"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(!maps().is_empty(), "there are some");
        assert_eq!(maps(), maps(), "each time");
    }

    #[test]
    fn a_worker_dies_with_the_thread_that_spawned_it() {
        let spawn = || {
            let mut command = Command::new("sleep");
            die_with_spawner(command.arg("1000"));
            command.spawn().unwrap()
        };
        let mut child = std::thread::spawn(spawn).join().unwrap();
        let status = child.wait().unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(status.signal(), Some(libc::SIGKILL), "killed: {status}");
    }

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

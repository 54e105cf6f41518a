//! The binary, run to its end or meanwhile.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::disk::Scratch;
use super::siblings::PROGRAM;
use super::suite::why_not_root;

/// Far beyond what anything here takes: only a hang reaches it.
const LIMIT: Duration = Duration::from_secs(120);

/// How often something that will be there soon is looked for.
const LOOK: Duration = Duration::from_millis(5);

/// The program with these arguments.
pub fn cachewise<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(arguments: I) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(arguments)
        .env_remove("NO_COLOR")
        .env_remove("CACHEWISE_BPF_LOG");
    command
}

/// A copy of the binary that every user may run: the target directory may be under /root.
pub fn copy_for_everyone(directory: &Path) -> PathBuf {
    let copy = directory.join("cachewise");
    copy_program(Path::new(PROGRAM), &copy);
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("it is ours");
    copy
}

/// Copies a program that is to be run, by another process: if this process had it open for writing, a child of another
/// test could inherit the descriptor, and a file that is open for writing cannot be executed.
pub fn copy_program(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status();
    assert!(
        copied.is_ok_and(|status| status.success()),
        "{} can be copied",
        from.display()
    );
}

/// A command that runs its arguments as a user who owns nothing.
pub fn as_nobody() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command
}

/// The binary of this workspace as such a user, by a copy in the scratch directory.
pub fn cachewise_as_nobody(scratch: &Scratch) -> Command {
    let mut command = as_nobody();
    command.arg(copy_for_everyone(scratch.directory()));
    command
}

/// Whether there is script(1), which gives a command a terminal; says so if not.
pub fn has_terminals(what: &str) -> bool {
    let is_there = Command::new("script").arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: {what}: `script` of util-linux is not installed");
    }
    is_there
}

/// A line of shell on a terminal, without colour unless the line enables it.
pub fn on_terminal(line: &str) -> Command {
    let mut command = Command::new("script");
    command
        .args(["-qec", line, "/dev/null"])
        .env("TERM", "xterm")
        .env_remove("COLUMNS")
        .env("NO_COLOR", "1");
    command
}

/// Looks until there is something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "gave up waiting until {what}");
        std::thread::sleep(LOOK);
    }
}

/// Sends a signal to a process, if it is still there.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Result of a command.
#[derive(Debug)]
pub struct Ended {
    /// The command line, for messages.
    pub line: String,
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub out: Vec<u8>,
    /// Its standard error.
    pub err: Vec<u8>,
}

impl Ended {
    /// Runs it to its end, without any input.
    pub fn of(command: &mut Command) -> Ended {
        Ended::with_input(command, b"")
    }

    /// Runs it to its end with this input.
    pub fn with_input(command: &mut Command, input: &[u8]) -> Ended {
        let mut started = Started::of(command.stdin(Stdio::piped()));
        let mut stdin = started.child.stdin.take().expect("it was asked for");
        let input = input.to_owned();
        let writer = std::thread::spawn(move || {
            // A command may end without reading all of it.
            let _ = stdin.write_all(&input);
        });
        let ended = started.wait();
        writer.join().expect("writing does not panic");
        ended
    }

    /// Its exit status; a signal's number is negative.
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| -self.status.signal().unwrap_or(0))
    }

    /// Its standard output as text.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    /// Its standard error as text.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.err).into_owned()
    }

    /// Its standard error, without the note that the numbers are estimates where this process can have no others.
    pub fn complaints(&self) -> String {
        let all = self.err();
        if why_not_root().is_none() {
            return all;
        }
        let is_note = |line: &str| line.starts_with("cachewise: note: these are estimates");
        all.split_inclusive('\n')
            .filter(|line| !is_note(line))
            .collect()
    }

    /// Fails unless it ended with this status.
    #[track_caller]
    pub fn expect(self, code: i32, why: &str) -> Ended {
        assert_eq!(
            self.code(),
            code,
            "{why}: {}\n--- stdout\n{}\n--- stderr\n{}",
            self.line,
            self.out(),
            self.err()
        );
        self
    }

    /// Fails unless it said this on standard error.
    #[track_caller]
    pub fn says(self, part: &str, why: &str) -> Ended {
        let err = self.err();
        assert!(
            err.contains(part),
            "{why}: {} should say {part:?}, says {err:?}",
            self.line
        );
        self
    }
}

/// A command that runs; dropped, it is killed.
pub struct Started {
    /// The process.
    pub child: Child,
    line: String,
    lines: Option<Receiver<Vec<u8>>>,
    seen: Vec<u8>,
    err: Option<JoinHandle<Vec<u8>>>,
}

impl Started {
    /// Starts it with pipes on standard output and error; standard input is as the command says.
    pub fn of(command: &mut Command) -> Started {
        let line = format!("{command:?}");
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {line}: {error}"));
        let out = child.stdout.take().expect("it was asked for");
        let mut err = child.stderr.take().expect("it was asked for");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            loop {
                let mut line = Vec::new();
                match out.read_until(b'\n', &mut line) {
                    Ok(read) if read > 0 && sender.send(line).is_ok() => {}
                    _ => break,
                }
            }
        });
        let err = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = err.read_to_end(&mut text);
            text
        });
        Started {
            child,
            line,
            lines: Some(lines),
            seen: Vec::new(),
            err: Some(err),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, which: Signal) {
        signal(self.pid(), which);
    }

    /// The next line of its standard output, with its end; nothing at the end of the output.
    pub fn line(&mut self) -> Option<Vec<u8>> {
        let lines = self.lines.as_ref().expect("its output was not closed");
        match lines.recv_timeout(LIMIT) {
            Ok(line) => {
                self.seen.extend_from_slice(&line);
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("{} prints nothing", self.line),
        }
    }

    /// Closes our end of its standard output.
    pub fn close_output(&mut self) {
        self.lines = None;
    }

    /// Waits until one of its threads has this name.
    pub fn until_thread(&mut self, name: &str) {
        let tasks = format!("/proc/{}/task", self.pid());
        let line = self.line.clone();
        until(&format!("{line} has a thread {name:?}"), || {
            if let Ok(Some(status)) = self.child.try_wait() {
                panic!("{line} has ended already, with {status}");
            }
            let mut threads = fs::read_dir(&tasks).ok()?.flatten();
            threads.find_map(|task| {
                let comm = fs::read_to_string(task.path().join("comm")).ok()?;
                (comm.trim_end() == name).then_some(())
            })
        });
    }

    /// Sends it interrupts, once it catches them, until it has ended.
    pub fn interrupt_until_ended(mut self) -> Ended {
        self.until_thread("signals");
        let line = self.line.clone();
        until(&format!("interrupts end {line}"), || {
            self.signal(Signal::INT);
            self.child.try_wait().expect("a child can be waited for")
        });
        self.wait()
    }

    /// Waits until it ends by itself.
    pub fn wait(mut self) -> Ended {
        let line = self.line.clone();
        let status = until(&format!("{line} ends"), || {
            self.child.try_wait().expect("a child can be waited for")
        });
        if self.lines.is_some() {
            while self.line().is_some() {}
        }
        let err = self.err.take().expect("only this takes it");
        Ended {
            line,
            status,
            out: std::mem::take(&mut self.seen),
            err: err.join().expect("reading does not panic"),
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! What a live view asks of the machine that it watches; the program around it gives the answers.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use cachewise_model::{Measured, Residency, Stretch};

/// Where stretches come from.
pub trait Source {
    /// What everybody did since the last call.
    ///
    /// # Errors
    /// Says what could not be read, and why.
    fn stretch(&mut self) -> Result<Stretch, String>;
}

/// Details of what is shown, and acts on it. It is asked in a thread of its own, one thing after the other.
pub trait Machine: Send {
    /// What of a file is resident.
    fn residency(&mut self, file: &FileName) -> Residency;

    /// A process's program with its arguments. The process is another one if it started at another time.
    fn command_line(&mut self, process: &ProcessName) -> Measured<String>;

    /// Acts on files, and says on one line what really changed. Stops early where `cancel` is set.
    ///
    /// # Errors
    /// Says what could not be done, and why.
    fn act(&mut self, act: &Act, cancel: &AtomicBool) -> Result<String, String>;
}

/// A file, so that another one in its place is told apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileName {
    /// Its path.
    pub path: PathBuf,
    /// The device of its file system, `major:minor`.
    pub device: String,
    /// Its inode number.
    pub inode: u64,
}

/// A process, so that another one of the same id is told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcessName {
    /// Its id.
    pub pid: u32,
    /// Its start in nanoseconds since boot, where it is known.
    pub started: Option<u64>,
}

/// What changes the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Brings files in.
    Warm,
    /// Puts files out.
    Evict,
}

impl Verb {
    /// Its name, which is that of the command too.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Verb::Warm => "warm",
            Verb::Evict => "evict",
        }
    }
}

/// An act on files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// What is done.
    pub verb: Verb,
    /// To what.
    pub files: Vec<FileName>,
}

impl Act {
    /// The command that does the same.
    #[must_use]
    pub fn command(&self) -> String {
        let mut command = format!("cachewise {}", self.verb.name());
        for file in &self.files {
            command.push(' ');
            command += &cachewise_model::shell_quoted(&file.path);
        }
        command
    }
}

/// What the view wants to be done outside.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Details of these files.
    Residency(Vec<FileName>),
    /// The command lines of these processes.
    CommandLines(Vec<ProcessName>),
    /// An act, which the user has agreed to.
    Act(Act),
    /// The act at work is to stop.
    Cancel,
    /// Another interval.
    Interval(std::time::Duration),
    /// The program is to stop, until it is continued.
    Suspend,
    /// Everything is to be drawn again.
    Redraw,
    /// Another sample of the recording.
    Step(Step),
    /// The samples before the one shown.
    Past,
}

/// A way through a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// One back.
    Earlier,
    /// One on.
    Later,
    /// The first.
    First,
    /// The last.
    Last,
    /// On from here by itself, or no longer.
    Play,
}

/// An answer to a [`Request`].
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// What is resident.
    Residency(Vec<(FileName, Residency)>),
    /// Command lines.
    CommandLines(Vec<(ProcessName, Measured<String>)>),
    /// What came of an act.
    Acted(Act, Result<String, String>),
}

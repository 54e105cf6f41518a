//! Queries of a live view to its machine; the program around it answers them.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use cachewise_model::{FileNumber, Interval, Measured, Residency};

use crate::findings::Headline;
use crate::moment::Moment;
use crate::settings::ChosenColumns;

/// Source of intervals.
pub trait Source {
    /// Counts since the last call.
    ///
    /// # Errors
    /// The object that could not be read, and the cause.
    fn interval(&mut self) -> Result<Interval, String>;
}

/// Queries and operations on the machine. Calls come from a thread of their own, one after the
/// other.
pub trait Machine: Send {
    /// Resident pages of a file.
    fn residency(&mut self, file: &FileName) -> Residency;

    /// A process's program with its arguments. A different start time means a different process.
    fn command_line(&mut self, process: &ProcessName) -> Measured<String>;

    /// Warms or evicts files, and reports the change on one line. Stops early when `cancel` is set.
    ///
    /// # Errors
    /// The failed operation, and the cause.
    fn act(&mut self, act: &Act, cancel: &AtomicBool) -> Result<String, String>;
}

/// A file, identified well enough to detect a replacement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileName {
    /// Its path.
    pub path: PathBuf,
    /// Its number.
    pub number: FileNumber,
}

/// A process, identified well enough to detect a reused pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcessName {
    /// Its id.
    pub pid: u32,
    /// Its start in nanoseconds since boot, if known.
    pub started: Option<u64>,
}

/// Operations on the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Prefetches files.
    Warm,
    /// Evicts files.
    Evict,
}

impl Verb {
    /// Its name, which is also the command's.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Verb::Warm => "warm",
            Verb::Evict => "evict",
        }
    }
}

/// An operation on files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// The operation.
    pub verb: Verb,
    /// The files.
    pub files: Vec<FileName>,
}

impl Act {
    /// The equivalent command.
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

/// Requests of the view to the outside.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Residency of these files.
    Residency(Vec<FileName>),
    /// The command lines of these processes.
    CommandLines(Vec<ProcessName>),
    /// An operation, confirmed by the user.
    Act(Act),
    /// Stop the running operation.
    Cancel,
    /// Another interval.
    Interval(std::time::Duration),
    /// Stop the program until it is continued.
    Suspend,
    /// Redraw the screen.
    Redraw,
    /// Another sample of the recording.
    Step(SampleStep),
    /// The samples before the current one.
    Past,
    /// Write the choice of columns into its file.
    Save(ChosenColumns),
}

/// A move through a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleStep {
    /// One back.
    Earlier,
    /// One forward.
    Later,
    /// The first.
    First,
    /// The last.
    Last,
    /// Start or stop playing.
    Play,
    /// The one with this number, from 1.
    To(usize),
    /// The first one that is not before this time.
    At(Moment),
}

/// An answer to a [`Request`].
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Residency.
    Residency(Vec<(FileName, Residency)>),
    /// Command lines.
    CommandLines(Vec<(ProcessName, Measured<String>)>),
    /// The verdict of the last minute.
    Verdict(Headline),
    /// Result of an operation.
    Acted(Act, Result<String, String>),
}

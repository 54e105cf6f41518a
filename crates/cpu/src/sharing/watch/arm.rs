//! Breakpoints for the threads of a process.

use std::fmt;
use std::fs;
use std::io;

use perf_event::events::Breakpoint;
use perf_event::{Builder, Counter, Group};
use rustix::io::Errno;

use crate::program::NoCounter;

/// More threads than this are not watched: each needs descriptors and time.
pub(super) const MOST_THREADS: usize = 64;

/// Why a line cannot be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoWatch {
    /// The process has ended.
    Ended,
    /// A debugger, or another one like us, has the registers.
    InUse,
    /// The kernel does not let us.
    Refused(NoCounter),
}

impl fmt::Display for NoWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoWatch::Ended => f.write_str("the process has ended"),
            NoWatch::InUse => f.write_str(
                "all debug registers are in use: is a debugger attached to the process?",
            ),
            NoWatch::Refused(NoCounter::NotHere) => {
                f.write_str("this machine offers no hardware breakpoints")
            }
            NoWatch::Refused(reason) => write!(f, "hardware breakpoints: {reason}"),
        }
    }
}

impl From<io::Error> for NoWatch {
    fn from(error: io::Error) -> NoWatch {
        match Errno::from_io_error(&error) {
            Some(Errno::SRCH) => NoWatch::Ended,
            Some(Errno::NOSPC | Errno::BUSY) => NoWatch::InUse,
            _ => NoWatch::Refused(error.into()),
        }
    }
}

/// The counters of a thread on a few pieces.
pub(super) struct Armed {
    pub(super) thread: u32,
    pub(super) group: Group,
    /// Writes, and any access, of each piece.
    pub(super) counters: Vec<(Counter, Counter)>,
}

/// Those that are watched of too many, and how many are not.
pub(super) fn first_of(mut threads: Vec<u32>) -> (Vec<u32>, usize) {
    threads.sort_unstable();
    let left_out = threads.len().saturating_sub(MOST_THREADS);
    threads.truncate(MOST_THREADS);
    (threads, left_out)
}

/// The threads of a process that run. The first one may have ended before the others.
pub(super) fn threads(pid: u32) -> Result<Vec<u32>, NoWatch> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| NoWatch::Ended)?;
    let threads = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let threads: Vec<u32> = threads.filter(|thread| !is_zombie(pid, *thread)).collect();
    match threads.is_empty() {
        true => Err(NoWatch::Ended),
        false => Ok(threads),
    }
}

/// Whether a thread has ended, and is still listed.
fn is_zombie(pid: u32, thread: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{thread}/stat")).unwrap_or_default();
    // The name before it is in parentheses, and may have some itself.
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    matches!(state, None | Some('Z' | 'X'))
}

/// Breakpoints for a thread on pieces of memory, each with its length; not enabled yet.
pub(super) fn arm(thread: u32, pieces: &[(u64, u64)]) -> Result<Armed, NoWatch> {
    let id = i32::try_from(thread).map_err(|_| NoWatch::Ended)?;
    let mut group = Group::builder().observe_pid(id).any_cpu().build_group()?;
    let mut counters = Vec::new();
    for (at, len) in pieces {
        let mut add = |event: Breakpoint| {
            let mut builder = Builder::new(event);
            builder.observe_pid(id).any_cpu().enabled(true);
            group.add(&builder)
        };
        let writes = add(Breakpoint::write(*at, *len))?;
        counters.push((writes, add(Breakpoint::read_write(*at, *len))?));
    }
    Ok(Armed {
        thread,
        group,
        counters,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_threads_are_counted() {
        assert_eq!(first_of(vec![3, 1, 2]), (vec![1, 2, 3], 0), "few");
        let (watched, left_out) = first_of((0..70).rev().collect());
        assert_eq!(
            (watched.len(), left_out),
            (64, 6),
            "the first ones are watched"
        );
        assert_eq!(watched.first(), Some(&0), "in order");
    }
}

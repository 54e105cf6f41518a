//! [`Owner`]: the process that made something, distinguished from later ones with its pid.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use cachewise_kstat::{ErrorKind, Kernel};

use crate::Error;

/// A process that made something that must be undone after its end.
///
/// Its text, `PID-START-NAMESPACE`, is part of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Its pid.
    pub pid: u32,
    /// Its start, in ticks since boot.
    start: u64,
    /// The pid namespace: pids of another one mean nothing here.
    namespace: u64,
}

/// Whether a process still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs.
    Runs,
    /// It has ended.
    Ended,
    /// It is in another pid namespace, where its state is unknown.
    Unknown,
}

/// Resolution of the start time in the kernel.
const TICK: Duration = Duration::from_millis(10);

impl Owner {
    /// Returns this process.
    ///
    /// # Errors
    /// Reading `/proc` failed.
    pub fn current() -> Result<Self, Error> {
        let pid = std::process::id();
        Ok(Self {
            pid,
            start: start_of(pid)?,
            namespace: own_namespace()?,
        })
    }

    /// Whether it runs, or may run: in another pid namespace its state is unknown here.
    ///
    /// # Errors
    /// Reading `/proc` failed.
    pub fn may_be_alive(&self) -> Result<bool, Error> {
        Ok(self.life()? != Life::Ended)
    }

    /// Returns whether it still runs.
    ///
    /// # Errors
    /// Reading `/proc` failed.
    pub fn life(&self) -> Result<Life, Error> {
        if self.namespace != own_namespace()? {
            return Ok(Life::Unknown);
        }
        match start_of(self.pid) {
            Ok(start) if start != self.start => Ok(Life::Ended),
            Ok(_) => match Kernel::new().process_has_ended(self.pid) {
                Ok(false) => Ok(Life::Runs),
                Ok(true) => Ok(Life::Ended),
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(Life::Ended),
                Err(error) => Err(error.into()),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Life::Ended),
            Err(error) => Err(error),
        }
    }
}

fn start_of(pid: u32) -> Result<u64, Error> {
    // The state directory is this machine's, wherever the changed files are.
    let start = Kernel::new().process_start(pid)?;
    Ok((start.as_millis() / TICK.as_millis()) as u64)
}

fn own_namespace() -> Result<u64, Error> {
    let path = Path::new("/proc/self/ns/pid");
    let found = fs::metadata(path).map_err(|source| Error::io("stat", path, source))?;
    Ok(found.ino())
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.pid, self.start, self.namespace)
    }
}

impl FromStr for Owner {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parsed = || {
            let mut numbers = text.split('-');
            let owner = Owner {
                pid: numbers.next()?.parse().ok()?,
                start: numbers.next()?.parse().ok()?,
                namespace: numbers.next()?.parse().ok()?,
            };
            numbers.next().is_none().then_some(owner)
        };
        parsed().ok_or_else(|| Error::Invalid {
            what: format!("{text:?}"),
            problem: "not PID-START-NAMESPACE".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_differs_from_later_process_with_same_pid() {
        let owner = Owner::current().unwrap();
        assert!(owner.may_be_alive().unwrap(), "this process runs");
        assert_eq!(
            owner.to_string().parse::<Owner>().unwrap(),
            owner,
            "a round trip"
        );
        let earlier = Owner {
            start: owner.start - 1,
            ..owner
        };
        assert!(!earlier.may_be_alive().unwrap(), "another with this id");
        let elsewhere = Owner {
            namespace: owner.namespace + 1,
            ..earlier
        };
        assert!(elsewhere.may_be_alive().unwrap(), "unknown from here");

        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let of_child = Owner {
            pid: child.id(),
            start: start_of(child.id()).unwrap(),
            ..owner
        };
        assert!(of_child.may_be_alive().unwrap(), "it sleeps");
        child.kill().unwrap();
        // Its parent has not waited for it so far.
        while of_child.may_be_alive().unwrap() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(!of_child.may_be_alive().unwrap(), "it has ended");
        for text in ["", "1", "1-2", "1-2-3-4", "a-b-c", "-1-2-3"] {
            assert!(text.parse::<Owner>().is_err(), "{text:?} is no owner");
        }
    }
}

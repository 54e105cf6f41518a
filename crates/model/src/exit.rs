//! End of a process.

use std::fmt;

use crate::reason::Reason;

/// End of a process, if it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// It exited with this status.
    Code(i32),
    /// A signal of this number ended it.
    Signal(i32),
    /// It still runs.
    Running,
    /// Its end was not observed, for this reason.
    Unknown(Reason),
}

impl Exit {
    /// Whether it exited with status 0.
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(self, Exit::Code(0))
    }

    /// The name of the signal that ended it, if any.
    #[must_use]
    pub fn signal_name(self) -> Option<&'static str> {
        let Exit::Signal(number) = self else {
            return None;
        };
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        SIGNALS.get(place).copied()
    }
}

impl fmt::Display for Exit {
    /// `0`, `SIGKILL`, `signal 34`, `running`, `?`: short enough for a column.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.signal_name()) {
            (Exit::Code(code), _) => write!(f, "{code}"),
            (Exit::Signal(_), Some(name)) => f.write_str(name),
            (Exit::Signal(number), None) => write!(f, "signal {number}"),
            (Exit::Running, _) => f.write_str("running"),
            (Exit::Unknown(_), _) => f.write_str("?"),
        }
    }
}

/// Signals 1 to 31 on every architecture that cachewise runs on (x86, arm, riscv, power, s390).
const SIGNALS: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGSTKFLT",
    "SIGCHLD",
    "SIGCONT",
    "SIGSTOP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGIO",
    "SIGPWR",
    "SIGSYS",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_prints_status_signal_or_state() {
        for (exit, text) in [
            (Exit::Code(0), "0"),
            (Exit::Code(127), "127"),
            (Exit::Signal(9), "SIGKILL"),
            (Exit::Signal(15), "SIGTERM"),
            (Exit::Signal(31), "SIGSYS"),
            (Exit::Signal(34), "signal 34"),
            (Exit::Signal(0), "signal 0"),
            (Exit::Running, "running"),
            (Exit::Unknown(Reason::EndNotRecorded), "?"),
        ] {
            assert_eq!(
                exit.to_string(),
                text,
                "{exit:?} prints so that it fits a column"
            );
        }
    }

    #[test]
    fn only_status_zero_is_success() {
        assert!(Exit::Code(0).is_success(), "0 is success");
        assert!(!Exit::Code(1).is_success(), "1 is not");
        assert!(
            !Exit::Running.is_success(),
            "neither is a process that has not ended"
        );
    }
}

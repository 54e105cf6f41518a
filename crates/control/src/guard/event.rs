//! [`Event`]: what the guard did, for people and for programs.

use std::fmt;

use cachewise_units::Bytes;
use serde::Serialize;

use super::{Kept, Means};

/// Something that the guard did, or that happened to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// What.
    #[serde(flatten)]
    pub action: Action,
    /// What is kept.
    pub kept: Kept,
    /// How much of it there was afterwards.
    pub kept_bytes: u64,
    /// How much of it there is to be.
    pub mark_bytes: u64,
}

/// What the guard did.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Action {
    /// It asked a group for memory.
    Reclaimed {
        /// The group's name.
        cgroup: String,
        /// By what.
        means: Means,
        /// How much was wanted.
        wanted_bytes: u64,
        /// How much less is charged to the group.
        reclaimed_bytes: u64,
        /// By how much what is kept rose.
        gained_bytes: u64,
        /// Share of the time in which others waited for memory, 0 to 1; `null` where the kernel does not tell.
        stall_ratio: Option<f64>,
    },
    /// It would have, but for the dry run.
    WouldReclaim {
        /// The group's name.
        cgroup: String,
        /// By what.
        means: Means,
        /// How much was wanted.
        wanted_bytes: u64,
    },
    /// Reclaim does not help, so it waits.
    BackedOff {
        /// How long.
        seconds: f64,
        /// Why, and what would help.
        reason: String,
    },
    /// A limit that it had set is what it was.
    Released {
        /// The file of the limit.
        path: String,
        /// What it says again.
        value: String,
    },
    /// A limit that it had set was changed by somebody else meanwhile, and is theirs.
    Left {
        /// The file of the limit.
        path: String,
        /// What it says.
        value: String,
    },
    /// A group is gone.
    Gone {
        /// Its name.
        cgroup: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.action {
            Action::Reclaimed {
                cgroup,
                means,
                wanted_bytes,
                reclaimed_bytes,
                gained_bytes,
                stall_ratio,
            } => {
                let (wanted, reclaimed) = (Bytes(*wanted_bytes), Bytes(*reclaimed_bytes));
                let gained = Bytes(*gained_bytes);
                write!(
                    f,
                    "reclaimed {reclaimed} of {cgroup} by {means} (wanted {wanted}, gained {gained}"
                )?;
                match stall_ratio {
                    Some(ratio) => {
                        write!(f, ", others waited {:.0} % of the time)", ratio * 100.0)?
                    }
                    None => f.write_str(")")?,
                }
            }
            Action::WouldReclaim {
                cgroup,
                means,
                wanted_bytes,
            } => {
                let wanted = Bytes(*wanted_bytes);
                write!(f, "would reclaim {wanted} of {cgroup} by {means}")?;
            }
            Action::BackedOff { seconds, reason } => write!(f, "waits {seconds:.0} s: {reason}")?,
            Action::Released { path, value } => write!(f, "put back {path}: {value}")?,
            Action::Left { path, value } => {
                write!(
                    f,
                    "left {path} alone: somebody else has set it to {value} meanwhile"
                )?;
            }
            Action::Gone { cgroup } => write!(f, "{cgroup} is gone")?,
        }
        let (kept, mark) = (Bytes(self.kept_bytes), Bytes(self.mark_bytes));
        write!(f, "; {kept} {}, mark {mark}", self.kept)
    }
}

//! [`GuardEvent`]: an event of the guard, for people and programs.

use std::fmt;

use cachewise_units::Bytes;
use serde::Serialize;

use super::kept::Kept;
use super::means::Means;

/// An action of the guard, or an event that affects it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GuardEvent {
    /// The action.
    #[serde(flatten)]
    pub action: GuardAction,
    /// The kind of memory that is kept.
    pub kept: Kept,
    /// Its amount afterwards.
    pub kept_bytes: u64,
    /// Its mark.
    pub mark_bytes: u64,
}

/// Actions of the guard.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum GuardAction {
    /// It reclaimed memory of a group.
    Reclaimed {
        /// The group's name.
        cgroup: String,
        /// The means.
        means: Means,
        /// The requested amount.
        wanted_bytes: u64,
        /// The fall of the group's charge.
        reclaimed_bytes: u64,
        /// The rise of the kept memory.
        gained_bytes: u64,
        /// Share of the time in which other tasks waited for memory, 0 to 1; `null` if the kernel
        /// does not report it.
        stall_ratio: Option<f64>,
    },
    /// It would reclaim, without the dry run.
    WouldReclaim {
        /// The group's name.
        cgroup: String,
        /// The means.
        means: Means,
        /// The requested amount.
        wanted_bytes: u64,
    },
    /// Reclaim gains little, so it waits.
    BackedOff {
        /// The length of the wait.
        seconds: f64,
        /// The reason, and the fix.
        reason: String,
    },
    /// It restored a limit.
    Released {
        /// The file of the limit.
        path: String,
        /// The restored value.
        value: String,
    },
    /// Another program changed one of its limits, which is left alone.
    Left {
        /// The file of the limit.
        path: String,
        /// The current value.
        value: String,
    },
    /// A group has come, and is watched.
    Joined {
        /// Its name.
        cgroup: String,
        /// The means.
        means: Means,
    },
    /// A group has come, and memory of it cannot be reclaimed.
    Refused {
        /// Its name.
        cgroup: String,
        /// The reason, and the fix.
        reason: String,
    },
    /// Tasks wait for memory.
    Stalled {
        /// Share of the time since the last step, 0 to 1.
        stall_ratio: f64,
    },
    /// A group is gone.
    Gone {
        /// Its name.
        cgroup: String,
    },
}

impl fmt::Display for GuardEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.action {
            GuardAction::Reclaimed {
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
            GuardAction::WouldReclaim {
                cgroup,
                means,
                wanted_bytes,
            } => {
                let wanted = Bytes(*wanted_bytes);
                write!(f, "would reclaim {wanted} of {cgroup} by {means}")?;
            }
            GuardAction::BackedOff { seconds, reason } => {
                write!(f, "waits {seconds:.0} s: {reason}")?
            }
            GuardAction::Released { path, value } => write!(f, "restored {path}: {value}")?,
            GuardAction::Left { path, value } => {
                write!(
                    f,
                    "left {path} alone: another program has set it to {value} meanwhile"
                )?;
            }
            GuardAction::Joined { cgroup, means } => {
                write!(f, "{cgroup} is there: reclaimed by {means}")?
            }
            GuardAction::Refused { cgroup, reason } => write!(f, "{cgroup} is left out: {reason}")?,
            GuardAction::Stalled { stall_ratio } => {
                write!(
                    f,
                    "tasks wait for memory {:.0} % of the time",
                    stall_ratio * 100.0
                )?;
            }
            GuardAction::Gone { cgroup } => write!(f, "{cgroup} is gone")?,
        }
        let (kept, mark) = (Bytes(self.kept_bytes), Bytes(self.mark_bytes));
        write!(f, "; {kept} {}, mark {mark}", self.kept)
    }
}

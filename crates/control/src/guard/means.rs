//! [`Means`]: what this machine lets a guard do to a group, and doing it.

use std::fmt;
use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use cachewise_kstat::{Cgroup, CgroupFiles, Hierarchy};
use cachewise_units::Bytes;
use serde::Serialize;

use super::{Options, Watched};
use crate::{Error, Journal, file, reclaim};

/// By what a group's memory is reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Means {
    /// As much as is asked for.
    #[serde(rename = "memory.reclaim")]
    Reclaim,
    /// A lower `memory.high`, put back later: lowering it reclaims.
    #[serde(rename = "memory.high")]
    High,
    /// All that can be had, stopped when there is enough.
    #[serde(rename = "memory.force_empty")]
    ForceEmpty,
    /// A lower `memory.soft_limit_in_bytes`: the group is the first to be reclaimed when the machine runs out.
    #[serde(rename = "memory.soft_limit_in_bytes")]
    SoftLimit,
}

impl Means {
    /// Returns the file that is written to.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Self::Reclaim => "memory.reclaim",
            Self::High => "memory.high",
            Self::ForceEmpty => "memory.force_empty",
            Self::SoftLimit => "memory.soft_limit_in_bytes",
        }
    }

    /// Says whether it is a limit, which has to be put back.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        matches!(self, Self::High | Self::SoftLimit)
    }

    /// Finds the best that this group offers.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where there is none, or only a limit that somebody has set.
    pub(crate) fn of(
        hierarchy: &Hierarchy,
        group: &Cgroup,
        options: &Options,
    ) -> Result<Self, Error> {
        let all = match hierarchy {
            Hierarchy::V1Memory { .. } => [Self::ForceEmpty, Self::SoftLimit],
            _ => [Self::Reclaim, Self::High],
        };
        let unsupported = |reason: String| Error::Unsupported {
            what: format!("reclaim memory of {}", group.name),
            reason,
        };
        let is_root = hierarchy.mount() == Some(&group.path);
        if is_root
            || CgroupFiles::once(&group.path)
                .memory_used(hierarchy)?
                .is_none()
        {
            return Err(unsupported(
                "the root group, or one of which is not told how much memory it has: name groups below it, such as \
                 system.slice"
                    .to_owned(),
            ));
        }
        let mut there = all
            .into_iter()
            .filter(|means| group.path.join(means.file()).exists());
        if let Some(wanted) = options.means {
            there.find(|means| *means == wanted).ok_or_else(|| {
                unsupported(format!(
                    "there is no {wanted} in it; leave the choice to guard"
                ))
            })?;
        }
        let there = options.means.or_else(|| there.next());
        let Some(means) = there else {
            return Err(unsupported(format!(
                "there is neither {} nor {} in it: is memory accounted for it? With version 2: echo +memory >{}",
                all[0].file(),
                all[1].file(),
                group
                    .path
                    .with_file_name("cgroup.subtree_control")
                    .display()
            )));
        };
        let path = group.path.join(means.file());
        if means.is_limit() && !is_unlimited(&path)? {
            return Err(unsupported(format!(
                "{} is the means here, and somebody has set it to {}: a limit of an administrator is not \
                 overwritten",
                path.display(),
                file::read(&path)?.unwrap_or_default()
            )));
        }
        if !options.dry_run {
            let opened = OpenOptions::new().write(true).open(&path);
            opened.map_err(|source| Error::io("open for writing", &path, source))?;
        }
        Ok(means)
    }
}

impl Watched {
    /// The limit that somebody else has set meanwhile, and its file: it is theirs, and not overwritten.
    ///
    /// # Errors
    /// What reading says.
    pub(crate) fn foreign(&self, journal: &Journal) -> Result<Option<(String, String)>, Error> {
        let path = self.group.path.join(self.means.file());
        if !self.means.is_limit() || journal.holds(&path)? || is_unlimited(&path)? {
            return Ok(None);
        }
        let value = file::read(&path)?;
        Ok(value.map(|value| (path.display().to_string(), value)))
    }

    /// Asks the group for so much; gives how much less is charged to it. Where that can be, it stops early when
    /// `is_over` says so.
    pub(crate) fn take(
        &self,
        hierarchy: &Hierarchy,
        wanted: Bytes,
        journal: &mut Journal,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Bytes, Error> {
        let group = &self.group.path;
        let used = || {
            Ok::<_, Error>(
                CgroupFiles::once(group)
                    .memory_used(hierarchy)?
                    .unwrap_or_default(),
            )
        };
        let before = used()?;
        let path = group.join(self.means.file());
        match self.means {
            Means::Reclaim => return Ok(reclaim(hierarchy, group, wanted)?.bytes()),
            Means::High | Means::SoftLimit => {
                let limit = before.saturating_sub(wanted).0.max(1);
                journal.change(self.means.file(), &path, &limit.to_string(), &[])?;
            }
            Means::ForceEmpty => force_empty(&path, is_over)?,
        }
        Ok(before.saturating_sub(used()?))
    }
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file())
    }
}

/// No number of version 1 is larger; it says so rounded down to pages.
fn is_unlimited(path: &Path) -> Result<bool, Error> {
    let Some(value) = file::read(path)? else {
        // Gone, which the next look finds out.
        return Ok(true);
    };
    let number = value.parse::<u64>();
    Ok(value == "max" || number.is_ok_and(|bytes| bytes > i64::MAX as u64 - (1 << 20)))
}

/// How often it is looked whether there is enough: large folios go at 50 GiB a second, which is 12 MiB.
const LOOK: Duration = Duration::from_micros(250);

/// Writing to this file takes everything, and returns when nothing is left to take. The kernel stops when the
/// writer is signalled, so a child writes, which is killed when there is enough.
fn force_empty(path: &Path, is_over: &dyn Fn() -> bool) -> Result<(), Error> {
    let failed = |source| Error::io("write 0 to", path, source);
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", "echo 0 >\"$1\"", "sh"])
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    cachewise_sys::die_with_spawner(&mut command);
    let mut child = command.spawn().map_err(failed)?;
    while child.try_wait().map_err(failed)?.is_none() {
        if is_over() {
            // It may have ended by itself.
            let _ = child.kill();
            child.wait().map_err(failed)?;
            break;
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

//! [`Means`]: means of reclaim of a group, and their use.

use std::fmt;
use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use cachewise_kstat::{Cgroup, CgroupFiles, Hierarchy};
use cachewise_units::Bytes;
use serde::Serialize;

use super::{GuardOptions, Watched};
use crate::{Error, Journal, file, reclaim};

/// Means of reclaim of a group's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Means {
    /// Reclaims the requested amount.
    #[serde(rename = "memory.reclaim")]
    Reclaim,
    /// Lowers `memory.high`, which reclaims, and restores it later.
    #[serde(rename = "memory.high")]
    High,
    /// Reclaims everything, stopped at the target.
    #[serde(rename = "memory.force_empty")]
    ForceEmpty,
    /// Lowers `memory.soft_limit_in_bytes`: the group is the first to be reclaimed when the machine
    /// runs out of memory.
    #[serde(rename = "memory.soft_limit_in_bytes")]
    SoftLimit,
}

impl Means {
    /// Returns its file.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Self::Reclaim => "memory.reclaim",
            Self::High => "memory.high",
            Self::ForceEmpty => "memory.force_empty",
            Self::SoftLimit => "memory.soft_limit_in_bytes",
        }
    }

    /// Whether it is a limit, which must be restored.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        matches!(self, Self::High | Self::SoftLimit)
    }

    /// Finds the best means of this group.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is none, or only a limit that another program has set.
    pub(crate) fn for_group(
        hierarchy: &Hierarchy,
        group: &Cgroup,
        options: &GuardOptions,
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
                "the root group, or a group whose memory the kernel does not report: name groups below it, for example \
                 system.slice"
                    .to_owned(),
            ));
        }
        let mut there = all
            .into_iter()
            .filter(|means| group.path.join(means.file()).exists());
        if let Some(wanted) = options.means {
            there.find(|means| *means == wanted).ok_or_else(|| {
                unsupported(format!("it has no {wanted}; leave the choice to guard"))
            })?;
        }
        let there = options.means.or_else(|| there.next());
        let Some(means) = there else {
            return Err(unsupported(format!(
                "it has neither {} nor {}: is its memory accounted? With version 2: echo +memory >{}",
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
                "{} is the only means here, and its value is {}: a limit of an administrator is not \
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
    /// A limit that another program has set meanwhile, with its file; it is not overwritten.
    ///
    /// # Errors
    /// Reading failed.
    pub(crate) fn foreign(&self, journal: &Journal) -> Result<Option<(String, String)>, Error> {
        let path = self.group.path.join(self.means.file());
        if !self.means.is_limit() || journal.holds(&path)? || is_unlimited(&path)? {
            return Ok(None);
        }
        let value = file::read(&path)?;
        Ok(value.map(|value| (path.display().to_string(), value)))
    }

    /// Reclaims this much of the group; returns the fall of its charge. Stops early when `is_over`
    /// returns true, if the means can.
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

/// Version 1 has no larger number; it reports it rounded down to pages.
fn is_unlimited(path: &Path) -> Result<bool, Error> {
    let Some(value) = file::read(path)? else {
        // A vanished group is found at the next step.
        return Ok(true);
    };
    let number = value.parse::<u64>();
    Ok(value == "max" || number.is_ok_and(|bytes| bytes > i64::MAX as u64 - (1 << 20)))
}

/// Interval of checks for the target: large folios are reclaimed at 50 GiB a second, which is 12
/// MiB per interval.
const CHECK_INTERVAL: Duration = Duration::from_micros(250);

/// Writing to this file reclaims everything, and returns at the end. The kernel stops when the
/// writer gets a signal, so a child writes, which is killed at the target.
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
            // It may have ended already.
            let _ = child.kill();
            child.wait().map_err(failed)?;
            break;
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    Ok(())
}

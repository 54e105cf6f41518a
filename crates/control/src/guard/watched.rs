//! [`Watched`]: a group, and the use of its means of reclaim.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use cachewise_kstat::{Cgroup, CgroupFiles, Hierarchy};
use cachewise_units::Bytes;

use super::means::Means;
use super::options::GuardOptions;
use crate::{Error, Journal, file, reclaim};

/// A group with its means of reclaim.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The group.
    pub group: Cgroup,
    /// Its means of reclaim.
    pub means: Means,
}

impl Watched {
    /// Chooses the best means of this group.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is none, or only a limit that another program has set.
    pub(crate) fn choose(
        hierarchy: &Hierarchy,
        group: Cgroup,
        options: &GuardOptions,
    ) -> Result<Self, Error> {
        let all = match hierarchy {
            Hierarchy::V1Memory { .. } => [Means::ForceEmpty, Means::SoftLimit],
            _ => [Means::Reclaim, Means::High],
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
        Ok(Self { group, means })
    }

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
                // Whole pages, as the kernel keeps it: after a kill before its answer is noted, another value would be
                // taken for that of another program.
                let page = cachewise_sys::page_size().get();
                let limit = (before.saturating_sub(wanted).0 / page * page).max(page);
                journal.change(self.means.file(), &path, &limit.to_string(), &[])?;
            }
            Means::ForceEmpty => force_empty(&path, is_over)?,
        }
        Ok(before.saturating_sub(used()?))
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

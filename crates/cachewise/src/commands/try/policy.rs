//! [`TrialPolicy`]: changes of files as a traced command opens and maps them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

use cachewise_sys::{Call, MapAdvice, StoppedTask};
use rustix::fs::{Advice, OFlags, fadvise, fcntl_getfl, fcntl_setfl, fstatfs};

/// Changes of files; the default changes nothing. Programs and libraries stay as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrialPolicy {
    /// Advice on each file that is opened.
    pub files: Option<Advice>,
    /// Advice on each mapping of a file.
    pub maps: Option<MapAdvice>,
    /// Files are open without O_DIRECT.
    pub no_direct: bool,
}

/// The name of a change by open(2).
const TRUNCATING: &str = "open with O_TRUNC";

/// The calls of one run.
#[derive(Debug, Default)]
pub struct Traces {
    /// Files and mappings that were changed.
    pub applied: u64,
    /// Changes that the kernel refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Calls that changed files or their names.
    pub changes: BTreeMap<&'static str, u64>,
}

impl Traces {
    /// Applies the policy behind a call.
    pub fn apply(&mut self, policy: TrialPolicy, task: &mut StoppedTask, call: Call) {
        let applied = match call {
            Call::Changed(name) => {
                *self.changes.entry(name).or_default() += 1;
                return;
            }
            Call::Opened(file) => {
                // Devices are emptied without effect: `>/dev/null`.
                if file.truncates && matches!(data_file(task, file.file), Ok(Some(_))) {
                    *self.changes.entry(TRUNCATING).or_default() += 1;
                }
                opened(policy, task, file.file)
            }
            Call::Mapped(map) => match policy.maps {
                Some(advice) if !map.is_program => match data_file(task, map.file) {
                    Ok(Some(_)) => task.advise(map.address, map.length, advice).map(|()| true),
                    other => other.map(|_| false),
                },
                _ => return,
            },
        };
        match applied {
            Ok(true) => self.applied += 1,
            Ok(false) => {}
            Err(error) => *self.refused.entry(error.to_string()).or_default() += 1,
        }
    }
}

fn opened(policy: TrialPolicy, task: &StoppedTask, number: RawFd) -> io::Result<bool> {
    if policy.files.is_none() && !policy.no_direct {
        return Ok(false);
    }
    let Some(file) = data_file(task, number)? else {
        return Ok(false);
    };
    let mut is_changed = false;
    if let Some(advice) = policy.files {
        fadvise(&file, 0, None, advice)?;
        is_changed = true;
    }
    if policy.no_direct {
        let flags = fcntl_getfl(&file)?;
        if flags.contains(OFlags::DIRECT) {
            fcntl_setfl(&file, flags - OFlags::DIRECT)?;
            is_changed = true;
        }
    }
    Ok(is_changed)
}

/// File systems whose files are the kernel's: proc, sysfs, cgroup, cgroup2, debugfs, tracefs, bpf (statfs(2)).
const OF_KERNEL: [i64; 7] = [
    0x9fa0,
    0x6265_6572,
    0x0027_e0eb,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
    0xcafe_4a11,
];

/// A regular file that a task has open, and that is no library and none of the kernel's.
fn data_file(task: &StoppedTask, number: RawFd) -> io::Result<Option<OwnedFd>> {
    let file = task.descriptor(number)?;
    let file = File::from(file);
    let kind = fstatfs(&file)?.f_type;
    if !file.metadata()?.is_file() || OF_KERNEL.contains(&kind) {
        return Ok(None);
    }
    let path: PathBuf = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let name = path.file_name().map(|name| name.to_string_lossy());
    let is_library = name.is_some_and(|name| name.ends_with(".so") || name.contains(".so."));
    Ok((!is_library).then(|| file.into()))
}

//! State files: settings that killed runs left, restored by the next run.

use std::path::{Path, PathBuf};

use anyhow::Result;
use cachewise_control::{Owner, Restored, Unsure, recover, state_directory};

use cachewise_cli::output::{explain, tell};
use cachewise_units::counted;

/// Directory of state files: the one of `--state`, or the default.
pub fn directory(chosen: Option<&Path>) -> PathBuf {
    chosen.map_or_else(state_directory, Path::to_owned)
}

/// The outcome of reading state files.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Number of settings and state files that could not be restored.
    pub failed: usize,
    /// The ended processes that had left state files.
    pub ended: Vec<Owner>,
}

/// Restores the settings that killed runs left, and reports them.
pub fn recovered(directory: &Path, unsure: Unsure) -> Result<Recovery> {
    let mut recovery = Recovery::default();
    let failed = &mut recovery.failed;
    for found in recover(directory, unsure)? {
        match found {
            Ok(found) => {
                tell(&format!(
                    "an earlier `cachewise {}` was killed before it restored its settings: {}",
                    found.by,
                    number(&found.restored)
                ));
                *failed += report_restored(&found.restored);
                recovery.ended.push(found.owner);
            }
            Err(error) => {
                *failed += 1;
                tell(&explain(&error.into()));
            }
        }
    }
    Ok(recovery)
}

fn number(restored: &Restored) -> String {
    match restored.restored.len() {
        0 => "no setting to restore".to_owned(),
        number => format!("{} restored", counted(number as u64, "setting")),
    }
}

/// Reports restored and failed settings. Returns the number of failed ones.
pub fn report_restored(restored: &Restored) -> usize {
    for entry in &restored.restored {
        tell(&format!(
            "restored {}: {}",
            entry.path.display(),
            entry.before
        ));
    }
    for (entry, now) in &restored.left {
        tell(&format!(
            "left {} alone: another program has set it to {now}; it was {}",
            entry.path.display(),
            entry.before
        ));
    }
    for (entry, error) in &restored.failed {
        tell(&format!(
            "cannot restore {} to {}: {error}; it stays in the state file",
            entry.path.display(),
            entry.before
        ));
    }
    restored.failed.len()
}

//! State files: what runs left that were killed, put back by the next.

use std::path::{Path, PathBuf};

use anyhow::Result;
use cachewise_control::{Owner, Restored, Unsure, recover, state_directory};

use crate::output::{explain, tell};

/// Where they are, unless it is said.
pub fn directory(chosen: Option<&Path>) -> PathBuf {
    chosen.map_or_else(state_directory, Path::to_owned)
}

/// The outcome of reading state files.
#[derive(Debug, Default)]
pub struct Recovery {
    /// How many settings and state files could not be put back.
    pub failed: usize,
    /// The processes that had left them.
    pub ended: Vec<Owner>,
}

/// Puts back what runs left that were killed, and says so.
pub fn recovered(directory: &Path, unsure: Unsure) -> Result<Recovery> {
    let mut recovery = Recovery::default();
    let failed = &mut recovery.failed;
    for found in recover(directory, unsure)? {
        match found {
            Ok(found) => {
                tell(&format!(
                    "an earlier `cachewise {}` was killed before it put back what it had changed: {}",
                    found.by,
                    number(&found.restored)
                ));
                *failed += told(&found.restored);
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
        0 => "nothing was left to be put back".to_owned(),
        1 => "1 setting is put back".to_owned(),
        number => format!("{number} settings are put back"),
    }
}

/// Says what was put back, and what was not. Gives how many could not be.
pub fn told(restored: &Restored) -> usize {
    for entry in &restored.restored {
        tell(&format!(
            "put back {}: {}",
            entry.path.display(),
            entry.before
        ));
    }
    for (entry, now) in &restored.left {
        tell(&format!(
            "left {} alone: somebody else has set it to {now}; it was {}",
            entry.path.display(),
            entry.before
        ));
    }
    for (entry, error) in &restored.failed {
        tell(&format!(
            "could not put back {} to {}: {error}; it stays in the state file",
            entry.path.display(),
            entry.before
        ));
    }
    restored.failed.len()
}

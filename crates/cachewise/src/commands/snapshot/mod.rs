//! `snapshot`: saves, restores and compares residency, or what a command touches.
//!
//! # Layout
//! - `save`, `restore`, `diff`: the residency of files
//! - `of_command`: the pages that a command touches
//! - `read`: snapshots that are read; `telling`: messages about single files

pub mod arguments;
mod diff;
mod of_command;
mod read;
mod restore;
mod save;
mod telling;

use std::process::ExitCode;

use anyhow::Result;

use arguments::{Snapshot, SnapshotCommand};

pub use read::read;

/// Saves, restores or compares.
pub fn snapshot(arguments: Snapshot) -> Result<ExitCode> {
    match arguments.command {
        SnapshotCommand::Save {
            file,
            mut paths,
            list,
            select,
            of,
            command,
        } => {
            if of {
                return of_command::save(&file, &command);
            }
            list.add_to(&mut paths)?;
            save::save(&file, &paths, &select)
        }
        SnapshotCommand::Restore {
            file,
            anyway,
            rate,
            most,
            threads,
            dry_run,
        } => {
            if dry_run {
                return restore::would_restore(&file, anyway);
            }
            restore::bring_back(&file, anyway, (rate, most), threads)
        }
        SnapshotCommand::Prune { file, command } => of_command::prune(&file, &command),
        SnapshotCommand::Diff {
            file,
            other,
            top,
            output,
        } => diff::compare(&file, other.as_deref(), top, &output),
    }
}

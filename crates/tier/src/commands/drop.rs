//! `tier drop`: paths of a mount are forgotten, here and on all machines.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use cachewise_cli::output::{Stream, tell};
use cachewise_cli::sinks::Sinks;
use cachewise_model::{Missing, Reason};
use cachewise_tier::mount::{self, DropReport, REPORT};
use cachewise_units::escaped;
use cachewise_view::{Sheet, SheetCell};

use super::columns::DROPPED;
use super::stat;
use crate::commands::arguments::Drop as Arguments;

const NO_MESSAGES: Missing = Missing::NotOffered(Reason::NoEngine);

/// Runs the subcommand.
pub fn drop_paths(arguments: &Arguments) -> Result<ExitCode> {
    let sinks = Sinks::open(&arguments.output, Stream::Stdout)?;
    let mut sheet = Sheet::new(&DROPPED);
    let mut is_whole = true;
    for path in &arguments.paths {
        let (directory, below) = mount_of(path)?;
        let report = dropped(&directory, &below)?;
        is_whole &= report.is_told != Some(false) && report.engine_failed == 0;
        let is_alone = report.is_told.is_none();
        add(&mut sheet, &directory, &report);
        if !is_alone {
            continue;
        }
        // Without messages, at least the mounts of this machine.
        for other in mount::beside(&directory)? {
            add(&mut sheet, &other, &dropped(&other, &below)?);
        }
    }
    super::written(sinks, &sheet.chosen(arguments.columns.as_ref()))?;
    if !is_whole {
        tell(
            "not all is dropped: other machines may see old names until their --revalidate has passed",
        );
        return Ok(ExitCode::from(1));
    }
    Ok(ExitCode::SUCCESS)
}

fn add(sheet: &mut Sheet, directory: &Path, report: &DropReport) {
    if let Some(why) = &report.why {
        tell(&format!(
            "warning: {}: other machines were not notified ({why}); they see the change after their --revalidate",
            escaped(directory)
        ));
    }
    let path = match report.path.as_os_str().is_empty() {
        true => Path::new("."),
        false => &report.path,
    };
    let told = |told: bool| SheetCell::text(if told { "yes" } else { "no" });
    sheet.rows.push(vec![
        SheetCell::text(escaped(&path).to_string()),
        SheetCell::text(escaped(directory).to_string()),
        SheetCell::count(report.names),
        SheetCell::count(report.blocks),
        SheetCell::count(report.engine_blocks),
        SheetCell::count(report.engine_failed),
        SheetCell::or_missing(report.is_told, NO_MESSAGES, told),
    ]);
}

/// Returns the mount that a path is in, and the path below it. The path itself need not exist any more.
fn mount_of(path: &Path) -> Result<(PathBuf, PathBuf)> {
    let absolute = std::path::absolute(path)?;
    // Links above the last name lead to where they lead.
    let parent = absolute.parent().map(Path::canonicalize);
    let linked = match (parent, absolute.file_name()) {
        (Some(Ok(parent)), Some(name)) => Some(parent.join(name)),
        _ => None,
    };
    for path in linked.into_iter().chain([absolute]) {
        // Of directories that cannot be looked at, the topmost is the mount.
        let mut failed = None;
        for directory in path.ancestors() {
            match fs::symlink_metadata(directory.join(REPORT)) {
                Ok(_) => {
                    let below = path.strip_prefix(directory)?.to_owned();
                    return Ok((directory.to_owned(), below));
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {}
                    _ => failed = Some((directory, error)),
                },
            }
        }
        if let Some((directory, error)) = failed {
            return Err(stat::unreadable(directory, error));
        }
    }
    bail!(
        "{}: not in a mount of `cachewise mount`; `findmnt -t fuse` lists mounts",
        escaped(path)
    )
}

/// Has a mount drop a path.
fn dropped(directory: &Path, path: &Path) -> Result<DropReport> {
    let report = mount::drop_file(directory, path);
    let report = fs::read(&report).with_context(|| {
        format!(
            "{}: cannot drop {}; only root and the user who mounted it can",
            escaped(directory),
            escaped(path)
        )
    })?;
    serde_json::from_slice(&report).with_context(|| {
        format!(
            "{}: the report cannot be read; is the mount of another version?",
            escaped(directory)
        )
    })
}

//! Commands that run more than once: changes after which they may not do the same again.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use cachewise_model::{Counter, EvictionCause, FileRow, Interval};

/// The files that the command wrote.
pub fn written(interval: &Interval) -> Vec<&FileRow> {
    interval
        .files
        .iter()
        .filter(|file| is_written(file))
        .collect()
}

fn is_written(file: &FileRow) -> bool {
    let counts = [
        Counter::WriteRequests,
        Counter::WriteBytes,
        Counter::DirtiedPages,
        Counter::DirectWriteRequests,
    ];
    let has = |counter: &Counter| file.ledger[*counter] > 0;
    let is_file = file.filesystem.as_ref().known().is_some();
    // A block device has dirty pages of its file system too, for the time of the last access to a file, say.
    let of_device = [Counter::WriteNewPages, Counter::DirectWriteRequests];
    let is_changed = match is_file {
        true => counts.iter().any(has),
        false => of_device.iter().any(has),
    };
    file.number.is_some() && is_changed
}

/// Whether the command removed or truncated files that had pages: evictions show it where calls are not watched.
pub fn is_unlinked(interval: &Interval) -> bool {
    let causes = [EvictionCause::Unlink, EvictionCause::Truncation];
    // Other programs remove files that the command has read, too.
    let is_own = |pid| interval.processes.iter().any(|own| own.pid == Some(pid));
    interval.evictions.iter().any(|eviction| {
        let culprit = eviction.culprit.as_ref();
        let pid = culprit.and_then(|culprit| culprit.pid.known());
        causes.contains(&eviction.cause) && eviction.pages > 0 && pid.is_some_and(is_own)
    })
}

/// Runs a shell command that restores what the command changed.
pub fn prepare(command: &str) -> Result<()> {
    let mut shell = Command::new("sh");
    // Standard output is ours.
    shell
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(std::io::stderr());
    let mut child =
        cachewise_sys::spawn_untouched(&mut shell).context("cannot run the shell for --prepare")?;
    let status = child.wait().context("cannot learn how --prepare ended")?;
    if !status.success() {
        bail!("--prepare failed: {status}");
    }
    Ok(())
}

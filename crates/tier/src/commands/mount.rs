//! `mount`: an origin as a directory, read through the cache.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use cachewise_tier::mount::{self, Mount, MountOptions};
use cachewise_units::escaped;

use crate::commands::arguments::Mount as Arguments;
use crate::commands::{background, cache, published};
use cachewise_cli::interrupt::Interrupt;
use cachewise_cli::output::tell;

/// Time for readers to finish after a signal.
const PATIENCE: Duration = Duration::from_secs(2);

/// Interval of the check for an unmount by another process.
const LOOK: Duration = Duration::from_millis(200);

/// Mounts an origin until a signal ends it, or starts a process that does.
pub fn mount(arguments: &Arguments, typed: &[OsString]) -> Result<ExitCode> {
    if arguments.background {
        return background::start(typed);
    }
    if arguments.detached {
        background::detach();
    }
    let mut wanted = cache::wanted(&arguments.settings, |_| {})?;
    // Before anything is there to be undone.
    let interrupt = Interrupt::catch()?;
    let runtime = cache::runtime(&wanted.cache)?;
    let version = published::Mounted::open(&arguments.origin, &mut wanted, &runtime)?;
    let origin = match &version {
        Some(version) => version.origin(),
        None => cache::origin(&arguments.origin, &wanted)?,
    };
    refuse_itself(&arguments.origin, &arguments.directory)?;
    if let Some(name) = mount::left_behind(&arguments.directory)? {
        tell(&format!(
            "{}: the process of the mount of {name} has ended; removing the mount",
            escaped(&arguments.directory)
        ));
    }
    if let Some(lacks) = runtime.block_on(origin.check())? {
        tell(&format!("warning: {lacks}"));
    }
    let cache = cache::open(&runtime, &wanted, origin)?;
    if let Some(version) = &version {
        version.read_through(&cache);
        // A tree whose topmost chunk is damaged is refused here, and not by each read.
        runtime.block_on(cache.look(&wanted.mount.root))?;
    }
    let options = MountOptions {
        name: arguments.origin.clone(),
        // A published file never changes.
        pin: match &version {
            Some(_) => cachewise_units::Bytes(0),
            None => wanted.mount.pin,
        },
        ..wanted.mount.clone()
    };
    let mount = Mount::start(
        cache.clone(),
        runtime.handle().clone(),
        &arguments.directory,
        &options,
    )?;
    let described = match &version {
        Some(version) => version.described(),
        None => arguments.origin.clone(),
    };
    let end = match arguments.detached {
        true => "umount, or fusermount3 -u,",
        false => "Ctrl-C",
    };
    tell(&format!(
        "{} is mounted on {}, read-only: {}; {end} unmounts it",
        escaped(&described),
        escaped(mount.directory()),
        cache::described(&wanted.cache)
    ));
    background::ready(arguments.detached)?;
    let mut follow = version.and_then(published::Mounted::follow);
    while !interrupt.wait_for(LOOK)? {
        if mount.is_over() {
            break;
        }
        if let Some(follow) = &mut follow {
            follow.look(&runtime, &mount);
        }
    }
    let directory = mount.directory().to_owned();
    let is_clean = mount.unmount(PATIENCE)?;
    if !is_clean {
        tell(&format!(
            "{}: some program still has files open there; its next read fails",
            escaped(&directory)
        ));
    }
    // A second Ctrl-C ends the program at once, wherever it is.
    runtime
        .block_on(cache.close())
        .context("cannot write what waits to be written to the disk")?;
    runtime.end_within(PATIENCE);
    Ok(ExitCode::SUCCESS)
}

/// A mount that reads through itself would wait for itself.
fn refuse_itself(origin: &str, directory: &Path) -> Result<()> {
    let (Ok(origin), Ok(directory)) = (Path::new(origin).canonicalize(), directory.canonicalize())
    else {
        return Ok(());
    };
    anyhow::ensure!(
        !directory.starts_with(&origin),
        "{} is in the origin {}, so that the mount would read through itself: name a directory outside of it",
        escaped(&directory),
        escaped(&origin)
    );
    Ok(())
}

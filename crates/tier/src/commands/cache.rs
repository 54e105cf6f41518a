//! A block cache from what was typed: settings, the origin, and the runtime that it works in.

use std::collections::HashMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cachewise_sys::limit_heaps;
use cachewise_tier::{BlockCache, Error, Origin, SETTINGS, Setting, Settings, SettingsBuilder};
use cachewise_units::{Bytes, escaped};
use rustix::process::{Resource, getrlimit};
use tokio::runtime::Runtime;

use crate::commands::arguments::SettingFlags;
use cachewise_cli::output::tell;
use cachewise_cli::settings;

/// Returns the settings: a flag overrides the environment, which overrides a settings file. Errors name the source of a
/// wrong value. `adapt` changes the settings
/// that file and environment have for all commands.
pub fn wanted<const MOUNTS: bool>(
    typed: &SettingFlags<MOUNTS>,
    adapt: impl FnOnce(&mut Settings),
) -> Result<SettingsBuilder> {
    let mut wanted = SettingsBuilder::default();
    let mut given = match &typed.file {
        Some(file) => settings::of_file(file)?,
        None => Vec::new(),
    };
    let mut sources = HashMap::new();
    let names = SETTINGS.iter().map(|setting| setting.name);
    given.extend(settings::of_environment(Setting::PREFIX, names)?);
    for one in given {
        let taken = match one.values.as_slice() {
            [value] => wanted.take(&one.name, value),
            _ => Err("it has one value".to_owned()),
        };
        taken
            .map_err(anyhow::Error::msg)
            .with_context(|| one.source.clone())?;
        sources.insert(one.name, one.source);
    }
    adapt(&mut wanted.cache);
    for (name, value) in &typed.flags {
        let source = match typed.are_options {
            true => format!("option {name}"),
            false => flag(name),
        };
        let taken = wanted.take(name, value).map_err(anyhow::Error::msg);
        taken.with_context(|| source.clone())?;
        sources.insert((*name).to_owned(), source);
    }
    let source = |name: &str| sources.get(name).cloned().unwrap_or_else(|| flag(name));
    wanted.finish(source).map_err(|error| named(error, source))
}

/// Returns an error with the flag of the setting that is wrong, as typed.
pub fn spelled(error: Error) -> anyhow::Error {
    named(error, flag)
}

/// Returns an error with the source of the setting that is wrong: a flag, an option of mount(8), a variable, or a key.
fn named(error: Error, source: impl Fn(&str) -> String) -> anyhow::Error {
    match error {
        Error::Setting { setting, why } if Setting::find(setting).is_ok() => {
            anyhow::anyhow!("{}: {why}", source(setting))
        }
        error => error.into(),
    }
}

/// Returns the flag of a setting, as typed.
fn flag(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}

/// The runtime of a cache. Dropping it does not block, or an origin that hangs would hang the
/// program.
#[derive(Debug)]
pub struct CacheRuntime(Option<Runtime>);

impl CacheRuntime {
    /// Ends it, when what is under way has ended or this time is over.
    pub fn end_within(mut self, time: Duration) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(time);
        }
    }
}

impl Deref for CacheRuntime {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        match &self.0 {
            Some(runtime) => runtime,
            None => unreachable!("it is taken by what takes this"),
        }
    }
}

impl Drop for CacheRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Addresses that a cache takes beside its memory for blocks: the program, its heaps, and the stacks of its threads.
const ADDRESSES: Bytes = Bytes(256 << 20);

/// Refuses a limit of addresses that allocations would reach in the middle of the work, which ends the process.
fn check_address_limit(memory: Bytes) -> Result<()> {
    let Some(limit) = getrlimit(Resource::As).current.map(Bytes) else {
        return Ok(());
    };
    let least = Bytes(memory.0.saturating_add(ADDRESSES.0));
    ensure!(
        limit >= least,
        "a limit of {limit} of addresses (ulimit -v) is too low for a cache with {memory} of memory: allow {least}, or give \
         it less with --memory"
    );
    limit_heaps(1);
    Ok(())
}

/// Starts the runtime that a cache with these settings works in.
pub fn runtime(settings: &Settings) -> Result<CacheRuntime> {
    check_address_limit(settings.memory)?;
    let runtime = cachewise_tier::runtime("cache", cachewise_tier::worker_threads())
        .context("cannot start the threads of the cache")?;
    Ok(CacheRuntime(Some(runtime)))
}

/// Opens an origin by name. Credentials for network origins come from the environment. A name may
/// contain a password, so errors do not show it before it was checked.
pub fn origin(name: &str, wanted: &SettingsBuilder) -> Result<Arc<dyn Origin>> {
    let origin = wanted.origin(Path::new(name)).map_err(spelled);
    if name.contains("://") {
        return origin;
    }
    origin.with_context(|| format!("cannot open the origin {}", escaped(name)))
}

/// Opens the cache, and tells what will hurt.
pub fn open(
    runtime: &Runtime,
    wanted: &SettingsBuilder,
    origin: Arc<dyn Origin>,
) -> Result<BlockCache> {
    let opened = runtime.block_on(BlockCache::open(wanted.cache.clone(), origin));
    let cache = opened.map_err(spelled)?;
    for warning in cache.warnings() {
        tell(&format!("warning: {warning}"));
    }
    Ok(cache)
}

/// Returns a summary of the settings, on one line.
pub fn described(settings: &Settings) -> String {
    let disk = match &settings.disk {
        Some(_) => format!("{} on disk", settings.disk_size),
        None => "no disk".to_owned(),
    };
    let engine = match &settings.engine {
        Some(engine) => engine.to_string(),
        None => "no engine".to_owned(),
    };
    format!(
        "blocks of {}, {} of memory, {disk}, {engine}",
        settings.block, settings.memory
    )
}

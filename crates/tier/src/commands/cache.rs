//! A block cache from what was typed: settings, the origin, and the runtime that it works in.

use std::collections::HashSet;
use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use cachewise_sys::limit_heaps;
use cachewise_tier::{BlockCache, Error, Origin, SETTINGS, Setting, Settings, SettingsBuilder};
use cachewise_units::{Bytes, escaped};
use rustix::process::{Resource, getrlimit};
use tokio::runtime::Runtime;

use crate::commands::arguments::SettingFlags;
use cachewise_cli::output::tell;

/// Returns the settings: a flag overrides the environment, which overrides a settings file.
pub fn wanted<const MOUNTS: bool>(typed: &SettingFlags<MOUNTS>) -> Result<SettingsBuilder> {
    wanted_with(typed, |_| {})
}

/// As [`wanted`], for a command that adapts the settings which file and environment have for all commands. Flags override
/// them nevertheless.
pub fn wanted_with<const MOUNTS: bool>(
    typed: &SettingFlags<MOUNTS>,
    adapt: impl FnOnce(&mut Settings),
) -> Result<SettingsBuilder> {
    let mut wanted = SettingsBuilder::default();
    if let Some(file) = &typed.file {
        let of_file = || format!("settings file {}", escaped(file));
        let text = fs::read_to_string(file)
            .with_context(|| format!("cannot read the settings file {}", escaped(file)))?;
        take_file(&mut wanted, &text).with_context(of_file)?;
    }
    for setting in SETTINGS {
        let variable = setting.variable();
        // Set and empty is how it is not set where a file lists variables.
        if let Some(value) = std::env::var_os(&variable).filter(|value| !value.is_empty()) {
            let value = value.to_str().context("is no text in UTF-8");
            value
                .and_then(|value| wanted.take(setting.name, value).map_err(anyhow::Error::msg))
                .with_context(|| format!("environment variable {variable}"))?;
        }
    }
    adapt(&mut wanted.cache);
    for (name, value) in &typed.flags {
        let taken = wanted.take(name, value).map_err(anyhow::Error::msg);
        taken.with_context(|| flag(name))?;
    }
    wanted.finish(flag).map_err(|error| match error {
        Error::Setting { setting, why } if Setting::find(setting).is_ok() => {
            anyhow::anyhow!("{}: {why}", flag(setting))
        }
        error => error.into(),
    })
}

/// Returns the flag of a setting, as typed.
fn flag(name: &str) -> String {
    format!("--{}", name.replace('_', "-"))
}

fn take_file(wanted: &mut SettingsBuilder, text: &str) -> Result<()> {
    let mut taken = HashSet::new();
    for (key, value) in text.parse::<toml::Table>()? {
        let value = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            toml::Value::Boolean(switch) => switch.to_string(),
            other => bail!(
                "{key} is a {}: write a number, true or false, or a text in quotes",
                other.type_str()
            ),
        };
        let written = escaped(&key).to_string();
        wanted
            .take(&key, &value)
            .map_err(anyhow::Error::msg)
            .with_context(|| written.clone())?;
        if !taken.insert(key.replace('-', "_")) {
            bail!("{written} is there twice, with - and with _: leave one out");
        }
    }
    Ok(())
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
    let origin = wanted.origin(Path::new(name));
    if name.contains("://") {
        return Ok(origin?);
    }
    origin.with_context(|| format!("cannot open the origin {}", escaped(name)))
}

/// Opens the cache, and tells what will hurt.
pub fn open(
    runtime: &Runtime,
    wanted: &SettingsBuilder,
    origin: Arc<dyn Origin>,
) -> Result<BlockCache> {
    let cache = runtime.block_on(BlockCache::open(wanted.cache.clone(), origin))?;
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

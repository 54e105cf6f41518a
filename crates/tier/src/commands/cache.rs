//! A block cache from what was typed: settings, the origin, and the runtime that it works in.

use std::fs;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cachewise_tier::{BlockCache, Origin, Settings, SettingsBuilder};
use cachewise_units::escaped;
use tokio::runtime::Runtime;

use crate::commands::arguments::CacheFlags;
use cachewise_cli::output::tell;

/// Takes a settings file, then what was typed.
pub fn wanted(typed: &CacheFlags) -> Result<SettingsBuilder> {
    wanted_with(typed, |_| {})
}

/// As [`wanted`], for commands to which a settings file, which is for others too, does not say all: what is typed has the
/// last word.
pub fn wanted_with(
    typed: &CacheFlags,
    adapt: impl FnOnce(&mut Settings),
) -> Result<SettingsBuilder> {
    let mut wanted = SettingsBuilder::default();
    if let Some(file) = &typed.file {
        take_file(&mut wanted, file)?;
    }
    adapt(&mut wanted.settings);
    for (name, value) in &typed.flags {
        wanted
            .take(name, value)
            .map_err(|why| anyhow::anyhow!("--{name}: {why}"))?;
    }
    Ok(wanted.finish(|name| format!("--{name}"))?)
}

fn take_file(wanted: &mut SettingsBuilder, file: &Path) -> Result<()> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("cannot read the settings file {}", escaped(file)))?;
    let table: toml::Table = text
        .parse()
        .with_context(|| format!("settings file {}", escaped(file)))?;
    for (name, value) in table {
        let value = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            other => bail!(
                "settings file {}: {name} is a {}: write a number, or a text in quotes",
                escaped(file),
                other.type_str()
            ),
        };
        wanted.take(&name, &value).map_err(|why| {
            anyhow::anyhow!("settings file {}: {}: {why}", escaped(file), escaped(&name))
        })?;
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

/// Starts the runtime that a cache works in.
pub fn runtime() -> Result<CacheRuntime> {
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
    let cache = runtime.block_on(BlockCache::open(wanted.settings.clone(), origin))?;
    for warning in cache.warnings() {
        tell(&format!("warning: {warning}"));
    }
    Ok(cache)
}

/// Returns a summary of the settings, on one line.
pub fn described(settings: &Settings) -> String {
    let disk = match &settings.disk {
        Some(disk) => format!("{} on disk", disk.capacity),
        None => "no disk".to_owned(),
    };
    let engine = match &settings.engine {
        Some(engine) => engine.to_string(),
        None => "no engine".to_owned(),
    };
    format!(
        "blocks of {}, {} of memory, {disk}, {engine}",
        settings.block_size, settings.memory
    )
}

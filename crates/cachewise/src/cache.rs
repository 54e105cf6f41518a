//! A block cache from what was typed: settings, the origin, and the runtime that it works in.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cachewise_tier::remote::{Credentials, Secret, TlsSettings};
use cachewise_tier::{
    BlockCache, Directory, DiskSettings, Http, NetworkOptions, Origin, S3, Settings,
};
use cachewise_units::{Bytes, escaped};
use tokio::runtime::{Builder, Runtime};

use crate::cli::{CACHE_SETTINGS, CacheFlags};
use crate::output::tell;

/// Where a password is looked for.
const PASSWORD: &str = "CACHEWISE_ENGINE_PASSWORD";

/// Where it is looked for what a server of HTTP is told of who asks.
const AUTHORIZATION: &str = "CACHEWISE_ORIGIN_AUTHORIZATION";

/// How a cache is to be set up.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// What the cache takes as it is.
    pub settings: Settings,
    /// Where on disk.
    pub disk: Option<PathBuf>,
    /// How much of it.
    pub disk_size: Bytes,
    /// Whether that was said.
    pub is_disk_sized: bool,
    /// Who asks the engine.
    pub user: Option<String>,
    /// Where the password is.
    pub password_file: Option<PathBuf>,
    /// Who vouches for the engine's nodes.
    pub authority: Option<PathBuf>,
    /// What they call themselves.
    pub server_name: Option<String>,
    /// What the origin is called in keys.
    pub identity: Option<String>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            disk: None,
            disk_size: Bytes(10 << 30),
            is_disk_sized: false,
            user: None,
            password_file: None,
            authority: None,
            server_name: None,
            identity: None,
        }
    }
}

impl Wanted {
    /// Takes a settings file, then what was typed.
    pub fn of(typed: &CacheFlags) -> Result<Self> {
        let mut wanted = Self::default();
        if let Some(file) = &typed.file {
            wanted.take_file(file)?;
        }
        for (name, value) in &typed.flags {
            wanted
                .take(name, value)
                .map_err(|why| anyhow::anyhow!("--{name}: {why}"))?;
        }
        wanted.finish()
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match CACHE_SETTINGS.iter().find(|setting| setting.name == name) {
            Some(setting) => (setting.set)(self, value),
            None => {
                let names: Vec<&str> = CACHE_SETTINGS.iter().map(|setting| setting.name).collect();
                Err(format!("no such setting; there are {}", names.join(", ")))
            }
        }
    }

    fn take_file(&mut self, file: &Path) -> Result<()> {
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
            self.take(&name, &value).map_err(|why| {
                anyhow::anyhow!("settings file {}: {}: {why}", escaped(file), escaped(&name))
            })?;
        }
        Ok(())
    }

    /// Puts together what belongs together, and checks bounds.
    fn finish(mut self) -> Result<Self> {
        if let Some(directory) = self.disk.take() {
            self.settings.disk = Some(DiskSettings::new(directory, self.disk_size));
        } else if self.is_disk_sized {
            bail!("--disk-size says how much, and nothing says where: add --disk DIRECTORY");
        }
        let password = self.password()?;
        match &mut self.settings.engine {
            Some(engine) => {
                engine.credentials = password.map(|password| Credentials {
                    user: self.user.clone(),
                    password,
                });
                if engine.credentials.is_none() && self.user.is_some() {
                    bail!(
                        "--engine-user without a password: set {PASSWORD} in the environment, or add --engine-password-file"
                    );
                }
                if self.authority.is_some() || self.server_name.is_some() {
                    if engine.tls.is_none() {
                        bail!(
                            "--engine-ca and --engine-name are about TLS: write +tls behind the engine's scheme"
                        );
                    }
                    engine.tls = Some(TlsSettings {
                        authority: self.authority.clone(),
                        server_name: self.server_name.clone(),
                    });
                }
            }
            None if self.user.is_some() || self.authority.is_some() => {
                bail!("there is no engine to get into: add --engine URL");
            }
            None => {}
        }
        self.settings.check()?;
        Ok(self)
    }

    fn password(&self) -> Result<Option<Secret>> {
        if let Some(file) = &self.password_file {
            return Ok(Some(Secret::from_file(file)?));
        }
        match std::env::var_os(PASSWORD) {
            Some(_) => Ok(Some(Secret::from_environment(PASSWORD)?)),
            None => Ok(None),
        }
    }
}

/// The runtime that a cache works in. Its end waits for nobody: a call of an origin that hangs would be waited for as
/// long as that does.
#[derive(Debug)]
pub struct Threads(Option<Runtime>);

impl Threads {
    /// Ends it, when what is under way has ended or this time is over.
    pub fn end_within(mut self, time: Duration) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(time);
        }
    }
}

impl Deref for Threads {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        match &self.0 {
            Some(runtime) => runtime,
            None => unreachable!("it is taken by what takes this"),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Starts the runtime that a cache works in.
pub fn runtime() -> Result<Threads> {
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .thread_name("cache")
        .build()
        .context("cannot start the threads of the cache")?;
    Ok(Threads(Some(runtime)))
}

/// Opens the origin that was named. Who asks an origin on a network is in the environment; a name may have a password
/// in it, and is in no error before it was looked at.
pub fn origin(name: &str, wanted: &Wanted) -> Result<Arc<dyn Origin>> {
    let Some((scheme, _)) = name.split_once("://") else {
        return directory(Path::new(name), wanted.identity.as_deref());
    };
    let options = || -> Result<NetworkOptions> {
        Ok(NetworkOptions {
            identity: wanted.identity.clone(),
            deadline: wanted.settings.deadline,
            authorization: match std::env::var_os(AUTHORIZATION) {
                Some(_) => Some(Secret::from_environment(AUTHORIZATION)?),
                None => None,
            },
        })
    };
    Ok(match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => Arc::new(Http::open(name, &options()?)?),
        "s3" => Arc::new(S3::open(name, &options()?)?),
        _ => bail!(
            "no origin is a {}; name a directory, http://HOST/PATH, https://HOST/PATH or s3://BUCKET/PREFIX",
            escaped(scheme)
        ),
    })
}

fn directory(path: &Path, identity: Option<&str>) -> Result<Arc<dyn Origin>> {
    let origin = match identity {
        Some(identity) => Directory::open_as(path, &format!("named:{identity}")),
        None => Directory::open(path),
    };
    let origin = origin.with_context(|| format!("cannot open the origin {}", escaped(path)))?;
    Ok(Arc::new(origin))
}

/// Opens the cache, and tells what will hurt.
pub fn open(runtime: &Runtime, wanted: &Wanted, origin: Arc<dyn Origin>) -> Result<BlockCache> {
    let cache = runtime.block_on(BlockCache::open(wanted.settings.clone(), origin))?;
    for warning in cache.warnings() {
        tell(&format!("warning: {warning}"));
    }
    Ok(cache)
}

/// What it is set up as, in a line.
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

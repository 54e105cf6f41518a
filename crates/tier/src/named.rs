//! [`NAMED_SETTINGS`]: how a block cache is set up, by names and texts: one table for flags, settings files and Python.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cachewise_units::{Bytes, Interval, escaped};

use crate::remote::{Credentials, Secret, TlsSettings};
use crate::{
    Directory, DirectoryOptions, DiskSettings, Error, Http, NetworkOptions, Origin, S3, Settings,
};

/// Where in the environment a password is looked for.
const PASSWORD: &str = "CACHEWISE_ENGINE_PASSWORD";

/// The environment variable with the `Authorization` header for HTTP origins.
const AUTHORIZATION: &str = "CACHEWISE_ORIGIN_AUTHORIZATION";

/// One setting.
#[derive(Debug)]
pub struct NamedSetting {
    /// Its name: a flag behind `--`, a key in a settings file, an argument in Python with `_` for `-`.
    pub name: &'static str,
    /// The placeholder for its value.
    pub value: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Returns its default as text; empty if there is none.
    pub default: fn(&Settings) -> String,
    /// Takes its value.
    pub set: fn(&mut SettingsBuilder, &str) -> Result<(), String>,
}

/// All settings, in the order of help and documentation.
pub const NAMED_SETTINGS: [NamedSetting; 17] = [
    NamedSetting {
        name: "memory",
        value: "BYTES",
        help: "Memory for blocks",
        default: |settings| settings.memory.to_string(),
        set: |wanted, text| set(&mut wanted.settings.memory, text),
    },
    NamedSetting {
        name: "disk",
        value: "DIRECTORY",
        help: "Keep blocks on this machine's disk too, in this directory; it survives restarts, and is one process's \
            at a time",
        default: |_| String::new(),
        set: |wanted, text| {
            wanted.disk = Some(PathBuf::from(text));
            Ok(())
        },
    },
    NamedSetting {
        name: "disk-size",
        value: "BYTES",
        help: "Room for blocks on that disk; 64M is the least",
        default: |_| SettingsBuilder::default().disk_size.to_string(),
        set: |wanted, text| {
            wanted.is_disk_sized = true;
            set(&mut wanted.disk_size, text)
        },
    },
    NamedSetting {
        name: "engine",
        value: "URL",
        help: "Share blocks with other machines through these servers: redis-cluster://HOST:PORT,... (any nodes of it), \
            redis://HOST:PORT,... or memcached://HOST:PORT,... (all of them); +tls behind the scheme for TLS",
        default: |_| String::new(),
        set: |wanted, text| {
            let engine = text.parse();
            let engine = engine.map_err(|error: Error| error.to_string())?;
            wanted.settings.engine = Some(engine);
            Ok(())
        },
    },
    NamedSetting {
        name: "engine-user",
        value: "NAME",
        help: "User of the servers' ACL; its password comes from --engine-password-file or from \
            CACHEWISE_ENGINE_PASSWORD in the environment, never from an argument",
        default: |_| String::new(),
        set: |wanted, text| {
            wanted.user = Some(text.to_owned());
            Ok(())
        },
    },
    NamedSetting {
        name: "engine-password-file",
        value: "FILE",
        help: "File whose first line is the password",
        default: |_| String::new(),
        set: |wanted, text| {
            wanted.password_file = Some(PathBuf::from(text));
            Ok(())
        },
    },
    NamedSetting {
        name: "engine-ca",
        value: "FILE",
        help: "Certificates in PEM that vouch for the servers, instead of the system's",
        default: |_| String::new(),
        set: |wanted, text| {
            wanted.authority = Some(PathBuf::from(text));
            Ok(())
        },
    },
    NamedSetting {
        name: "engine-name",
        value: "NAME",
        help: "The name in the servers' certificates, where it is not that of their addresses",
        default: |_| String::new(),
        set: |wanted, text| {
            wanted.server_name = Some(text.to_owned());
            Ok(())
        },
    },
    NamedSetting {
        name: "identity",
        value: "NAME",
        help: "Name the origin in the keys of blocks: machines that give it the same name share blocks, whatever the path. A \
            file system that does not keep the time of last change needs a name, and a new one when its files change \
            [default: a directory's blocks are this machine's own, a URL's are shared]",
        default: |_| String::new(),
        set: |wanted, text| {
            wanted.identity = Some(text.to_owned());
            Ok(())
        },
    },
    NamedSetting {
        name: "block",
        value: "BYTES",
        help: "What is fetched, kept and checked as one: a power of two from 16K to 1M; the same on all machines",
        default: |settings| settings.block_size.to_string(),
        set: |wanted, text| set(&mut wanted.settings.block_size, text),
    },
    NamedSetting {
        name: "connect",
        value: "TIME",
        help: "A connection to a server stands within this time, or it is taken for slow",
        default: |settings| time(settings.policy.connect),
        set: |wanted, text| duration(&mut wanted.settings.policy.connect, text),
    },
    NamedSetting {
        name: "deadline",
        value: "TIME",
        help: "The first byte of a server's answer is there within this time, or the origin is read",
        default: |settings| time(settings.policy.first_byte),
        set: |wanted, text| {
            let policy = &mut wanted.settings.policy;
            duration(&mut policy.first_byte, text)?;
            policy.whole = policy.whole.max(policy.first_byte.saturating_mul(5));
            Ok(())
        },
    },
    NamedSetting {
        name: "hedge",
        value: "TIME|never",
        help: "A second server is asked when the first has taken longer than 99 % of its answers did, at the latest after \
            this time",
        default: |settings| time(settings.policy.hedge_max),
        set: |wanted, text| {
            let policy = &mut wanted.settings.policy;
            if text == "never" {
                policy.hedge_max = Duration::ZERO;
                return Ok(());
            }
            duration(&mut policy.hedge_max, text)?;
            policy.hedge_min = policy.hedge_min.min(policy.hedge_max);
            Ok(())
        },
    },
    NamedSetting {
        name: "hedge-share",
        value: "SHARE",
        help: "How many second questions there may be for each read of a block, on the average",
        default: |settings| settings.policy.hedge_share.to_string(),
        set: |wanted, text| set(&mut wanted.settings.policy.hedge_share, text),
    },
    NamedSetting {
        name: "in-flight",
        value: "BYTES",
        help: "At most so much is under way from one server at a time",
        default: |settings| settings.policy.in_flight.to_string(),
        set: |wanted, text| set(&mut wanted.settings.policy.in_flight, text),
    },
    NamedSetting {
        name: "origin-reads",
        value: "NUMBER",
        help: "At most so many reads of the origin at a time; others wait",
        default: |settings| settings.origin_reads.to_string(),
        set: |wanted, text| set(&mut wanted.settings.origin_reads, text),
    },
    NamedSetting {
        name: "read-deadline",
        value: "TIME",
        help: "Every read ends within this time, with bytes or with an error",
        default: |settings| time(settings.deadline),
        set: |wanted, text| duration(&mut wanted.settings.deadline, text),
    },
];

/// The settings of a cache, collected by name and checked by [`Self::finish`].
#[derive(Clone, Debug)]
pub struct SettingsBuilder {
    /// Settings that need no further checks.
    pub settings: Settings,
    disk: Option<PathBuf>,
    disk_size: Bytes,
    is_disk_sized: bool,
    user: Option<String>,
    password_file: Option<PathBuf>,
    authority: Option<PathBuf>,
    server_name: Option<String>,
    identity: Option<String>,
}

impl Default for SettingsBuilder {
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

impl SettingsBuilder {
    /// Takes a setting by its name.
    ///
    /// # Errors
    /// Why its value cannot be taken, or which names there are.
    pub fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        match NAMED_SETTINGS.iter().find(|setting| setting.name == name) {
            Some(setting) => (setting.set)(self, value),
            None => {
                let names: Vec<&str> = NAMED_SETTINGS.iter().map(|setting| setting.name).collect();
                Err(format!("no such setting; there are {}", names.join(", ")))
            }
        }
    }

    /// Combines dependent settings, reads the password from the environment or the named file, and
    /// checks bounds. `spelled` turns a name into the form that the user typed, for errors.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn finish(mut self, spelled: impl Fn(&str) -> String) -> Result<Self, Error> {
        let wrong = |setting, why| Err(Error::Setting { setting, why });
        if let Some(directory) = self.disk.take() {
            self.settings.disk = Some(DiskSettings::new(directory, self.disk_size));
        } else if self.is_disk_sized {
            let disk = spelled("disk");
            let why = format!("it says how much, and nothing says where: add {disk} DIRECTORY");
            return wrong("disk-size", why);
        }
        let password = self.password()?;
        match &mut self.settings.engine {
            Some(engine) => {
                engine.credentials = password.map(|password| Credentials {
                    user: self.user.clone(),
                    password,
                });
                if engine.credentials.is_none() && self.user.is_some() {
                    let file = spelled("engine-password-file");
                    let why = format!(
                        "there is no password: set {PASSWORD} in the environment, or add {file}"
                    );
                    return wrong("engine-user", why);
                }
                if self.authority.is_some() || self.server_name.is_some() {
                    if engine.tls.is_none() {
                        let (authority, name) = (spelled("engine-ca"), spelled("engine-name"));
                        let why = format!(
                            "{authority} and {name} are about TLS: write +tls behind the engine's scheme"
                        );
                        return wrong("engine", why);
                    }
                    engine.tls = Some(TlsSettings {
                        authority: self.authority.clone(),
                        server_name: self.server_name.clone(),
                    });
                }
            }
            None => {
                let is_for_one = self.user.is_some()
                    || self.password_file.is_some()
                    || self.authority.is_some()
                    || self.server_name.is_some();
                if is_for_one {
                    let engine = spelled("engine");
                    let why = format!("there is none to get into: add {engine} URL");
                    return wrong("engine", why);
                }
            }
        }
        self.settings.check()?;
        Ok(self)
    }

    /// Opens an origin, under its configured identity: a directory, or a URL with the scheme
    /// `http`, `https` or `s3`. Credentials for network origins come from the environment.
    ///
    /// # Errors
    /// As [`Directory::open`], [`Http::open`] and [`S3::open`]; no error shows a name with a password in it.
    pub fn origin(&self, name: &Path) -> Result<Arc<dyn Origin>, Error> {
        let Some((url, scheme)) = name.to_str().and_then(|url| {
            let (scheme, _) = url.split_once("://")?;
            Some((url, scheme.to_ascii_lowercase()))
        }) else {
            let options = DirectoryOptions {
                identity: self.identity.clone(),
                machine: None,
            };
            return Ok(Arc::new(Directory::open_with(name, &options)?));
        };
        let options = || -> Result<NetworkOptions, Error> {
            Ok(NetworkOptions {
                identity: self.identity.clone(),
                deadline: self.settings.deadline,
                authorization: from_environment(AUTHORIZATION)?,
            })
        };
        Ok(match scheme.as_str() {
            "http" | "https" => Arc::new(Http::open(url, &options()?)?),
            "s3" => Arc::new(S3::open(url, &options()?)?),
            _ => {
                let why = format!(
                    "no origin is a {}; name a directory, http://HOST/PATH, https://HOST/PATH or s3://BUCKET/PREFIX",
                    escaped(&scheme)
                );
                return Err(Error::Setting {
                    setting: "origin",
                    why,
                });
            }
        })
    }

    fn password(&self) -> Result<Option<Secret>, Error> {
        match &self.password_file {
            Some(file) => Secret::from_file(file).map(Some),
            None => from_environment(PASSWORD),
        }
    }
}

fn from_environment(variable: &'static str) -> Result<Option<Secret>, Error> {
    match std::env::var_os(variable) {
        // Set and empty is how it is not set where a file lists variables.
        Some(value) if !value.is_empty() => Secret::from_environment(variable).map(Some),
        _ => Ok(None),
    }
}

fn set<T: std::str::FromStr<Err: std::fmt::Display>>(
    place: &mut T,
    text: &str,
) -> Result<(), String> {
    *place = text.parse().map_err(|error: T::Err| error.to_string())?;
    Ok(())
}

fn duration(place: &mut Duration, text: &str) -> Result<(), String> {
    let interval: Interval = text
        .parse()
        .map_err(|error: cachewise_units::ParseIntervalError| error.to_string())?;
    *place = interval.get();
    Ok(())
}

fn time(duration: Duration) -> String {
    format!("{duration:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_takes_what_it_shows_as_its_default() {
        let usual = Settings::default();
        for setting in &NAMED_SETTINGS {
            let default = (setting.default)(&usual).replace([' ', 'i'], "");
            let default = default.trim_end_matches('B').to_owned();
            if !default.is_empty() {
                let mut wanted = SettingsBuilder::default();
                (setting.set)(&mut wanted, &default)
                    .unwrap_or_else(|error| panic!("--{} {default}: {error}", setting.name));
            }
        }
    }
}

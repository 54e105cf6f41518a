//! Settings by name: [`Setting`]s are found, and [`SettingsBuilder`] collects and checks them.

use std::path::Path;
use std::sync::Arc;

use cachewise_units::{Bytes, escaped};

use crate::remote::{Credentials, Secret};
use crate::settings::{SETTINGS, Setting, SettingsBuilder};
use crate::within::is_within;
use crate::{Directory, DirectoryOptions, EngineKey, Error, Http, NetworkOptions, Origin, S3};

/// Secrets, which come from the environment only: the name, and the variable of older versions.
const PASSWORD: (&str, &str) = ("engine_password", "CACHEWISE_ENGINE_PASSWORD");
const AUTHORIZATION: (&str, &str) = ("origin_authorization", "CACHEWISE_ORIGIN_AUTHORIZATION");

impl Setting {
    /// Prefix of environment variables, without `_`.
    pub const PREFIX: &str = "CACHEWISE_TIER";

    /// Finds a setting by its name. `-` is the same as `_`, as keys of older versions have it.
    ///
    /// # Errors
    /// The names of all settings.
    pub fn find(name: &str) -> Result<&'static Self, String> {
        let name = name.replace('-', "_");
        let found = SETTINGS.iter().find(|setting| setting.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
            format!("no such setting; there are {}", names.join(", "))
        })
    }

    /// Returns the flag, without dashes in front.
    #[must_use]
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    /// Returns the environment variable.
    #[must_use]
    pub fn variable(&self) -> String {
        variable(self.name)
    }

    /// Returns the help, one sentence without a full stop.
    #[must_use]
    pub fn help(&self) -> &'static str {
        self.doc.trim_start()
    }

    /// Returns the default as text; empty if there is none.
    #[must_use]
    pub fn default(&self) -> String {
        (self.get)(&SettingsBuilder::default())
    }
}

fn variable(name: &str) -> String {
    format!("{}_{}", Setting::PREFIX, name.to_ascii_uppercase())
}

impl SettingsBuilder {
    /// Takes a setting by its name.
    ///
    /// # Errors
    /// The fault in the value, or the names of all settings.
    pub fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        let setting = Setting::find(name)?;
        (setting.set)(self, value)?;
        self.given.push(setting.name);
        Ok(())
    }

    fn is_given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    /// Adapts the settings to a mount whose pages the kernel keeps for ever: the same bytes once more in this process are
    /// of little use, so that less memory is the default.
    pub fn for_kept_pages(&mut self) {
        if !self.is_given("memory") {
            self.cache.memory = Bytes(32 << 20);
        }
    }

    /// Combines dependent settings, reads the password from the environment or the named file, and
    /// checks bounds. `spelled` turns a name into the form that the user typed, for errors.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub fn finish(mut self, spelled: impl Fn(&str) -> String) -> Result<Self, Error> {
        let wrong = |setting, why| Err(Error::Setting { setting, why });
        let is_disk_sized = self.is_given("disk_size");
        let of_versions = ["trust", "poll"]
            .into_iter()
            .find(|name| self.is_given(name));
        if let Some(setting) = of_versions.filter(|_| self.mount.store.is_none()) {
            let store = spelled("store");
            let why = format!(
                "for published versions only: add {store} STORE, and name NAME@VERSION as the origin"
            );
            return wrong(setting, why);
        }
        let cache = &mut self.cache;
        if is_disk_sized && cache.disk.is_none() {
            let disk = spelled("disk");
            let why = format!("there is no directory for it: add {disk} DIRECTORY");
            return wrong("disk_size", why);
        }
        cache.whole = cache.whole.max(cache.deadline.saturating_mul(5));
        if !cache.hedge.is_zero() {
            cache.hedge_min = cache.hedge_min.min(cache.hedge);
        }
        let has_tls = cache.engine_ca.is_some() || cache.engine_name.is_some();
        if let Some(engine) = &mut cache.engine {
            let password = match &cache.engine_password_file {
                Some(file) => Some(Secret::from_file(file)?),
                None => from_environment(PASSWORD)?,
            };
            if password.is_none() && cache.engine_user.is_some() {
                let (variable, file) = (variable(PASSWORD.0), spelled("engine_password_file"));
                let why = format!("there is no password: set {variable}, or add {file}");
                return wrong("engine_user", why);
            }
            let user = cache.engine_user.clone();
            engine.credentials = password.map(|password| Credentials { user, password });
            if let Some(file) = &cache.engine_key_file {
                cache.engine_key = Some(EngineKey::from_file(file)?);
            }
            match &mut engine.tls {
                Some(tls) => {
                    tls.engine_ca.clone_from(&cache.engine_ca);
                    tls.engine_name.clone_from(&cache.engine_name);
                }
                None if has_tls => {
                    let (ca, name) = (spelled("engine_ca"), spelled("engine_name"));
                    let why = format!("{ca} and {name} need TLS: append +tls to the scheme");
                    return wrong("engine", why);
                }
                None => {}
            }
        } else {
            let of_engine = [
                ("engine_ca", cache.engine_ca.is_some()),
                ("engine_name", cache.engine_name.is_some()),
                ("engine_user", cache.engine_user.is_some()),
                ("engine_password_file", cache.engine_password_file.is_some()),
                ("engine_key_file", cache.engine_key_file.is_some()),
                ("zone", cache.zone.is_some()),
                ("zone_of", cache.zone_of.is_some()),
            ];
            if let Some((setting, _)) = of_engine.into_iter().find(|(_, is_set)| *is_set) {
                let engine = spelled("engine");
                return wrong(
                    setting,
                    format!("no engine is configured: add {engine} URL"),
                );
            }
        }
        if !self.mount.share_names.is_zero() && cache.engine_key.is_none() {
            let key = spelled("engine_key_file");
            let why = format!("shared names must be encrypted and authenticated: add {key} FILE");
            return wrong("share_names", why);
        }
        cache.check()?;
        self.mount.check()?;
        Ok(self)
    }

    /// Opens an origin, under its configured identity: a directory, or a URL with the scheme
    /// `http`, `https` or `s3`. Credentials for network origins come from the environment.
    ///
    /// # Errors
    /// The errors of [`Directory::open`], [`Http::open`] and [`S3::open`]; [`Error::Setting`] for a disk in the directory. No error
    /// shows a password in a name.
    pub fn origin(&self, name: &Path) -> Result<Arc<dyn Origin>, Error> {
        let Some((url, scheme)) = name.to_str().and_then(|url| {
            let (scheme, _) = url.split_once("://")?;
            Some((url, scheme.to_ascii_lowercase()))
        }) else {
            self.check_disk(name)?;
            let options = DirectoryOptions {
                identity: self.cache.identity.clone(),
                machine: None,
            };
            return Ok(Arc::new(Directory::open_with(name, &options)?));
        };
        let options = || -> Result<NetworkOptions, Error> {
            Ok(NetworkOptions {
                identity: self.cache.identity.clone(),
                read_deadline: self.cache.read_deadline,
                authorization: from_environment(AUTHORIZATION)?,
            })
        };
        Ok(match scheme.as_str() {
            "http" | "https" => Arc::new(Http::open(url, &options()?)?),
            "s3" => Arc::new(S3::open(url, &options()?)?),
            _ => {
                let why = format!(
                    "the scheme {} is not supported: name a directory, http://HOST/PATH, https://HOST/PATH or s3://BUCKET/PREFIX",
                    escaped(&scheme)
                );
                return Err(Error::Setting {
                    setting: "origin",
                    why,
                });
            }
        })
    }
}

impl SettingsBuilder {
    /// Refuses blocks on disk in the origin: they would be files of it, and be cached themselves.
    fn check_disk(&self, origin: &Path) -> Result<(), Error> {
        let Some(disk) = &self.cache.disk else {
            return Ok(());
        };
        // An origin that is missing is an error of its own.
        if !is_within(disk, origin).unwrap_or(false) {
            return Ok(());
        }
        Err(Error::Setting {
            setting: "disk",
            why: format!(
                "{} is in the origin {}, so that the cache would write its blocks there: name a directory outside of it",
                escaped(disk),
                escaped(origin)
            ),
        })
    }
}

fn from_environment((name, old): (&str, &str)) -> Result<Option<Secret>, Error> {
    // Set and empty is how it is not set where a file lists variables.
    let is_set =
        |variable: &&str| std::env::var_os(variable).is_some_and(|value| !value.is_empty());
    let variable = variable(name);
    let set = [variable.as_str(), old].into_iter().find(is_set);
    set.map(Secret::from_environment).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_takes_its_default_as_shown() {
        for setting in SETTINGS {
            let default = setting.default();
            if !default.is_empty() {
                let mut all = SettingsBuilder::default();
                all.take(setting.name, &default)
                    .unwrap_or_else(|error| panic!("{} = {default}: {error}", setting.name));
                assert_eq!((setting.get)(&all), default, "{}", setting.name);
            }
        }
    }

    #[test]
    fn keys_with_dashes_of_older_versions_are_aliases() {
        for setting in SETTINGS {
            let found = Setting::find(&setting.flag()).map(|setting| setting.name);
            assert_eq!(found, Ok(setting.name), "its flag is its alias");
        }
    }

    #[test]
    fn take_refuses_unknown_names_and_wrong_values() {
        for (name, value, why) in [
            ("memmory", "8M", "there are memory, disk,"),
            ("block_size", "64K", "no such setting"),
            ("memory", "8 parsecs", "\"parsecs\" is not a unit"),
            ("deadline", "20 MiB", "is not a unit of time"),
            ("deadline", "never", "not an interval"),
            ("hedge", "0", "zero"),
            ("origin_reads", "-1", "\"-1\" is not a whole number"),
            ("hedge_share", "half", "\"half\" is not a number"),
            ("allow_other", "yes", "true"),
            ("engine", "http://a:1", "scheme \"http\" is unknown"),
            ("engine", "127.0.0.1", "the form is redis-cluster://"),
        ] {
            let error = SettingsBuilder::default().take(name, value);
            let error = error.expect_err("it is refused");
            assert!(error.contains(why), "{name} = {value}: {error}");
        }
    }

    #[test]
    fn finish_names_the_setting_that_is_out_of_range() {
        for (name, value) in [
            ("block", "100K"),
            ("block", "2M"),
            ("memory", "1K"),
            ("disk_size", "1G"),
            ("origin_reads", "0"),
            ("read_deadline", "1us"),
            ("hedge_share", "1.5"),
            ("hedge_share", "NaN"),
            ("in_flight", "4K"),
            ("threads", "0"),
            ("threads", "257"),
        ] {
            let mut all = SettingsBuilder::default();
            all.take(name, value).expect("it can be read");
            let error = all.finish(str::to_owned).expect_err("it is out of range");
            assert!(
                matches!(&error, Error::Setting { setting, .. } if *setting == name),
                "{name} = {value}: {error}"
            );
        }
    }
}

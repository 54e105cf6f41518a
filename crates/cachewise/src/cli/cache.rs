//! How a block cache is set up, as typed or as a settings file has it: one table for both, for `mount` and `tier`.

use std::path::PathBuf;
use std::time::Duration;

use cachewise_tier::Settings;
use cachewise_units::Interval;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use crate::cache::Wanted;

/// One setting.
pub struct Setting {
    /// `--NAME`, and the key in a settings file.
    pub name: &'static str,
    /// What its value is.
    pub value: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// What it is unless it is said; empty where there is nothing to say.
    pub default: fn(&Settings) -> String,
    /// Takes its value.
    pub set: fn(&mut Wanted, &str) -> Result<(), String>,
}

/// All settings, in the order of help and documentation.
pub const SETTINGS: [Setting; 17] = [
    Setting {
        name: "memory",
        value: "BYTES",
        help: "Memory for blocks",
        default: |settings| settings.memory.to_string(),
        set: |wanted, text| set(&mut wanted.settings.memory, text),
    },
    Setting {
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
    Setting {
        name: "disk-size",
        value: "BYTES",
        help: "Room for blocks on that disk",
        default: |_| Wanted::default().disk_size.to_string(),
        set: |wanted, text| {
            wanted.is_disk_sized = true;
            set(&mut wanted.disk_size, text)
        },
    },
    Setting {
        name: "engine",
        value: "URL",
        help: "Share blocks with other machines through these servers: redis-cluster://HOST:PORT,... (any nodes of it), \
            redis://HOST:PORT,... or memcached://HOST:PORT,... (all of them); +tls behind the scheme for TLS",
        default: |_| String::new(),
        set: |wanted, text| {
            let engine = text.parse();
            let engine = engine.map_err(|error: cachewise_tier::Error| error.to_string())?;
            wanted.settings.engine = Some(engine);
            Ok(())
        },
    },
    Setting {
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
    Setting {
        name: "engine-password-file",
        value: "FILE",
        help: "File whose first line is the password",
        default: |_| String::new(),
        set: |wanted, text| {
            wanted.password_file = Some(PathBuf::from(text));
            Ok(())
        },
    },
    Setting {
        name: "engine-ca",
        value: "FILE",
        help: "Certificates in PEM that vouch for the servers, instead of the system's",
        default: |_| String::new(),
        set: |wanted, text| {
            wanted.authority = Some(PathBuf::from(text));
            Ok(())
        },
    },
    Setting {
        name: "engine-name",
        value: "NAME",
        help: "The name in the servers' certificates, where it is not that of their addresses",
        default: |_| String::new(),
        set: |wanted, text| {
            wanted.server_name = Some(text.to_owned());
            Ok(())
        },
    },
    Setting {
        name: "identity",
        value: "NAME",
        help: "Name the origin so in the keys of blocks: machines that have it at different paths share blocks by it",
        default: |_| String::new(),
        set: |wanted, text| {
            wanted.identity = Some(text.to_owned());
            Ok(())
        },
    },
    Setting {
        name: "block",
        value: "BYTES",
        help: "What is fetched, kept and checked as one: a power of two from 16K to 1M; the same on all machines",
        default: |settings| settings.block_size.to_string(),
        set: |wanted, text| set(&mut wanted.settings.block_size, text),
    },
    Setting {
        name: "connect",
        value: "TIME",
        help: "A connection to a server stands within this time, or it is taken for slow",
        default: |settings| time(settings.policy.connect),
        set: |wanted, text| duration(&mut wanted.settings.policy.connect, text),
    },
    Setting {
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
    Setting {
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
    Setting {
        name: "hedge-share",
        value: "SHARE",
        help: "How many second questions there may be for each read of a block, on the average",
        default: |settings| settings.policy.hedge_share.to_string(),
        set: |wanted, text| set(&mut wanted.settings.policy.hedge_share, text),
    },
    Setting {
        name: "in-flight",
        value: "BYTES",
        help: "At most so much is under way from one server at a time",
        default: |settings| settings.policy.in_flight.to_string(),
        set: |wanted, text| set(&mut wanted.settings.policy.in_flight, text),
    },
    Setting {
        name: "origin-reads",
        value: "NUMBER",
        help: "At most so many reads of the origin at a time; others wait",
        default: |settings| settings.origin_reads.to_string(),
        set: |wanted, text| set(&mut wanted.settings.origin_reads, text),
    },
    Setting {
        name: "read-deadline",
        value: "TIME",
        help: "Every read ends within this time, with bytes or with an error",
        default: |settings| time(settings.deadline),
        set: |wanted, text| duration(&mut wanted.settings.deadline, text),
    },
];

/// The name of the flag that names a settings file.
pub const FILE: &str = "settings";

/// What was typed of it.
#[derive(Debug, Clone, Default)]
pub struct CacheFlags {
    /// A file of settings, which flags come before.
    pub file: Option<PathBuf>,
    /// Names and values.
    pub flags: Vec<(&'static str, String)>,
}

impl Args for CacheFlags {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(FILE)
            .long(FILE)
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Read settings from this TOML file: the names below, without dashes in front; flags come before it");
        let usual = Settings::default();
        let all = SETTINGS.iter().map(|setting| {
            let default = (setting.default)(&usual);
            let help = match default.is_empty() {
                true => setting.help.to_owned(),
                false => format!("{} [default: {default}]", setting.help),
            };
            Arg::new(setting.name)
                .long(setting.name)
                .value_name(setting.value)
                .help(help)
        });
        let all = std::iter::once(file).chain(all);
        command.args(all.map(|arg| arg.help_heading("The cache")))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for CacheFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = SETTINGS.iter().filter_map(|setting| {
            let value = matches.get_one::<String>(setting.name)?;
            Some((setting.name, value.clone()))
        });
        Ok(Self {
            file: matches.get_one::<PathBuf>(FILE).cloned(),
            flags: flags.collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
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
    fn docs_have_each_setting() {
        let page = include_str!("../../../../docs/tier.md");
        let usual = Settings::default();
        let rows = SETTINGS.iter().map(|setting| {
            let (name, value, help) = (setting.name, setting.value, setting.help);
            let value = value.replace('|', "\\|");
            let default = (setting.default)(&usual);
            format!("| `--{name} {value}` | {default} | {help} |\n")
        });
        let table: String = rows.collect();
        assert!(
            page.contains(&table),
            "docs/tier.md has the table as it is:\n{table}"
        );
    }

    #[test]
    fn each_setting_takes_what_it_shows_as_its_default() {
        let usual = Settings::default();
        for setting in &SETTINGS {
            let default = (setting.default)(&usual).replace([' ', 'i'], "");
            let default = default.trim_end_matches('B').to_owned();
            if !default.is_empty() {
                let mut wanted = Wanted::default();
                (setting.set)(&mut wanted, &default)
                    .unwrap_or_else(|error| panic!("--{} {default}: {error}", setting.name));
            }
        }
    }
}

//! How a block cache is set up, as typed: flags of `mount` and `tier` from the table of settings.

use std::path::PathBuf;

use cachewise_tier::{NAMED_SETTINGS, Settings};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

/// The name of the flag that names a settings file.
pub const FILE: &str = "settings";

/// The settings given as flags.
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
        let all = NAMED_SETTINGS.iter().map(|setting| {
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
        let flags = NAMED_SETTINGS.iter().filter_map(|setting| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_have_each_setting() {
        let page = include_str!("../../../../../docs/tier.md");
        let usual = Settings::default();
        let rows = NAMED_SETTINGS.iter().map(|setting| {
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
}

//! Flags of the settings, from their table.

use std::path::PathBuf;

use cachewise_cli::settings::{FILE, FILE_HELP};
use cachewise_tier::{SETTINGS, Setting};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

/// The settings given as flags: those of the cache, and of the mount for the command that mounts.
#[derive(Debug, Clone, Default)]
pub struct SettingFlags<const MOUNTS: bool> {
    /// A settings file. Flags and environment variables override it.
    pub file: Option<PathBuf>,
    /// Names and values.
    pub flags: Vec<(&'static str, String)>,
    /// Whether mount(8) was given them, as options.
    pub are_options: bool,
}

/// The flag of a command line that was made of mount(8)'s options.
pub const OPTIONS: &str = "from-mount-options";

/// Flags of commands that read through the cache.
pub type CacheFlags = SettingFlags<false>;

impl<const MOUNTS: bool> SettingFlags<MOUNTS> {
    fn settings() -> impl Iterator<Item = &'static Setting> {
        SETTINGS
            .iter()
            .filter(|setting| MOUNTS || setting.part == "cache")
    }
}

impl<const MOUNTS: bool> Args for SettingFlags<MOUNTS> {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new(FILE)
            .long(FILE)
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help(FILE_HELP);
        let all = Self::settings().map(|setting| {
            let mut help = setting.help().to_owned();
            let default = setting.default();
            if !default.is_empty() && !setting.unit.is_empty() {
                help += &format!(" [default: {default}]");
            }
            help += &format!(" [env: {}]", setting.variable());
            let arg = Arg::new(setting.name).long(setting.flag()).help(help);
            let arg = match setting.unit {
                "" => arg.action(ArgAction::SetTrue),
                unit => arg.value_name(unit),
            };
            match setting.part {
                "cache" => arg.help_heading("The cache"),
                _ => arg,
            }
        });
        let options = Arg::new(OPTIONS)
            .long(OPTIONS)
            .action(ArgAction::SetTrue)
            .hide(true);
        let options = MOUNTS.then_some(options);
        let file = file.help_heading("The cache");
        command.arg(file).args(all).args(options)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const MOUNTS: bool> FromArgMatches for SettingFlags<MOUNTS> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = Self::settings().filter_map(|setting| {
            let value = match setting.unit {
                "" => matches.get_flag(setting.name).then(|| "true".to_owned()),
                _ => matches.get_one::<String>(setting.name).cloned(),
            };
            Some((setting.name, value?))
        });
        Ok(Self {
            file: matches.get_one::<PathBuf>(FILE).cloned(),
            flags: flags.collect(),
            are_options: MOUNTS && matches.get_flag(OPTIONS),
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

    /// With `CACHEWISE_WRITE_DOCS` set the table is written.
    #[test]
    fn docs_show_the_table_of_settings() {
        const MARKS: [&str; 2] = ["<!-- settings -->\n", "<!-- end of settings -->"];
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tier.md");
        let page = std::fs::read_to_string(path).expect("there is a page");
        let (head, rest) = page.split_once(MARKS[0]).expect("the table has a begin");
        let (_, tail) = rest.split_once(MARKS[1]).expect("the table has an end");
        let rows = SETTINGS.iter().map(|setting| {
            let flag = format!("--{} {}", setting.flag(), setting.unit).replace('|', "\\|");
            let (name, variable) = (setting.name, setting.variable());
            let (default, help) = (setting.default(), setting.help());
            format!(
                "| `{}` | `{name}` | `{variable}` | {default} | {help} |\n",
                flag.trim_end()
            )
        });
        let head_of_table =
            "| flag | key | environment | default | meaning |\n|---|---|---|---|---|\n";
        let table: String = rows.collect();
        let wanted = format!("{head}{}{head_of_table}{table}{}{tail}", MARKS[0], MARKS[1]);
        if std::env::var_os("CACHEWISE_WRITE_DOCS").is_some() {
            std::fs::write(path, wanted).expect("the page can be written");
        } else {
            assert!(
                page == wanted,
                "CACHEWISE_WRITE_DOCS=1 writes docs/tier.md anew"
            );
        }
    }
}

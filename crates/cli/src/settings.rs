//! Settings that a TOML file and the environment give. A key is a flag with `_` for `-`; a variable is the key in
//! capitals behind the program's prefix.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use cachewise_units::{Bytes, escaped};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command};

use crate::plain::plain;

/// Maximum size of a settings file.
const LONGEST: Bytes = Bytes(1 << 20);

/// The flag that names a settings file.
pub const FILE: &str = "settings";

/// The help of that flag.
pub const FILE_HELP: &str = "Read settings from this TOML file, whose keys are flags without the leading dashes and with _ for -; flags and \
    environment variables override it";

/// A setting that a file or the environment gives.
#[derive(Debug)]
pub struct Given {
    /// Its key.
    pub name: String,
    /// Its values; several where the file has a list.
    pub values: Vec<String>,
    /// File and key, or variable, for errors.
    pub source: String,
}

/// Returns the variable of a setting.
#[must_use]
pub fn variable(prefix: &str, name: &str) -> String {
    format!("{prefix}_{}", name.replace('-', "_").to_ascii_uppercase())
}

/// Reads a settings file. Keys with `-` for `_` are those of older versions.
///
/// # Errors
/// The file cannot be read, is not TOML, has a table, or a key twice.
pub fn of_file(file: &Path) -> Result<Vec<Given>> {
    let text = cachewise_sys::read_input_text(file, LONGEST)
        .with_context(|| format!("cannot read the settings file {}", escaped(file)))?;
    let of_file = || format!("settings file {}", escaped(file));
    let table: toml::Table = text.parse().with_context(of_file)?;
    let mut seen = HashSet::new();
    let given = table.into_iter().map(|(key, value)| {
        let source = format!("{}: {}", of_file(), escaped(&key));
        let values = match value {
            toml::Value::Array(values) => values,
            value => vec![value],
        };
        let values = values.into_iter().map(|value| match value {
            toml::Value::String(text) => Ok(text),
            toml::Value::Integer(number) => Ok(number.to_string()),
            toml::Value::Float(number) => Ok(number.to_string()),
            toml::Value::Boolean(switch) => Ok(switch.to_string()),
            other => bail!(
                "{source} is of the type {}: write a number, true or false, or a text in quotes",
                other.type_str()
            ),
        });
        let values = values.collect::<Result<_>>()?;
        let name = key.replace('-', "_");
        if !seen.insert(name.clone()) {
            bail!("{source} is there twice, with - and with _: leave one out");
        }
        Ok(Given {
            name,
            values,
            source,
        })
    });
    given.collect()
}

/// Reads the variables of these settings. An empty one is not set.
///
/// # Errors
/// A value is not UTF-8.
pub fn of_environment<'a>(
    prefix: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<Given>> {
    let mut given = Vec::new();
    for name in names {
        let variable = variable(prefix, name);
        if let Some(value) = std::env::var_os(&variable).filter(|value| !value.is_empty()) {
            let source = format!("environment variable {variable}");
            let value = value.into_string();
            given.push(Given {
                name: name.replace('-', "_"),
                values: vec![value.map_err(|_| anyhow!("{source} is no text in UTF-8"))?],
                source,
            });
        }
    }
    Ok(given)
}

/// Adds the variable to the help of a flag that is a setting.
#[must_use]
pub fn with_variable(prefix: &str, arg: Arg) -> Arg {
    let (Some(flag), Some(help)) = (arg.get_long(), arg.get_help()) else {
        return arg;
    };
    if flag == FILE {
        return arg;
    }
    let help = format!("{help} [env: {}]", variable(prefix, flag));
    arg.help(help)
}

/// Parses a command's arguments, of which each flag is a setting: what is not typed comes from the environment, then from
/// the file of `--settings`, then from the declaration. `typed` begins with the command's name.
///
/// # Errors
/// A setting is unknown, or its value invalid, with file and key, or variable; settings conflict.
pub fn parsed<T: Args>(prefix: &str, typed: Vec<OsString>) -> Result<T> {
    let command = T::augment_args(Command::new("settings"));
    let refused = |error: clap::Error| anyhow!(reason(&error));
    let matches = command.clone().try_get_matches_from(&typed);
    let line = completed(&command, prefix, typed, &matches.map_err(refused)?)?;
    let matches = command.try_get_matches_from(line).map_err(refused)?;
    T::from_arg_matches(&matches).map_err(refused)
}

/// Inserts what is not typed into a command line; not what is in conflict with something typed.
fn completed(
    command: &Command,
    prefix: &str,
    typed: Vec<OsString>,
    matches: &ArgMatches,
) -> Result<Vec<OsString>> {
    let flag = |arg: &&Arg| arg.get_long().is_some_and(|flag| flag != FILE);
    let settings: Vec<&Arg> = command.get_arguments().filter(flag).collect();
    let name = |arg: &&Arg| arg.get_long().map(|flag| flag.replace('-', "_"));
    let mut given = of_environment(prefix, settings.iter().filter_map(|arg| arg.get_long()))?;
    if let Some(file) = matches.get_one::<PathBuf>(FILE) {
        given.extend(of_file(file)?);
    }
    let conflict = |one: &Arg, other: &Arg| {
        let all = command.get_arg_conflicts_with(one);
        all.iter().any(|arg| arg.get_id() == other.get_id())
    };
    let is_typed =
        |arg: &Arg| matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    let is_overridden = |arg: &Arg| {
        let others = settings.iter().filter(|other| is_typed(other));
        is_typed(arg)
            || others
                .into_iter()
                .any(|other| conflict(arg, other) || conflict(other, arg))
    };
    let mut typed = typed.into_iter();
    let mut line: Vec<OsString> = typed.by_ref().take(1).collect();
    let mut seen = HashSet::new();
    for one in given {
        let Some(arg) = settings
            .iter()
            .find(|arg| name(arg).as_ref() == Some(&one.name))
        else {
            let names: Vec<String> = settings.iter().filter_map(name).collect();
            bail!(
                "{}: no such setting; there are {}",
                one.source,
                names.join(", ")
            );
        };
        let words = words(command, arg, &one).with_context(|| one.source.clone())?;
        if seen.insert(one.name) && !is_overridden(arg) {
            line.extend(words);
        }
    }
    line.extend(typed);
    Ok(line)
}

/// Returns a setting as it is typed, checked.
fn words(command: &Command, arg: &Arg, given: &Given) -> Result<Vec<OsString>> {
    let flag = format!("--{}", arg.get_long().unwrap_or_default());
    if !matches!(arg.get_action(), ArgAction::Set | ArgAction::Append) {
        return match given.values.as_slice() {
            [word] if word == "true" => Ok(vec![flag.into()]),
            [word] if word == "false" => Ok(Vec::new()),
            _ => bail!("it is true or false"),
        };
    }
    let words = given.values.iter().map(|value| format!("{flag}={value}"));
    let words: Vec<OsString> = words.map(OsString::from).collect();
    let alone = command.clone().no_binary_name(true);
    match alone.try_get_matches_from(&words) {
        // Another setting may give it.
        Err(error) if error.kind() != ErrorKind::MissingRequiredArgument => bail!(reason(&error)),
        _ => Ok(words),
    }
}

/// Returns the reason of an error in a command line, without usage and hints.
fn reason(error: &clap::Error) -> String {
    if let Some(source) = std::error::Error::source(error) {
        return plain(&source.to_string());
    }
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    first.trim_start_matches("error: ").replace("\n  ", " ")
}

#[cfg(test)]
mod tests {
    use clap::value_parser;

    use super::*;

    fn command() -> Command {
        let path = || {
            Arg::new("settings")
                .long(FILE)
                .value_parser(value_parser!(PathBuf))
        };
        Command::new("serve")
            .arg(path())
            .arg(Arg::new("listen").long("listen").conflicts_with("socket"))
            .arg(Arg::new("socket").long("socket"))
            .arg(Arg::new("group").long("socket-group").requires("socket"))
            .arg(
                Arg::new("top")
                    .long("top-n")
                    .value_parser(value_parser!(u16).range(1..=9)),
            )
            .arg(Arg::new("open").long("open").action(ArgAction::SetTrue))
            .arg(Arg::new("root").long("root").action(ArgAction::Append))
    }

    /// Completes a line with a file.
    fn line(text: &str, typed: &[&str]) -> Result<Vec<String>> {
        let file = tempfile::NamedTempFile::new().expect("made");
        std::fs::write(file.path(), text).expect("written");
        let mut all = vec![
            OsString::from("serve"),
            "--settings".into(),
            file.path().into(),
        ];
        all.extend(typed.iter().map(OsString::from));
        let matches = command().try_get_matches_from(&all).expect("it is valid");
        let line = completed(&command(), "CACHEWISE_TEST_SERVE", all, &matches)?;
        let words = line
            .into_iter()
            .map(|word| word.into_string().expect("text"));
        let is_new = |word: &String| word != "--settings" && *word != file.path().to_string_lossy();
        Ok(words.skip(1).filter(is_new).collect())
    }

    #[test]
    fn typed_flags_override_the_file() {
        let all =
            "socket = \"a\"\nsocket_group = 5\ntop-n = 3\nopen = true\nroot = [\"/a\", \"/b\"]\n";
        let given = line(all, &[]).expect("all are valid");
        assert_eq!(
            given,
            [
                "--open",
                "--root=/a",
                "--root=/b",
                "--socket=a",
                "--socket-group=5",
                "--top-n=3"
            ]
        );
        let given = line(
            "top_n = 3\nroot = \"/a\"\nopen = false\n",
            &["--top-n", "4"],
        );
        assert_eq!(given.expect("all are valid"), ["--root=/a", "--top-n", "4"]);
        let given = line("socket = \"a\"\n", &["--listen", "b"]).expect("valid");
        assert_eq!(given, ["--listen", "b"], "the typed one of two in conflict");
    }

    #[test]
    fn wrong_settings_are_refused_with_their_key() {
        for (text, why) in [
            (
                "topn = 3",
                "topn: no such setting; there are listen, socket, socket_group, top_n,",
            ),
            ("settings = \"x\"", "settings: no such setting"),
            ("top_n = 10", "top_n: 10 is not from 1 to 9"),
            ("top_n = \"3s\"", "top_n: not a whole number"),
            (
                "top_n = [1, 2]",
                "top_n: the argument '--top-n <top>' cannot be used multiple times",
            ),
            ("top_n = 1\ntop-n = 2", "is there twice"),
            ("top_n = 1\ntop_n = 2", "duplicate key"),
            ("open = 1", "open: it is true or false"),
            ("[listen]\na = 1", "listen is of the type table"),
        ] {
            let error = format!("{:#}", line(text, &[]).expect_err(text));
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}

//! `compat`: names and options of other tools.

pub mod arguments;
mod table;
mod translate;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Result, bail};

use arguments::{Called, Compat};
use table::{How, TOOLS, Taken, Tool};
use translate::{Typed, translate};

/// The command line, with `cachewise compat NAME` first if the program was called by the name of another tool.
pub fn typed(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    let called = arguments
        .first()
        .and_then(|name| table::tool(Path::new(name)));
    if let Some(tool) = called {
        let words = ["cachewise", "compat", tool.name].map(OsString::from);
        arguments.splice(..1, words);
    }
    arguments
}

/// The result of `compat`.
#[derive(Debug)]
pub enum Outcome {
    /// All is printed.
    Done,
    /// The words of a command of this program, to be run.
    Command(Vec<OsString>),
}

/// Prints the supported options, or translates the command line of another tool.
pub fn compat(arguments: Compat) -> Result<Outcome> {
    let Some(Called::As(words)) = arguments.called else {
        let tools: Vec<String> = TOOLS.iter().map(listed).collect();
        io::stdout().write_all(tools.join("\n").as_bytes())?;
        return Ok(Outcome::Done);
    };
    let Some((name, arguments)) = words.split_first() else {
        bail!("the name of the tool is missing; `cachewise compat` lists the supported ones");
    };
    let Some(tool) = table::tool(Path::new(name)) else {
        let known: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        bail!("unsupported tool {name:?}: use one of {}", known.join(", "));
    };
    match translate(tool, arguments) {
        Err(why) => bail!(why),
        Ok(Typed::Help) => io::stdout().write_all(listed(tool).as_bytes())?,
        Ok(Typed::Version) => writeln!(
            io::stdout(),
            "{} by cachewise {}",
            tool.name,
            env!("CARGO_PKG_VERSION")
        )?,
        Ok(Typed::Words(words)) => {
            let all = std::iter::once(OsString::from("cachewise")).chain(words);
            return Ok(Outcome::Command(all.collect()));
        }
    }
    Ok(Outcome::Done)
}

/// A tool, and a line for each of its options.
fn listed(tool: &Tool) -> String {
    let (name, of, command) = (tool.name, tool.of, tool.command);
    let names: Vec<String> = tool.options.iter().map(names).collect();
    let width = names.iter().map(String::len).max().unwrap_or_default();
    let lines = names.iter().zip(tool.options).map(|(names, taken)| {
        let (mark, becomes) = becomes(taken);
        format!("  {mark} {names:width$}  {becomes}\n")
    });
    format!(
        "{name} ({of}): cachewise {command}\n{}",
        lines.collect::<String>()
    )
}

fn names(taken: &Taken) -> String {
    let names = taken.names.join(", ");
    match taken.value {
        Some(value) => format!("{names} {value}"),
        None => names,
    }
}

/// The mark of an option, `+` for supported, and its translation or the reason.
fn becomes(taken: &Taken) -> (&'static str, String) {
    match &taken.how {
        How::Same => ("+", "the same".to_owned()),
        How::As(words) => ("+", words.join(" ")),
        How::Looking(words) => ("+", format!("{}, without -t, -e and -l", words.join(" "))),
        How::Value(ours) => ("+", format!("{ours} {}", taken.value.unwrap_or_default())),
        How::Made(ours, _) => ("+", (*ours).to_owned()),
        How::Command(command) => ("+", format!("cachewise {command}")),
        How::Always(why) => ("+", format!("nothing: {why}")),
        How::Not(why) => ("-", format!("not supported: {why}")),
    }
}

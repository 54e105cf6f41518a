//! Parsing of one command without the arguments of all others, whose making takes longer than most short commands.

use std::ffi::OsString;

use clap::Args;

use super::{Cli, Command};

/// Parses a command line whose second word is a command; `None` if it takes the whole program to answer it: an error,
/// help, and commands that are rarely typed.
pub fn parse(typed: &[OsString]) -> Option<Cli> {
    let name = typed.get(1)?.to_str()?;
    let command = match name {
        "run" => Command::Run(one(name, typed)?),
        "size" => Command::Size(one(name, typed)?),
        "stat" => Command::Stat(one(name, typed)?),
        "top" => Command::Top(one(name, typed)?),
        "doctor" => Command::Doctor(one(name, typed)?),
        "record" => Command::Record(one(name, typed)?),
        "report" => Command::Report(one(name, typed)?),
        "files" => Command::Files(one(name, typed)?),
        "warm" => Command::Warm(one(name, typed)?),
        "evict" => Command::Evict(one(name, typed)?),
        "lock" => Command::Lock(one(name, typed)?),
        "snapshot" => Command::Snapshot(one(name, typed)?),
        "order" => Command::Order(one(name, typed)?),
        "cat" => Command::Cat(one(name, typed)?),
        "drop" => Command::Drop(one(name, typed)?),
        "compat" => Command::Compat(one(name, typed)?),
        _ => return None,
    };
    Some(Cli { command })
}

/// The arguments of one command.
fn one<A: Args>(name: &str, typed: &[OsString]) -> Option<A> {
    let command = A::augment_args(clap::Command::new(name.to_owned()));
    let program = clap::Command::new("cachewise").subcommand(command);
    let mut matches = program.try_get_matches_from(typed).ok()?;
    let (_, mut matches) = matches.remove_subcommand()?;
    A::from_arg_matches_mut(&mut matches).ok()
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser, Subcommand};

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn one_command_is_parsed_as_the_whole_program_parses_it() {
        for line in [
            "cachewise run -- true",
            "cachewise run --stacks -o json=/tmp/x -- cat -n a",
            "cachewise size -- true",
            "cachewise stat 0.5 3 --json",
            "cachewise top -b",
            "cachewise doctor --capabilities -o csv",
            "cachewise record /tmp/x -- true",
            "cachewise report /tmp/x",
            "cachewise files -n 0 --sort path -o csv --include *.rs a b",
            "cachewise files --all --json",
            "cachewise warm a b --threads 2",
            "cachewise evict a",
            "cachewise lock a",
            "cachewise snapshot save a b",
            "cachewise snapshot diff a",
            "cachewise order -0 a b",
            "cachewise cat --keep a",
            "cachewise drop",
            "cachewise compat vmtouch -v a",
        ] {
            let quick = parse(&words(line)).unwrap_or_else(|| panic!("{line}: parsed at once"));
            let whole = Cli::try_parse_from(words(line)).expect("the line is right");
            assert_eq!(format!("{quick:?}"), format!("{whole:?}"), "{line}");
        }
    }

    #[test]
    fn help_and_errors_are_left_to_the_whole_program() {
        for line in [
            "cachewise",
            "cachewise --help",
            "cachewise files --help",
            "cachewise files --no-such-option",
            "cachewise files",
            "cachewise fils a",
            "cachewise help files",
        ] {
            assert!(parse(&words(line)).is_none(), "{line}");
        }
    }

    #[test]
    fn every_name_is_that_of_a_command() {
        // A name that is no command's would accept what the program refuses.
        for name in ["run", "files", "cat", "compat"] {
            assert!(Command::has_subcommand(name), "{name}");
        }
        assert!(Cli::command().find_subcommand("files").is_some());
    }
}

//! From what was typed for another tool to what is typed for this one.

use std::ffi::{OsStr, OsString};

use super::table::{Grammar, How, Taken, Tool};

/// Result of a translation.
#[derive(Debug, PartialEq, Eq)]
pub enum Typed {
    /// These words of ours.
    Words(Vec<OsString>),
    /// Print the supported options.
    Help,
    /// Which version this is.
    Version,
}

/// Makes our words of another tool's.
///
/// # Errors
/// What is not taken over, not known, or wrong, in a sentence.
pub fn translate(tool: &Tool, arguments: &[OsString]) -> Result<Typed, String> {
    let mut reading = Reading {
        tool,
        command: None,
        words: Vec::new(),
        looking: Vec::new(),
        others: Vec::new(),
    };
    let mut left = arguments.iter();
    while let Some(argument) = left.next() {
        if argument == "--" {
            reading.others.extend(left.cloned());
            break;
        }
        let Some(option) = option(argument)? else {
            reading.others.push(argument.clone());
            if tool.grammar == Grammar::Go {
                reading.others.extend(left.cloned());
                break;
            }
            continue;
        };
        let mut rest = Some(option.to_owned());
        while let Some(option) = rest.take() {
            let (taken, attached, behind) = match reading.find(&option) {
                ParsedOption::Option(taken, attached, behind) => (taken, attached, behind),
                ParsedOption::Help => return Ok(Typed::Help),
                ParsedOption::Version => return Ok(Typed::Version),
                ParsedOption::Nothing => {
                    return Err(format!(
                        "unknown option {option} of {0}; `cachewise compat {0} --help` lists the supported ones",
                        tool.name
                    ));
                }
            };
            rest = behind;
            let value = match (taken.value, attached) {
                (Some(_), Some(value)) => Some(value),
                (Some(name), None) => {
                    let next = left.next().and_then(|value| value.to_str());
                    let next = next.ok_or_else(|| format!("{option} needs a value: {name}"))?;
                    Some(next.to_owned())
                }
                (None, Some(_)) => return Err(format!("{option} takes no value")),
                (None, None) => None,
            };
            reading.take(&option, taken, value)?;
        }
    }
    Ok(Typed::Words(reading.end()))
}

/// An argument that begins with a dash and is more than one.
fn option(argument: &OsStr) -> Result<Option<&str>, String> {
    if argument == "-" || !argument.as_encoded_bytes().starts_with(b"-") {
        return Ok(None);
    }
    let text = argument.to_str();
    text.map(Some).ok_or_else(|| {
        format!("invalid option {argument:?}; put -- before a path that begins with -")
    })
}

enum ParsedOption<'t> {
    /// The option, its value where that is in the same word, and the options behind it in the same word.
    Option(&'t Taken, Option<String>, Option<String>),
    Help,
    Version,
    Nothing,
}

struct Reading<'t> {
    tool: &'t Tool,
    command: Option<&'static str>,
    words: Vec<String>,
    /// Words for looking only.
    looking: Vec<String>,
    others: Vec<OsString>,
}

impl<'t> Reading<'t> {
    fn find(&self, option: &str) -> ParsedOption<'t> {
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (option, None),
        };
        let by_name = |name: &str| {
            let mut options = self.tool.options.iter();
            options.find(|taken| taken.names.contains(&name))
        };
        let is_long = name.starts_with("--") || self.tool.grammar == Grammar::Go;
        if is_long {
            // Go takes one dash and two for the same.
            let short = name.strip_prefix('-').unwrap_or(name);
            let found = match self.tool.grammar {
                Grammar::Go => by_name(name).or_else(|| by_name(short)),
                Grammar::Getopt => by_name(name),
            };
            return match (found, name) {
                (Some(taken), _) => ParsedOption::Option(taken, value, None),
                (None, "--help" | "-help" | "-h") => ParsedOption::Help,
                (None, "--version") => ParsedOption::Version,
                (None, _) => ParsedOption::Nothing,
            };
        }
        let mut letters = option.chars().skip(1);
        let Some(letter) = letters.next() else {
            return ParsedOption::Nothing;
        };
        let behind: String = letters.collect();
        let behind = Some(behind).filter(|behind| !behind.is_empty());
        match (by_name(&format!("-{letter}")), letter) {
            (Some(taken), _) if taken.value.is_some() => ParsedOption::Option(taken, behind, None),
            (Some(taken), _) => {
                ParsedOption::Option(taken, None, behind.map(|behind| format!("-{behind}")))
            }
            (None, 'h') => ParsedOption::Help,
            (None, 'V') => ParsedOption::Version,
            (None, _) => ParsedOption::Nothing,
        }
    }

    fn take(&mut self, option: &str, taken: &Taken, value: Option<String>) -> Result<(), String> {
        let name = self.tool.name;
        match (&taken.how, value) {
            (How::Always(_), _) => {}
            (How::Same, value) => {
                self.words
                    .extend(taken.names.first().map(|name| (*name).to_owned()));
                self.words.extend(value);
            }
            (How::As(words), _) => self
                .words
                .extend(words.iter().map(|word| (*word).to_owned())),
            (How::Looking(words), _) => {
                self.looking
                    .extend(words.iter().map(|word| (*word).to_owned()));
            }
            (How::Value(ours), value) => {
                // In one word: what begins with a dash would be another option.
                let value = value.unwrap_or_default();
                self.words.push(format!("{ours}={value}"));
            }
            (How::Made(_, make), value) => {
                let made = make(&value.unwrap_or_default());
                let made = made.map_err(|why| format!("{option} of {name}: {why}"))?;
                self.words.extend(made);
            }
            (How::Command(command), _) => match self.command.replace(command) {
                // lock reads pages first, so the two can be combined.
                Some("lock") => self.command = Some("lock"),
                Some(other) if other != *command && *command != "lock" => {
                    return Err(format!(
                        "{option} of {name} cannot be combined: cachewise has no {other} and {command} at once"
                    ));
                }
                _ => {}
            },
            (How::Not(why), _) => {
                return Err(format!("{option} of {name} is not supported: {why}"));
            }
        }
        Ok(())
    }

    fn end(self) -> Vec<OsString> {
        let own = |word: &&str| OsString::from(*word);
        let mut all = vec![OsString::from(self.command.unwrap_or(self.tool.command))];
        all.extend(self.tool.words.iter().map(own));
        if let Some((option, value)) = self.tool.unless
            && !self.words.iter().any(|word| word == option)
        {
            all.extend([own(&option), own(&value)]);
        }
        all.extend(self.words.into_iter().map(OsString::from));
        if self.command.is_none() {
            all.extend(self.looking.into_iter().map(OsString::from));
        }
        let others = match self.others.is_empty() {
            true => self.tool.usual.iter().map(own).collect(),
            false => self.others,
        };
        if !others.is_empty() {
            all.push(OsString::from("--"));
            all.extend(others);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::Parser;

    use super::*;
    use crate::commands::Cli;
    use crate::commands::compat::table::{TOOLS, tool};

    fn ours(line: &str) -> Result<String, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let (name, arguments) = words.split_first().expect("a name");
        let tool = tool(Path::new(name)).expect("a tool that is known");
        translate(tool, arguments).map(|typed| match typed {
            Typed::Words(words) => words.join(OsStr::new(" ")).into_string().expect("UTF-8"),
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn command_lines_of_other_tools_are_translated() {
        for (theirs, expected) in [
            ("cachestat", "stat"),
            ("cachestat -T 1 5", "stat -- 1 5"),
            ("cachetop", "top -- 5"),
            ("/usr/bin/cachewise-cachetop -p 12 1", "top --pid=12 -- 1"),
            ("pcstat -json -pps a", "files --json --map -- a"),
            ("pcstat --pid=7", "files --pid=7"),
            ("pcstat a -json", "files -- a -json"),
            ("vmtouch -v a", "files --histogram -- a"),
            ("vmtouch -vt a", "warm -- a"),
            ("vmtouch -tl a", "lock -- a"),
            ("vmtouch -lt a", "lock -- a"),
            ("vmtouch a -e -p 4k-8k", "evict --range 4096:4096 -- a"),
            ("vmtouch -e -i*.log -- -a", "evict --exclude=*.log -- -a"),
            (
                "vmtouch -i -x -I --e a",
                "files --exclude=-x --include=--e -- a",
            ),
            (
                "fincore a",
                "files --columns resident_bytes,resident_pages,file_size_bytes,path -- a",
            ),
            (
                "fincore -Jo PAGES,FILE a",
                "files --json --columns resident_pages,path -- a",
            ),
            (
                "fincore --output=RES a",
                "files --columns resident_bytes -- a",
            ),
            ("fincore --help", "Help"),
            ("fincore -V", "Version"),
            ("pcstat -h", "Help"),
            (
                "cache-bench -f x -w 4 -b 1",
                "bench --format cache-bench -f x -w 4 --keep-reads=1",
            ),
        ] {
            assert_eq!(ours(theirs).as_deref(), Ok(expected), "`{theirs}`");
        }
    }

    #[test]
    fn unsupported_option_is_refused_with_reason() {
        for (theirs, part) in [
            ("vmtouch -te a", "warm and evict at once"),
            ("vmtouch -d a", "as a service"),
            ("vmtouch -p", "needs a value"),
            ("vmtouch -p 8k-4k -t a", "empty range"),
            ("vmtouch -Z a", "unknown option"),
            ("vmtouch -vZ a", "unknown option -Z"),
            ("pcstat -bname a", "not supported"),
            ("pcstat -json=1 a", "takes no value"),
            ("fincore -o INODE a", "unknown column \"INODE\""),
            ("cachestat --nope", "unknown option --nope"),
        ] {
            let error = ours(theirs).expect_err(theirs);
            assert!(error.contains(part), "`{theirs}`: {part:?} in {error:?}");
        }
    }

    #[test]
    fn translated_options_parse() {
        // Each option alone, in the commands that it can stand in.
        for tool in &TOOLS {
            for taken in tool.options {
                let value = match taken.value {
                    Some("PID") => Some("1"),
                    Some("FROM-TO" | "MIB" | "KIB" | "SECONDS" | "0|1") => Some("1"),
                    Some("LIST") => Some("PAGES"),
                    Some(_) => Some("x"),
                    None => None,
                };
                if matches!(taken.how, How::Not(_)) {
                    continue;
                }
                let mut arguments: Vec<OsString> =
                    taken.names.first().map(Into::into).into_iter().collect();
                arguments.extend(value.map(OsString::from));
                if matches!(taken.how, How::Made(..)) && tool.name == "vmtouch" {
                    arguments.push("-t".into());
                }
                if taken.names == ["-0"] {
                    arguments.extend(["-b", "list"].map(OsString::from));
                }
                let takes_paths = ["files", "warm", "evict"].contains(&tool.command)
                    && taken.value != Some("PID");
                if takes_paths {
                    arguments.push("path".into());
                }
                let typed = translate(tool, &arguments).expect("it is taken over");
                let Typed::Words(words) = typed else {
                    panic!("words of ours: {typed:?}");
                };
                let all = std::iter::once(OsString::from("cachewise")).chain(words.clone());
                let parsed = Cli::try_parse_from(all);
                assert!(
                    parsed.is_ok(),
                    "{} {arguments:?}: {words:?}: {parsed:?}",
                    tool.name
                );
            }
        }
    }
}

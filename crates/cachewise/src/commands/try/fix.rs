//! [`Fix`]: a change that a finding proposes, as it is typed.

use cachewise_sys::MapAdvice;
use cachewise_units::Bytes;
use rustix::fs::Advice;

use super::policy::TrialPolicy;

/// A fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fix {
    /// As it was typed.
    pub name: String,
    /// Its action.
    pub action: Action,
}

/// The action of a fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Changes the files of the command as it opens and maps them.
    Files(TrialPolicy),
    /// Sets the readahead of the devices.
    Readahead(Bytes),
    /// Limits the memory of the command.
    Memory(Bytes),
    /// Prefetches the files.
    Warm,
    /// Drops pages behind the processes of this name.
    Shield(String),
}

const NAMES: &str = "advice=random, advice=sequential, fadvise=, madvise=, populate, no-direct, readahead=SIZE, memory=SIZE, shield=PROGRAM, warm";

impl Fix {
    /// Parses a fix.
    ///
    /// # Errors
    /// Lists the fixes, or says why the value is invalid.
    pub fn parse(text: &str) -> Result<Fix, String> {
        let files = |policy| Ok(Action::Files(policy));
        let size = |value: &str| value.parse::<Bytes>().map_err(|error| error.to_string());
        let none = TrialPolicy::default();
        let action = match text.split_once('=') {
            None => match text {
                "warm" => Ok(Action::Warm),
                "no-direct" => files(TrialPolicy {
                    no_direct: true,
                    ..none
                }),
                "populate" => files(TrialPolicy {
                    maps: Some(MapAdvice::Populate),
                    ..none
                }),
                _ => Err(format!("no such fix; fixes: {NAMES}")),
            },
            Some((name @ ("advice" | "fadvise" | "madvise"), value)) => {
                let (of_files, of_maps) = match value {
                    "random" => (Advice::Random, MapAdvice::Random),
                    "sequential" => (Advice::Sequential, MapAdvice::Sequential),
                    _ => return Err(format!("{value:?} is neither random nor sequential")),
                };
                files(TrialPolicy {
                    files: (name != "madvise").then_some(of_files),
                    maps: (name != "fadvise").then_some(of_maps),
                    no_direct: false,
                })
            }
            Some(("readahead", value)) => size(value).map(Action::Readahead),
            Some(("memory", value)) => match size(value)? {
                Bytes(0) => Err("a command needs memory".to_owned()),
                size => Ok(Action::Memory(size)),
            },
            Some(("shield", "")) => Err("a program is shielded by its name".to_owned()),
            Some(("shield", name)) => Ok(Action::Shield(name.to_owned())),
            Some(_) => Err(format!("no such fix; fixes: {NAMES}")),
        };
        Ok(Fix {
            name: text.to_owned(),
            action: action?,
        })
    }

    /// Whether it needs the calls of the command to be traced.
    pub fn is_traced(&self) -> bool {
        matches!(self.action, Action::Files(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_parsed() {
        let action = |text| Fix::parse(text).unwrap().action;
        let Action::Files(both) = action("advice=random") else {
            panic!("it is about files");
        };
        assert_eq!(
            (both.files, both.maps),
            (Some(Advice::Random), Some(MapAdvice::Random))
        );
        let Action::Files(maps) = action("madvise=sequential") else {
            panic!("it is about files");
        };
        assert_eq!((maps.files, maps.maps), (None, Some(MapAdvice::Sequential)));
        assert_eq!(action("readahead=16K"), Action::Readahead(Bytes(16 << 10)));
        assert_eq!(action("readahead=0"), Action::Readahead(Bytes(0)), "off");
        assert_eq!(action("memory=1G"), Action::Memory(Bytes(1 << 30)));
        assert_eq!(action("warm"), Action::Warm);
        assert_eq!(action("shield=tar"), Action::Shield("tar".to_owned()));
    }

    #[test]
    fn error_says_what_is_wrong() {
        for (text, part) in [
            ("faster", "fixes: advice=random"),
            ("speed=2", "fixes: advice=random"),
            ("advice=often", "neither random nor sequential"),
            ("readahead=16KB", "\"KB\" is not a unit"),
            ("memory=0", "needs memory"),
            ("shield=", "by its name"),
            ("shield", "shield=PROGRAM"),
        ] {
            let error = Fix::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

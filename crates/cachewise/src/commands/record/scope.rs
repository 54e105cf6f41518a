//! Scope of a recording. Memory and pressure are always those of the whole machine.

use anyhow::Result;
use cachewise_kstat::Kernel;
use cachewise_probe::{Detail, Options, Scope};

use super::arguments::Record;
use crate::selection::Selected;

/// Options of the probe, and the name of the scope: empty for the whole machine.
pub fn of(arguments: &Record, selected: &Selected, kernel: &Kernel) -> Result<(Options, String)> {
    let otherwise = match arguments.only {
        true => Scope::Children,
        false => Scope::System,
    };
    let options = Options {
        stacks: arguments.stacks,
        ..selected.options(kernel, otherwise, Detail::Rows)?
    };
    let name = selected.name.as_deref().unwrap_or_default();
    let words = match (&selected.cgroup, arguments.only) {
        (_, true) => "the command and its descendants".to_owned(),
        (Some(group), false) if name.starts_with("cgroup ") => {
            format!("control group {}", group.name)
        }
        (Some(group), false) => format!("{name} (control group {})", group.name),
        (None, false) if selected.pids.is_empty() => String::new(),
        (None, false) => format!("{name} and its descendants"),
    };
    Ok((options, words))
}

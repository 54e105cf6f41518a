//! Scope of a recording. Memory and pressure are always those of the whole machine.

use anyhow::Result;
use cachewise_kstat::Kernel;
use cachewise_probe::{Detail, Options, Scope};

use super::arguments::Record;
use crate::machine;

/// Options of the probe, and the name of the scope: empty for the whole machine.
pub fn of(arguments: &Record, kernel: &Kernel) -> Result<(Options, String)> {
    let (scope, mut words) = match arguments.pid {
        Some(pid) => (
            Scope::Process(pid),
            format!("process {pid} and its descendants"),
        ),
        None if arguments.only => (
            Scope::Children,
            "the command and its descendants".to_owned(),
        ),
        None => (Scope::System, String::new()),
    };
    let mut options = Options::new(scope, Detail::Rows);
    options.cgroup_v1 = machine::uses_cgroup_v1(kernel);
    if let Some(path) = &arguments.cgroup {
        let (filter, name) = machine::cgroup_filter(kernel, path)?;
        options.cgroup = Some(filter);
        words = format!("control group {name}");
    }
    Ok((options, words))
}

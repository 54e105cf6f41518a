//! Selection of the processes that a command watches: by id, command line, control group, systemd
//! unit or container.
//!
//! # Layout
//! - `groups`: units and containers. `processes`: command lines.
//! - this file: the options, and what they select.

mod groups;
mod processes;

pub use groups::{group_of_container, group_of_unit, unit_name};

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use cachewise_kstat::{Cgroup, Kernel};
use cachewise_probe::options::CgroupFilter;
use cachewise_probe::{Detail, Options, Scope};
use cachewise_tui::Filter;
use cachewise_units::escaped;
use clap::Args;
use clap::error::ErrorKind;

use crate::machine::{self, Followed};
use crate::options::parse_pid;

/// Options of commands that watch processes.
#[derive(Debug, Clone, Default, Args)]
pub struct Selection {
    /// Select only this process and its descendants.
    #[arg(short, long, value_name = "PID", value_parser = parse_pid, conflicts_with_all = ["unit", "container", "program"])]
    pub pid: Option<u32>,
    #[command(flatten)]
    pub named: Named,
}

/// Options that select processes by a name.
#[derive(Debug, Clone, Default, Args)]
pub struct Named {
    /// Select only tasks under this control group, by its name or directory.
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Select only tasks of this systemd unit; `nginx` stands for `nginx.service`.
    #[arg(long, value_name = "NAME", conflicts_with = "cgroup")]
    pub unit: Option<String>,
    /// Select only tasks of this container (name, POD/NAME, or start of the id) or pod (NAMESPACE/POD).
    #[arg(long, value_name = "NAME|ID", conflicts_with_all = ["cgroup", "unit"])]
    pub container: Option<String>,
    /// Select only processes whose command line matches PATTERN when cachewise starts, and their descendants. PATTERN
    /// is a substring (case-insensitive unless it has capitals), re:REGEX, or glob:GLOB for the program name.
    #[arg(long = "command", id = "program", value_name = "PATTERN", value_parser = Filter::new,
        conflicts_with_all = ["cgroup", "unit", "container"])]
    pub program: Option<Filter>,
}

/// The processes or the control group that a command watches.
#[derive(Debug, Clone, Default)]
pub struct Selected {
    /// Processes, with their descendants; empty: not limited to processes.
    pub pids: Vec<u32>,
    /// The control group, with those below it.
    pub cgroup: Option<Cgroup>,
    /// Its name for people; `None` for the whole machine.
    pub name: Option<String>,
}

impl Selection {
    /// Checks that there is exactly one of a command, these options, and the option for the whole machine (whether it is
    /// given, and its name), with clearer errors than those of clap; and that a command has no `-d`. `verb` and `example`
    /// are those of the caller.
    ///
    /// # Errors
    /// Names the missing or conflicting argument, and the fix.
    pub fn exactly_one(
        &self,
        command: &[OsString],
        (is_machine, machine): (bool, &str),
        has_duration: bool,
        (verb, example): (&str, &str),
    ) -> Result<(), (ErrorKind, String)> {
        let named = self.named.option();
        let chosen = [
            (!command.is_empty(), "a command"),
            (self.pid.is_some(), "--pid"),
            (named.is_some(), named.unwrap_or_default()),
            (is_machine, machine),
        ];
        let chosen: Vec<&str> = chosen
            .into_iter()
            .filter_map(|(is_chosen, name)| is_chosen.then_some(name))
            .collect();
        let (kind, text) = match chosen[..] {
            [] => (
                ErrorKind::MissingRequiredArgument,
                format!(
                    "nothing to {verb}: add a command, as in `{example}`, or --pid PID, --command PATTERN, --cgroup PATH, \
                     --unit NAME, --container NAME or {machine}"
                ),
            ),
            [_] if has_duration && !command.is_empty() => (
                ErrorKind::ArgumentConflict,
                "-d limits the time of a process, group or machine; a command runs to its end: remove -d"
                    .into(),
            ),
            [_] => return Ok(()),
            [one, other, ..] => (
                ErrorKind::ArgumentConflict,
                format!("{one} and {other} name different things to {verb}: remove one of the two"),
            ),
        };
        Err((kind, text))
    }

    /// The option that selects, if there is one.
    pub fn option(&self) -> Option<&'static str> {
        self.pid.map(|_| "--pid").or_else(|| self.named.option())
    }

    /// The selection in words; `None` for the whole machine.
    pub fn text(&self) -> Option<String> {
        let named = &self.named;
        let pid = self.pid.map(|pid| format!("process {pid}"));
        let cgroup = named
            .cgroup
            .as_ref()
            .map(|path| format!("cgroup {}", escaped(path)));
        let unit = named
            .unit
            .as_ref()
            .map(|unit| format!("unit {}", unit_name(unit)));
        let container = named
            .container
            .as_ref()
            .map(|name| format!("container {name}"));
        let program = named
            .program
            .as_ref()
            .map(|program| format!("command {}", program.text()));
        pid.or(cgroup).or(unit).or(container).or(program)
    }

    /// Finds what the options name.
    ///
    /// # Errors
    /// There is none, or several have the name.
    pub fn select(&self, kernel: &Kernel) -> Result<Selected> {
        let mut selected = self.named.select(kernel)?;
        if let Some(pid) = self.pid {
            if !kernel.process_exists(pid) {
                bail!("process {pid} does not exist");
            }
            selected.pids = vec![pid];
            selected.name = Some(format!("process {pid}"));
        }
        Ok(selected)
    }
}

impl Named {
    /// The option that selects, if there is one.
    pub fn option(&self) -> Option<&'static str> {
        [
            (self.cgroup.is_some(), "--cgroup"),
            (self.unit.is_some(), "--unit"),
            (self.container.is_some(), "--container"),
            (self.program.is_some(), "--command"),
        ]
        .into_iter()
        .find_map(|(is_given, option)| is_given.then_some(option))
    }

    /// Finds what the options name.
    ///
    /// # Errors
    /// There is none, or several have the name.
    pub fn select(&self, kernel: &Kernel) -> Result<Selected> {
        let mut selected = Selected::default();
        if let Some(path) = &self.cgroup {
            let cgroup = kernel
                .resolve_cgroup(path)
                .context("cannot watch a control group")?;
            selected.name = Some(format!("cgroup {}", escaped(path)));
            selected.cgroup = Some(cgroup);
        } else if let Some(unit) = &self.unit {
            let (name, cgroup) = group_of_unit(kernel, unit)?;
            selected.name = Some(format!("unit {name}"));
            selected.cgroup = Some(cgroup);
        } else if let Some(container) = &self.container {
            let (name, cgroup) = group_of_container(kernel, container)?;
            selected.name = Some(format!("container {name}"));
            selected.cgroup = Some(cgroup);
        } else if let Some(program) = &self.program {
            selected.pids = processes::matching(kernel, program)?;
            selected.name = Some(format!("command {}", program.text()));
        }
        Ok(selected)
    }
}

impl Selected {
    /// All selected processes: with their descendants, or those that are in the control group now.
    ///
    /// # Errors
    /// The group cannot be read, or has none.
    pub fn processes(&self, kernel: &Kernel) -> Result<Vec<u32>> {
        let Some(cgroup) = &self.cgroup else {
            return processes::with_descendants(kernel, &self.pids);
        };
        let pids = kernel.processes_of_cgroup(cgroup).with_context(|| {
            format!("cannot list the processes of control group {}", cgroup.name)
        })?;
        if pids.is_empty() {
            bail!("control group {} has no process now", cgroup.name);
        }
        Ok(pids)
    }

    /// The same without the descendants of others: the probe follows these.
    ///
    /// # Errors
    /// Those of [`Selected::processes`].
    pub fn roots(self, kernel: &Kernel) -> Result<Vec<u32>> {
        match self.cgroup {
            None => Ok(self.pids),
            Some(_) => {
                let all = self.processes(kernel)?.into_iter().collect();
                Ok(processes::roots(kernel, &all))
            }
        }
    }

    /// The options of a probe; `otherwise` is the scope without a selected process.
    ///
    /// # Errors
    /// The depth of the control group is unknown.
    pub fn options(&self, kernel: &Kernel, otherwise: Scope, detail: Detail) -> Result<Options> {
        let (scope, also) = match &self.pids[..] {
            [] => (otherwise, &[][..]),
            [first, others @ ..] => (Scope::Process(*first), others),
        };
        Ok(Options {
            also: also.to_vec(),
            cgroup: self.cgroup.as_ref().map(filter).transpose()?,
            cgroup_v1: machine::uses_cgroup_v1(kernel),
            ..Options::new(scope, detail)
        })
    }

    /// The processes at whose end the watch ends, if it is of processes.
    ///
    /// # Errors
    /// None of them exists any more.
    pub fn followed(&self) -> Result<Option<Followed>> {
        match &self.pids[..] {
            [] => Ok(None),
            pids => Followed::open_all(pids).map(Some),
        }
    }
}

/// A control group to be watched with those below it.
fn filter(cgroup: &Cgroup) -> Result<CgroupFilter> {
    let Some(level) = cgroup.level else {
        bail!(
            "cannot watch control group {}: its depth is unknown inside a cgroup namespace; run outside of the container",
            cgroup.name
        );
    };
    Ok(CgroupFilter {
        id: cgroup.id,
        level,
    })
}

//! A part of a recording: the processes or control groups that options name.
//!
//! A recording has names of programs and no command lines.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use anyhow::{Result, bail};
use cachewise_model::{
    Counter, GroupNames, Interval, Ledger, Measured, Missing, ProcessRow, Reason, did_you_mean,
    nearest_names,
};
use cachewise_tui::Filter;

use crate::selection::Selection;

/// Where the hierarchies of control groups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";
/// Names that are kept for a message.
const MOST_NAMES: usize = 4096;

/// The part that is kept of each sample.
pub struct Picked {
    wanted: SelectedPart,
    /// Processes that were selected so far, with their start: their descendants are selected after their end, too.
    processes: HashSet<(u32, Option<u64>)>,
    /// Names in the recording that the option could have meant.
    names: BTreeSet<String>,
    is_found: bool,
}

/// The selected part of what was recorded, in words.
pub fn part(selection: &Selection, recorded: &str) -> String {
    let part = selection.text().unwrap_or_default();
    match recorded {
        "" => part,
        recorded => format!("{part} of {recorded}"),
    }
}

enum SelectedPart {
    Pid(u32),
    Command(Filter),
    Group(Vec<String>),
    Unit(String),
    Container(String),
}

impl Picked {
    /// The part that the options select; `None` without such an option.
    pub fn of(selection: &Selection) -> Option<Picked> {
        let named = &selection.named;
        let wanted = if let Some(pid) = selection.pid {
            SelectedPart::Pid(pid)
        } else if let Some(path) = &named.cgroup {
            SelectedPart::Group(group_names(path))
        } else if let Some(unit) = &named.unit {
            SelectedPart::Unit(crate::selection::unit_name(unit))
        } else if let Some(container) = &named.container {
            SelectedPart::Container(container.clone())
        } else {
            SelectedPart::Command(named.program.clone()?)
        };
        Some(Picked {
            wanted,
            processes: HashSet::new(),
            names: BTreeSet::new(),
            is_found: false,
        })
    }

    /// Fails if no sample had a selected process or group.
    pub fn check(&self) -> Result<()> {
        if self.is_found {
            return Ok(());
        }
        let (kind, typed) = match &self.wanted {
            SelectedPart::Pid(pid) => bail!(
                "the recording has no row of process {pid}: it did not run, or others were more active"
            ),
            SelectedPart::Command(filter) => ("process with a command", filter.text()),
            SelectedPart::Group(names) => {
                ("control group", names.first().map_or("", String::as_str))
            }
            SelectedPart::Unit(unit) => ("unit", unit.as_str()),
            SelectedPart::Container(name) => ("container or pod", name.as_str()),
        };
        let near = nearest_names(typed, self.names.iter().map(String::as_str));
        let near: Vec<String> = near
            .iter()
            .map(|name| name.escape_debug().to_string())
            .collect();
        bail!(
            "the recording has no {kind} {typed:?}; {}`cachewise report FILE --series --of {}` lists those that it has",
            did_you_mean(&near),
            match self.wanted {
                SelectedPart::Command(_) => "processes",
                _ => "cgroups",
            }
        )
    }

    /// Keeps the selected part of a sample.
    pub fn keep(&mut self, interval: &mut Interval) {
        match &self.wanted {
            SelectedPart::Pid(_) | SelectedPart::Command(_) => self.keep_processes(interval),
            SelectedPart::Group(_) | SelectedPart::Unit(_) | SelectedPart::Container(_) => {
                self.keep_groups(interval)
            }
        }
        // A sample does not say which process read which file.
        interval.files.clear();
        interval.uses.clear();
        interval.devices.clear();
        let rows = &interval.processes;
        let sum = |of: fn(&ProcessRow) -> cachewise_model::Count| {
            rows.iter()
                .map(of)
                .fold(Measured::Exact(0), cachewise_model::Count::plus)
        };
        interval.device_read_bytes = sum(|row| row.device_read_bytes);
        interval.device_write_bytes = sum(|row| row.device_write_bytes);
    }

    fn keep_processes(&mut self, interval: &mut Interval) {
        let id = |row: &ProcessRow| Some((row.pid?, row.started.known()));
        let rows = &interval.processes;
        let is_named = |row: &ProcessRow| match &self.wanted {
            SelectedPart::Pid(pid) => row.pid == Some(*pid),
            SelectedPart::Command(filter) => {
                let command = row.command.as_ref().known().map(String::as_str);
                let program = command.and_then(|command| command.split(' ').next());
                row.pid.is_some() && filter.accepts(command.into_iter().chain(program))
            }
            _ => false,
        };
        self.processes
            .extend(rows.iter().filter(|row| is_named(row)).filter_map(id));
        // Until no further descendant is found.
        let mut pids: HashSet<u32> = self.processes.iter().map(|(pid, _)| *pid).collect();
        loop {
            let before = pids.len();
            for row in rows {
                let is_child = row
                    .ppid
                    .known()
                    .is_some_and(|parent| pids.contains(&parent));
                let child = id(row).filter(|_| is_child);
                pids.extend(child.map(|(pid, _)| pid));
                self.processes.extend(child);
            }
            if pids.len() == before {
                break;
            }
        }
        let others = rows.iter().find(|row| row.is_all_others());
        let others = others
            .is_some_and(|row| row.ledger.inserted_pages().known() > Some(0) || reads(row) > 0);
        if self.names.len() < MOST_NAMES {
            let commands = rows.iter().filter_map(|row| row.command.clone().known());
            self.names.extend(commands);
        }
        let missing = interval.ledger.all_unknown();
        interval
            .processes
            .retain(|row| id(row).is_some_and(|id| self.processes.contains(&id)));
        self.is_found |= !interval.processes.is_empty();
        let groups: HashSet<String> = interval
            .processes
            .iter()
            .filter_map(|row| row.cgroup.clone().known())
            .collect();
        interval.cgroups.retain(|row| {
            row.path
                .as_ref()
                .known()
                .is_some_and(|path| groups.contains(path))
        });
        let ledgers = interval.processes.iter().map(|row| &row.ledger);
        interval.ledger = total(ledgers, missing);
        if others {
            // One of them may be selected.
            for counter in Counter::ALL {
                let count = interval.ledger[*counter];
                interval
                    .ledger
                    .set_estimated(*counter, count, Reason::OthersNotSelected);
            }
        }
        interval.evictions.clear();
    }

    fn keep_groups(&mut self, interval: &mut Interval) {
        let path = |row: &cachewise_model::CgroupRow| row.path.clone().known();
        let roots: Vec<String> = interval
            .cgroups
            .iter()
            .filter(|row| {
                let path = row.path.as_ref().known();
                path.is_some_and(|path| self.wanted.is_group(path, &row.names))
            })
            .filter_map(path)
            .collect();
        if self.names.len() < MOST_NAMES {
            let rows = interval.cgroups.iter();
            self.names.extend(
                rows.flat_map(|row| match &self.wanted {
                    SelectedPart::Group(_) => vec![path(row)],
                    SelectedPart::Unit(_) => vec![row.names.unit.clone().known()],
                    _ => vec![
                        row.names.container.clone().known(),
                        row.names.pod.clone().known(),
                    ],
                })
                .flatten(),
            );
        }
        let holds = |path: &str| roots.iter().any(|root| is_below(root, path));
        let missing = interval.ledger.all_unknown();
        interval
            .cgroups
            .retain(|row| row.path.as_ref().known().is_some_and(|path| holds(path)));
        interval.processes.retain(|row| {
            let group = row.cgroup.as_ref().known();
            row.pid.is_some() && group.is_some_and(|path| holds(path))
        });
        self.is_found |= !interval.cgroups.is_empty();
        let ledgers = interval.cgroups.iter().map(|row| &row.ledger);
        interval.ledger = total(ledgers, missing);
        // The memory of a group holds that of those below it.
        let first = interval
            .cgroups
            .iter()
            .find(|row| path(row).as_ref() == roots.first());
        if let Some(group) = first {
            interval.system = group.system.clone();
        }
        interval.evictions.clear();
    }
}

impl SelectedPart {
    fn is_group(&self, path: &str, names: &GroupNames) -> bool {
        let is = |name: &Measured<String>, typed: &str| {
            name.as_ref().known().is_some_and(|name| name == typed)
        };
        match self {
            SelectedPart::Group(wanted) => wanted.iter().any(|wanted| wanted == path),
            SelectedPart::Unit(unit) => {
                is(&names.unit, unit) || path.rsplit('/').next() == Some(unit)
            }
            SelectedPart::Container(name) => {
                let id = names.container_id.as_ref().known();
                is(&names.container, name)
                    || is(&names.pod, name)
                    || is(&names.shown(), name)
                    || !name.is_empty() && id.is_some_and(|id| id.starts_with(name.as_str()))
            }
            SelectedPart::Pid(_) | SelectedPart::Command(_) => false,
        }
    }
}

/// The sum of these, which is missing where the whole was.
fn total<'a>(ledgers: impl Iterator<Item = &'a Ledger>, missing: Option<Missing>) -> Ledger {
    match missing {
        Some(missing) => Ledger::all_missing(missing),
        None => ledgers.sum(),
    }
}

fn reads(row: &ProcessRow) -> u64 {
    row.ledger[Counter::ReadRequests]
}

/// The paths in a hierarchy that a name or directory of a control group stands for.
fn group_names(path: &Path) -> Vec<String> {
    let text = path.to_string_lossy();
    let text = text.trim_end_matches('/');
    let Some(below) = text.strip_prefix(MOUNT) else {
        return vec![format!("/{}", text.trim_start_matches('/'))];
    };
    // With version 1 the first component is the controller.
    let of_controller = below.get(1..).and_then(|below| below.split_once('/'));
    let mut names = vec![if below.is_empty() {
        "/".to_owned()
    } else {
        below.to_owned()
    }];
    names.extend(of_controller.map(|(_, rest)| format!("/{rest}")));
    names
}

/// Whether a group is this one, or below it.
fn is_below(root: &str, path: &str) -> bool {
    let rest = path.strip_prefix(root.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use cachewise_model::{CgroupRow, Exit, System};
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        selection: Selection,
    }

    fn picked(words: &[&str]) -> Picked {
        let words = std::iter::once("report").chain(words.iter().copied());
        Picked::of(&Typed::parse_from(words).selection).expect("an option")
    }

    fn reads(number: u64) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.set(Counter::ReadRequests, number);
        ledger
    }

    /// A shell (7) with a child (8), another process (9), and all others; three groups.
    fn sample() -> Interval {
        let mut interval = cachewise_recording::example();
        let process = |pid: Option<u32>, ppid: u32, command: &str, group: &str| ProcessRow {
            pid,
            started: Measured::Exact(1),
            ppid: Measured::Exact(ppid),
            command: Measured::Exact(command.into()),
            cgroup: Measured::Exact(group.into()),
            exit: Exit::Running,
            cpu_seconds: Measured::Exact(0.5),
            device_read_bytes: Measured::Exact(0),
            device_write_bytes: Measured::Exact(0),
            ledger: reads(pid.unwrap_or(0).into()),
        };
        interval.processes = vec![
            process(Some(8), 7, "cat", "/system.slice/web.service/worker"),
            process(Some(7), 1, "sh -c build", "/system.slice/web.service"),
            process(Some(9), 1, "db", "/db"),
        ];
        let group = |path: &str, unit: Measured<String>, number: u64| CgroupRow {
            path: Measured::Exact(path.into()),
            names: GroupNames {
                unit,
                ..GroupNames::none()
            },
            ledger: reads(number),
            system: System::default(),
            memory_limit_path: Measured::not_offered(Reason::NotMeasured),
        };
        let web = || Measured::Exact("web.service".to_owned());
        interval.cgroups = vec![
            group("/system.slice/web.service", web(), 7),
            group("/system.slice/web.service/worker", web(), 8),
            group(
                "/system.slice/web.service-2",
                Measured::not_offered(Reason::NoUnit),
                16,
            ),
            group("/db", Measured::not_offered(Reason::NoUnit), 9),
        ];
        interval
    }

    fn pids(interval: &Interval) -> Vec<Option<u32>> {
        interval.processes.iter().map(|row| row.pid).collect()
    }

    #[test]
    fn process_is_kept_with_its_descendants() {
        for words in [&["-p", "7"][..], &["--command", "build"]] {
            let mut picked = picked(words);
            let mut interval = sample();
            picked.keep(&mut interval);
            assert_eq!(pids(&interval), [Some(8), Some(7)], "{words:?}");
            let reads = interval.ledger.get(Counter::ReadRequests);
            assert_eq!(reads, Measured::Exact(15), "{words:?}: their sum");
            picked.check().expect("it is there");
            let mut later = sample();
            later.processes.remove(1);
            picked.keep(&mut later);
            assert_eq!(pids(&later), [Some(8)], "{words:?}: after its parent's end");
        }
    }

    #[test]
    fn counts_are_estimates_where_a_row_may_be_among_all_others() {
        let mut interval = sample();
        let mut others = interval.processes[2].clone();
        others.pid = None;
        interval.processes.push(others);
        picked(&["-p", "9"]).keep(&mut interval);
        let reads = interval.ledger.get(Counter::ReadRequests);
        assert_eq!(reads, Measured::Estimated(9, Reason::OthersNotSelected));
    }

    #[test]
    fn groups_are_kept_with_those_below_them() {
        for words in [
            &["--unit", "web"][..],
            &["--cgroup", "/system.slice/web.service"],
            &["--cgroup", "system.slice/web.service/"],
            &["--cgroup", "/sys/fs/cgroup/system.slice/web.service"],
            &["--cgroup", "/sys/fs/cgroup/memory/system.slice/web.service"],
        ] {
            let mut picked = picked(words);
            let mut interval = sample();
            picked.keep(&mut interval);
            assert_eq!(interval.cgroups.len(), 2, "{words:?}");
            assert_eq!(pids(&interval), [Some(8), Some(7)], "{words:?}");
            let reads = interval.ledger.get(Counter::ReadRequests);
            assert_eq!(
                reads,
                Measured::Exact(15),
                "{words:?}: not that of its namesake"
            );
            picked.check().expect("it is there");
        }
    }

    #[test]
    fn unknown_names_are_refused_with_near_ones() {
        let mut picked = picked(&["--unit", "wbe"]);
        let mut interval = sample();
        picked.keep(&mut interval);
        assert!(interval.cgroups.is_empty() && interval.processes.is_empty());
        let error = picked
            .check()
            .expect_err("there is no such unit")
            .to_string();
        assert!(error.contains("did you mean web.service?"), "{error}");
    }
}

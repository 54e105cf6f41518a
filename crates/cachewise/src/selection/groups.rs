//! Control groups by the name of a systemd unit or container.

use anyhow::{Context, Result, bail};
use cachewise_cli::names::{GroupPlace, Namer};
use cachewise_kstat::{Cgroup, Kernel};
use cachewise_model::{GroupNames, Reason, did_you_mean, nearest_names};

/// Kinds of systemd units that have control groups.
const UNITS: [&str; 6] = [".service", ".scope", ".slice", ".socket", ".mount", ".swap"];
/// Groups that a message lists.
const LISTED: usize = 5;

/// The whole name of a unit: a service, unless its kind is there.
pub fn unit_name(typed: &str) -> String {
    match UNITS.iter().any(|kind| typed.ends_with(kind)) {
        true => typed.to_owned(),
        false => format!("{typed}.service"),
    }
}

/// The group of a systemd unit, and the unit's whole name. Units of the machine come before those of
/// users and containers.
pub fn group_of_unit(kernel: &Kernel, typed: &str) -> Result<(String, Cgroup)> {
    let unit = unit_name(typed);
    let groups = groups(kernel)?;
    let is_unit = |name: &str| UNITS.iter().any(|kind| name.ends_with(kind));
    let named = groups.iter().filter_map(|group| group.rsplit('/').next());
    let found: Vec<&str> = groups
        .iter()
        .map(String::as_str)
        .filter(|group| group.rsplit('/').next() == Some(&unit))
        .collect();
    let of_machine = |group: &&&str| GroupPlace::of(group).is_of_machine;
    let found = match found.iter().filter(of_machine).count() {
        0 => found,
        _ => found.iter().filter(of_machine).copied().collect(),
    };
    match found[..] {
        [] => {
            let units: Vec<&str> = named.filter(|name| is_unit(name)).collect();
            let of = |typed: &str| nearest_names(typed, units.iter().copied());
            let near = Some(of(&unit)).filter(|near| !near.is_empty());
            let near: Vec<String> = near
                .unwrap_or_else(|| of(typed))
                .iter()
                .map(|name| name.escape_debug().to_string())
                .collect();
            bail!(
                "no control group belongs to the unit {unit:?}: it does not run, or has another name; {}\
                 `systemctl status` lists the units that run",
                did_you_mean(&near)
            )
        }
        [group] => Ok((unit, resolved(kernel, group)?)),
        _ => bail!(
            "{} control groups belong to units {unit:?}; select one with --cgroup: {}",
            found.len(),
            listed(found.iter().copied())
        ),
    }
}

/// A container, or a pod, with its own group.
struct Candidate {
    names: GroupNames,
    group: String,
}

impl Candidate {
    /// Whether the typed text is one of its names: as tables show it, and without the pod.
    fn is_named(&self, typed: &str) -> bool {
        let is_typed = |name: Option<&str>| name == Some(typed);
        let names = &self.names;
        is_typed(names.container.as_ref().known().map(String::as_str))
            || is_typed(names.shown().known().as_deref())
            || is_typed(names.container_id.as_ref().known().map(String::as_str))
    }

    fn has_id(&self, beginning: &str) -> bool {
        let id = self.names.container_id.as_ref().known();
        id.is_some_and(|id| id.starts_with(beginning))
    }

    /// Its name, and the beginning of its id.
    fn with_id(&self) -> String {
        let id = self.names.container_id.as_ref().known();
        let digits = id.and_then(|id| id.get(..12));
        let shown = self.shown();
        match digits.filter(|digits| *digits != shown) {
            Some(digits) => format!("{shown} ({digits})"),
            None => shown,
        }
    }

    fn shown(&self) -> String {
        let shown = self.names.shown().known().unwrap_or_default();
        shown.escape_debug().to_string()
    }
}

/// The group of a container or pod, and its name.
pub fn group_of_container(kernel: &Kernel, typed: &str) -> Result<(String, Cgroup)> {
    if typed.is_empty() {
        bail!("--container has an empty name");
    }
    let all = candidates(kernel)?;
    let mut found: Vec<&Candidate> = all.iter().filter(|one| one.is_named(typed)).collect();
    if found.is_empty() {
        found = all.iter().filter(|one| one.has_id(typed)).collect();
    }
    match found[..] {
        [] => bail!("{}", none(typed, &all)),
        [one] => Ok((one.shown(), resolved(kernel, &one.group)?)),
        _ => bail!(
            "{} containers match {typed:?}: {}; select one by its whole name, by more of its id, or with --cgroup",
            found.len(),
            listed(found.iter().map(|one| one.with_id()))
        ),
    }
}

fn none(typed: &str, all: &[Candidate]) -> String {
    let mut names: Vec<String> = all.iter().map(Candidate::shown).collect();
    let bare = all
        .iter()
        .filter_map(|one| one.names.container.clone().known());
    names.extend(bare.map(|name| name.escape_debug().to_string()));
    let near = nearest_names(typed, names.iter().map(String::as_str));
    let near: Vec<String> = near.into_iter().map(str::to_owned).collect();
    let is_hidden = |one: &&Candidate| {
        let missing = one.names.container.missing();
        missing.is_some_and(|missing| missing.reason() == Reason::RuntimeStateDenied)
    };
    let hint = match (all.len(), all.iter().filter(is_hidden).count()) {
        (0, _) => {
            "no container runs here, or its control group is not visible from here".to_owned()
        }
        (_, 0) => format!(
            "{}`cachewise top -b -n 1 --view cgroup --columns group_name,container_id` lists the containers",
            did_you_mean(&near)
        ),
        (_, hidden) => format!(
            "{}only root may read the names of {hidden} of them: ask as root, or give the beginning of an id",
            did_you_mean(&near)
        ),
    };
    format!("no container has the name or id {typed:?}; {hint}")
}

/// The containers and pods that have a control group.
fn candidates(kernel: &Kernel) -> Result<Vec<Candidate>> {
    let groups = groups(kernel)?;
    let mut namer = Namer::new();
    namer.refresh(groups.iter().map(String::as_str));
    let own = groups
        .into_iter()
        .filter(|group| GroupPlace::of(group).is_own);
    Ok(own
        .map(|group| Candidate {
            names: namer.names(&group),
            group,
        })
        .collect())
}

/// The names of all control groups, in order.
fn groups(kernel: &Kernel) -> Result<Vec<String>> {
    let names = kernel
        .cgroup_names()
        .context("cannot list the control groups")?;
    let mut names: Vec<String> = names.into_values().collect();
    names.sort_unstable();
    Ok(names)
}

fn resolved(kernel: &Kernel, group: &str) -> Result<Cgroup> {
    kernel
        .resolve_cgroup(group)
        .context("cannot watch a control group")
}

fn listed(names: impl Iterator<Item = impl AsRef<str>>) -> String {
    let mut names: Vec<String> = names
        .map(|name| name.as_ref().escape_debug().to_string())
        .collect();
    if names.len() > LISTED {
        names.truncate(LISTED);
        names.push("...".to_owned());
    }
    names.join(", ")
}

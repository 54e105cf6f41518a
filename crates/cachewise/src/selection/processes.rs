//! Processes by their command line.

use std::collections::HashSet;

use anyhow::{Context, Result, bail};
use cachewise_kstat::Kernel;
use cachewise_model::{did_you_mean, nearest_names};
use cachewise_tui::Filter;

/// The processes whose command line matches, without their matching descendants, in ascending order.
///
/// This process and those above it do not count: their command lines have the pattern.
pub fn matching(kernel: &Kernel, pattern: &Filter) -> Result<Vec<u32>> {
    let all = kernel.process_ids().context("cannot list the processes")?;
    let own: HashSet<u32> = ancestors(kernel, std::process::id()).collect();
    let mut names = Vec::new();
    let mut found = HashSet::new();
    for pid in all.into_iter().filter(|pid| !own.contains(pid)) {
        // Both fail for a process that has ended meanwhile.
        let Ok(name) = kernel.process_command(pid) else {
            continue;
        };
        let words = kernel.process_arguments(pid).unwrap_or_default();
        let line = words.join(" ");
        let program = words.first().map(String::as_str);
        if pattern.accepts([name.as_str(), &line].into_iter().chain(program)) {
            found.insert(pid);
        }
        names.push(name);
    }
    let roots = roots(kernel, &found);
    if roots.is_empty() {
        let near = nearest_names(pattern.text(), names.iter().map(String::as_str));
        let near: Vec<String> = near
            .iter()
            .map(|name| name.escape_debug().to_string())
            .collect();
        bail!(
            "no process has a command line that matches {:?}; {}`ps -eo pid,args` lists them",
            pattern.text(),
            did_you_mean(&near)
        );
    }
    Ok(roots)
}

/// The processes of a set that descend from no other one in it, in ascending order.
pub fn roots(kernel: &Kernel, set: &HashSet<u32>) -> Vec<u32> {
    let is_root = |pid: &u32| {
        !ancestors(kernel, *pid)
            .skip(1)
            .any(|above| set.contains(&above))
    };
    let mut roots: Vec<u32> = set.iter().copied().filter(is_root).collect();
    roots.sort_unstable();
    roots
}

/// These processes and their descendants, in ascending order.
pub fn with_descendants(kernel: &Kernel, roots: &[u32]) -> Result<Vec<u32>> {
    let mut all = kernel.process_ids().context("cannot list the processes")?;
    all.retain(|pid| ancestors(kernel, *pid).any(|above| roots.contains(&above)));
    Ok(all)
}

/// A process and those above it.
fn ancestors(kernel: &Kernel, pid: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(pid), |pid| {
        kernel.process_parent(*pid).ok().filter(|above| *above != 0)
    })
}

//! The groups that are guarded: by name, glob, unit or container, looked up again and again.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cachewise_kstat::{Cgroup, Error, Kernel};
use globset::{GlobBuilder, GlobMatcher};

use super::arguments::Guard as Arguments;
use crate::selection;

/// Groups that are wanted.
pub struct WantedGroups {
    named: Vec<PathBuf>,
    /// Each part of a path from the root of the hierarchy on.
    globs: Vec<Vec<GlobMatcher>>,
    units: Vec<String>,
    containers: Vec<String>,
    /// Whether they may come and go.
    pub follows: bool,
}

impl WantedGroups {
    /// Those of the command line.
    pub fn new(arguments: &Arguments) -> Result<WantedGroups> {
        let (globs, named): (Vec<_>, Vec<_>) = arguments
            .groups
            .iter()
            .cloned()
            .partition(|name| is_glob(name));
        let globs = globs.iter().map(|glob| parts(glob));
        let globs = globs.collect::<Result<Vec<_>>>()?;
        Ok(WantedGroups {
            follows: arguments.follow || !globs.is_empty(),
            named,
            globs,
            units: arguments.unit.clone(),
            containers: arguments.container.clone(),
        })
    }

    /// Those that are there now. Where groups come and go, none that is missing is an error.
    pub fn now(&self, kernel: &Kernel) -> Result<Vec<Cgroup>> {
        let mut groups = Vec::new();
        for name in &self.named {
            match kernel.resolve_cgroup(name) {
                Err(Error::NoCgroup { .. }) if self.follows => {}
                group => groups.push(group?),
            }
        }
        let named = self
            .units
            .iter()
            .map(|unit| selection::group_of_unit(kernel, unit))
            .chain(
                self.containers
                    .iter()
                    .map(|container| selection::group_of_container(kernel, container)),
            );
        for group in named {
            match group {
                Ok((_, group)) => groups.push(group),
                Err(_) if self.follows => {}
                Err(error) => return Err(error),
            }
        }
        if !self.globs.is_empty() {
            let root = kernel
                .resolve_cgroup("/")
                .context("cannot list control groups")?;
            for glob in &self.globs {
                matching(kernel, &root.path, glob, &mut groups);
            }
        }
        groups.sort_by(|one, other| one.path.cmp(&other.path));
        groups.dedup_by(|one, other| one.path == other.path);
        Ok(groups)
    }
}

fn is_glob(name: &Path) -> bool {
    name.to_string_lossy().contains(['*', '?', '[', '{'])
}

fn parts(glob: &Path) -> Result<Vec<GlobMatcher>> {
    let text = glob.to_string_lossy();
    if text.starts_with("/sys/") {
        bail!(
            "{text}: globs are of names from the root of the hierarchy on, such as batch.slice/*.service"
        );
    }
    let parts = text.split('/').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let glob = GlobBuilder::new(part).literal_separator(true).build();
            let glob = glob.with_context(|| format!("{text} is no glob"))?;
            Ok(glob.compile_matcher())
        })
        .collect()
}

/// Adds the groups below a directory whose names match part by part. A directory that vanishes has none.
fn matching(kernel: &Kernel, below: &Path, glob: &[GlobMatcher], groups: &mut Vec<Cgroup>) {
    let Some((first, rest)) = glob.split_first() else {
        groups.extend(kernel.resolve_cgroup(below));
        return;
    };
    let entries = std::fs::read_dir(below).into_iter().flatten().flatten();
    for entry in entries {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && first.is_match(entry.file_name()) {
            matching(kernel, &entry.path(), rest, groups);
        }
    }
}

//! [`Cgroup`]: a memory control group that this process is in, version 1 or 2, as long as the value lives.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cachewise_units::Bytes;

use crate::Outcome;

/// A control group with a limit of memory. Dropped, it is left and removed.
pub struct Cgroup {
    path: PathBuf,
    /// Where this process came from.
    before: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Prefix of the names of our groups.
const PREFIX: &str = "cachewise-bench-";

impl Cgroup {
    /// Makes a group and enters it.
    pub fn enter() -> Outcome<Self> {
        let (version, mount) = find_mount()?;
        let before = own_group(version, &mount)?;
        let parent = match version {
            Version::One => before.clone(),
            Version::Two => parent_with_memory(&before, &mount)?,
        };
        remove_left_over(&parent);
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| explain("make", &path, &error))?;
        let group = Self {
            path,
            before,
            version,
        };
        move_into(&group.path)?;
        Ok(group)
    }

    /// Limits the memory of this process, pages that it brings into the page cache included.
    pub fn set_limit(&self, limit: Bytes) -> Outcome<()> {
        let path = self.path.join(match self.version {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        });
        fs::write(&path, limit.0.to_string()).map_err(|error| explain("write", &path, &error))
    }

    /// Memory charged to the group.
    pub fn usage(&self) -> Outcome<Bytes> {
        number(&self.usage_file())
    }

    pub fn usage_file(&self) -> PathBuf {
        self.path.join(match self.version {
            Version::One => "memory.usage_in_bytes",
            Version::Two => "memory.current",
        })
    }

    /// The page cache among it.
    pub fn cache(&self) -> Outcome<Bytes> {
        let name = match self.version {
            Version::One => "cache ",
            Version::Two => "file ",
        };
        let path = self.path.join("memory.stat");
        let text = fs::read_to_string(&path).map_err(|error| explain("read", &path, &error))?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let bytes = line.ok_or_else(|| format!("{} has no line {name:?}", path.display()))?;
        Ok(Bytes(bytes.trim().parse()?))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let left = move_into(&self.before).is_ok() && fs::remove_dir(&self.path).is_ok();
        if !left {
            eprintln!("{} could not be removed", self.path.display());
        }
    }
}

pub fn number(path: &Path) -> Outcome<Bytes> {
    let text = fs::read_to_string(path).map_err(|error| explain("read", path, &error))?;
    Ok(Bytes(text.trim().parse()?))
}

fn explain(what: &str, path: &Path, error: &io::Error) -> Box<dyn std::error::Error> {
    let next = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; run as root, where control groups may be written"
        }
        _ => "",
    };
    format!("cannot {what} {}: {error}{next}", path.display()).into()
}

/// A mount of version 1 that has the memory controller, or one of version 2 that does.
fn find_mount() -> Outcome<(Version, PathBuf)> {
    let mounts = fs::read_to_string("/proc/mounts")?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (_, path, kind, options) = (
            fields.next()?,
            fields.next()?,
            fields.next()?,
            fields.next()?,
        );
        Some((PathBuf::from(path), kind, options))
    });
    for (path, kind, options) in mounts {
        if kind == "cgroup" && options.split(',').any(|option| option == "memory") {
            return Ok((Version::One, path));
        }
        if kind == "cgroup2" && has_memory(&path.join("cgroup.controllers")) {
            return Ok((Version::Two, path));
        }
    }
    Err("no control groups with a memory controller are mounted".into())
}

fn has_memory(list: &Path) -> bool {
    fs::read_to_string(list).is_ok_and(|text| text.split_whitespace().any(|name| name == "memory"))
}

fn own_group(version: Version, mount: &Path) -> Outcome<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup")?;
    let own = text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_it = match version {
            Version::One => controllers.split(',').any(|name| name == "memory"),
            Version::Two => controllers.is_empty(),
        };
        is_it.then(|| mount.join(path.trim_start_matches('/')))
    });
    Ok(own.ok_or("/proc/self/cgroup does not name our group")?)
}

/// The next group up that gives its children the memory controller: with version 2 a group that has processes
/// must not, so it cannot be our own.
fn parent_with_memory(own: &Path, mount: &Path) -> Outcome<PathBuf> {
    let above = own.ancestors().take_while(|path| path.starts_with(mount));
    let parent = above
        .into_iter()
        .find(|path| has_memory(&path.join("cgroup.subtree_control")));
    let advice = "no group above gives its children the memory controller; write +memory to \
                  cgroup.subtree_control of the topmost one";
    Ok(parent.ok_or(advice)?.to_owned())
}

/// Removes the groups of killed runs. A group of a run that still works has a process in it and cannot be removed.
fn remove_left_over(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn move_into(group: &Path) -> Outcome<()> {
    let path = group.join("cgroup.procs");
    fs::write(&path, std::process::id().to_string())
        .map_err(|error| explain("write", &path, &error))
}

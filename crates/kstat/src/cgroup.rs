//! Control groups of the hierarchy that accounts the page cache: ids and names.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

use crate::kernel::found;
use crate::{Error, Hierarchy, Kernel};

/// A control group of the hierarchy that accounts the page cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Cgroup {
    /// Its id, as eBPF gets it from `bpf_get_current_cgroup_id` and its siblings.
    pub id: u64,
    /// The number of groups above it, for `bpf_get_current_ancestor_cgroup_id`: 0 for the root.
    ///
    /// `None` in a cgroup namespace, which hides the groups above its root.
    pub level: Option<u32>,
    /// Its directory.
    pub path: PathBuf,
    /// Its name, from the mount point of the hierarchy: `/` for the mounted group.
    pub name: String,
}

/// The groups of a process, from the root of each hierarchy: `/system.slice/x.service`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct CgroupPaths {
    /// Group of the memory controller of version 1, if in use.
    v1_memory: Option<PathBuf>,
    /// Group of the unified hierarchy.
    v2: Option<PathBuf>,
}

/// Deeper or larger hierarchies exist only by accident; a walk must end.
const DEEPEST: u32 = 64;
const MOST: usize = 100_000;

impl Kernel {
    fn cgroup_paths_of(&self, pid: u32) -> Result<CgroupPaths, Error> {
        let text = self.read(&self.process(pid, "cgroup"))?;
        let mut paths = CgroupPaths::default();
        for line in text.split(|byte| *byte == b'\n') {
            // "4:memory:/path" or "0::/path"; the path may contain colons.
            let mut fields = line.splitn(3, |byte| *byte == b':');
            let (Some(number), Some(controllers), Some(path)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let path = Some(PathBuf::from(OsString::from_vec(path.to_vec())));
            if number == b"0" && controllers.is_empty() {
                paths.v2 = path;
            } else if controllers
                .split(|byte| *byte == b',')
                .any(|name| name == b"memory")
            {
                paths.v1_memory = path;
            }
        }
        Ok(paths)
    }

    /// Returns the directory of a process's group in the unified hierarchy; `None` if that is not
    /// mounted, or the group is outside the mounted part.
    ///
    /// # Errors
    /// Reading the mounts or `/proc/PID/cgroup` failed.
    pub fn unified_cgroup_of(&self, pid: u32) -> Result<Option<PathBuf>, Error> {
        let Some(mount) = self.unified_hierarchy()? else {
            return Ok(None);
        };
        let path = self.cgroup_paths_of(pid)?.v2;
        let path = path.and_then(|path| Some(mount.join(path.strip_prefix("/").ok()?)));
        Ok(path.filter(|path| path.is_dir()))
    }

    /// Returns a process's group in the hierarchy that accounts the page cache, or `None` if none
    /// is mounted.
    ///
    /// # Errors
    /// [`Error::NoCgroup`] if the group is outside the mounted part of the hierarchy, or is gone;
    /// otherwise reading the mounts or `/proc/PID/cgroup` failed.
    ///
    /// # Kernel
    /// In version 1 a zombie is in the root group.
    pub fn cgroup_of(&self, pid: u32) -> Result<Option<Cgroup>, Error> {
        let (hierarchy, root) = self.hierarchy()?;
        let paths = self.cgroup_paths_of(pid)?;
        let (mount, path) = match hierarchy {
            Hierarchy::V2 { mount } => (mount, paths.v2),
            Hierarchy::V1Memory { mount } => (mount, paths.v1_memory),
            Hierarchy::None => return Ok(None),
        };
        let path = path.unwrap_or_else(|| "/".into());
        match path.strip_prefix(&root) {
            Ok(below) => self.resolve_cgroup(mount.join(below)).map(Some),
            Err(_) => Err(Error::NoCgroup {
                name: path.display().to_string(),
                mount,
            }),
        }
    }

    /// Returns the ids of the processes in a group and in those below it, in ascending order.
    ///
    /// Leaves out groups that vanish meanwhile and processes that this caller does not see.
    ///
    /// # Errors
    /// The group's own list cannot be read.
    pub fn processes_of_cgroup(&self, group: &Cgroup) -> Result<Vec<u32>, Error> {
        let mut ids = Vec::new();
        let mut ahead = vec![group.path.clone()];
        while let Some(directory) = ahead.pop() {
            match self.text(&directory.join("cgroup.procs")) {
                Ok(text) => ids.extend(text.lines().filter_map(|id| id.parse::<u32>().ok())),
                Err(error) if directory == group.path => return Err(error),
                Err(_) => continue,
            }
            let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
            let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            ahead.extend(below.map(|entry| entry.path()));
        }
        // A process of another pid namespace is 0 here.
        ids.retain(|id| *id != 0);
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// Returns the id of the group with this directory.
    ///
    /// # Errors
    /// The directory cannot be read.
    ///
    /// # Kernel
    /// With 64-bit inodes the inode number is the group's id; on 32-bit machines it is the lower
    /// half.
    pub fn cgroup_id(&self, path: &Path) -> Result<u64, Error> {
        let found = fs::metadata(path).map_err(|source| Error::io("stat", path, source))?;
        if !found.is_dir() {
            return Err(Error::io(
                "stat",
                path,
                std::io::ErrorKind::NotADirectory.into(),
            ));
        }
        Ok(found.ino())
    }

    /// Returns the names of all groups by id: `/` for the root, `/a/b` below it.
    ///
    /// Leaves out groups that vanish meanwhile, groups that this caller may not list, levels below
    /// 64 and groups beyond 100,000. Empty without a hierarchy.
    ///
    /// # Errors
    /// Reading the mounts or the root of the hierarchy failed.
    ///
    /// # Cost
    /// A system call per group, five more per group with children.
    pub fn cgroup_names(&self) -> Result<HashMap<u64, String>, Error> {
        let mut names = HashMap::new();
        let hierarchy = self.cgroup_hierarchy()?;
        let Some(mount) = hierarchy.mount() else {
            return Ok(names);
        };
        names.insert(self.cgroup_id(mount)?, "/".to_owned());
        let mut ahead = vec![(mount.to_owned(), String::new(), 0)];
        while let Some((directory, name, depth)) = ahead.pop() {
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(source) if depth == 0 => return Err(Error::io("list", &directory, source)),
                Err(_) => continue,
            };
            // The id and the type come with the listing, without further system calls.
            for entry in entries.flatten() {
                if names.len() >= MOST {
                    return Ok(names);
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    let name = format!("{name}/{}", entry.file_name().to_string_lossy());
                    names.insert(entry.ino(), name.clone());
                    // A directory has a link for its name, one for itself, and one for each child.
                    let is_leaf = entry.metadata().is_ok_and(|found| found.nlink() == 2);
                    if depth + 1 < DEEPEST && !is_leaf {
                        ahead.push((entry.path(), name, depth + 1));
                    }
                }
            }
        }
        Ok(names)
    }

    /// Finds a group by its directory (`/sys/fs/cgroup/memory/a`) or by its name below the
    /// hierarchy (`a/b`, `/a/b`).
    ///
    /// # Errors
    /// [`Error::NoCgroup`] if there is no such group, [`Error::Invalid`] for a directory of another
    /// hierarchy or a name with `..`, [`Error::Unsupported`] if no hierarchy is mounted.
    pub fn resolve_cgroup(&self, wanted: impl AsRef<Path>) -> Result<Cgroup, Error> {
        let wanted = wanted.as_ref();
        let (hierarchy, root) = self.hierarchy()?;
        let Some(mount) = hierarchy.mount() else {
            return Err(Error::Unsupported {
                operation: "find a control group in",
                path: self.proc("self/mountinfo"),
                advice: "neither cgroup2 nor the memory controller of version 1 is mounted; mount \
                         one: mount -t cgroup2 none /sys/fs/cgroup",
            });
        };
        let below = self.below(wanted, mount)?;
        let path = mount.join(&below);
        let id = match found(self.cgroup_id(&path))? {
            Some(id) => id,
            None => {
                let name = wanted.display().to_string();
                return Err(Error::NoCgroup {
                    name,
                    mount: mount.to_owned(),
                });
            }
        };
        let depth = |path: &Path| {
            path.components()
                .filter(|part| matches!(part, Component::Normal(_)))
                .count() as u32
        };
        let level = self
            .sees_all_cgroups()
            .then(|| depth(&root) + depth(&below));
        let name = Path::new("/").join(&below).to_string_lossy().into_owned();
        Ok(Cgroup {
            id,
            level,
            path,
            name,
        })
    }

    /// Returns the part of `wanted` below the mount, without leading slash, empty for the mount.
    fn below(&self, wanted: &Path, mount: &Path) -> Result<PathBuf, Error> {
        let invalid = |problem| Error::Invalid {
            name: wanted.display().to_string(),
            problem,
        };
        if wanted.as_os_str().is_empty() {
            return Err(invalid(
                "an empty name; the root of all control groups is /".to_owned(),
            ));
        }
        if wanted.components().any(|part| part == Component::ParentDir) {
            return Err(invalid("a control group's name has no .. in it".to_owned()));
        }
        let rooted = self.rooted(wanted);
        if let Ok(below) = rooted.strip_prefix(mount) {
            return Ok(below.to_owned());
        }
        if rooted.starts_with(self.sys("fs/cgroup")) {
            return Err(invalid(format!(
                "of another hierarchy; the page cache is accounted under {}",
                mount.display()
            )));
        }
        Ok(wanted
            .components()
            .filter(|part| matches!(part, Component::Normal(_)))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::fixture::{Fixture, captured, hybrid, testdata, with_cgroups};

    #[test]
    fn cgroup_paths_finds_both_hierarchies() {
        let paths = captured("linux-6.18").cgroup_paths_of(4242).unwrap();
        let memory = paths.v1_memory.unwrap();
        assert!(
            memory.starts_with("/process_api"),
            "of version 1: {memory:?}"
        );
        assert_eq!(paths.v2, Some("/".into()), "of version 2");
    }

    #[test]
    fn cgroup_paths_accepts_shared_lines_and_colons() {
        let fixture = Fixture::new();
        fixture.write("proc/7/cgroup", "3:cpu,memory:/a:b c\n1:name=memory:/no\n");
        let paths = fixture.kernel().cgroup_paths_of(7).unwrap();
        assert_eq!(
            paths.v1_memory,
            Some("/a:b c".into()),
            "the path is all that follows"
        );
        assert_eq!(paths.v2, None, "no unified hierarchy");
    }

    #[test]
    fn cgroup_of_uses_the_accounting_hierarchy() {
        let fixture = hybrid();
        let group = |text: &str| {
            fixture.write("proc/7/cgroup", text);
            fixture.kernel().cgroup_of(7)
        };
        let found = group("4:memory:/web.slice/nginx\n0::/other\n").unwrap();
        assert_eq!(
            found.unwrap().name,
            "/web.slice/nginx",
            "version 1 accounts the page cache here"
        );
        let found = group("4:memory:/\n0::/\n").unwrap();
        assert_eq!(found.unwrap().name, "/", "the root");
        let error = group("4:memory:/gone\n").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "gone: {error}");

        // In a container that mounts only its own part of the hierarchy.
        let mounts = fs::read_to_string(testdata("mountinfo").join("hybrid.txt")).unwrap();
        let inner = mounts.replace("0:32 / ", "0:32 /docker/4f ");
        fixture.write("proc/self/mountinfo", inner);
        let found = group("4:memory:/docker/4f/web.slice\n").unwrap();
        assert_eq!(
            found.unwrap().name,
            "/web.slice",
            "its name in the container"
        );
        for outside in ["4:memory:/docker/5\n", "4:memory:/../x\n"] {
            let error = group(outside).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound, "{outside:?}: {error}");
        }

        let fixture = with_cgroups("binds.txt", "sys/fs/cgroup", "");
        fixture.write("proc/7/cgroup", "0::/\n");
        let found = fixture.kernel().cgroup_of(7).unwrap();
        assert_eq!(found, None, "no hierarchy is mounted");
    }

    #[test]
    fn resolve_cgroup_accepts_path_and_name() {
        let fixture = hybrid();
        let kernel = fixture.kernel();
        let path = fixture.path("sys/fs/cgroup/memory/web.slice/nginx");
        let id = fs::metadata(&path).unwrap().ino();
        let name = "/web.slice/nginx".to_owned();
        let wanted = Cgroup {
            id,
            level: Some(2),
            path: path.clone(),
            name,
        };
        let (relative, slashed) = ("web.slice/nginx", "/web.slice/nginx/");
        let absolute = "/sys/fs/cgroup/memory/web.slice/nginx";
        for name in [relative, slashed, absolute, path.to_str().unwrap()] {
            assert_eq!(kernel.resolve_cgroup(name).unwrap(), wanted, "by {name:?}");
        }
        for name in ["/", "/sys/fs/cgroup/memory", "."] {
            let root = kernel.resolve_cgroup(name).unwrap();
            assert_eq!(
                (root.level, &*root.name),
                (Some(0), "/"),
                "the root by {name:?}"
            );
        }
    }

    #[test]
    fn resolve_cgroup_refuses_unknown_groups_with_reason() {
        let fixture = hybrid();
        let kernel = fixture.kernel();
        for (name, kind, why) in [
            (
                "no/such",
                ErrorKind::NotFound,
                "no control group \"no/such\" under",
            ),
            (
                "web.slice/cgroup.procs",
                ErrorKind::NotFound,
                "no control group",
            ),
            ("../memory", ErrorKind::Invalid, ".."),
            ("", ErrorKind::Invalid, "empty"),
            (
                "/sys/fs/cgroup/unified",
                ErrorKind::Invalid,
                "another hierarchy",
            ),
        ] {
            let error = kernel.resolve_cgroup(name).unwrap_err();
            assert_eq!(error.kind(), kind, "{name:?}: {error}");
            assert!(
                error.to_string().contains(why),
                "{name:?} is refused as {why:?}: {error}"
            );
        }
    }

    #[test]
    fn level_counts_from_the_real_root() {
        let fixture = hybrid();
        let mounts = fs::read_to_string(testdata("mountinfo").join("hybrid.txt")).unwrap();
        let inner = mounts.replace("0:32 / ", "0:32 /docker/4f ");
        fixture.write("proc/self/mountinfo", inner);
        let level = || fixture.kernel().resolve_cgroup("web.slice").unwrap().level;
        assert_eq!(level(), Some(3), "two groups above the mount are counted");

        fixture.link("proc/self/ns/cgroup", "cgroup:[4026532500]");
        assert_eq!(level(), None, "in a namespace they cannot be");
    }

    #[test]
    fn cgroup_names_match_directories() {
        let fixture = hybrid();
        let kernel = fixture.kernel();
        let names = kernel.cgroup_names().unwrap();
        assert_eq!(names.len(), 3, "the root and two groups: {names:?}");
        for name in ["/", "/web.slice", "/web.slice/nginx"] {
            let id = kernel.resolve_cgroup(name).unwrap().id;
            assert_eq!(
                names.get(&id).map(String::as_str),
                Some(name),
                "the name of {id}"
            );
        }
    }
}

//! Control groups of the hierarchy that accounts the page cache: their numbers and names.

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
    /// Its number: what eBPF gets from `bpf_get_current_cgroup_id` and its sisters.
    pub id: u64,
    /// How many groups are above it, for `bpf_get_current_ancestor_cgroup_id`: the root has 0.
    ///
    /// `None` in a namespace of control groups: those above are hidden, so nobody here can count
    /// them.
    pub level: Option<u32>,
    /// Its directory.
    pub path: PathBuf,
    /// Its name, from where the hierarchy is mounted: `/` for the group mounted.
    pub name: String,
}

/// The groups that a process is in, from the root of each hierarchy: `/system.slice/x.service`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct CgroupPaths {
    /// Of the memory controller of version 1, where that is in use.
    v1_memory: Option<PathBuf>,
    /// Of the unified hierarchy.
    v2: Option<PathBuf>,
}

/// Deeper or larger hierarchies exist by accident only; a walk must end in any case.
const DEEPEST: u32 = 64;
const MOST: usize = 100_000;

impl Kernel {
    fn cgroup_paths_of(&self, pid: u32) -> Result<CgroupPaths, Error> {
        let text = self.read(&self.process(pid, "cgroup"))?;
        let mut paths = CgroupPaths::default();
        for line in text.split(|byte| *byte == b'\n') {
            // "4:memory:/path" or "0::/path", of which the path may contain colons.
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

    /// Returns the directory of the group that a process is in, of the unified hierarchy; `None` where that is not
    /// mounted, or the group is outside the part of it that is.
    ///
    /// # Errors
    /// What reading the mounts and `/proc/PID/cgroup` says.
    pub fn unified_cgroup_of(&self, pid: u32) -> Result<Option<PathBuf>, Error> {
        let Some(mount) = self.unified_hierarchy()? else {
            return Ok(None);
        };
        let path = self.cgroup_paths_of(pid)?.v2;
        let path = path.and_then(|path| Some(mount.join(path.strip_prefix("/").ok()?)));
        Ok(path.filter(|path| path.is_dir()))
    }

    /// Returns the group that a process is in, of the hierarchy that accounts the page cache, or
    /// `None` where none is mounted.
    ///
    /// # Errors
    /// [`Error::NoCgroup`] where the group is outside the part of the hierarchy that is mounted,
    /// or is gone; else what reading the mounts and `/proc/PID/cgroup` says.
    ///
    /// # Kernel
    /// With version 1 a process that has ended and waits to be reaped is in the root group.
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

    /// Returns the number of the group whose directory this is.
    ///
    /// # Errors
    /// What looking at the directory says.
    ///
    /// # Kernel
    /// The number of the inode is that of the group where inodes have 64 bits; on 32-bit machines
    /// it is its lower half.
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

    /// Returns the names of all groups by their numbers: `/` for the root, `/a/b` below it.
    ///
    /// Groups that vanish meanwhile, or that this caller may not list, are left out; so is what
    /// lies deeper than 64 levels or beyond 100,000 groups. Empty where there is no hierarchy.
    ///
    /// # Errors
    /// What reading the mounts and the root of the hierarchy says.
    ///
    /// # Cost
    /// A system call for each group, five more for those that have groups below them.
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
            // Number and type cost no system call of their own: both come with the listing.
            for entry in entries.flatten() {
                if names.len() >= MOST {
                    return Ok(names);
                }
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    let name = format!("{name}/{}", entry.file_name().to_string_lossy());
                    names.insert(entry.ino(), name.clone());
                    // A directory has a link for its name, one for itself, and one for each below it.
                    let is_leaf = entry.metadata().is_ok_and(|found| found.nlink() == 2);
                    if depth + 1 < DEEPEST && !is_leaf {
                        ahead.push((entry.path(), name, depth + 1));
                    }
                }
            }
        }
        Ok(names)
    }

    /// Finds the group that a user means: by its directory (`/sys/fs/cgroup/memory/a`), or by its
    /// name below the hierarchy (`a/b`, `/a/b`).
    ///
    /// # Errors
    /// [`Error::NoCgroup`] where there is no such group, [`Error::Invalid`] for a directory of
    /// another hierarchy or a name with `..`, [`Error::Unsupported`] where no hierarchy is mounted.
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

    /// Returns what of `wanted` is below the mount, without leading slash, empty for the mount.
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
    fn a_captured_process_is_in_both_hierarchies() {
        let paths = captured("linux-6.18").cgroup_paths_of(4242).unwrap();
        let memory = paths.v1_memory.unwrap();
        assert!(
            memory.starts_with("/process_api"),
            "of version 1: {memory:?}"
        );
        assert_eq!(paths.v2, Some("/".into()), "of version 2");
    }

    #[test]
    fn controllers_share_lines_and_paths_have_colons() {
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
    fn a_process_is_in_the_group_of_the_hierarchy_that_counts() {
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

        // In a container whose part of the hierarchy is all that is mounted.
        let mounts = fs::read_to_string(testdata("mountinfo").join("hybrid.txt")).unwrap();
        let inner = mounts.replace("0:32 / ", "0:32 /docker/4f ");
        fixture.write("proc/self/mountinfo", inner);
        let found = group("4:memory:/docker/4f/web.slice\n").unwrap();
        assert_eq!(found.unwrap().name, "/web.slice", "as it is seen there");
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
    fn a_group_is_found_by_all_its_names() {
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
    fn what_is_no_group_is_refused_with_a_reason() {
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
    fn levels_count_from_the_true_root() {
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
    fn names_are_those_of_the_directories() {
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

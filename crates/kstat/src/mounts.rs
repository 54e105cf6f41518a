//! [`Mounts`]: from a file in a file system to its visible path.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::{Device, Error, Kernel, Mount};

/// The mounts of one process, in mount order.
#[derive(Clone, Debug, Default)]
pub struct Mounts {
    list: Vec<Mount>,
    /// Indexes of the mounts of each file system, the longest root first.
    by_device: HashMap<Device, Vec<usize>>,
    /// Indexes of the mounts on each mount, by mount point. `None` stands for an unlisted mount:
    /// the one below the root, or those outside of a changed root.
    on: HashMap<Option<u32>, Points>,
}

/// The mounts on one mount.
#[derive(Clone, Debug, Default)]
struct Points {
    /// By the bytes of the mount point: a path is compared by component, at ten times the cost.
    indexes: HashMap<Vec<u8>, usize>,
    /// Directories above the deepest mount point, the root among them.
    deepest: usize,
}

impl Mounts {
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        text.split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(Mount::parse)
            .collect::<Option<Vec<_>>>()
            .map(Self::new)
    }

    fn new(list: Vec<Mount>) -> Self {
        let mut by_device: HashMap<Device, Vec<usize>> = HashMap::new();
        let mut on: HashMap<_, Points> = HashMap::new();
        let ids: std::collections::HashSet<u32> = list.iter().map(|mount| mount.id).collect();
        for (index, mount) in list.iter().enumerate() {
            by_device.entry(mount.dev).or_default().push(index);
            let listed = mount.parent != mount.id && ids.contains(&mount.parent);
            let below = listed.then_some(mount.parent);
            let points = on.entry(below).or_default();
            let depth = mount.mount_point.ancestors().count() - 1;
            points.deepest = points.deepest.max(depth);
            points.indexes.insert(bytes_of(&mount.mount_point), index);
        }
        for indexes in by_device.values_mut() {
            // Stable: among equal roots, the first mounted stays first.
            indexes.sort_by_key(|index| std::cmp::Reverse(list[*index].root.as_os_str().len()));
        }
        Self {
            list,
            by_device,
            on,
        }
    }

    /// Returns the mounts in mount order.
    #[must_use]
    pub fn as_slice(&self) -> &[Mount] {
        &self.list
    }

    /// Returns the mount of a path, as opening it would reach.
    ///
    /// The path is absolute and without symbolic links.
    #[must_use]
    pub fn covering(&self, path: &Path) -> Option<&Mount> {
        self.index_covering(&bytes_of(path))
            .map(|index| &self.list[index])
    }

    /// Returns the path of a file from its device and its path in the file system, or `None` if it
    /// is not visible here.
    ///
    /// Among several mounts, the one with the smallest part of the file system wins, then the first
    /// mounted; hidden mounts do not count.
    ///
    /// # Cost
    /// No system call; a few look-ups for each component of the path and each mount that shows it.
    #[must_use]
    pub fn resolve(&self, device: Device, path_in_fs: &Path) -> Option<PathBuf> {
        let path = path_in_fs.as_os_str().as_bytes();
        let path = path.strip_prefix(b"/").unwrap_or(path);
        self.by_device.get(&device)?.iter().find_map(|&index| {
            let mount = &self.list[index];
            if is_deleted(mount) {
                return None;
            }
            let rest = below(path, mount.root.as_os_str().as_bytes())?;
            let mut seen = mount.mount_point.as_os_str().as_bytes().to_vec();
            // A mount of a single file is not a directory.
            if !rest.is_empty() {
                if !seen.ends_with(b"/") {
                    seen.push(b'/');
                }
                seen.extend(rest);
            }
            (self.index_covering(&seen) == Some(index)).then(|| OsString::from_vec(seen).into())
        })
    }

    /// Walks down from the root as the kernel does, and crosses mounts on the way.
    fn index_covering(&self, path: &[u8]) -> Option<usize> {
        let slashes = path.iter().enumerate().skip(1);
        let slashes = slashes.filter_map(|(place, byte)| (*byte == b'/').then_some(place));
        let whole = (path.len() > 1).then_some(path.len());
        let prefixes = std::iter::once(1).chain(slashes).chain(whole);
        let mut current = None;
        let mut points = self.on.get(&None)?;
        // Each step enters another mount; more steps than mounts would be a loop.
        let mut steps = 0;
        for (depth, end) in prefixes.enumerate() {
            while let Some(&next) = points.indexes.get(path.get(..end)?) {
                steps += 1;
                if steps > self.list.len() {
                    return None;
                }
                current = Some(next);
                match self.on.get(&Some(self.list[next].id)) {
                    Some(on) => points = on,
                    None => return current,
                }
            }
            // A census asks for each file: most lie below all mount points.
            if depth >= points.deepest {
                break;
            }
        }
        current
    }
}

/// The bytes of a path, without the dots and repeated slashes that a user may type.
fn bytes_of(path: &Path) -> Vec<u8> {
    let path: PathBuf = path.components().collect();
    path.into_os_string().into_vec()
}

/// The rest of a path below a directory; `None`: it is not below it. The path has no slash at its beginning, the directory
/// has one.
fn below<'a>(path: &'a [u8], directory: &[u8]) -> Option<&'a [u8]> {
    let directory = directory.strip_prefix(b"/")?;
    let rest = path.strip_prefix(directory)?;
    match directory.is_empty() || rest.is_empty() {
        true => Some(rest),
        false => rest.strip_prefix(b"/"),
    }
}

/// Whether the mounted directory has been deleted: in its root, the text after `//` is the kernel's
/// remark, not part of a name, and no file can be below it.
fn is_deleted(mount: &Mount) -> bool {
    mount
        .root
        .as_os_str()
        .as_encoded_bytes()
        .ends_with(b"//deleted")
}

impl<'a> IntoIterator for &'a Mounts {
    type Item = &'a Mount;
    type IntoIter = std::slice::Iter<'a, Mount>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

impl Kernel {
    /// Returns the mounts of a process, or of this process if `pid` is `None`.
    ///
    /// # Errors
    /// Reading `/proc/PID/mountinfo` failed.
    pub fn mounts(&self, pid: Option<u32>) -> Result<Mounts, Error> {
        let path = match pid {
            Some(pid) => self.process(pid, "mountinfo"),
            None => self.proc("self/mountinfo"),
        };
        Mounts::parse(&self.read(&path)?)
            .ok_or_else(|| Error::parse(&path, "a line that describes no mount"))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::fixture::{captured, testdata};

    fn mounts(name: &str) -> Mounts {
        let text = std::fs::read(testdata("mountinfo").join(name)).unwrap();
        Mounts::parse(&text).unwrap()
    }

    /// Checks the visible paths of files of a captured machine.
    fn check(name: &str, cases: &[(u32, u32, &str, Option<&str>)]) {
        let mounts = mounts(name);
        for &(major, minor, path, seen) in cases {
            assert_eq!(
                mounts.resolve(Device { major, minor }, Path::new(path)),
                seen.map(PathBuf::from),
                "{path} of {major}:{minor} in {name}"
            );
        }
    }

    #[test]
    fn resolve_skips_a_hidden_mount() {
        let mounts = captured("linux-6.18").mounts(None).unwrap();
        let resolve = |minor, path| mounts.resolve(Device { major: 0, minor }, Path::new(path));
        assert_eq!(
            resolve(27, "x"),
            Some("/dev/shm/x".into()),
            "the tmpfs on top"
        );
        assert_eq!(resolve(23, "x"), None, "the one below it is hidden");
        let disk = Device {
            major: 254,
            minor: 0,
        };
        assert_eq!(
            mounts.resolve(disk, Path::new("/etc/passwd")),
            Some("/etc/passwd".into()),
            "/"
        );
        assert_eq!(
            mounts.resolve(disk, Path::new("/")),
            Some("/".into()),
            "the root itself"
        );
        assert_eq!(
            mounts.resolve(disk, Path::new("/proc/x")),
            None,
            "below a mount point"
        );
    }

    #[test]
    fn resolve_handles_btrfs_subvolumes() {
        check(
            "btrfs.txt",
            &[
                (0, 35, "/root/etc/fstab", Some("/etc/fstab")),
                (0, 35, "/home/me/x", Some("/home/me/x")),
                (0, 35, "/homework/x", None),
                (0, 35, "/snapshots/1/etc/fstab", None),
                (259, 2, "/vmlinuz", Some("/boot/vmlinuz")),
                (259, 2, "/efi/x", None),
                (0, 48, "/x", Some("/tmp/x")),
                (9, 9, "/x", None),
            ],
        );
    }

    #[test]
    fn resolve_prefers_longest_root_then_first_mount() {
        check(
            "binds.txt",
            &[
                (8, 17, "/data/x", Some("/var/lib/data/x")),
                (8, 17, "/data", Some("/var/lib/data")),
                (8, 17, "/database", Some("/srv/database")),
                (8, 17, "/gone/deleted/x", Some("/srv/gone/deleted/x")),
                (8, 2, "/usr/share/zoneinfo/UTC", Some("/etc/localtime")),
                (8, 2, "/etc/localtime", None),
                (8, 2, "/srv/hidden", None),
            ],
        );
    }

    #[test]
    fn stacked_mount_hides_the_mounts_below() {
        check(
            "stacked.txt",
            &[
                (8, 17, "/x", None),
                (8, 33, "/x", Some("/mnt/x")),
                (8, 33, "/sub/x", None),
                (8, 49, "/x", Some("/mnt/sub/x")),
                // A later mount on a directory above hides it as well.
                (8, 65, "/x", None),
                (0, 50, "/deep/below/x", Some("/opt/deep/below/x")),
                // Hidden at the first mount point, visible at the second.
                (8, 81, "/x", Some("/b/x")),
                (0, 51, "/x", Some("/a/x")),
            ],
        );
    }

    #[test]
    fn resolve_accepts_names_that_are_not_utf8() {
        let mounts = mounts("odd-names.txt");
        let resolve = |minor, path: &[u8]| {
            let seen = mounts.resolve(
                Device { major: 8, minor },
                Path::new(OsStr::from_bytes(path)),
            );
            seen.map(|path| path.into_os_string().into_encoded_bytes())
        };
        assert_eq!(
            resolve(17, b"/a b"),
            Some(b"/media/My Disk/a b".to_vec()),
            "spaces"
        );
        let lines = b"/media/two\nlines\tand\\back/x".to_vec();
        assert_eq!(resolve(33, b"/x"), Some(lines), "newline, tab, backslash");
        let latin = b"/media/caf\xE9/\xFF".to_vec();
        assert_eq!(resolve(49, b"/sub dir\xFE/\xFF"), Some(latin), "not UTF-8");
        let sources: Vec<&str> = mounts
            .into_iter()
            .map(|mount| mount.source.as_str())
            .collect();
        assert_eq!(sources[1], "//host/a share", "a source with a space");
        assert_eq!(sources[4..], ["", "remote:#x"], "none, and one with a #");
    }

    #[test]
    fn resolve_uses_the_containers_mounts() {
        check(
            "container.txt",
            &[
                (
                    8,
                    2,
                    "/var/lib/docker/volumes/pg/_data/base/1",
                    Some("/var/lib/postgresql/data/base/1"),
                ),
                (
                    8,
                    2,
                    "/var/lib/docker/containers/4f/resolv.conf",
                    Some("/etc/resolv.conf"),
                ),
                (8, 2, "/var/lib/docker/volumes/other/x", None),
                (0, 312, "/bin/sh", Some("/bin/sh")),
            ],
        );
    }

    #[test]
    fn resolve_handles_an_unlisted_root() {
        check(
            "chroot.txt",
            &[
                (8, 17, "/x", Some("/data/x")),
                (8, 17, "/inner/x", None),
                (8, 33, "/x", Some("/data/inner/x")),
            ],
        );
        let mounts = mounts("chroot.txt");
        assert_eq!(
            mounts.covering(Path::new("/etc")),
            None,
            "its mount is not listed"
        );
    }

    #[test]
    fn looping_mounts_terminate() {
        let text = b"1 2 8:1 / / rw - a a rw\n2 1 8:2 / / rw - a a rw\n3 3 8:3 / / rw - a a rw\n";
        let mounts = Mounts::parse(text).unwrap();
        let device = Device { major: 8, minor: 1 };
        assert_eq!(
            mounts.resolve(device, Path::new("/x")),
            None,
            "no mount leads there"
        );
        let own = Device { major: 8, minor: 3 };
        assert_eq!(
            mounts.resolve(own, Path::new("/x")),
            Some("/x".into()),
            "its own parent is fine"
        );
    }
}

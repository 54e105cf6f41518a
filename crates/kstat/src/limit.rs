//! [`MemoryLimit`]: memory limit of a control group.

use std::path::{Path, PathBuf};

use cachewise_units::Bytes;

use crate::kernel::found;
use crate::{Cgroup, Error, Hierarchy, Kernel};

/// A limit on the memory of a control group and its descendants, page cache included.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct MemoryLimit {
    /// The limit.
    pub bytes: Bytes,
    /// Its file, which can change it: `memory.max` of the group or of one above.
    pub path: PathBuf,
    /// Number of times the group hit it and pages were reclaimed, since the group was made.
    ///
    /// `None` if this kernel does not count it.
    pub reached: Option<u64>,
}

/// A file with a limit, and the counter of its hits.
struct Knob {
    limit: &'static str,
    counts: &'static str,
    /// Its line in the file `counts`; `None` if that file holds only the number.
    count: Option<&'static str>,
}

/// Memory beyond `memory.high` is reclaimed too, but without OOM kills.
const V2: [Knob; 2] = [
    Knob {
        limit: "memory.max",
        counts: "memory.events",
        count: Some("max"),
    },
    Knob {
        limit: "memory.high",
        counts: "memory.events",
        count: Some("high"),
    },
];
const V1: [Knob; 1] = [Knob {
    limit: "memory.limit_in_bytes",
    counts: "memory.failcnt",
    count: None,
}];

/// Version 1 prints "no limit" as the largest signed number, rounded down to a page. No page is
/// larger than this, and no machine has this much memory.
const UNLIMITED_V1: Bytes = Bytes(i64::MAX as u64 - (1 << 20));

impl Kernel {
    /// Returns the tightest memory limit of a control group: its own, or that of a group above.
    /// `None` without a limit.
    ///
    /// # Errors
    /// Reading the files of the groups failed; a missing file sets no limit.
    ///
    /// # Kernel
    /// A cgroup namespace, or a partly mounted hierarchy, hides limits above it. Limits on memory
    /// and swap together are ignored.
    ///
    /// # Cost
    /// Reads the mounts, and one or two small files per group on the way up.
    pub fn memory_limit(&self, group: &Cgroup) -> Result<Option<MemoryLimit>, Error> {
        let (mount, knobs): (_, &[Knob]) = match self.cgroup_hierarchy()? {
            Hierarchy::V2 { mount } => (mount, &V2),
            Hierarchy::V1Memory { mount } => (mount, &V1),
            Hierarchy::None => return Ok(None),
        };
        let mut tightest: Option<(Bytes, PathBuf, &Knob)> = None;
        let groups = group.path.ancestors();
        for directory in groups.take_while(|directory| directory.starts_with(&mount)) {
            for knob in knobs {
                let path = directory.join(knob.limit);
                if let Some(bytes) = self.limit(&path)?
                    && tightest.as_ref().is_none_or(|(least, ..)| bytes < *least)
                {
                    tightest = Some((bytes, path, knob));
                }
            }
        }
        tightest
            .map(|(bytes, path, knob)| {
                let reached = self.reached(&path.with_file_name(knob.counts), knob.count)?;
                Ok(MemoryLimit {
                    bytes,
                    path,
                    reached,
                })
            })
            .transpose()
    }

    fn limit(&self, path: &Path) -> Result<Option<Bytes>, Error> {
        let Some(line) = found(self.line(path))? else {
            return Ok(None);
        };
        parse_limit(&line, path)
    }

    fn reached(&self, path: &Path, line: Option<&str>) -> Result<Option<u64>, Error> {
        let Some(text) = found(self.text(path))? else {
            return Ok(None);
        };
        let number = match line {
            None => Some(text.as_str()),
            Some(name) => text
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')),
        };
        number
            .map(|number| {
                let number = number.trim_end();
                number
                    .parse()
                    .map_err(|_| Error::parse(path, format!("{number:?} is not a count")))
            })
            .transpose()
    }
}

/// The limit in the text of a file; `None` for no limit.
pub(crate) fn parse_limit(line: &str, path: &Path) -> Result<Option<Bytes>, Error> {
    if line == "max" {
        return Ok(None);
    }
    let bytes = line
        .parse()
        .map_err(|_| Error::parse(path, format!("{line:?} is not a byte count")))?;
    Ok(Some(Bytes(bytes)).filter(|bytes| *bytes < UNLIMITED_V1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, hybrid, with_cgroups};

    const NONE_V1: &str = "9223372036854771712\n";

    fn limit(fixture: &Fixture, group: &str) -> Option<MemoryLimit> {
        let kernel = fixture.kernel();
        let group = kernel.resolve_cgroup(group).unwrap();
        kernel.memory_limit(&group).unwrap()
    }

    #[test]
    fn memory_limit_of_version_1_treats_maximum_as_none() {
        let fixture = hybrid();
        let web = "sys/fs/cgroup/memory/web.slice";
        fixture.write("sys/fs/cgroup/memory/memory.limit_in_bytes", NONE_V1);
        fixture.write(&format!("{web}/memory.limit_in_bytes"), NONE_V1);
        fixture.write(&format!("{web}/nginx/memory.limit_in_bytes"), NONE_V1);
        assert_eq!(limit(&fixture, "web.slice/nginx"), None, "pages of 4 KiB");
        let large_pages = "9223372036854710272\n";
        fixture.write(&format!("{web}/memory.limit_in_bytes"), large_pages);
        assert_eq!(limit(&fixture, "web.slice/nginx"), None, "pages of 64 KiB");

        // Only on the parent.
        fixture.write(&format!("{web}/memory.limit_in_bytes"), "268435456\n");
        fixture.write(&format!("{web}/memory.failcnt"), "17\n");
        let found = limit(&fixture, "web.slice/nginx").unwrap();
        assert_eq!(found.bytes, Bytes(256 << 20), "it holds for those below");
        assert_eq!(
            found.path,
            fixture.path(&format!("{web}/memory.limit_in_bytes")),
            "and is changed there"
        );
        assert_eq!(found.reached, Some(17), "its counter");
        assert_eq!(limit(&fixture, "/"), None, "not for those above");
    }

    #[test]
    fn memory_limit_of_version_2_uses_max_and_high() {
        let fixture = with_cgroups("btrfs.txt", "sys/fs/cgroup", "memory\n");
        let web = "sys/fs/cgroup/web.slice";
        assert_eq!(limit(&fixture, "web.slice/nginx"), None, "no files of them");
        for (group, max, high) in [
            (web.to_owned(), "1073741824", "max"),
            (format!("{web}/nginx"), "2147483648", "536870912"),
        ] {
            fixture.write(&format!("{group}/memory.max"), format!("{max}\n"));
            fixture.write(&format!("{group}/memory.high"), format!("{high}\n"));
            let events = "low 1\nhigh 3\nmax 5\noom 0\n";
            fixture.write(&format!("{group}/memory.events"), events);
        }
        let found = limit(&fixture, "web.slice/nginx").unwrap();
        assert_eq!(found.bytes, Bytes(512 << 20), "the tightest of the four");
        assert!(found.path.ends_with("nginx/memory.high"), "{found:?}");
        assert_eq!(found.reached, Some(3), "with its own count");

        let found = limit(&fixture, "web.slice").unwrap();
        assert!(found.path.ends_with("web.slice/memory.max"), "{found:?}");
        assert_eq!(found.reached, Some(5), "{found:?}");
    }

    #[test]
    fn memory_limit_refuses_invalid_text() {
        let fixture = hybrid();
        let path = "sys/fs/cgroup/memory/web.slice/memory.limit_in_bytes";
        for text in ["", "-1\n", "lots\n"] {
            fixture.write(path, text);
            let kernel = fixture.kernel();
            let group = kernel.resolve_cgroup("web.slice").unwrap();
            let error = kernel.memory_limit(&group).unwrap_err().to_string();
            assert!(error.contains("memory.limit_in_bytes"), "{text:?}: {error}");
        }
    }
}

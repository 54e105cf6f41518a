//! [`Tree`]: sums of directories, as du(1) has them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cachewise_units::Bytes;

use crate::{Counts, WalkedFile};

/// Sums over a number of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// How many files, the unknown ones included.
    pub files: u64,
    /// How many of those have an unknown residency. They are not in the counts.
    pub unknown: u64,
    /// Their size.
    pub size: Bytes,
    /// Residency of the files that are known.
    pub counts: Counts,
}

impl Sum {
    /// Nothing.
    pub const ZERO: Self = Self {
        files: 0,
        unknown: 0,
        size: Bytes::ZERO,
        counts: Counts::ZERO,
    };

    /// Adds a file.
    pub fn add(&mut self, file: &WalkedFile<'_>) {
        self.files += 1;
        self.size += file.size;
        match file.counts {
            Ok(counts) => self.counts += counts,
            Err(_) => self.unknown += 1,
        }
    }
}

impl std::ops::AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.unknown += other.unknown;
        self.size += other.size;
        self.counts += other.counts;
    }
}

/// Sums of the directories of a walk, down to a depth.
///
/// Its memory grows with the directories down to that depth, not with the files.
#[derive(Clone, Debug)]
pub struct Tree {
    depth: usize,
    /// Without what is in the directories below that have a sum of their own.
    sums: BTreeMap<Key, Sum>,
    /// Where the file before was, which mostly is where the next one is, and the sum there.
    last: Option<Last>,
}

/// A root, and a directory that it leads to.
type Key = (PathBuf, PathBuf);

#[derive(Clone, Debug)]
struct Last {
    directory: PathBuf,
    key: Key,
    sum: Sum,
}

/// The sum of a directory with all that is below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The root that led to it, as it was given. That may be a file, with a sum of one.
    pub root: PathBuf,
    /// Its path.
    pub path: PathBuf,
    /// The sum of its files and of those below, at any depth.
    pub sum: Sum,
}

impl Tree {
    /// Sums up directories down to `depth` below the roots; 0 is the roots alone.
    #[must_use]
    pub fn new(depth: usize) -> Self {
        Self {
            depth,
            sums: BTreeMap::new(),
            last: None,
        }
    }

    /// Adds a file to the sum of its directory.
    pub fn add(&mut self, file: &WalkedFile<'_>) {
        match &mut self.last {
            // As texts: paths are compared name by name, and this is done for each file.
            Some(last)
                if last.directory.as_os_str() == file.directory.as_os_str()
                    && last.key.0.as_os_str() == file.root.as_os_str() =>
            {
                last.sum.add(file);
            }
            _ => {
                self.settle();
                let mut sum = Sum::ZERO;
                sum.add(file);
                self.last = Some(Last {
                    directory: file.directory.to_owned(),
                    key: (file.root.to_owned(), self.summed_at(file)),
                    sum,
                });
            }
        }
    }

    /// The directory in whose sum a file goes: its own, or the deepest one above it that has a sum.
    fn summed_at(&self, file: &WalkedFile<'_>) -> PathBuf {
        let mut path = file.root.to_owned();
        // A root that is a file is not above its directory.
        if let Ok(below) = file.directory.strip_prefix(file.root) {
            path.extend(below.components().take(self.depth));
        }
        path
    }

    fn settle(&mut self) {
        if let Some(last) = self.last.take() {
            *self.sums.entry(last.key).or_insert(Sum::ZERO) += last.sum;
        }
    }

    /// Returns the directories that have files in them or below, each root in front of what it leads to, in
    /// the order of their paths.
    #[must_use]
    pub fn into_directories(mut self) -> Vec<Directory> {
        self.settle();
        let mut whole: BTreeMap<Key, Sum> = BTreeMap::new();
        for ((root, path), sum) in self.sums {
            let above = path
                .ancestors()
                .take_while(|above| above.starts_with(&root));
            for above in above {
                let key = (root.clone(), above.to_owned());
                *whole.entry(key).or_insert(Sum::ZERO) += sum;
            }
        }
        whole
            .into_iter()
            .map(|((root, path), sum)| Directory { root, path, sum })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::Path;

    use cachewise_units::Pages;

    use super::*;
    use crate::Unknown;

    fn sums(depth: usize, files: &[(&str, &str, u64)]) -> Vec<(String, u64, u64)> {
        let mut tree = Tree::new(depth);
        for (root, path, cached) in files {
            let path = Path::new(path);
            tree.add(&WalkedFile {
                root: Path::new(root),
                directory: path.parent().unwrap(),
                name: path.file_name().unwrap_or(OsStr::new("")),
                size: Bytes(1),
                counts: match cached {
                    0 => Err(Unknown::NoPermission),
                    pages => Ok(Counts {
                        cached: Pages(*pages),
                        ..Counts::ZERO
                    }),
                },
            });
        }
        tree.into_directories()
            .into_iter()
            .map(|directory| {
                let Sum { files, counts, .. } = directory.sum;
                (directory.path.display().to_string(), files, counts.cached.0)
            })
            .collect()
    }

    const FILES: [(&str, &str, u64); 5] = [
        ("/r", "/r/a/b/one", 1),
        ("/r", "/r/a/b/two", 2),
        ("/r", "/r/c/three", 4),
        ("/r", "/r/a/b/d/four", 8),
        ("/r", "/r/five", 0),
    ];

    fn row(path: &str, files: u64, cached: u64) -> (String, u64, u64) {
        (path.to_owned(), files, cached)
    }

    #[test]
    fn a_directory_has_what_is_below_it() {
        assert_eq!(
            sums(9, &FILES),
            [
                row("/r", 5, 15),
                row("/r/a", 3, 11),
                row("/r/a/b", 3, 11),
                row("/r/a/b/d", 1, 8),
                row("/r/c", 1, 4),
            ],
            "at every depth, those without files of their own too"
        );
    }

    #[test]
    fn directory_below_the_depth_counts_in_its_parent() {
        assert_eq!(sums(0, &FILES), [row("/r", 5, 15)], "the root alone");
        assert_eq!(
            sums(1, &FILES),
            [row("/r", 5, 15), row("/r/a", 3, 11), row("/r/c", 1, 4)],
            "and one below"
        );
    }

    #[test]
    fn a_root_may_be_a_file_and_roots_do_not_mix() {
        assert_eq!(
            sums(
                1,
                &[
                    ("/r/x", "/r/x", 1),
                    ("/r/y", "/r/y", 2),
                    ("name", "name", 4),
                    (".", "./a/z", 8)
                ]
            ),
            [
                row("/r/x", 1, 1),
                row("/r/y", 1, 2),
                row(".", 1, 8),
                row("./a", 1, 8),
                row("name", 1, 4),
            ],
            "each has its own sum"
        );
    }

    #[test]
    fn unknown_files_are_counted_apart() {
        let mut sum = Sum::ZERO;
        sum.add(&WalkedFile {
            root: Path::new("/"),
            directory: Path::new("/"),
            name: OsStr::new("x"),
            size: Bytes(7),
            counts: Err(Unknown::NoPermission),
        });
        assert_eq!((sum.files, sum.unknown), (1, 1), "it is a file");
        assert_eq!(sum.counts, Counts::ZERO, "of which no page is known");
    }
}

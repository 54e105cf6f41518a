//! [`Subtree`]: lists of the directories below one, as far as one answer of an origin shows them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Entry, Kind, Meta};

/// Lists of a directory and of those below it, by one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subtree {
    /// The directories, in no particular order. The requested one is among them.
    pub lists: Vec<SubtreeList>,
}

/// The list of one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubtreeList {
    /// The directory.
    pub path: PathBuf,
    /// Its entries, in no particular order.
    pub entries: Vec<Entry>,
    /// Whether it has no other entries: the answer did not end before them.
    pub is_whole: bool,
}

/// Collects the lists, file by file.
#[derive(Debug)]
pub(super) struct SubtreeBuilder {
    top: PathBuf,
    directory: fn(&Path) -> Meta,
    lists: HashMap<PathBuf, HashMap<OsString, Entry>>,
}

impl SubtreeBuilder {
    /// Begins with an empty directory. `directory` makes the metadata of a directory from its path.
    pub(super) fn new(top: &Path, directory: fn(&Path) -> Meta) -> Self {
        Self {
            top: top.to_owned(),
            directory,
            lists: HashMap::from([(top.to_owned(), HashMap::new())]),
        }
    }

    /// Adds the directories that lead to a name, given as a path below the top; the name itself too if it has metadata.
    /// Where an origin has a file and a directory of one name, the name is the file's.
    pub(super) fn add(&mut self, below: &str, file: Option<Option<Meta>>) {
        let mut at = self.top.clone();
        let mut names = below.split('/').peekable();
        while let Some(name) = names.next() {
            let list = self.lists.entry(at.clone()).or_default();
            if names.peek().is_some() {
                at.push(name);
                let meta = (self.directory)(&at);
                list.entry(name.into()).or_insert_with(|| Entry {
                    meta: Some(Box::new(meta)),
                    ..Entry::new(name, Kind::Directory)
                });
                self.lists.entry(at.clone()).or_default();
            } else if let Some(meta) = file.clone() {
                let entry = Entry {
                    meta: meta.map(Box::new),
                    ..Entry::new(name, Kind::File)
                };
                list.insert(name.into(), entry);
            }
        }
    }

    /// Returns the lists. If the answer ended early, `end` is the last name of it, in the order of their bytes, and the
    /// directories that lead to it may have more entries; without an order all may.
    pub(super) fn finish(self, end: Option<End<'_>>) -> Subtree {
        let open: Option<Vec<PathBuf>> = match end {
            None => Some(Vec::new()),
            Some(End::Sorted(last)) => {
                let last = self.top.join(last);
                Some(last.ancestors().skip(1).map(Path::to_owned).collect())
            }
            Some(End::Unsorted) => None,
        };
        let lists = self.lists.into_iter().map(|(path, entries)| SubtreeList {
            is_whole: open.as_ref().is_some_and(|open| !open.contains(&path)),
            path,
            entries: entries.into_values().collect(),
        });
        Subtree {
            lists: lists.collect(),
        }
    }
}

/// The end of an answer that does not have all names.
#[derive(Clone, Copy, Debug)]
pub(super) enum End<'a> {
    /// All names up to this one, below the top, were in it.
    Sorted(&'a str),
    /// The names came in no order.
    Unsorted,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;

    fn directory(path: &Path) -> Meta {
        Meta::plain(Kind::Directory, 0, Version::new(&path.to_string_lossy()))
    }

    /// Path, names and whether it is whole.
    fn of(names: &[&str], end: Option<End<'_>>) -> Vec<(String, String, bool)> {
        let mut builder = SubtreeBuilder::new(Path::new("t"), directory);
        for name in names {
            let file = Meta::plain(Kind::File, 1, Version::new(name));
            builder.add(name, (!name.ends_with('/')).then_some(Some(file)));
        }
        let mut lists: Vec<_> = builder
            .finish(end)
            .lists
            .into_iter()
            .map(|list| {
                let mut names: Vec<String> = list
                    .entries
                    .iter()
                    .map(|entry| {
                        let kind = if entry.kind == Kind::File { "" } else { "/" };
                        format!("{}{kind}", entry.name.to_string_lossy())
                    })
                    .collect();
                names.sort();
                (
                    list.path.to_string_lossy().into_owned(),
                    names.join(" "),
                    list.is_whole,
                )
            })
            .collect();
        lists.sort();
        lists
    }

    fn list(path: &str, names: &str, is_whole: bool) -> (String, String, bool) {
        (path.to_owned(), names.to_owned(), is_whole)
    }

    #[test]
    fn one_answer_has_the_lists_of_all_directories() {
        assert_eq!(
            of(&["a", "b/c/d", "b/e", "f/"], None),
            [
                list("t", "a b/ f/", true),
                list("t/b", "c/ e", true),
                list("t/b/c", "d", true),
                list("t/f", "", true),
            ]
        );
        assert_eq!(of(&[], None), [list("t", "", true)]);
    }

    #[test]
    fn an_answer_that_ends_early_leaves_the_directories_above_its_end_open() {
        let end = Some(End::Sorted("b/e/x"));
        assert_eq!(
            of(&["a/1", "b/c/d", "b/e/x"], end),
            [
                list("t", "a/ b/", false),
                list("t/a", "1", true),
                list("t/b", "c/ e/", false),
                list("t/b/c", "d", true),
                list("t/b/e", "x", false),
            ]
        );
        let unsorted = of(&["a/1", "b"], Some(End::Unsorted));
        assert!(unsorted.iter().all(|(_, _, is_whole)| !is_whole));
    }

    #[test]
    fn the_name_of_a_file_and_a_directory_is_the_files() {
        let expected = [list("t", "x", true), list("t/x", "y", true)];
        assert_eq!(of(&["x", "x/y"], None), expected);
        assert_eq!(of(&["x/y", "x"], None), expected);
    }
}

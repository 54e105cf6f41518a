//! The contents of the page cache as a tree of directories.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::{Component, Path};

use cachewise_model::escaped;
use serde_json::{Value as Json, json};

/// More nodes than this are not kept: their files are counted in the directories above them.
const MOST_NODES: usize = 200_000;

/// Directories and files with pages in the page cache.
#[derive(Debug)]
pub struct CacheTree {
    nodes: Vec<Node>,
    places: HashMap<(usize, Box<str>), usize>,
    /// When it was taken, RFC 3339.
    pub time: String,
    /// How long that took.
    pub seconds: f64,
    /// Notes on incompleteness: the missing parts, and the reasons.
    pub notes: Vec<String>,
}

#[derive(Debug)]
struct Node {
    name: Box<str>,
    children: Vec<usize>,
    is_directory: bool,
    sums: NodeSums,
}

#[derive(Debug, Clone, Copy, Default)]
struct NodeSums {
    files: u64,
    resident: u64,
    size: u64,
}

impl NodeSums {
    fn add(&mut self, other: NodeSums) {
        self.files += other.files;
        self.resident = self.resident.saturating_add(other.resident);
        self.size = self.size.saturating_add(other.size);
    }

    fn without(self, other: NodeSums) -> NodeSums {
        NodeSums {
            files: self.files.saturating_sub(other.files),
            resident: self.resident.saturating_sub(other.resident),
            size: self.size.saturating_sub(other.size),
        }
    }

    fn json(self, name: &str, path: &str, kind: &str) -> Json {
        json!({
            "name": name,
            "path": path,
            "kind": kind,
            "files": self.files,
            "resident_bytes": self.resident,
            "size_bytes": self.size,
            // Pages beyond the end (preallocated, or the rest of a large folio) do not count as
            // more than the whole file.
            "resident_ratio": (self.size > 0)
                .then(|| (self.resident as f64 / self.size as f64).min(1.0)),
        })
    }
}

impl CacheTree {
    /// An empty one.
    #[must_use]
    pub fn new(time: String) -> CacheTree {
        CacheTree {
            nodes: vec![Node {
                name: "/".into(),
                children: Vec::new(),
                is_directory: true,
                sums: NodeSums::default(),
            }],
            places: HashMap::new(),
            time,
            seconds: 0.0,
            notes: Vec::new(),
        }
    }

    /// Adds a file: its path, resident bytes and size.
    pub fn add(&mut self, path: &Path, resident_bytes: u64, size_bytes: u64) {
        let sums = NodeSums {
            files: 1,
            resident: resident_bytes,
            size: size_bytes,
        };
        self.nodes[0].sums.add(sums);
        let mut place = 0;
        let mut parts = path
            .components()
            .filter_map(|part| match part {
                Component::Normal(name) => Some(escaped(name)),
                _ => None,
            })
            .peekable();
        while let Some(name) = parts.next() {
            let is_directory = parts.peek().is_some();
            let key = (place, Box::from(&*name));
            let child = match self.places.get(&key) {
                Some(child) => *child,
                None if self.nodes.len() >= MOST_NODES => return,
                None => {
                    let child = self.nodes.len();
                    self.nodes.push(Node {
                        name: key.1.clone(),
                        children: Vec::new(),
                        is_directory,
                        sums: NodeSums::default(),
                    });
                    self.nodes[place].children.push(child);
                    self.places.insert(key, child);
                    child
                }
            };
            self.nodes[child].is_directory |= is_directory;
            self.nodes[child].sums.add(sums);
            place = child;
        }
    }

    /// Returns the resident bytes of the whole tree.
    #[must_use]
    pub fn resident_bytes(&self) -> u64 {
        self.nodes[0].sums.resident
    }

    /// Returns a directory with two levels of children, the largest first, or `None` if it is not
    /// in the tree. Children beyond `most` are summed in one member, `others`.
    pub(crate) fn view(&self, path: &str, most: usize) -> Option<Json> {
        let mut place = 0;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            place = *self.places.get(&(place, Box::from(name)))?;
        }
        let path = path.trim_end_matches('/');
        let mut json = self.with_children(place, path, most, true);
        if place == 0 {
            json["path"] = "/".into();
        }
        Some(json)
    }

    fn with_children(&self, place: usize, path: &str, most: usize, further: bool) -> Json {
        const OF_CHILDREN: usize = 12;
        let node = &self.nodes[place];
        let kind = if node.is_directory {
            "directory"
        } else {
            "file"
        };
        let mut json = node.sums.json(&node.name, path, kind);
        let mut children = node.children.clone();
        children.sort_by_key(|child| Reverse(self.nodes[*child].sums.resident));
        let mut rest = node.sums;
        let mut shown: Vec<Json> = children
            .iter()
            .take(most)
            .map(|child| {
                let child_node = &self.nodes[*child];
                rest = rest.without(child_node.sums);
                let path = format!("{path}/{}", child_node.name);
                match further {
                    true => self.with_children(*child, &path, OF_CHILDREN, false),
                    false => child_node.sums.json(
                        &child_node.name,
                        &path,
                        if child_node.is_directory {
                            "directory"
                        } else {
                            "file"
                        },
                    ),
                }
            })
            .collect();
        if rest.resident > 0 && !shown.is_empty() {
            let name = format!("{} other files", rest.files);
            shown.push(rest.json(&name, path, "others"));
        }
        if node.is_directory {
            json["children"] = shown.into();
        }
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> CacheTree {
        let mut tree = CacheTree::new("t".into());
        tree.add(Path::new("/var/log/a"), 10, 40);
        tree.add(Path::new("/var/log/b"), 30, 40);
        tree.add(Path::new("/var/c"), 5, 5);
        tree.add(Path::new("/usr/d"), 1, 1000);
        tree
    }

    #[test]
    fn sums_go_up_to_the_root() {
        let json = tree().view("/", 10).expect("there is a root");
        assert_eq!(json["resident_bytes"], 46, "of all files");
        assert_eq!(json["children"][0]["name"], "var", "the largest first");
        assert_eq!(json["children"][0]["files"], 3, "of all below it");
        let inner = &json["children"][0]["children"][0];
        assert_eq!(inner["path"], "/var/log", "and one level more");
        assert_eq!(inner["resident_ratio"], 0.5, "40 of 80");
        let log = tree().view("/var/log/", 10).expect("it is there");
        assert_eq!(log["children"][0]["name"], "b", "a directory of its own");
        assert_eq!(log["children"][0]["kind"], "file", "in which are files");
    }

    #[test]
    fn what_is_not_shown_is_one_member() {
        let json = tree().view("/var", 1).expect("it is there");
        let others = &json["children"][1];
        assert_eq!(others["kind"], "others", "the rest");
        assert_eq!(others["resident_bytes"], 5, "with its sum");
        assert_eq!(others["files"], 1, "and how many they are");
    }

    #[test]
    fn only_what_is_in_the_tree_can_be_seen() {
        for path in ["/var/../etc", "/nothing", "/var/log/a/b", "/var/.."] {
            assert!(tree().view(path, 10).is_none(), "{path}");
        }
    }

    #[test]
    fn too_many_files_are_counted_and_not_named() {
        let mut tree = CacheTree::new("t".into());
        for number in 0..MOST_NODES + 10 {
            tree.add(Path::new(&format!("/d/{number}")), 1, 1);
        }
        assert_eq!(tree.nodes.len(), MOST_NODES, "memory is bounded");
        assert_eq!(
            tree.resident_bytes(),
            MOST_NODES as u64 + 10,
            "sums are not"
        );
    }
}

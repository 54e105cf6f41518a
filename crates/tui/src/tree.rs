//! Rows as a tree: directories, control groups, processes under their parents; with sums.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use cachewise_model::{Measured, NOT_APPLICABLE, Row, escaped};

use crate::item::{Item, Key, sums};
use crate::view_kind::ViewKind;

/// A row of a tree, or of a plain list.
#[derive(Debug, Clone)]
pub struct Node {
    /// The identity of its object.
    pub key: Key,
    /// The row's own item, if it has one: directories and empty groups have none.
    pub item: Option<usize>,
    /// The sums over all nodes below; `None` if that is the item's own row.
    pub sum: Option<Box<Row>>,
    /// Replacement of the name; `None` for the item's own.
    pub label: Option<String>,
    /// The node above.
    pub parent: Option<usize>,
    /// The nodes below.
    pub below: Vec<usize>,
}

impl Node {
    pub(crate) fn new(key: Key, item: Option<usize>, parent: Option<usize>) -> Node {
        Node {
            key,
            item,
            sum: None,
            label: None,
            parent,
            below: Vec::new(),
        }
    }
}

pub(crate) fn plain(items: &[Item], shown: &[usize]) -> Vec<Node> {
    shown
        .iter()
        .map(|place| Node::new(items[*place].key.clone(), Some(*place), None))
        .collect()
}

/// A tree, if this kind has one.
#[must_use]
pub fn tree(kind: ViewKind, items: &[Item], shown: &[usize]) -> Vec<Node> {
    let mut nodes = match kind {
        ViewKind::Process => by_parent(items, shown),
        ViewKind::File => by_path(
            items,
            shown,
            |path| Key::Directory(path.to_owned()),
            |item| item.row.labels.path.as_ref().known().map(PathBuf::as_path),
        ),
        ViewKind::Cgroup => by_path(
            items,
            shown,
            |path| Key::Cgroup(path.to_str().map(str::to_owned)),
            |item| item.row.labels.cgroup.as_ref().known().map(Path::new),
        ),
        ViewKind::Device => return plain(items, shown),
    };
    join_up(&mut nodes);
    if kind == ViewKind::File {
        shorten(&mut nodes);
    }
    sum_up(&mut nodes, items);
    nodes
}

/// Processes under their parents.
fn by_parent(items: &[Item], shown: &[usize]) -> Vec<Node> {
    let mut nodes = plain(items, shown);
    let places: HashMap<u32, usize> = shown
        .iter()
        .enumerate()
        .filter_map(|(node, place)| match items[*place].key {
            Key::Process(process) if process.pid != 0 => Some((process.pid, node)),
            _ => None,
        })
        .collect();
    for (node, place) in shown.iter().enumerate() {
        let parent = items[*place].row.labels.ppid.known();
        let above = parent.and_then(|parent| places.get(&parent)).copied();
        // Pids are reused: a loop of parents would have no root.
        nodes[node].parent = above.filter(|above| !leads_to(&nodes, *above, node));
    }
    nodes
}

fn leads_to(nodes: &[Node], from: usize, to: usize) -> bool {
    let mut at = Some(from);
    while let Some(node) = at {
        if node == to {
            return true;
        }
        at = nodes[node].parent;
    }
    false
}

/// Objects with paths, under their directories.
fn by_path<'a>(
    items: &'a [Item],
    shown: &[usize],
    key: impl Fn(&Path) -> Key,
    path_of: impl Fn(&'a Item) -> Option<&'a Path>,
) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::with_capacity(shown.len() * 2);
    // By text: paths compare part by part otherwise, and these are the kernel's.
    let mut places: HashMap<&OsStr, usize> = HashMap::with_capacity(shown.len() * 2);
    for place in shown {
        let item = &items[*place];
        let Some(path) = path_of(item) else {
            nodes.push(Node::new(item.key.clone(), Some(*place), None));
            continue;
        };
        // From the nearest existing node down to itself.
        let mut missing = Vec::new();
        let mut above = None;
        for part in path.ancestors().filter(|part| !part.as_os_str().is_empty()) {
            above = places.get(part.as_os_str()).copied();
            if above.is_some() {
                break;
            }
            missing.push(part);
        }
        for part in missing.into_iter().rev() {
            let name = part.file_name().unwrap_or(part.as_os_str());
            let mut node = Node::new(key(part), None, above);
            node.label = Some(escaped(name).into_owned());
            nodes.push(node);
            above = Some(nodes.len() - 1);
            places.insert(part.as_os_str(), nodes.len() - 1);
        }
        match above.map(|at| &mut nodes[at]) {
            // Two files with one path: a deleted one, and its replacement.
            Some(node) if node.item.is_some() => {
                let mut twin = Node::new(item.key.clone(), Some(*place), node.parent);
                twin.label.clone_from(&node.label);
                nodes.push(twin);
            }
            Some(node) => {
                node.item = Some(*place);
                node.key = item.key.clone();
            }
            None => nodes.push(Node::new(item.key.clone(), Some(*place), None)),
        }
    }
    nodes
}

/// Enters each node among those below its parent.
pub(crate) fn join_up(nodes: &mut [Node]) {
    for place in 0..nodes.len() {
        if let Some(parent) = nodes[place].parent {
            nodes[parent].below.push(place);
        }
    }
}

/// A directory that contains only one directory shares a line with it.
fn shorten(nodes: &mut [Node]) {
    for place in 0..nodes.len() {
        let is_alone = |node: &Node| node.item.is_none() && node.below.len() == 1;
        let parent_is_alone = nodes[place].parent.is_some_and(|up| is_alone(&nodes[up]));
        if nodes[place].item.is_some() || parent_is_alone {
            continue;
        }
        // From the topmost of them down to the last directory.
        let mut label = nodes[place].label.clone().unwrap_or_default();
        let mut last = place;
        while is_alone(&nodes[last]) && nodes[nodes[last].below[0]].item.is_none() {
            last = nodes[last].below[0];
            let name = nodes[last].label.as_deref().unwrap_or_default();
            if !label.ends_with('/') {
                label.push('/');
            }
            label += name;
        }
        if last != place {
            let below = std::mem::take(&mut nodes[last].below);
            for child in &below {
                nodes[*child].parent = Some(place);
            }
            nodes[place].below = below;
            nodes[place].key = nodes[last].key.clone();
        }
        nodes[place].label = Some(label);
    }
    for node in nodes {
        let is_directory = node.item.is_none();
        if let (true, Some(label)) = (is_directory, &mut node.label)
            && !label.ends_with('/')
        {
            label.push('/');
        }
    }
}

/// Sums up from the leaves; nodes are in no particular order.
pub(crate) fn sum_up(nodes: &mut [Node], items: &[Item]) {
    let mut open: Vec<usize> = (0..nodes.len())
        .filter(|place| nodes[*place].parent.is_none())
        .collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(place) = open.pop() {
        order.push(place);
        open.extend(&nodes[place].below);
    }
    for place in order.into_iter().rev() {
        let own = nodes[place].item.map(|item| &items[item].row);
        if nodes[place].below.is_empty() && own.is_some() {
            continue;
        }
        let below = std::mem::take(&mut nodes[place].below);
        let rows = || {
            below.iter().filter_map(|child| {
                let node = &nodes[*child];
                node.sum
                    .as_deref()
                    .or_else(|| node.item.map(|item| &items[item].row))
            })
        };
        let mut sum = match (own, rows().next()) {
            (Some(own), _) => own.clone(),
            (None, Some(first)) => sums(first),
            (None, None) => Row::default(),
        };
        for row in rows() {
            sum.ledger += &row.ledger;
            sum.subject.cpu_seconds = match sum.subject.cpu_seconds {
                Measured::Missing(NOT_APPLICABLE) => row.subject.cpu_seconds,
                cpu => cpu.zip(row.subject.cpu_seconds, |one, other| one + other),
            };
        }
        nodes[place].sum = Some(Box::new(sum));
        nodes[place].below = below;
    }
}

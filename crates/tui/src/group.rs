//! Rows of processes under what they have in common, with sums: processes that have ended, or all of them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;

use cachewise_model::escaped;

use crate::item::{Grouping, Item, Key};
use crate::tree::{Node, join_up, plain, sum_up};

impl Grouping {
    /// The group of a process.
    pub(crate) fn group_of(self, item: &Item) -> Cow<'_, str> {
        let labels = &item.row.labels;
        let (name, none) = match self {
            Grouping::Command => (labels.command.as_ref().known(), "(unknown)"),
            Grouping::Unit => (labels.group.unit.as_ref().known(), "(no unit)"),
            Grouping::Container => {
                let container = labels.group.container.as_ref().known();
                let id = labels.group.container_id.as_ref().known();
                // Names of pods and short ids, as elsewhere.
                if container.or(id).is_some()
                    && let Some(shown) = labels.group.shown().known()
                {
                    return Cow::Owned(shown);
                }
                (None, "(no container)")
            }
        };
        Cow::Borrowed(name.map_or(none, String::as_str))
    }
}

/// A list. If requested, processes that have ended are under one node for each command, if there are several.
#[must_use]
pub fn list(items: &[Item], shown: &[usize], folds_ended: bool) -> Vec<Node> {
    let mut nodes = plain(items, shown);
    if !folds_ended {
        return nodes;
    }
    let mut ended: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (node, place) in shown.iter().enumerate() {
        let item = &items[*place];
        let command = item.row.labels.command.as_ref().known();
        if let (true, Key::Process(_), Some(command)) = (item.has_ended(), &item.key, command) {
            ended.entry(command).or_default().push(node);
        }
    }
    ended.retain(|_, members| members.len() > 1);
    if ended.is_empty() {
        return nodes;
    }
    for (command, members) in ended {
        let name = escaped(OsStr::new(command));
        let label = format!("{name} x{} (ended)", members.len());
        push_group(&mut nodes, Key::Ended(command.to_owned()), label, &members);
    }
    join_up(&mut nodes);
    sum_up(&mut nodes, items);
    nodes
}

/// Processes under their groups; a command of a single process has no group.
#[must_use]
pub fn grouped(by: Grouping, items: &[Item], shown: &[usize]) -> Vec<Node> {
    let mut nodes = plain(items, shown);
    let mut groups: BTreeMap<Cow<'_, str>, Vec<usize>> = BTreeMap::new();
    for (node, place) in shown.iter().enumerate() {
        let group = by.group_of(&items[*place]);
        groups.entry(group).or_default().push(node);
    }
    if by == Grouping::Command {
        groups.retain(|_, members| members.len() > 1);
    }
    for (group, members) in groups {
        let has_ended = |node: &&usize| items[shown[**node]].has_ended();
        let ended = match members.iter().filter(has_ended).count() {
            0 => String::new(),
            all if all == members.len() => " (ended)".to_owned(),
            some => format!(" ({some} ended)"),
        };
        let name = escaped(OsStr::new(&*group));
        let label = format!("{name} x{}{ended}", members.len());
        push_group(
            &mut nodes,
            Key::Group(by, group.into_owned()),
            label,
            &members,
        );
    }
    join_up(&mut nodes);
    sum_up(&mut nodes, items);
    nodes
}

fn push_group(nodes: &mut Vec<Node>, key: Key, label: String, members: &[usize]) {
    let place = nodes.len();
    for member in members {
        nodes[*member].parent = Some(place);
    }
    let mut group = Node::new(key, None, None);
    group.label = Some(label);
    nodes.push(group);
}

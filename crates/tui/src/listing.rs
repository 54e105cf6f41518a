//! A list of rows on the screen: its content, order and selection.

use std::borrow::Cow;
use std::collections::HashSet;

use cachewise_model::{Datum, Field, Interval, ORDER, Row, Unit};

use crate::columns::{Column, chosen};
use crate::filter::Filter;
use crate::group::{grouped, list};
use crate::item::{Grouping, Item, Key, items};
use crate::names::{all_names, item_name, state};
use crate::row_order::{OrderValues, RowOrder, order_values};
use crate::tree::{Node, tree};
use crate::view_kind::ViewKind;
use crate::zeros::Zeros;

/// A line of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Its node.
    pub node: usize,
    /// Its distance from the root.
    pub depth: usize,
}

/// A list with its order, filter and selection.
#[derive(Debug)]
pub struct Listing {
    /// The kind of its rows.
    pub kind: ViewKind,
    /// Its possible columns.
    pub columns: Vec<Column>,
    /// The ids of the columns that are shown unless others are chosen.
    defaults: Vec<&'static str>,
    /// The index of the column to sort by.
    pub sort: usize,
    /// Whether the order is reversed.
    pub reverse: bool,
    /// The filter.
    pub filter: Option<Filter>,
    /// Show only active rows.
    pub only_active: bool,
    /// Whether it is a tree.
    pub is_tree: bool,
    /// The name by which its processes are grouped.
    pub grouping: Option<Grouping>,
    /// Whether processes that have ended share a line for each command. For a screen: rows that are written are all there.
    pub folds_ended: bool,
    /// Whether the filter searches all names of a row, and not only those on a screen. For rows that are written.
    pub searches_names: bool,
    items: Vec<Item>,
    /// The values of each item by which rows are ordered.
    values: Vec<OrderValues>,
    nodes: Vec<Node>,
    lines: Vec<Line>,
    /// Nodes that are folded or unfolded, other than at first.
    turned: HashSet<Key>,
    /// Whether each node is the last one below its parent.
    lasts: Vec<bool>,
    zeros: Zeros,
    selected: usize,
    /// The selected object; `None` selects the first row, whatever it is.
    follows: Option<Key>,
    /// The first line on the screen.
    pub offset: usize,
}

impl Listing {
    /// An empty list, in the default order.
    #[must_use]
    pub fn new(kind: ViewKind, columns: Vec<Column>) -> Listing {
        let usual = columns
            .iter()
            .position(|column| column.field.id == ORDER[0]);
        Listing {
            kind,
            sort: usual.unwrap_or(0),
            defaults: chosen(&columns).iter().map(|field| field.id).collect(),
            columns,
            reverse: false,
            filter: None,
            only_active: false,
            is_tree: false,
            grouping: None,
            folds_ended: true,
            searches_names: false,
            items: Vec::new(),
            values: Vec::new(),
            nodes: Vec::new(),
            lines: Vec::new(),
            turned: HashSet::new(),
            lasts: Vec::new(),
            zeros: Zeros::default(),
            selected: 0,
            follows: None,
            offset: 0,
        }
    }

    /// Replaces the rows.
    pub fn fill(&mut self, items: Vec<Item>) {
        self.values = items.iter().map(|item| order_values(&item.row)).collect();
        self.items = items;
        self.arrange();
    }

    /// Notes which columns have values in this interval, in a row or in the sum of the machine.
    pub(crate) fn note_values(&mut self, whole: &Row) {
        let mut zeros = std::mem::take(&mut self.zeros);
        let has_known_value = |id: &str| {
            let place = ORDER.iter().position(|usual| *usual == id)?;
            let mut values = self.nodes.iter().map(|node| self.order_values(node)[place]);
            // A missing value is not zero.
            Some(values.any(|value| value.is_none_or(|value| value > 0.0)))
        };
        let rows = || self.nodes.iter().filter_map(|node| self.row(node));
        zeros.note(&self.columns, whole, rows, has_known_value);
        self.zeros = zeros;
    }

    /// Whether a column has only had zeros for a while.
    #[must_use]
    pub(crate) fn is_zero(&self, column: usize) -> bool {
        self.zeros.is_zero(column)
    }

    /// The columns to show, with their indices: those that are chosen and have values, and that of the order.
    #[must_use]
    pub(crate) fn visible_columns(&self) -> Vec<(usize, Column)> {
        let columns = self.columns.iter().copied().enumerate();
        columns
            .filter(|(place, column)| {
                *place == self.sort || column.is_chosen && !self.is_zero(*place)
            })
            .collect()
    }

    /// Chooses the columns with these ids; the name is always one.
    pub(crate) fn choose(&mut self, ids: &[&str]) {
        if let Some((_, others)) = self.columns.split_last_mut() {
            for column in others {
                column.is_chosen = ids.contains(&column.field.id);
            }
        }
    }

    /// Chooses the columns that are shown unless others are chosen.
    pub(crate) fn choose_defaults(&mut self) {
        let defaults = self.defaults.clone();
        self.choose(&defaults);
    }

    /// The ids of the chosen columns, without the name.
    #[must_use]
    pub(crate) fn chosen_ids(&self) -> Vec<&'static str> {
        let others = self
            .columns
            .split_last()
            .map_or(&[][..], |(_, others)| others);
        let chosen = others.iter().filter(|column| column.is_chosen);
        chosen.map(|column| column.field.id).collect()
    }

    /// Removes the rows; the selection stays.
    pub(crate) fn forget(&mut self) {
        self.items = Vec::new();
        self.values = Vec::new();
        self.nodes = Vec::new();
        self.lines = Vec::new();
    }

    /// Gives access to the values of rows; their order stays.
    pub fn items_mut(&mut self) -> &mut [Item] {
        &mut self.items
    }

    /// All rows, visible or not.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The visible lines.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The index of the selected line.
    #[must_use]
    pub fn selected(&self) -> usize {
        self.selected
    }

    /// The node of a line.
    #[must_use]
    pub fn node(&self, line: usize) -> Option<&Node> {
        self.nodes.get(self.lines.get(line)?.node)
    }

    /// For a line and the nodes above it, but the topmost: whether each is the last one below its parent.
    #[must_use]
    pub(crate) fn branches(&self, line: usize) -> Vec<bool> {
        let mut branches = Vec::new();
        let mut at = self.lines.get(line).map(|line| line.node);
        while let Some(node) = at {
            at = self.nodes[node].parent;
            if at.is_some() {
                branches.push(self.lasts[node]);
            }
        }
        branches.reverse();
        branches
    }

    /// The row of a node.
    #[must_use]
    pub fn row<'a>(&'a self, node: &'a Node) -> Option<&'a Row> {
        node.sum
            .as_deref()
            .or_else(|| Some(&self.items.get(node.item?)?.row))
    }

    /// The values of a node by which rows are ordered.
    fn order_values(&self, node: &Node) -> OrderValues {
        let of_item = node.item.and_then(|item| self.values.get(item));
        match (&node.sum, of_item) {
            (Some(sum), _) => order_values(sum),
            (None, Some(values)) => *values,
            (None, None) => OrderValues::default(),
        }
    }

    /// Whether the nodes below are hidden.
    #[must_use]
    pub fn is_folded(&self, node: &Node) -> bool {
        self.turned.contains(&node.key) != is_folded_at_first(&node.key)
    }

    /// The selected object.
    #[must_use]
    pub fn chosen(&self) -> Option<&Key> {
        Some(&self.node(self.selected)?.key)
    }

    /// The items of the selected line and below it.
    #[must_use]
    pub fn chosen_items(&self) -> Vec<&Item> {
        let mut found = Vec::new();
        let mut open: Vec<usize> = self
            .lines
            .get(self.selected)
            .map(|line| line.node)
            .into_iter()
            .collect();
        while let Some(node) = open.pop().and_then(|place| self.nodes.get(place)) {
            found.extend(node.item.and_then(|item| self.items.get(item)));
            open.extend(&node.below);
        }
        found
    }

    /// Filters, sorts and lays out all rows again.
    pub fn arrange(&mut self) {
        let shown: Vec<usize> = (0..self.items.len())
            .filter(|place| self.accepts(&self.items[*place]))
            .collect();
        self.nodes = match (self.is_tree, self.grouping) {
            (true, _) => tree(self.kind, &self.items, &shown),
            (false, Some(by)) => grouped(by, &self.items, &shown),
            (false, None) => list(&self.items, &shown, self.folds_ended),
        };
        let mut lines = Vec::with_capacity(self.nodes.len());
        let field_of_order = self.columns.get(self.sort).map(|column| column.field);
        let row = |node| self.row(node);
        let values = |node: &Node| self.order_values(node);
        let order = RowOrder::by(&self.nodes, field_of_order, self.reverse, row, values);
        let mut roots: Vec<usize> = (0..self.nodes.len())
            .filter(|node| self.nodes[*node].parent.is_none())
            .collect();
        // The last of these is the next line.
        let mut open: Vec<Line> = Vec::new();
        let mut lasts = vec![false; self.nodes.len()];
        let mut push = |open: &mut Vec<Line>, nodes: &mut Vec<usize>, depth| {
            order.sort(nodes);
            if let Some(last) = nodes.last() {
                lasts[*last] = true;
            }
            open.extend(nodes.iter().rev().map(|&node| Line { node, depth }));
        };
        push(&mut open, &mut roots, 0);
        while let Some(line) = open.pop() {
            lines.push(line);
            let node = &self.nodes[line.node];
            if !node.below.is_empty() && !self.is_folded(node) {
                push(&mut open, &mut node.below.clone(), line.depth + 1);
            }
        }
        self.lines = lines;
        self.lasts = lasts;
        self.find_again();
    }

    fn accepts(&self, item: &Item) -> bool {
        if self.only_active && is_idle(&item.row) {
            return false;
        }
        let Some(filter) = &self.filter else {
            return true;
        };
        match self.searches_names {
            true => filter.accepts(all_names(self.kind, item).iter().map(AsRef::as_ref)),
            false => filter.accepts(self.texts(item).iter().map(AsRef::as_ref)),
        }
    }

    /// The names that the screen shows of an item.
    pub(crate) fn texts<'a>(&self, item: &'a Item) -> Vec<Cow<'a, str>> {
        let mut texts = vec![item_name(self.kind, item)];
        let names = self
            .columns
            .split_last()
            .map_or(&[][..], |(_, others)| others);
        // Numbers are sums of several counters: their fields are not asked.
        let is_name = |column: &&Column| {
            column.is_chosen && matches!(column.field.unit, Unit::Text | Unit::Id)
        };
        for column in names.iter().filter(is_name) {
            match column.field.of(&item.row).known() {
                Some(Datum::Text(text)) => texts.push(Cow::Owned(text)),
                Some(Datum::Id(id)) => texts.push(Cow::Owned(id.to_string())),
                _ => {}
            }
        }
        // The row of its group shows it.
        texts.extend(self.grouping.map(|by| by.group_of(item)));
        texts
    }

    /// The next line with this text, or the one before, round the end; `stays`: also the selected one.
    #[must_use]
    pub(crate) fn find(&self, text: &Filter, forward: bool, stays: bool) -> Option<usize> {
        let count = self.lines.len();
        let skipped = usize::from(!stays);
        let steps = (skipped..count + skipped).map(|step| match forward {
            true => (self.selected + step) % count,
            false => (self.selected + count - step % count) % count,
        });
        let mut steps = steps;
        steps.find(|line| {
            self.node(*line).is_some_and(|node| {
                let item = node.item.and_then(|item| self.items.get(item));
                match item {
                    Some(item) => text.accepts(self.texts(item).iter().map(AsRef::as_ref)),
                    None => text.accepts([self.name(node).as_str()]),
                }
            })
        })
    }

    /// Whether some rows are below others.
    #[must_use]
    pub(crate) fn has_levels(&self) -> bool {
        self.nodes.iter().any(|node| node.parent.is_some())
    }

    /// Selects the line of the followed object; stays if that is gone.
    fn find_again(&mut self) {
        let found = self.follows.as_ref().and_then(|key| {
            let at = |line: &Line| self.nodes[line.node].key == *key;
            self.lines.iter().position(at)
        });
        let last = self.lines.len().saturating_sub(1);
        self.selected = match (&self.follows, found) {
            (None, _) => 0,
            (Some(_), Some(place)) => place,
            (Some(_), None) => self.selected.min(last),
        };
    }

    /// Moves down by this many lines; up, if negative.
    pub fn go(&mut self, lines: isize) {
        let last = self.lines.len().saturating_sub(1);
        self.go_to(self.selected.saturating_add_signed(lines).min(last));
    }

    /// Goes to a line.
    pub fn go_to(&mut self, line: usize) {
        self.selected = line.min(self.lines.len().saturating_sub(1));
        // At the top, follow the first row, whatever it is.
        self.follows = match self.selected {
            0 => None,
            _ => self.chosen().cloned(),
        };
    }

    /// Follows the selected row, even if it is the first.
    pub(crate) fn hold(&mut self) {
        self.follows = self.chosen().cloned();
    }

    /// Scrolls as little as possible to show the selected line in this height.
    pub fn scroll_into(&mut self, height: usize) {
        let last_offset = self.lines.len().saturating_sub(height);
        let least = (self.selected + 1).saturating_sub(height);
        self.offset = self.offset.clamp(least.min(self.selected), self.selected);
        self.offset = self.offset.min(last_offset);
    }

    /// Hides the nodes below the selected line; if there are none, selects the parent.
    pub fn fold(&mut self) {
        let Some(line) = self.lines.get(self.selected).copied() else {
            return;
        };
        let node = &self.nodes[line.node];
        if node.below.is_empty() || self.is_folded(node) {
            let above = self.lines[..self.selected]
                .iter()
                .rposition(|other| other.depth < line.depth);
            if let Some(above) = above {
                self.go_to(above);
            }
            return;
        }
        let key = node.key.clone();
        self.turn(key);
        self.arrange();
    }

    /// Shows the nodes below the selected line, or all.
    pub fn unfold(&mut self, everything: bool) {
        let is_folded = |node: &&Node| !node.below.is_empty() && self.is_folded(node);
        let nodes: Vec<Key> = match everything {
            true => self
                .nodes
                .iter()
                .filter(is_folded)
                .map(|node| node.key.clone())
                .collect(),
            false => self
                .node(self.selected)
                .filter(is_folded)
                .map(|node| node.key.clone())
                .into_iter()
                .collect(),
        };
        for key in nodes {
            self.turn(key);
        }
        self.arrange();
    }

    /// Folds the selected node, or unfolds it.
    pub(crate) fn turn_chosen(&mut self) {
        if let Some(key) = self.chosen().cloned() {
            self.turn(key);
            self.arrange();
        }
    }

    fn turn(&mut self, key: Key) {
        if !self.turned.remove(&key) {
            self.turned.insert(key);
        }
    }

    /// The name of a line's node.
    #[must_use]
    pub fn name(&self, node: &Node) -> String {
        let item = node.item.and_then(|item| self.items.get(item));
        match (&node.label, item) {
            (Some(label), Some(item)) => format!("{label}{}", state(item)),
            (Some(label), None) => label.clone(),
            (None, Some(item)) => item_name(self.kind, item).into_owned(),
            (None, None) => String::new(),
        }
    }
}

/// Groups of processes are folded until the user looks at them.
fn is_folded_at_first(key: &Key) -> bool {
    matches!(key, Key::Ended(_) | Key::Group(..))
}

fn is_idle(row: &Row) -> bool {
    row.ledger.counts().iter().all(|count| *count == 0)
        && row.subject.device_read_bytes.known().unwrap_or(0) == 0
        && row.subject.device_write_bytes.known().unwrap_or(0) == 0
}

/// The rows of an interval in the order of a list: those that pass the filter, largest first.
#[must_use]
pub fn arranged(
    kind: ViewKind,
    interval: &Interval,
    by: Option<&'static Field>,
    filter: Option<&Filter>,
) -> Vec<Row> {
    let columns = by.map(|field| Column {
        field,
        width: 0,
        rank: 0,
        is_chosen: true,
    });
    let mut listing = Listing::new(kind, columns.into_iter().collect());
    listing.filter = filter.cloned();
    listing.folds_ended = false;
    listing.searches_names = true;
    listing.fill(items(kind, interval));
    let places: Vec<usize> = listing
        .lines
        .iter()
        .filter_map(|line| listing.nodes[line.node].item)
        .collect();
    let mut items: Vec<Option<Item>> = listing.items.into_iter().map(Some).collect();
    let taken = places.into_iter().filter_map(|place| items[place].take());
    taken.map(|item| item.row).collect()
}

//! [`RowOrder`]: the order of rows by a field.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::sync::LazyLock;

use cachewise_model::{Datum, Field, ORDER, Row, Unit, field};

use crate::item::Key;
use crate::tree::Node;

/// Sort key of a row.
enum Sorted<'a> {
    Number(f64),
    Text(String),
    Label(&'a str),
    Missing,
}

/// The values of a row by the fields of the default order. Each is a sum of several counters, so that a list keeps them.
pub(crate) type OrderValues = [Option<f64>; ORDER.len()];

/// The fields of the default order: a search by name for each row would cost more than their sums.
static FIELDS: LazyLock<[Option<&Field>; ORDER.len()]> = LazyLock::new(|| ORDER.map(field));

/// The values of a row by the fields of the default order.
pub(crate) fn order_values(row: &Row) -> OrderValues {
    FIELDS.map(|field| field?.of(row).known()?.number())
}

/// The requested order; ties are broken by the default order, then by name, so that rows do not
/// jump.
pub(crate) struct RowOrder<'a> {
    nodes: &'a [Node],
    /// The keys of each node: the requested one, then the default ones; empty without an order.
    keys: Vec<(Sorted<'a>, OrderValues)>,
    reverse: bool,
}

impl<'a> RowOrder<'a> {
    /// The order of these nodes by a field; without one they stay as they are.
    pub(crate) fn by(
        nodes: &'a [Node],
        field_of_order: Option<&'static Field>,
        reverse: bool,
        row: impl Fn(&'a Node) -> Option<&'a Row>,
        values: impl Fn(&Node) -> OrderValues,
    ) -> RowOrder<'a> {
        let keys = field_of_order.map(|of| {
            let usual = ORDER.iter().position(|id| *id == of.id);
            let keys = nodes.iter().map(|node| {
                let values = values(node);
                let first = match (usual, row(node)) {
                    (Some(place), _) => values[place].map_or(Sorted::Missing, Sorted::Number),
                    (None, Some(row)) => sorted(of, row, node),
                    (None, None) => Sorted::Missing,
                };
                (first, values)
            });
            keys.collect()
        });
        RowOrder {
            nodes,
            keys: keys.unwrap_or_default(),
            reverse,
        }
    }

    /// Sorts some nodes.
    pub(crate) fn sort(&self, nodes: &mut [usize]) {
        if self.keys.is_empty() {
            return;
        }
        nodes.sort_by(|&one, &other| {
            let ((first, then), (second, after)) = (&self.keys[one], &self.keys[other]);
            let usual = || {
                let pairs = then.iter().zip(after);
                pairs
                    .map(|(one, other)| largest_first(*one, *other))
                    .find(|order| order.is_ne())
            };
            compare(first, second, self.reverse)
                .then_with(|| usual().unwrap_or(Ordering::Equal))
                .then_with(|| tie(&self.nodes[one]).cmp(&tie(&self.nodes[other])))
        });
    }
}

fn tie(node: &Node) -> (u32, &str, &OsStr) {
    let label = node.label.as_deref().unwrap_or_default();
    match &node.key {
        Key::Process(process) => (process.pid, label, OsStr::new("")),
        Key::File {
            path: Some(path), ..
        }
        | Key::Directory(path) => (0, label, path.as_os_str()),
        Key::File { number, .. } => (0, label, OsStr::new(&number.device)),
        Key::Device(device) => (0, label, OsStr::new(device)),
        Key::AllOthers(_) | Key::Ended(_) | Key::Group(..) => (0, label, OsStr::new("")),
        Key::Cgroup(path) => (0, label, OsStr::new(path.as_deref().unwrap_or_default())),
        Key::Unattributed => (u32::MAX, label, OsStr::new("")),
    }
}

fn sorted<'a>(field: &Field, row: &Row, node: &'a Node) -> Sorted<'a> {
    if field.unit == Unit::Text
        && let Some(label) = &node.label
    {
        return Sorted::Label(label);
    }
    match field.of(row).known() {
        None => Sorted::Missing,
        Some(Datum::Text(text) | Datum::Time(text)) => Sorted::Text(text),
        Some(Datum::Path(path)) => Sorted::Text(path.to_string_lossy().into_owned()),
        Some(datum) => datum.number().map_or(Sorted::Missing, Sorted::Number),
    }
}

/// Numbers from the largest; missing values come last.
fn largest_first(one: Option<f64>, other: Option<f64>) -> Ordering {
    match (one, other) {
        (None, None) => Ordering::Equal,
        (None, _) => Ordering::Greater,
        (_, None) => Ordering::Less,
        (Some(one), Some(other)) => other.total_cmp(&one),
    }
}

/// Numbers from the largest, names from the first letter; missing values always come last.
fn compare(one: &Sorted<'_>, other: &Sorted<'_>, reverse: bool) -> Ordering {
    fn text<'a>(sorted: &'a Sorted<'_>) -> Option<&'a str> {
        match sorted {
            Sorted::Text(text) => Some(text),
            Sorted::Label(label) => Some(label),
            _ => None,
        }
    }
    let order = match (one, other) {
        (Sorted::Missing, Sorted::Missing) => return Ordering::Equal,
        (Sorted::Missing, _) => return Ordering::Greater,
        (_, Sorted::Missing) => return Ordering::Less,
        (Sorted::Number(one), Sorted::Number(other)) => other.total_cmp(one),
        _ => text(one).cmp(&text(other)),
    };
    if reverse { order.reverse() } else { order }
}

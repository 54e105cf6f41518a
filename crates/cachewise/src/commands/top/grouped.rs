//! Rows summed up by labels of low cardinality, for metrics.

use std::collections::HashMap;
use std::ffi::OsStr;

use cachewise_model::{Measured, Reason, Row, escaped};
use cachewise_tui::ViewKind;
use cachewise_view::Labels;

/// Name of the group that sums up all groups beyond the largest.
const OTHER: &str = "other";

/// Sums the rows up: processes by program, files by file system, groups and devices by name. Keeps
/// the first `most` groups and sums up the rest.
pub fn grouped(kind: ViewKind, rows: Vec<Row>, most: usize) -> Vec<(Labels, Row)> {
    let mut places: HashMap<Option<String>, usize> = HashMap::new();
    let mut groups: Vec<(Labels, Row)> = Vec::new();
    for row in rows {
        let labels = labels(kind, &row);
        let name = labels.first().map(|(_, value)| value.clone());
        let full = groups.len() >= most && !places.contains_key(&name);
        let name = if full { None } else { name };
        match places.get(&name) {
            Some(place) => add(&mut groups[*place].1, &row),
            None => {
                places.insert(name.clone(), groups.len());
                let labels = match name {
                    Some(_) => labels,
                    None => vec![(label(kind), OTHER.to_owned())],
                };
                groups.push((labels, row));
            }
        }
    }
    groups
}

const NONE: Measured<String> = Measured::not_offered(Reason::NoneInParticular);

fn label(kind: ViewKind) -> &'static str {
    match kind {
        ViewKind::Process => "command",
        ViewKind::File => "filesystem",
        ViewKind::Cgroup => "cgroup",
        ViewKind::Device => "device",
    }
}

fn labels(kind: ViewKind, row: &Row) -> Labels {
    let labels = &row.labels;
    let text = match kind {
        // The row of all others has a name, but is no program.
        ViewKind::Process if labels.pid.missing().is_some() => &NONE,
        ViewKind::Process => &labels.command,
        ViewKind::File => &labels.filesystem,
        ViewKind::Cgroup => &labels.cgroup,
        ViewKind::Device => &labels.device,
    };
    let text = text.as_ref().known().map_or(OTHER, String::as_str);
    vec![(label(kind), escaped(OsStr::new(text)).into_owned())]
}

/// Adds the counts; gauges keep the first row's value, because their sum has no meaning.
fn add(sum: &mut Row, row: &Row) {
    sum.ledger += &row.ledger;
    let (own, other) = (&mut sum.subject, &row.subject);
    own.cpu_seconds = own.cpu_seconds.zip(other.cpu_seconds, |a, b| a + b);
    own.device_read_bytes = own.device_read_bytes.plus(other.device_read_bytes);
    own.device_write_bytes = own.device_write_bytes.plus(other.device_write_bytes);
    own.file_size_bytes = own.file_size_bytes.plus(other.file_size_bytes);
}

#[cfg(test)]
mod tests {
    use cachewise_model::Counter;

    use super::*;

    fn row(command: &str, pages: u64) -> Row {
        let mut row = Row::default();
        row.labels.command = Measured::Exact(command.into());
        row.labels.pid = Measured::Exact(7);
        row.ledger.set(Counter::ReadRequestedPages, pages);
        row
    }

    #[test]
    fn grouped_keeps_largest_and_sums_the_rest() {
        let rows = vec![
            row("a", 8),
            row("b", 4),
            row("a", 2),
            row("c", 1),
            row("d", 1),
        ];
        let groups = grouped(ViewKind::Process, rows, 2);
        let seen: Vec<(&str, u64)> = groups
            .iter()
            .map(|(labels, row)| {
                (
                    labels[0].1.as_str(),
                    row.ledger[Counter::ReadRequestedPages],
                )
            })
            .collect();
        assert_eq!(
            seen,
            [("a", 10), ("b", 4), ("other", 2)],
            "the first two, and the rest summed up"
        );
    }
}

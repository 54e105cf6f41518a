//! Process rows in which those of a command that have ended are one.

use std::collections::HashMap;

use cachewise_model::{Labels, Measured, Part, Reason, Row, Subject};

/// The exit of processes that ended in different ways.
const ENDED: &str = "ended";

/// A row, and how many processes it sums up.
#[derive(Debug, Clone)]
pub(crate) struct FoldedRow {
    pub(crate) row: Row,
    pub(crate) members: usize,
}

/// The rows of a table: of processes, those that have ended are one for each command.
pub(crate) fn folded(part: Part, rows: Vec<Row>) -> Vec<FoldedRow> {
    match part {
        Part::Process => fold_ended(rows),
        _ => rows
            .into_iter()
            .map(|row| FoldedRow { row, members: 1 })
            .collect(),
    }
}

/// Sums up the rows of processes of the same command that have ended: short-lived ones would fill the table, and
/// none of them would be first in it.
fn fold_ended(rows: impl IntoIterator<Item = Row>) -> Vec<FoldedRow> {
    let mut folded: Vec<FoldedRow> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for row in rows {
        let command = row
            .labels
            .command
            .as_ref()
            .known()
            .filter(|_| has_ended(&row));
        let Some(command) = command.cloned() else {
            folded.push(FoldedRow { row, members: 1 });
            continue;
        };
        match places.get(&command) {
            Some(place) => add(&mut folded[*place], row),
            None => {
                places.insert(command, folded.len());
                folded.push(FoldedRow { row, members: 1 });
            }
        }
    }
    folded
}

/// The sum of rows that get no row of their own, named by how many they are; none if there are none.
pub(crate) fn rest(part: Part, rows: Vec<FoldedRow>) -> Option<FoldedRow> {
    let members: usize = rows.iter().map(|folded| folded.members).sum();
    let name = format!("({members} others)");
    let mut rows = rows.into_iter();
    let mut sum = rows.next()?;
    rows.for_each(|folded| add(&mut sum, folded.row));
    let mut labels = Labels::default();
    match part {
        Part::Process => labels.command = Measured::Exact(name),
        Part::Cgroup => labels.cgroup = Measured::Exact(name),
        Part::File | Part::Device => labels.path = Measured::Exact(name.into()),
    }
    let Row {
        ledger,
        subject,
        elapsed,
        page_size,
        ..
    } = sum.row;
    let row = Row {
        labels,
        ledger,
        subject: Subject {
            cpu_seconds: subject.cpu_seconds,
            device_read_bytes: subject.device_read_bytes,
            device_write_bytes: subject.device_write_bytes,
            ..Subject::default()
        },
        elapsed,
        page_size,
        ..Row::default()
    };
    // It is one row, and none of a command.
    Some(FoldedRow { row, members: 1 })
}

fn has_ended(row: &Row) -> bool {
    let exit = row.labels.exit.as_ref().known();
    exit.is_some_and(|exit| exit != "running") && row.labels.pid.known().is_some()
}

fn add(sum: &mut FoldedRow, row: Row) {
    let several = Measured::not_offered(Reason::SummedUp);
    let labels = &mut sum.row.labels;
    sum.members += 1;
    labels.pid = several;
    labels.ppid = several;
    labels.started = Measured::not_offered(Reason::SummedUp);
    if labels.exit != row.labels.exit {
        labels.exit = Measured::Exact(ENDED.to_owned());
    }
    if labels.cgroup != row.labels.cgroup {
        labels.cgroup = Measured::not_offered(Reason::SummedUp);
        labels.group = Default::default();
    }
    let subject = &mut sum.row.subject;
    subject.cpu_seconds = subject
        .cpu_seconds
        .zip(row.subject.cpu_seconds, |one, other| one + other);
    subject.device_read_bytes = subject
        .device_read_bytes
        .plus(row.subject.device_read_bytes);
    subject.device_write_bytes = subject
        .device_write_bytes
        .plus(row.subject.device_write_bytes);
    sum.row.ledger += &row.ledger;
}

#[cfg(test)]
mod tests {
    use cachewise_model::Counter;

    use super::*;

    fn row(pid: u32, command: &str, exit: &str, pages: u64) -> Row {
        let mut row = Row::default();
        row.labels.pid = Measured::Exact(pid);
        row.labels.command = Measured::Exact(command.into());
        row.labels.exit = Measured::Exact(exit.into());
        row.subject.cpu_seconds = Measured::Exact(0.5);
        row.ledger.set(Counter::ReadMissedPages, pages);
        row
    }

    #[test]
    fn ended_processes_of_a_command_are_one_row_with_their_sums() {
        let rows = [
            row(1, "dd", "0", 10),
            row(2, "dd", "running", 1),
            row(3, "dd", "0", 20),
            row(4, "tar", "0", 5),
            row(5, "dd", "SIGKILL", 30),
        ];
        let folded = fold_ended(rows);
        let shown: Vec<_> = folded
            .iter()
            .map(|folded| {
                let labels = &folded.row.labels;
                let exit = labels.exit.as_ref().known().map(String::as_str);
                let missed = folded.row.ledger.get(Counter::ReadMissedPages);
                (labels.pid.known(), folded.members, exit, missed.known())
            })
            .collect();
        assert_eq!(
            shown,
            [
                (None, 3, Some("ended"), Some(60)),
                (Some(2), 1, Some("running"), Some(1)),
                (Some(4), 1, Some("0"), Some(5)),
            ]
        );
        assert_eq!(
            folded[0].row.subject.cpu_seconds.known(),
            Some(1.5),
            "CPU time is summed too"
        );
    }
}

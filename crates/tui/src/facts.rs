//! Facts about an object, beside the list of its parts.

use std::collections::HashMap;
use std::ffi::OsStr;

use cachewise_model::{Field, Interval, Measured, Reason, Row, Value, escaped, field};
use cachewise_units::Bytes;

use crate::item::{self, Key};
use crate::machine::ProcessName;
use crate::view_kind::ViewKind;

/// The facts of an object in this interval.
#[must_use]
pub fn facts(
    of: &Key,
    interval: &Interval,
    command_lines: &HashMap<ProcessName, Measured<String>>,
) -> Vec<(&'static str, String)> {
    let kind = match of {
        Key::Process(_) => ViewKind::Process,
        Key::File { .. } => ViewKind::File,
        Key::AllOthers(kind) => *kind,
        Key::Cgroup(_) => ViewKind::Cgroup,
        Key::Device(_) => ViewKind::Device,
        Key::Directory(_) | Key::Ended(_) | Key::Group(..) | Key::Unattributed => {
            return Vec::new();
        }
    };
    let found = item::items(kind, interval)
        .into_iter()
        .find(|item| item.key == *of);
    let mut facts = Vec::new();
    let Some(item) = found else {
        facts.push(("now", "not in this interval: ended, or not used".into()));
        return facts;
    };
    let ids: &[(&'static str, &str)] = match kind {
        ViewKind::Process => &[
            ("container", "container"),
            ("pod", "pod"),
            ("unit", "unit"),
            ("cgroup", "cgroup"),
            ("parent", "ppid"),
            ("state", "exit_status"),
        ],
        ViewKind::File => &[
            ("size", "file_size_bytes"),
            ("file system", "filesystem"),
            ("device", "device"),
            ("inode", "inode"),
        ],
        ViewKind::Cgroup => &[
            ("container", "container"),
            ("pod", "pod"),
            ("unit", "unit"),
            ("memory", "memory_used_bytes"),
            ("limit", "memory_limit_bytes"),
            ("files", "cached_bytes"),
        ],
        ViewKind::Device => &[("file system", "filesystem"), ("number", "device")],
    };
    for (name, id) in ids {
        if let Some(text) = field(id).and_then(|field| text(field, &item.row)) {
            // A number is an exit status, not a state.
            let name = match *id == "exit_status" && text != "running" {
                true => "ended with",
                false => *name,
            };
            facts.push((name, text));
        }
    }
    if let Key::Process(name) = of {
        match command_lines.get(name) {
            Some(Measured::Exact(line)) => {
                facts.push(("command", escaped(OsStr::new(line)).into_owned()));
            }
            Some(Measured::Missing(missing)) if missing.reason() != Reason::AskedFor => {
                facts.push((
                    "command",
                    format!("{} ({})", missing.mark(), missing.reason()),
                ));
            }
            _ => {}
        }
    }
    facts
}

/// A value as text; `None` for fields that these rows do not have.
fn text(field: &Field, row: &Row) -> Option<String> {
    use cachewise_model::Datum;
    match field.of(row) {
        Value::Missing(_) => None,
        Measured::Exact(datum) | Measured::Estimated(datum, _) => Some(match datum {
            Datum::Bytes(Bytes(size)) => Bytes(size).to_string(),
            Datum::Text(text) => escaped(OsStr::new(&text)).into_owned(),
            Datum::Id(number) | Datum::Count(number) => number.to_string(),
            other => format!("{other:?}"),
        }),
    }
}

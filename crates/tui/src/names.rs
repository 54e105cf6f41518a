//! Names of items: those on a screen, and those of rows that are written.

use std::borrow::Cow;
use std::ffi::OsStr;

use cachewise_model::{ALL_OTHERS, escaped};

use crate::item::{Item, Key};
use crate::view_kind::ViewKind;

/// The name of an item on the screen, with its state.
#[must_use]
pub(crate) fn item_name(kind: ViewKind, item: &Item) -> Cow<'_, str> {
    let name = bare_name(kind, item);
    match state(item) {
        "" => name,
        state => Cow::Owned(format!("{name}{state}")),
    }
}

/// A state behind the name: the object is gone.
#[must_use]
pub(crate) fn state(item: &Item) -> &'static str {
    match (item.deleted, item.has_ended()) {
        (true, _) => " (deleted)",
        (false, true) => " (ended)",
        (false, false) => "",
    }
}

fn bare_name(kind: ViewKind, item: &Item) -> Cow<'_, str> {
    fn text(text: Option<&String>) -> Option<Cow<'_, str>> {
        text.map(|text| escaped(OsStr::new(text)))
    }
    let labels = &item.row.labels;
    let path = labels.path.as_ref().known();
    let path = path.map(|path| escaped(path.as_os_str()));
    let name = match kind {
        ViewKind::Process => text(labels.command_line.as_ref().known())
            .or_else(|| text(labels.command.as_ref().known())),
        ViewKind::File => match (path, labels.label.as_ref().known(), &item.key) {
            (Some(path), Some(label), _) => {
                let label = escaped(OsStr::new(label));
                Some(Cow::Owned(format!("{label} ({path})")))
            }
            (Some(path), None, _) => Some(path),
            (None, _, Key::File { number, .. }) => Some(Cow::Owned(format!(
                "(inode {} on {})",
                number.inode, number.device
            ))),
            (None, ..) => Some(ALL_OTHERS.into()),
        },
        ViewKind::Cgroup => text(labels.cgroup.as_ref().known()).or(Some("(gone)".into())),
        ViewKind::Device => path.or_else(|| text(labels.device.as_ref().known())),
    };
    name.unwrap_or_else(|| "?".into())
}

/// Every name of a row.
#[must_use]
pub(crate) fn all_names(kind: ViewKind, item: &Item) -> Vec<Cow<'_, str>> {
    let labels = &item.row.labels;
    let texts = [
        &labels.command,
        &labels.command_line,
        &labels.cgroup,
        &labels.label,
        &labels.group.unit,
        &labels.group.container_id,
        &labels.filesystem,
    ];
    let texts = texts.into_iter().filter_map(|text| text.as_ref().known());
    let mut names: Vec<Cow<'_, str>> = texts.map(|text| Cow::Borrowed(text.as_str())).collect();
    names.extend(labels.group.shown().known().map(Cow::Owned));
    let path = labels.path.as_ref().known();
    names.extend(path.map(|path| path.to_string_lossy()));
    names.extend(labels.pid.known().map(|pid| Cow::Owned(pid.to_string())));
    if kind == ViewKind::Device {
        let device = labels.device.as_ref().known();
        names.extend(device.map(|device| Cow::Borrowed(device.as_str())));
    }
    names
}

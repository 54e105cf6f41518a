//! Columns of a view's rows.

use anyhow::{Result, bail};
use cachewise_model::{Field, Interval, Ledger, Measured, Missing, Row, Unit, field};
use cachewise_tui::ViewKind;

use super::arguments::Top;
use crate::row_kinds::{kind_of_row, unmeasured};

/// Names of a control group that the screen shows as one.
const NAMES: [&str; 4] = ["unit", "container", "container_id", "pod"];

/// A row in place of rows whose number is unknown. It has a time alone.
pub fn row_of_unknowns(kind: ViewKind, interval: &Interval, missing: Missing) -> Row {
    let mut row = unmeasured(kind, missing);
    row.elapsed = interval.elapsed;
    row.ledger = Ledger::all_missing(missing);
    let labels = &mut row.labels;
    match kind {
        ViewKind::Process => {
            labels.pid = Measured::Missing(missing);
            labels.exit = Measured::Missing(missing);
        }
        ViewKind::File => {
            labels.inode = Measured::Missing(missing);
            labels.device = Measured::Missing(missing);
        }
        ViewKind::Device => labels.device = Measured::Missing(missing),
        ViewKind::Cgroup => {}
    }
    row
}

/// The columns of `--columns`, or those of the screen with the time before them: the default ones in a
/// table on a terminal, all that it offers elsewhere. Checks that such rows have the column to sort by.
pub fn fields(arguments: &Top, kind: ViewKind) -> Result<Vec<&'static Field>> {
    let like = kind_of_row(kind);
    if let Some(sort) = arguments.sort {
        check(sort.0, &like, kind)?;
    }
    let Some(list) = &arguments.columns else {
        let head = ["time", "elapsed_seconds"].into_iter().filter_map(field);
        let mut columns = match arguments.is_table_on_terminal() {
            true => kind.default_fields(),
            false => kind.columns().iter().map(|column| column.field).collect(),
        };
        // Rows have room for the parts of a name; the name of the row stays last.
        let label = arguments.labels.label.as_ref().map(|_| "label");
        let names = NAMES.into_iter().chain(label).filter_map(field);
        let place = columns.len().saturating_sub(1);
        columns.splice(place..place, names.filter(|field| field.is_of(&like)));
        return Ok(head.chain(columns).collect());
    };
    list.split(',')
        .map(str::trim)
        .map(|name| match field(name) {
            Some(field) => check(field, &like, kind).map(|()| field),
            // It suggests similar names.
            None => match cachewise_model::columns(name, &like) {
                Ok(_) => bail!("no column `{}`", name.escape_debug()),
                Err(told) => bail!("--columns: {told}"),
            },
        })
        .collect()
}

fn check(field: &'static Field, like: &Row, kind: ViewKind) -> Result<()> {
    if field.is_of(like) {
        return Ok(());
    }
    let names: Vec<&str> = kind
        .columns()
        .iter()
        .filter(|column| column.field.unit != Unit::Text)
        .map(|column| column.field.id)
        .collect();
    bail!(
        "column `{}` is not one of {}; some that are: {}",
        field.id,
        kind.title(),
        names.join(", ")
    )
}

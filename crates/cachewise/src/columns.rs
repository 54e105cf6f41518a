//! `columns`: the table of fields.

use cachewise_model::{FIELDS, Field, Row, STAT_COLUMNS};
use cachewise_view::SheetColumn;

/// The table of fields: those of `stat`, those of `files`, and those that only reports have; then the columns of other
/// tables.
pub fn columns(sheets: &[(&str, &[SheetColumn])]) -> String {
    let (of_stat, others): (Vec<&Field>, Vec<&Field>) = FIELDS
        .iter()
        .partition(|field| field.is_of(&Row::of_system()));
    let of_files: Vec<&Field> = FIELDS
        .iter()
        .filter(|field| field.is_of(&Row::of_file()))
        .collect();
    let others: Vec<&Field> = others
        .into_iter()
        .filter(|field| !field.is_of(&Row::of_file()))
        .filter(|field| !field.is_of_measurement_only() && !field.is_of_sizing_only())
        .collect();
    let of_measurements: Vec<&Field> = FIELDS
        .iter()
        .filter(|field| field.is_of_measurement_only())
        .collect();
    let of_sizes: Vec<&Field> = FIELDS
        .iter()
        .filter(|field| field.is_of_sizing_only())
        .collect();
    format!(
        "{}\n* shown by `stat` unless --columns says otherwise, which takes ids and headings\n\n\
         Only of a file or a directory, in `files` and the commands that act on files:\n{}\n\
         Only of a file, a process or a control group, in `top` and the reports of `run`:\n{}\n\
         Only of a measurement, in `bench`, which has those of `stat` too:\n{}\n\
         Only of a memory size, in `size`:\n{}\n\
         {}\n\
         `cachewise cpu columns` and `cachewise tier columns` list those of the other programs.\n",
        listed(&of_stat),
        listed(&of_files),
        listed(&others),
        listed(&of_measurements),
        listed(&of_sizes),
        cachewise_cli::about::sheets(sheets)
    )
}

/// Fields by ids of ours.
pub fn fields(ids: &[&str]) -> Vec<&'static Field> {
    ids.iter()
        .filter_map(|id| cachewise_model::field(id))
        .collect()
}

/// A line a field.
fn listed(fields: &[&Field]) -> String {
    let ids = FIELDS.iter().map(|field| field.id.len());
    let width = ids.max().unwrap_or_default();
    let line = |field: &&Field| {
        let (id, header, help) = (field.id, field.header, field.help);
        let default = if STAT_COLUMNS.contains(&id) { "*" } else { " " };
        format!("{default} {id:width$}  {header:12}  {help}\n")
    };
    fields.iter().map(line).collect()
}

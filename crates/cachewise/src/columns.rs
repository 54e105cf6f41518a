//! `columns`: the table of fields.

use std::io::{self, Write};

use anyhow::Result;
use cachewise_model::{FIELDS, Field, Row, STAT_COLUMNS};

use crate::{cpu, tier};

/// Prints the table of fields: those of `stat`, those of `files`, and those that only reports have.
pub fn columns() -> Result<()> {
    let (of_stat, others): (Vec<&Field>, Vec<&Field>) = FIELDS
        .iter()
        .partition(|field| field.is_of(&Row::of_system()));
    let of_files: Vec<&Field> = FIELDS
        .iter()
        .filter(|field| field.is_of(&Row::of_file()))
        .collect();
    let others: Vec<&Field> = others
        .into_iter()
        .filter(|field| !field.is_of(&Row::of_file()) && !field.is_of_measurement_only())
        .collect();
    let of_measurements: Vec<&Field> = FIELDS
        .iter()
        .filter(|field| field.is_of_measurement_only())
        .collect();
    let text = format!(
        "{}\n* shown by `stat` unless --columns says otherwise, which takes ids and headings\n\n\
         Only of a file or a directory, in `files` and the commands that act on files:\n{}\n\
         Only of a file, a process or a control group, in `top` and the reports of `run`:\n{}\n\
         Only of a measurement, in `bench`, which has those of `stat` too:\n{}{}",
        listed(&of_stat),
        listed(&of_files),
        listed(&others),
        listed(&of_measurements),
        of_others()
    );
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Fields by ids of ours.
pub fn fields(ids: &[&str]) -> Vec<&'static Field> {
    ids.iter()
        .filter_map(|id| cachewise_model::field(id))
        .collect()
}

/// The columns of commands that have tables of their own kind.
fn of_others() -> String {
    let sheets = cpu::SHEETS
        .iter()
        .chain(&tier::SHEETS)
        .map(|(command, columns)| {
            let width = columns.iter().map(|column| column.id.len()).max();
            let width = width.unwrap_or_default();
            let lines = columns.iter().map(|column| {
                let (id, header, help) = (column.id, column.header, column.help);
                format!("  {id:width$}  {header:12}  {help}\n")
            });
            format!("\nOnly in `{command}`:\n{}", lines.collect::<String>())
        });
    sheets.collect()
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

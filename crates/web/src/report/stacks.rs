//! Code that waits or evicts: a table of functions, and a flame graph.

use std::fmt::Write;

use cachewise_model::{Interval, StackKind};
use cachewise_view::{FlameWeight, StackTable, flame_svg};

use crate::html::text;

/// Functions of each event.
const TOP: usize = 25;

/// Empty if stacks were not recorded.
pub(super) fn stacks(total: &Interval) -> String {
    let Some(table) = StackTable::of(total, TOP) else {
        return String::new();
    };
    let Some(stacks) = &total.stacks else {
        return String::new();
    };
    let heads = table.sheet.columns.iter().map(|column| {
        format!(
            "<th scope=\"col\"{} title=\"{}\">{}</th>",
            class(column.is_number),
            text(column.help),
            text(column.header)
        )
    });
    let mut body = String::new();
    for row in &table.sheet.rows {
        body.push_str("<tr>");
        for (cell, column) in row.iter().zip(table.sheet.columns.iter()) {
            let _ = write!(
                body,
                "<td{}>{}</td>",
                class(column.is_number),
                text(cell.as_text())
            );
        }
        body.push_str("</tr>\n");
    }
    let more = match table.omitted {
        0 => String::new(),
        more => format!("<p class=\"hint\">and {more} more: cachewise report --json has all</p>\n"),
    };
    let hints = table.hints.iter();
    let hints = hints.map(|hint| format!("<p class=\"hint\">{}</p>\n", text(hint)));
    // Evictions have no time: pages show them.
    let waits = StackKind::ALL
        .into_iter()
        .any(|kind| !stacks.total(kind).waited.is_zero());
    let weight = match waits {
        true => FlameWeight::Time,
        false => FlameWeight::Pages,
    };
    format!(
        "<section class=\"card\" aria-labelledby=\"stacks\">\n<h2 id=\"stacks\">{}</h2>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: stacks\"><table>\n\
         <thead><tr>{}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n{more}{}\
         <div class=\"scroll flame\" tabindex=\"0\" role=\"region\" aria-label=\"Flame graph\">{}</div></section>\n",
        text(table.title),
        heads.collect::<String>(),
        hints.collect::<String>(),
        flame_svg(stacks, weight, total.page().get()),
    )
}

fn class(is_number: bool) -> &'static str {
    match is_number {
        true => "",
        false => " class=\"name\"",
    }
}

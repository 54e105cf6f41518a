//! A list of rows, with the lines above it.

use cachewise_model::{FileRow, ProcessRow};
use cachewise_view::ReadPart;
use ratatui::crossterm::event::KeyEvent;
use ratatui::layout::Rect;

use super::canvas::Canvas;
use super::panes::{Lines, push_wrapped};
use crate::action::Action;
use crate::app::App;
use crate::bindings::binding;
use crate::columns::{Column, fitting};
use crate::item::Key;
use crate::listing::Listing;
use crate::look::{TerminalStyle, cut, cut_path, width};
use crate::pane::{Details, Pane};
use crate::setup::Recorded;
use crate::view_kind::ViewKind;

/// Draws the list with the keyboard focus.
pub(super) fn draw(app: &mut App, canvas: &mut Canvas<'_>, area: Rect) {
    if area.is_empty() {
        return;
    }
    let above = match details(app) {
        Some(details) => facts(app, details, canvas, area),
        None if area.height >= 4 => {
            let tabs = tabs(app, canvas, area);
            app.areas.buttons.extend(tabs);
            1
        }
        None => 0,
    };
    let has_headings = area.height > above + 1;
    let body = Rect {
        y: area.y + above + u16::from(has_headings),
        height: area.height - above - u16::from(has_headings),
        ..area
    };
    let height = usize::from(body.height);
    app.listing_mut().scroll_into(height);
    app.ask_for_command_lines(height);
    let columns = shown_columns(app.listing(), area);
    if has_headings {
        headings(app, &columns, canvas, area, area.y + above);
    }
    app.areas.headings = area.y + above;
    app.areas.body = body;
    app.areas.columns = columns.iter().map(|(_, span)| *span).collect();
    rows(app, &columns, canvas, body);
}

fn details(app: &App) -> Option<&Details> {
    app.panes.iter().rev().find_map(|pane| match pane {
        Pane::Details(details) => Some(&**details),
        _ => None,
    })
}

/// The columns that fit, each with its position: start, end, and index among all.
fn shown_columns(listing: &Listing, area: Rect) -> Vec<(Column, (u16, u16, usize))> {
    let columns = listing.visible_columns().into_iter();
    let columns: Vec<Column> = columns
        .map(|(place, mut column)| {
            // The arrow has a column of its own: between two headings it would be ambiguous.
            column.width += usize::from(place == listing.sort);
            column
        })
        .collect();
    let columns = fitting(&columns, usize::from(area.width));
    let mut x = area.x + 1;
    let last = columns.len().saturating_sub(1);
    columns
        .into_iter()
        .enumerate()
        .map(|(number, column)| {
            let place = listing
                .columns
                .iter()
                .position(|own| own.field.id == column.field.id);
            let end = match number == last {
                true => area.right(),
                false => x + u16::try_from(column.width).unwrap_or(0),
            };
            let span = (x, end.max(x), place.unwrap_or(0));
            x = end.saturating_add(1);
            (column, span)
        })
        .collect()
}

/// The views, and the state of this one; returns the position of each tab, and its key.
fn tabs(app: &App, canvas: &mut Canvas<'_>, area: Rect) -> Vec<(Rect, KeyEvent)> {
    let look = app.setup.look;
    let end = area.right();
    let listing = app.listing();
    let state = state(app, listing, area);
    let names: Vec<String> = ViewKind::ALL
        .iter()
        .enumerate()
        .map(|(place, kind)| match place == app.view {
            true => format!("[{} {}]", place + 1, kind.title()),
            false => format!(" {} {} ", place + 1, kind.title()),
        })
        .collect();
    let all: usize = names.iter().map(String::len).sum();
    let has_room = all + 2 + width(&state) <= usize::from(area.width);
    let mut x = area.x;
    let mut buttons = Vec::new();
    for (kind, name) in ViewKind::ALL.into_iter().zip(&names) {
        let is_current = kind == ViewKind::ALL[app.view];
        if !is_current && !has_room {
            continue;
        }
        let style = if is_current { look.bold() } else { look.dim() };
        let from = x;
        x = canvas.text(x, area.y, end, name, style);
        let key = binding(Action::View(kind)).and_then(|binding| binding.keys.first());
        let place = Rect::new(from, area.y, x - from, 1);
        buttons.extend(key.map(|key| (place, key.event())));
    }
    if x + 1 < end {
        // Omit whole states that do not fit, the last first.
        let room = usize::from(end - x - 1);
        let mut state = state.as_str();
        while let (true, Some(place)) = (width(state) > room, state.rfind("  ")) {
            state = &state[..place];
        }
        canvas.right(x + 1, area.y, end, state, look.dim());
    }
    buttons
}

fn state(app: &App, listing: &Listing, area: Rect) -> String {
    let mut parts = Vec::new();
    let columns = shown_columns(listing, area);
    let is_seen = columns.iter().any(|(_, span)| span.2 == listing.sort);
    if let (Some(column), false) = (listing.columns.get(listing.sort), is_seen) {
        // If the sort column is hidden, the screen names it.
        let arrow = app.setup.look.arrow(listing.reverse);
        parts.push(format!("by {}{arrow}", column.field.header));
    }
    if let Some(filter) = &listing.filter {
        parts.push(format!("/{}", crate::scale::visible(filter.text())));
    }
    if listing.only_active {
        parts.push("active".into());
    }
    if listing.is_tree {
        parts.push("tree".into());
    }
    if let Some(by) = listing.grouping {
        parts.push(format!("grouped by {}", by.name()));
    }
    let (shown, all) = (listing.lines().len(), listing.items().len());
    match shown == all || listing.is_tree || listing.grouping.is_some() {
        true if all == 1 => parts.push("1 row".into()),
        true => parts.push(format!("{all} rows")),
        false => parts.push(format!("{shown} of {all} rows")),
    }
    parts.push(app.scale.name().into());
    parts.join("  ")
}

/// Title and facts of details; returns their number of lines.
fn facts(app: &App, details: &Details, canvas: &mut Canvas<'_>, area: Rect) -> u16 {
    let look = app.setup.look;
    let end = area.right();
    let state = state(app, &details.listing, area);
    let room = usize::from(area.width).saturating_sub(width(&state) + 2);
    let title = cut_path(&details.title, room.max(usize::from(area.width) / 2));
    let x = canvas.text(area.x, area.y, end, &title, look.bold());
    if x + 1 < end {
        canvas.right(x + 1, area.y, end, &state, look.dim());
    }
    // A long list needs the room more than facts.
    let most = area.height.saturating_sub(5).min(3);
    let (mut x, mut y) = (area.x, area.y + 1);
    for (name, fact) in &details.facts {
        let taken = u16::try_from(name.len() + 1 + width(fact)).unwrap_or(u16::MAX);
        if x > area.x && x.saturating_add(taken) > end {
            (x, y) = (area.x, y + 1);
        }
        if y > area.y + most {
            break;
        }
        x = canvas.text(x, y, end, name, look.dim());
        x = canvas.text(x + 1, y, end, fact, look.plain()) + 2;
    }
    let used = if x > area.x { y + 1 } else { y } - area.y;
    used.min(most + 1)
}

fn headings(
    app: &App,
    columns: &[(Column, (u16, u16, usize))],
    canvas: &mut Canvas<'_>,
    area: Rect,
    y: u16,
) {
    let look = app.setup.look;
    let listing = app.listing();
    canvas.line(area, y, look.chosen());
    for (column, (from, end, place)) in columns {
        let is_sorted = *place == listing.sort;
        let style = match is_sorted {
            true => look.chosen().patch(look.bold()),
            false => look.chosen(),
        };
        let header = column.field.header;
        let arrow = if is_sorted {
            look.arrow(listing.reverse)
        } else {
            ""
        };
        match column.field.unit.is_number() {
            true => canvas.right(*from, y, *end, &format!("{arrow}{header}"), style),
            false => _ = canvas.text(*from, y, *end, &format!("{header}{arrow}"), style),
        }
    }
}

fn rows(app: &App, columns: &[(Column, (u16, u16, usize))], canvas: &mut Canvas<'_>, body: Rect) {
    let look = app.setup.look;
    let listing = app.listing();
    let numbers = app.numbers();
    let Some(interval) = &app.shown else {
        return;
    };
    let whole = interval.row();
    if listing.lines().is_empty() {
        let mut lines = Lines::new();
        let columns = usize::from(body.width).saturating_sub(1);
        push_wrapped(&mut lines, "", &why_empty(app), columns, look.dim());
        for (y, (line, style)) in (body.y..body.bottom()).zip(&lines) {
            canvas.text(body.x + 1, y, body.right(), line, *style);
        }
        return;
    }
    let last = columns.len().saturating_sub(1);
    for (y, number) in (body.y..body.bottom()).zip(listing.offset..listing.lines().len()) {
        let (Some(line), Some(node)) = (listing.lines().get(number), listing.node(number)) else {
            break;
        };
        let Some(row) = listing.row(node) else {
            continue;
        };
        for (place, (column, (from, end, _))) in columns.iter().enumerate() {
            if place == last {
                let name = named(listing, look, number, line.depth, usize::from(end - from));
                canvas.text(*from, y, *end, &name, look.plain());
                continue;
            }
            let text = numbers.cell(column.field, row, &whole);
            let style = match text.as_str() {
                "0" | "0%" | "-" => look.dim(),
                _ if column.field.id == "read_missed_pages" => look.part(ReadPart::Missed),
                _ => look.plain(),
            };
            match column.field.unit.is_number() {
                true => canvas.right(*from, y, *end, &text, style),
                false => {
                    let text = cut(&text, usize::from(end - from));
                    canvas.text(*from, y, *end, &text, style);
                }
            }
        }
        if number == listing.selected() {
            canvas.text(body.x, y, body.x + 1, look.marker(), look.plain());
            canvas.line(body, y, look.chosen());
        }
    }
}

/// Columns of a step of a tree.
const STEP: usize = 3;

/// The name of a line, behind the lines of its tree.
fn named(listing: &Listing, look: TerminalStyle, line: usize, depth: usize, room: usize) -> String {
    let Some(node) = listing.node(line) else {
        return String::new();
    };
    let name = listing.name(node);
    let is_flat = !listing.is_tree && listing.grouping.is_none();
    let is_plain = is_flat && depth == 0 && node.below.is_empty();
    if is_plain || listing.kind == ViewKind::Device {
        return match listing.kind {
            ViewKind::Process => cut(&name, room),
            _ => cut_path(&name, room),
        };
    }
    let branches = listing.branches(line);
    // At great depth, show the name rather than the lines to the root.
    let steps = branches.len().min(room / 2 / STEP);
    let lines = look.branches(&branches[branches.len() - steps..]);
    let mark = match (node.below.is_empty(), listing.is_folded(node)) {
        (true, _) if depth == 0 => "  ",
        (true, _) => "",
        (false, true) => "+ ",
        (false, false) => "- ",
    };
    let room = room.saturating_sub(steps * STEP + mark.len());
    let name = match node.key {
        Key::Process(_) | Key::Ended(_) | Key::Group(..) | Key::AllOthers(ViewKind::Process) => {
            cut(&name, room)
        }
        _ => cut_path(&name, room),
    };
    format!("{lines}{mark}{name}")
}

/// The reason for an empty list.
fn why_empty(app: &App) -> String {
    let listing = app.listing();
    if !listing.items().is_empty() {
        return match (&listing.filter, listing.only_active) {
            (Some(filter), _) => format!(
                "none of {} rows has {}; Esc clears the filter",
                listing.items().len(),
                cut(&crate::scale::visible(filter.text()), 40)
            ),
            (None, _) => format!(
                "none of {} rows did anything; o shows all",
                listing.items().len()
            ),
        };
    }
    let probe = |what: &str| match app.setup.source.backend.notes.first() {
        Some(why) => format!("{what}: {why}"),
        None => what.to_owned(),
    };
    match (
        &app.setup.recorded,
        app.setup.source.backend.exact,
        details(app),
    ) {
        (Some(recorded), _, Some(details)) => why_not_recorded(app, recorded, &details.of),
        (None, _, Some(_)) => "no activity in this interval".into(),
        (Some(_), false, None) => {
            probe("recorded without the probe: no counts by process and file")
        }
        (None, false, None) => probe("only the probe counts by process and file"),
        (Some(_), true, None) => "no use of the page cache in this sample".into(),
        (None, true, None) => "no use of the page cache yet".into(),
    }
}

/// The reason why a recording has no parts of an object: they were not recorded, or not by name.
fn why_not_recorded(app: &App, recorded: &Recorded, of: &Key) -> String {
    let shown = app.shown.as_deref();
    let (what, has_others) = match of {
        Key::Process(_)
        | Key::File { .. }
        | Key::AllOthers(_)
        | Key::Ended(_)
        | Key::Group(..)
        | Key::Unattributed => {
            return "use of files by process is not recorded: `cachewise top` shows it live, `cachewise run -- \
                    COMMAND` tells it of a command"
                .into();
        }
        Key::Cgroup(_) => (
            "process",
            shown.is_some_and(|at| at.processes.iter().any(ProcessRow::is_all_others)),
        ),
        Key::Device(_) | Key::Directory(_) => (
            "file",
            shown.is_some_and(|at| at.files.iter().any(FileRow::is_all_others)),
        ),
    };
    match has_others {
        true => format!(
            "no {what} of it is among the {} most active of this sample, and the others were recorded as one row: \
             `cachewise record --top N` keeps more by name",
            recorded.top
        ),
        false => format!("no {what} of it was active in this sample"),
    }
}

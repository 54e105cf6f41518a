//! Text panes over the whole view, and menus.

use cachewise_model::Severity;
use cachewise_view::{folded_text, length};
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::canvas::Canvas;
use crate::action::Scene;
use crate::app::App;
use crate::bindings::BINDINGS;
use crate::findings::RecentFindings;
use crate::look::width;
use crate::pane::Pane;
use crate::scale::Numbers;

/// Draws a text pane, and limits its scroll to the text.
pub(super) fn text(app: &mut App, place: usize, canvas: &mut Canvas<'_>, area: Rect) {
    let columns = usize::from(area.width);
    let lines = match &app.panes[place] {
        Pane::Help { .. } => help(app, columns),
        Pane::Findings { found, .. } => findings(app, found, columns),
        Pane::Evictions { found, .. } => evictions(app, found),
        _ => return,
    };
    app.areas.body = area;
    app.areas.columns.clear();
    let is_cut = lines.len() > usize::from(area.height);
    // The last line shows the position.
    let height = usize::from(area.height) - usize::from(is_cut);
    let Some(
        Pane::Help { scroll } | Pane::Findings { scroll, .. } | Pane::Evictions { scroll, .. },
    ) = app.panes.get_mut(place)
    else {
        return;
    };
    *scroll = (*scroll).min(lines.len().saturating_sub(height));
    for (y, (line, style)) in (area.y..area.bottom()).zip(lines[*scroll..].iter().take(height)) {
        canvas.text(area.x, y, area.right(), line, *style);
    }
    if is_cut {
        let last = (*scroll + height).min(lines.len());
        let place = format!(" {}-{last} of {} ", *scroll + 1, lines.len());
        let y = area.bottom().saturating_sub(1);
        canvas.right(area.x, y, area.right(), &place, app.setup.look.chosen());
    }
}

pub(super) type Lines = Vec<(String, Style)>;

/// The table of keys, and of the visible columns.
fn help(app: &App, columns: usize) -> Lines {
    let look = app.setup.look;
    let mut lines: Lines = Vec::new();
    let keys = BINDINGS.iter().map(|binding| binding.shown().len()).max();
    let room = keys.unwrap_or(0) + 2;
    let mut category = None;
    let here = BINDINGS.iter().filter(|binding| app.offers(binding));
    let mut ordered: Vec<_> = here.collect();
    // The table is ordered for the search; the pane groups it by heading.
    ordered.sort_by_key(|binding| {
        BINDINGS
            .iter()
            .position(|first| first.category == binding.category)
    });
    for binding in ordered {
        if category != Some(binding.category) {
            if category.is_some() {
                lines.push((String::new(), look.plain()));
            }
            lines.push((binding.category.name().into(), look.bold()));
            category = Some(binding.category);
        }
        push_wrapped(
            &mut lines,
            &format!("  {:room$}", binding.shown()),
            binding.help,
            columns,
            look.plain(),
        );
    }
    lines.push((String::new(), look.plain()));
    lines.push((
        "Columns (counters are rates per second)".into(),
        look.bold(),
    ));
    for column in &app.listing().columns {
        push_wrapped(
            &mut lines,
            &format!("  {:11}", column.field.header),
            column.field.help,
            columns,
            look.plain(),
        );
    }
    lines.push((String::new(), look.plain()));
    lines.push((
        "Mouse: the wheel scrolls; a click on a heading sorts, on a row selects it, on a view or a key does what the key does".into(),
        look.plain(),
    ));
    lines.push((
        "Columns with only zeros are hidden; F2 chooses columns".into(),
        look.plain(),
    ));
    lines
}

/// The processes that evicted pages, the files and the causes, the most pages first.
fn evictions(app: &App, found: &RecentFindings) -> Lines {
    let look = app.setup.look;
    let title = match found.over.is_zero() {
        true => "Evictions".to_owned(),
        false => format!("Evictions over the last {}", length(found.over)),
    };
    let mut lines: Lines = vec![(title, look.bold()), (String::new(), look.plain())];
    if found.evicted_by.is_empty() {
        lines.push(("no file of these processes lost pages".into(), look.plain()));
    }
    let evictions = found.evicted_by.iter();
    lines.extend(evictions.map(|line| (line.clone(), look.plain())));
    lines
}

fn findings(app: &App, found: &RecentFindings, columns: usize) -> Lines {
    let look = app.setup.look;
    let over = found.over;
    let title = match (over.is_zero(), app.setup.scene) {
        (true, _) => "Findings".to_owned(),
        (false, Scene::Live) => format!("Findings over the last {}", length(over)),
        (false, Scene::Recording) => {
            format!("Findings over {} up to this sample", length(over))
        }
    };
    let mut lines: Lines = vec![(title, look.bold())];
    match &found.diagnosis.blind {
        _ if over.is_zero() => {
            lines.push((String::new(), look.plain()));
            lines.push(("no numbers yet to find anything in".into(), look.plain()));
        }
        Some(blind) => {
            lines.push((String::new(), look.plain()));
            push_wrapped(&mut lines, "? ", &blind.to_string(), columns, look.bold());
        }
        None if found.diagnosis.findings.is_empty() => {
            lines.push((String::new(), look.plain()));
            lines.push(("no findings".into(), look.plain()));
        }
        None => {}
    }
    for finding in &found.diagnosis.findings {
        lines.push((String::new(), look.plain()));
        let (mark, style) = match finding.severity {
            Severity::Warn => ("warning: ", look.warning()),
            Severity::Info => ("note: ", look.bold()),
        };
        let subject = finding.subject_text();
        let subject = subject.map_or(String::new(), |text| format!(": {text}"));
        push_wrapped(
            &mut lines,
            mark,
            &format!("{}{subject}", finding.title),
            columns,
            style,
        );
        let figures: Vec<String> = finding
            .figures
            .iter()
            .map(|(name, value)| {
                // Pages keep the name of their unit, other figures show it in their value.
                let name = ["_bytes", "_seconds", "_ratio"]
                    .iter()
                    .find_map(|unit| name.strip_suffix(unit))
                    .unwrap_or(name);
                let value = figure(app.numbers(), value);
                format!("{} {value}", name.replace('_', " "))
            })
            .collect();
        let also: String = finding.also.iter().map(folded_text).collect();
        push_wrapped(
            &mut lines,
            "    ",
            &format!("{}{also}", figures.join(", ")),
            columns,
            look.plain(),
        );
        push_wrapped(
            &mut lines,
            "    next: ",
            &finding.next_step,
            columns,
            look.plain(),
        );
        push_wrapped(
            &mut lines,
            "    verify: ",
            &finding.verify,
            columns,
            look.plain(),
        );
    }
    for lost in &found.lost {
        lines.push((String::new(), look.plain()));
        let what = lost.words();
        let head = format!("incomplete, {}: ", lost.id);
        push_wrapped(&mut lines, &head, &what, columns, look.warning());
        push_wrapped(
            &mut lines,
            "    next: ",
            lost.next_step(),
            columns,
            look.plain(),
        );
    }
    lines
}

fn figure(numbers: Numbers, value: &cachewise_model::Value) -> String {
    // The figures' names contain "pages".
    let numbers = Numbers {
        scale: crate::scale::Scale::Pages,
        ..numbers
    };
    cachewise_view::marked(value, |datum| numbers.state(datum))
}

/// A text behind its heading, wrapped and aligned.
pub(super) fn push_wrapped(
    lines: &mut Lines,
    head: &str,
    text: &str,
    columns: usize,
    style: Style,
) {
    let indent = match width(head) {
        // Too narrow for two columns: the text goes below its heading.
        wide if wide > 0 && wide + 12 > columns => {
            lines.push((head.trim_end().to_owned(), style));
            4.min(columns / 4)
        }
        wide => wide,
    };
    let room = columns.saturating_sub(indent).max(1);
    let mut line = match indent == width(head) {
        true => head.to_owned(),
        false => " ".repeat(indent),
    };
    let mut used = 0;
    for word in text.split_whitespace() {
        if used > 0 && used + 1 + width(word) > room {
            lines.push((std::mem::replace(&mut line, " ".repeat(indent)), style));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line += word;
        used += width(word);
    }
    lines.push((line, style));
}

/// A menu of columns: to sort by, or to choose from.
pub(super) fn columns(
    app: &App,
    title: &str,
    chosen: usize,
    is_choice: bool,
    canvas: &mut Canvas<'_>,
    area: Rect,
) {
    let look = app.setup.look;
    // The name is always shown.
    let count = app.listing().columns.len() - usize::from(is_choice);
    let columns = &app.listing().columns[..count];
    let height = area
        .height
        .min(u16::try_from(columns.len() + 1).unwrap_or(u16::MAX));
    let least = area.width.min(60);
    let area = Rect {
        x: area.right() - least,
        width: least,
        height,
        ..area
    };
    canvas.clear(area);
    canvas.line(area, area.y, look.chosen());
    canvas.text(
        area.x,
        area.y,
        area.right(),
        &format!(" {title}"),
        look.chosen().patch(look.bold()),
    );
    let rows = usize::from(height.saturating_sub(1));
    let first = (chosen + 1).saturating_sub(rows.max(1));
    for (y, (place, column)) in
        (area.y + 1..area.bottom()).zip(columns.iter().enumerate().skip(first))
    {
        let mark = if place == chosen { look.marker() } else { " " };
        let switch = match (is_choice, column.is_chosen) {
            (false, _) => "",
            (true, true) => "[x] ",
            (true, false) => "[ ] ",
        };
        let zeros = match is_choice && app.listing().is_zero(place) {
            true => "(hidden: only zeros now) ",
            false => "",
        };
        let (header, help) = (column.field.header, column.field.help);
        let text = format!("{mark} {switch}{header:11} {zeros}{help}");
        canvas.text(area.x, y, area.right(), &text, look.plain());
        if place == chosen {
            canvas.line(area, y, look.chosen());
        }
    }
}

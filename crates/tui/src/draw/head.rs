//! The machine's numbers, the picture of its reads, and the history of what was fetched.

use cachewise_model::{Count, Exactness, Measured, Reason, Value, field};
use ratatui::crossterm::event::KeyEvent;
use ratatui::layout::Rect;

use super::canvas::Canvas;
use crate::action::{Action, Scene};
use crate::app::App;
use crate::bindings::binding;
use crate::look::{cut_path, width};
use crate::scale::Scale;
use cachewise_view::narrow::{bytes, plain, ratio};
use cachewise_view::{ReadPart, bar_cells, clock, marked};

/// Draws this many lines; returns the position of the verdict, and the key that shows its findings.
pub(super) fn draw(
    app: &App,
    canvas: &mut Canvas<'_>,
    area: Rect,
    lines: u16,
) -> Option<(Rect, KeyEvent)> {
    match lines {
        0 => return None,
        1 => {
            gauges(app, canvas, area, area.y);
            return None;
        }
        _ => title(app, canvas, area),
    }
    let has_verdict = lines >= 4;
    let y = area.y + 1 + u16::from(has_verdict);
    gauges(app, canvas, area, y);
    if lines >= 3 {
        reads(app, canvas, area, y + 1);
    }
    if lines >= 5 {
        fetched(app, canvas, area, y + 2);
    }
    has_verdict
        .then(|| verdict(app, canvas, area, area.y + 1))
        .flatten()
}

/// The verdict of the last minute, or of a sample.
fn verdict(app: &App, canvas: &mut Canvas<'_>, area: Rect, y: u16) -> Option<(Rect, KeyEvent)> {
    let look = app.setup.look;
    let end = area.right();
    // One sample is a moment.
    let of = match app.setup.scene {
        Scene::Live => "verdict: ",
        Scene::Recording => "this sample: ",
    };
    let x = canvas.text(area.x, y, end, of, look.bold());
    let Some(headline) = &app.headline else {
        canvas.text(x, y, end, "not yet", look.dim());
        return None;
    };
    let key = binding(Action::Findings)?.keys.first()?;
    let hint = format!("{} shows them", key.shown);
    let room = u16::try_from(width(&hint) + 2).unwrap_or(u16::MAX);
    let has_findings = headline.has_problems || headline.text.contains(": ");
    let has_hint = has_findings && x + room + 20 < end;
    let style = match headline.has_problems {
        true => look.warning().patch(look.bold()),
        false => look.plain(),
    };
    let stop = if has_hint { end - room } else { end };
    canvas.text(x, y, stop, &crate::scale::visible(&headline.text), style);
    if has_hint {
        canvas.right(stop, y, end, &hint, look.dim());
    }
    Some((Rect::new(area.x, y, area.width, 1), key.event()))
}

fn title(app: &App, canvas: &mut Canvas<'_>, area: Rect) {
    let look = app.setup.look;
    let (y, end) = (area.y, area.right());
    let program = match &app.setup.recorded {
        Some(recorded) => {
            let name = crate::scale::visible(&recorded.name);
            // A long path leaves room for scope and time.
            let name = cut_path(&name, usize::from(area.width / 3));
            format!("cachewise report {name}")
        }
        None => "cachewise top".into(),
    };
    let mut x = canvas.text(area.x, y, end, &program, look.bold());
    x = canvas.text(
        x + 2,
        y,
        end,
        &crate::scale::visible(&app.setup.source.hostname),
        look.plain(),
    );
    if let Some(interval) = &app.shown {
        x = canvas.text(x + 2, y, end, clock(&interval.time), look.plain());
    }
    if let Some(scope) = &app.setup.scope {
        x = canvas.text(
            x + 2,
            y,
            end,
            &format!("only {}", crate::scale::visible(scope)),
            look.bold(),
        );
    }
    if app.is_held {
        x = canvas.text(x + 2, y, end, "[held]", look.warning().patch(look.bold()));
    }
    let right = match (app.setup.scene, app.position) {
        (Scene::Recording, Some(position)) => {
            let state = if position.is_playing {
                "plays"
            } else {
                "stands"
            };
            let how = match app.exactness() {
                Exactness::Exact => "",
                Exactness::Incomplete => ", incomplete (f)",
                Exactness::Contradicted => ", contradicted",
                Exactness::Estimated => ", estimates",
            };
            format!(
                "sample {} of {}, {state}{how}",
                position.sample, position.of
            )
        }
        (Scene::Recording, None) => "a recording".into(),
        (Scene::Live, _) => {
            let how = match app.exactness() {
                Exactness::Exact => "exact",
                Exactness::Incomplete => "incomplete (f)",
                Exactness::Contradicted => "contradicted",
                Exactness::Estimated => "estimates",
            };
            format!("every {:?}, {how}", app.setup.interval)
        }
    };
    if x + 2 < end {
        canvas.right(x + 2, y, end, &right, look.dim());
    }
}

/// Numbers with their names; those that do not fit are omitted, the least important first.
fn gauges(app: &App, canvas: &mut Canvas<'_>, area: Rect, y: u16) {
    let look = app.setup.look;
    let Some(interval) = &app.shown else {
        canvas.text(
            area.x,
            y,
            area.right(),
            "waiting for the first numbers",
            look.dim(),
        );
        return;
    };
    let row = interval.row();
    let size = |count: Count| shown(count.map(|size| bytes(size as f64)));
    let part = |id: &str| {
        let value = field(id).map_or(Value::unknown(Reason::NoSuchField), |field| field.of(&row));
        shown(value.map(|datum| match datum {
            cachewise_model::Datum::Ratio(part) => ratio(part),
            _ => "?".into(),
        }))
    };
    let hit = part("reuse_ratio");
    let io = part("psi_io_some_ratio");
    let memory = part("psi_memory_some_ratio");
    // Name, short name, number, rank: the highest is omitted first.
    let mut parts = vec![
        ("Cached", "Cached", size(interval.system.cached_bytes), 0),
        ("Buffers", "Buf", size(interval.system.buffers_bytes), 5),
        ("Dirty", "Dirty", size(interval.system.dirty_bytes), 4),
        ("Hit", "Hit", hit, 1),
        ("PSI mem", "mem-PSI", memory, 3),
        ("PSI io", "io-PSI", io, 2),
    ];
    let room = usize::from(area.width);
    let taken = |parts: &[(&str, &str, String, u8)], short: bool| -> usize {
        let gap = if short { 1 } else { 2 };
        let widths = parts.iter().map(|(long, brief, number, _)| {
            (if short { brief } else { long }).len() + 1 + width(number) + gap
        });
        widths.sum::<usize>().saturating_sub(gap)
    };
    let mut short = false;
    while taken(&parts, short) > room && parts.len() > 1 {
        if !short {
            short = true;
            continue;
        }
        let most = parts.iter().enumerate().max_by_key(|(_, part)| part.3);
        match most.map(|(place, _)| place) {
            Some(place) => parts.remove(place),
            None => break,
        };
    }
    let mut x = area.x;
    let end = area.right();
    for (long, brief, number, _) in &parts {
        let name = if short { brief } else { long };
        x = canvas.text(x, y, end, name, look.dim());
        x = canvas.text(x + 1, y, end, number, look.bold());
        x += if short { 1 } else { 2 };
    }
}

fn shown(text: Measured<String>) -> String {
    marked(&text, String::clone)
}

/// The column in which both bars begin.
const BARS: u16 = 16;

/// Reads of the interval: from cache, read ahead and missed, as parts of what was requested.
fn reads(app: &App, canvas: &mut Canvas<'_>, area: Rect, y: u16) {
    let look = app.setup.look;
    let end = area.right();
    canvas.text(area.x, y, end, "reads", look.dim());
    let Some(latest) = app.trail.back() else {
        return;
    };
    let amount = match latest {
        Some(beat) => pages_a_second(app, beat.requested()),
        None => "-".into(),
    };
    let bars = area.x + BARS;
    canvas.right(area.x + 6, y, (bars - 1).min(end), &amount, look.bold());
    let Some(beat) = latest else {
        return;
    };
    let legend = ReadPart::REQUESTED.map(|part| {
        let block = part.block(look.ascii);
        (part, format!("{block} {}", part.name()))
    });
    let taken: usize = legend.iter().map(|(_, text)| width(text) + 2).sum();
    let room = usize::from(end.saturating_sub(bars));
    let (cells, has_legend) = match room.checked_sub(taken) {
        Some(cells) if cells >= 16 => (cells, true),
        _ => (room, false),
    };
    let shares = beat.parts.map(|rate| rate.ceil() as u64);
    let mut x = bars;
    for (part, cells) in std::iter::zip(ReadPart::REQUESTED, bar_cells(shares, cells)) {
        let bar: String = std::iter::repeat_n(part.block(look.ascii), cells).collect();
        x = canvas.text(x, y, end, &bar, look.part(part));
    }
    if has_legend {
        let mut x = end - u16::try_from(taken).unwrap_or(0);
        for (part, text) in &legend {
            x = canvas.text(x + 2, y, end, text, look.part(*part));
        }
    }
}

fn pages_a_second(app: &App, pages: f64) -> String {
    match app.scale {
        Scale::Bytes => format!("{}/s", bytes(pages * app.setup.source.page().get() as f64)),
        Scale::Pages | Scale::Percent => format!("{}/s", plain(pages)),
    }
}

/// History of the bytes fetched from storage, the latest on the right, relative to the largest shown.
fn fetched(app: &App, canvas: &mut Canvas<'_>, area: Rect, y: u16) {
    let look = app.setup.look;
    let end = area.right();
    let rate = |amount: f64| format!("{}/s", bytes(amount));
    let latest = match app.trail.back() {
        Some(Some(beat)) => rate(beat.fetched),
        Some(None) => "-".into(),
        None => String::new(),
    };
    canvas.text(area.x, y, end, "fetched", look.dim());
    let bars = area.x + BARS;
    canvas.right(area.x + 8, y, (bars - 1).min(end), &latest, look.bold());
    let room = usize::from(end.saturating_sub(bars + 13));
    if room < 8 {
        return;
    }
    let seen = app.trail.iter().rev().take(room).collect::<Vec<_>>();
    let known = seen.iter().filter_map(|beat| beat.map(|beat| beat.fetched));
    let known = known.reduce(f64::max);
    let most = known.unwrap_or_default();
    let line: String = seen
        .iter()
        .rev()
        .map(|beat| match beat {
            Some(beat) if most > 0.0 => look.bar(beat.fetched / most),
            Some(_) => ' ',
            None => '?',
        })
        .collect();
    let x = bars + u16::try_from(room - seen.len()).unwrap_or(0);
    canvas.text(x, y, end, &line, look.part(ReadPart::Missed));
    let max = known.map_or("?".to_owned(), rate);
    canvas.right(end - 12, y, end, &format!("max {max}"), look.dim());
}

//! The use of time by the tasks of a run: on a CPU, and waiting, by cause.

use cachewise_model::{Counter, Interval, TimeUse, Warm};
use serde_json::Value as Json;

use crate::cell::{LEAST_WIDTH, Side, cut, width};
use crate::json::Object;
use crate::layout::Grid;
use crate::style::Style;

/// Parts of the tasks' time below this share are left out.
const LEAST: f64 = 0.0005;

/// A line for each part; empty if times were not measured.
pub(super) fn text(interval: &Interval, style: Style) -> String {
    let Some(times) = TimeUse::of(interval) else {
        return String::new();
    };
    let (mut names, mut spent, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    let mut line = |name: String, seconds: f64| {
        let share = seconds / times.tasks;
        if share.abs() >= LEAST {
            names.push(name);
            spent.push(format!("{seconds:.3}"));
            shares.push(format!("{:.1} %", share * 100.0));
        }
    };
    line("on a CPU".to_owned(), times.cpu);
    line("  bringing pages in".to_owned(), times.fetch_cpu);
    for (counter, waited) in &times.waits {
        line(format!("waiting for {}", counter.awaited()), *waited);
    }
    line(
        "  after waiting for cold data".to_owned(),
        times.cold_run_queue,
    );
    line("unexplained".to_owned(), times.unexplained());
    line("all".to_owned(), times.tasks);
    table(names, spent, shares, style)
}

/// The table of the parts: names, seconds and shares. Where a line has no room for a name, its end is cut.
fn table(names: Vec<String>, spent: Vec<String>, shares: Vec<String>, style: Style) -> String {
    let gap = 2;
    let taken = [("SECONDS", &spent), ("SHARE", &shares)].map(|(header, cells)| {
        let widest = cells.iter().map(|cell| width(cell)).max();
        widest.unwrap_or(0).max(header.len()) + gap
    });
    let room = style.table_width().saturating_sub(taken.iter().sum());
    let room = room.max(LEAST_WIDTH);
    let names = names.iter().map(|name| cut(name, room)).collect();
    let mut grid = Grid::default();
    grid.column("time of tasks", Side::Left, names);
    grid.column("SECONDS", Side::Right, spent);
    grid.column("SHARE", Side::Right, shares);
    grid.text(style)
}

/// Every part, with the time that the run would take with a warm cache.
pub(super) fn json(interval: &Interval) -> Json {
    let Some(times) = TimeUse::of(interval) else {
        return Json::Null;
    };
    let warm = times.warm();
    let mut object = Object::new()
        .set("task_seconds", times.tasks)
        .set("cpu_seconds", times.cpu)
        .set(Counter::FetchCpu.id(), times.fetch_cpu)
        .set(Counter::ColdRunQueue.id(), times.cold_run_queue);
    for (counter, waited) in &times.waits {
        object = object.set(counter.id(), *waited);
    }
    object
        .set("unexplained_seconds", times.unexplained())
        .set("cold_seconds", times.cold())
        .set("warm_seconds", warm.seconds())
        .set("warm_is_estimated", matches!(warm, Warm::About(_)))
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::Tables;

    #[test]
    fn a_narrow_terminal_wraps_no_line() {
        let all = |texts: [&str; 3]| texts.map(str::to_owned).to_vec();
        let shown = |columns, tables| {
            let style = Style {
                tables,
                ..Style::plain(columns)
            };
            let names = all([
                "  after waiting for cold data",
                "waiting for locks and journals of file systems",
                "all",
            ]);
            let (spent, shares) = (
                all(["0.001", "0.012", "1234.567"]),
                all(["0.1 %", "0.9 %", "100.0 %"]),
            );
            table(names, spent, shares, style)
        };
        for columns in [40, 60, 80] {
            let text = shown(columns, Tables::Fitted);
            let widest = text.lines().map(width).max();
            assert!(widest <= Some(columns), "{columns} columns: {text}");
            assert!(text.contains("1234.567"), "numbers are whole: {text}");
        }
        let text = shown(40, Tables::Whole);
        assert!(
            text.contains("journals of file systems"),
            "a pipe gets all: {text}"
        );
    }
}

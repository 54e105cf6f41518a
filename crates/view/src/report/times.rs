//! The use of time by the tasks of a run: on a CPU, and waiting, by cause.

use cachewise_model::{Counter, Interval, TimeUse, Warm};
use serde_json::Value as Json;

use crate::cell::Side;
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
    line("  fetching pages".to_owned(), times.fetch_cpu);
    for (counter, waited) in &times.waits {
        line(format!("waiting for {}", counter.awaited()), *waited);
    }
    line(
        "  after waiting for cold data".to_owned(),
        times.cold_run_queue,
    );
    line("unexplained".to_owned(), times.unexplained());
    line("all".to_owned(), times.tasks);
    let mut grid = Grid::default();
    grid.column("time of tasks", Side::Left, names);
    grid.column("SECONDS", Side::Right, spent);
    grid.column("SHARE", Side::Right, shares);
    grid.cut_first(style.table_width());
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

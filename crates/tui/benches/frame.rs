//! CPU time of a frame: taking in an interval and drawing it, at several numbers of rows.
//!
//! The median of many; the goal is 10 ms for 5,000 rows. `make bench-view`.

#[path = "../tests/hand_made/mod.rs"]
mod hand_made;

use std::time::Duration;

use hand_made::{View, many};
use ratatui::crossterm::event::KeyCode;
use rustix::time::{ClockId, clock_gettime};

const FRAMES: usize = 101;

fn main() {
    println!(
        "view: CPU time of a frame on 160x50, median of {FRAMES} (the goal is 10 ms of 5,000 rows)"
    );
    println!(
        "{:>6}  {:28} {:>9} {:>9}",
        "rows", "view", "interval", "key"
    );
    for rows in [500, 5_000, 20_000] {
        for (name, keys) in [
            ("processes", ""),
            ("processes, as a tree", "t"),
            ("files", "2"),
            ("files, as a tree", "2t"),
            ("files, filtered", "2/re:file.*7$\n"),
        ] {
            let (fed, moved) = measured(rows, keys);
            println!(
                "{rows:>6}  {name:28} {:>6.2} ms {:>6.2} ms",
                ms(fed),
                ms(moved)
            );
        }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// With a new interval, and with a key that moves.
fn measured(rows: u32, keys: &str) -> (Duration, Duration) {
    let interval = many(rows);
    let mut view = View::new(160, 50);
    view.feed(interval.clone());
    for letter in keys.chars() {
        match letter {
            '\n' => view.code(KeyCode::Enter),
            letter => view.key(letter),
        };
    }
    let fed = median(|| {
        let interval = interval.clone();
        let before = cpu();
        view.feed(interval);
        cpu() - before
    });
    let moved = median(|| {
        let before = cpu();
        view.key('j');
        cpu() - before
    });
    (fed, moved)
}

fn median(mut once: impl FnMut() -> Duration) -> Duration {
    let mut times: Vec<Duration> = (0..FRAMES).map(|_| once()).collect();
    times.sort_unstable();
    times[FRAMES / 2]
}

fn cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

//! Moving through a recording.

use std::cell::Cell;
use std::time::Duration;

use cachewise_tui::{App, History, Player, SampleStep, Setup};
use ratatui::crossterm::event::{KeyCode, KeyModifiers};

use crate::hand_made::*;

struct Tape(Vec<u64>);

impl History for Tape {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&mut self, place: usize) -> Result<cachewise_model::Interval, String> {
        match self.0[place] {
            0 => Err("it is torn".into()),
            misses => Ok(one_process("tape", misses)),
        }
    }
}

fn on_screen<H: History>(player: &mut Player<H>) -> String {
    let mut terminal = ratatui::Terminal::new(ratatui::backend::TestBackend::new(90, 24)).unwrap();
    assert_eq!(player.serve(), [], "a recording asks for nothing outside");
    terminal.draw(|frame| player.app.draw(frame)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn keys_step_through_a_recording() {
    let app = || App::new(Setup { ..recorded(20) });
    assert!(
        Player::new(app(), Tape(vec![])).is_err(),
        "nothing to show is an error"
    );
    assert!(
        Player::new(app(), Tape(vec![0])).is_err(),
        "so is a torn beginning"
    );
    let mut player = Player::new(app(), Tape(vec![256, 512, 0, 1024])).unwrap();
    let mut go = |code: KeyCode, sample: &str, size: &str| {
        player.key(key(code, KeyModifiers::NONE));
        let text = on_screen(&mut player);
        assert!(text.contains(sample), "{code:?} leads to {sample}: {text}");
        assert!(text.contains(size), "with its numbers, {size}: {text}");
    };
    go(KeyCode::Char('j'), "sample 1 of 4", "1.00M");
    go(KeyCode::Char('.'), "sample 2 of 4", "2.00M");
    go(KeyCode::Char('.'), "sample 2 of 4", "sample 3: it is torn");
    go(KeyCode::End, "sample 4 of 4", "4.00M");
    go(
        KeyCode::Char('.'),
        "sample 4 of 4",
        "this is the last sample",
    );
    go(KeyCode::Home, "sample 1 of 4", "1.00M");
    go(
        KeyCode::Char(','),
        "sample 1 of 4",
        "this is the first sample",
    );
    go(KeyCode::Char(' '), "plays", "1.00M");
    player.tick();
    assert!(
        on_screen(&mut player).contains("sample 2 of 4, plays"),
        "it plays"
    );
    player.tick();
    assert!(!player.is_playing(), "until it cannot");
    assert!(
        on_screen(&mut player).contains("it is torn"),
        "with the reason"
    );
    let _ = SampleStep::Play;
}

/// A recording of a sample every ten minutes, from 23:00 on.
struct Night;

impl History for Night {
    fn len(&self) -> usize {
        13
    }

    fn get(&mut self, place: usize) -> Result<cachewise_model::Interval, String> {
        let minutes = 23 * 60 + 10 * place;
        let (day, hour, minute) = (1 + minutes / 1440, minutes / 60 % 24, minutes % 60);
        let mut interval = one_process("night", place as u64 + 1);
        interval.time = format!("2026-01-{day:02}T{hour:02}:{minute:02}:05.000Z");
        Ok(interval)
    }
}

#[test]
fn command_line_goes_to_times_and_samples_of_a_recording() {
    let mut player = Player::new(App::new(recorded(20)), Night).unwrap();
    let mut go = |command: &str, sign: &str, more: &str| {
        for letter in format!(":{command}").chars() {
            player.key(key(KeyCode::Char(letter), KeyModifiers::NONE));
        }
        player.key(key(KeyCode::Enter, KeyModifiers::NONE));
        let text = on_screen(&mut player);
        assert!(
            text.contains(sign) && text.contains(more),
            ":{command} goes to {sign}, {more}: {text}"
        );
    };
    go("5", "sample 5 of 13", "23:40:05");
    go("23:20:05", "sample 3 of 13", "23:20:05");
    go("23:20:06", "sample 4 of 13", "23:30:05");
    go("00:30", "sample 10 of 13", "00:30:05");
    go("23:59", "sample 7 of 13", "00:00:05");
    go("2026-01-02T00:10", "sample 8 of 13", "00:10:05");
    go(
        "2026-01-03 00:00",
        "sample 13 of 13",
        "ends at 2026-01-02T01:00:05",
    );
    go(
        "2025-12-31 00:00",
        "sample 1 of 13",
        "begins at 2026-01-01T23:00:05",
    );
    go("99", "sample 13 of 13", "the last of 13 samples");
    go("0", "sample 1 of 13", "23:00:05");
    go("25:00", "sample 1 of 13", "no command 25:00");
    go("file", "sample 1 of 13", "[2 files]");
}

#[test]
fn unreadable_samples_are_named_on_the_way_to_a_time() {
    let mut player = Player::new(App::new(recorded(20)), Tape(vec![1, 0, 0])).unwrap();
    for letter in ":03:04".chars() {
        player.key(key(KeyCode::Char(letter), KeyModifiers::NONE));
    }
    player.key(key(KeyCode::Enter, KeyModifiers::NONE));
    let text = on_screen(&mut player);
    assert!(text.contains("sample 3: it is torn"), "{text}");
}

#[test]
fn recording_states_which_parts_were_not_recorded() {
    let view = |interval: cachewise_model::Interval, keys: &str| {
        let mut view = View::with(90, 24, |setup| *setup = recorded(2));
        let mut interval = interval;
        interval.uses.clear();
        view.feed(interval).text(keys).code(KeyCode::Enter);
        view
    };
    let mut ended = busy(1);
    ended.processes[1].exit = cachewise_model::Exit::Code(2);
    let ended = view(ended, "");
    assert!(
        ended.shows("ended with 2"),
        "a status is not a state: {ended}"
    );
    let process = view(busy(1), "");
    assert!(
        process.shows("cachewise report night.rec") && !process.shows("cachewise top  "),
        "the program and the file: {process}"
    );
    for keys in ["", "2"] {
        let view = view(busy(1), keys);
        assert!(
            view.shows("use of files by process is not recorded") && view.shows("`cachewise top`"),
            "not shown as no activity: {view}"
        );
    }
    let mut others = busy(1);
    others.processes.clear();
    others.processes.push(process_without_a_name());
    let group = view(others, "3");
    assert!(
        group.shows("2 most active") && group.shows("--top N"),
        "nor as a group without processes: {group}"
    );
    let mut view = View::with(90, 24, |setup| {
        *setup = recorded(20);
        let backend = &mut std::sync::Arc::make_mut(&mut setup.source).backend;
        backend.exact = false;
        backend.notes = vec!["not root".into()];
    });
    view.feed(quiet());
    assert!(
        view.shows("recorded without the probe") && view.shows("not root"),
        "no process is visible without it: {view}"
    );
}

#[test]
fn findings_of_a_recording_cover_the_minute_before() {
    let app = App::new(recorded(20));
    let mut player = Player::new(app, Tape(vec![256; 200])).unwrap();
    player.key(key(KeyCode::Char('f'), KeyModifiers::NONE));
    let text = on_screen(&mut player);
    assert!(text.contains("over 1 s up to this sample"), "{text}");
    player.key(key(KeyCode::Esc, KeyModifiers::NONE));
    player.key(key(KeyCode::End, KeyModifiers::NONE));
    on_screen(&mut player);
    player.key(key(KeyCode::Char('f'), KeyModifiers::NONE));
    let text = on_screen(&mut player);
    assert!(
        text.contains("over 1 min 0 s up to this sample"),
        "one sample is a moment: {text}"
    );
}

/// A recording that counts its reads.
struct Counted<'a>(&'a Cell<usize>, Duration);

impl History for Counted<'_> {
    fn len(&self) -> usize {
        1000
    }

    fn get(&mut self, place: usize) -> Result<cachewise_model::Interval, String> {
        self.0.set(self.0.get() + 1);
        let mut interval = one_process("tape", place as u64 + 1);
        interval.elapsed = self.1;
        Ok(interval)
    }
}

#[test]
fn playing_with_findings_open_reads_each_sample_once() {
    for (interval, samples) in [(1000, 60), (100, 600)] {
        let reads = Cell::new(0);
        let tape = Counted(&reads, Duration::from_millis(interval));
        let mut player = Player::new(App::new(Setup { ..recorded(20) }), tape).unwrap();
        let go = |player: &mut Player<_>, key_pressed: Option<char>| {
            let before = reads.get();
            match key_pressed {
                Some(letter) => player.key(key(KeyCode::Char(letter), KeyModifiers::NONE)),
                None => player.tick(),
            }
            player.serve();
            reads.get() - before
        };
        go(&mut player, Some(' '));
        for _ in 0..samples {
            go(&mut player, None);
        }
        let past = go(&mut player, Some('f'));
        assert!(past >= samples, "a minute before it: {past}");
        for _ in 0..3 {
            let step = go(&mut player, None);
            assert_eq!(step, 1, "samples in memory are not read again");
        }
        let text = on_screen(&mut player);
        assert!(text.contains("over 1 min 0 s up to this"), "{text}");
    }
}

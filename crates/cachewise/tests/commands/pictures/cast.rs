//! Runs on a terminal: as a cast of asciinema (format 2), and as SVG.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use portable_pty::CommandBuilder;
use serde_json::json;

use super::drawn::{Scene, drawn};
use crate::support::{OnTerminal, PROGRAM, Scratch, evict};

/// All lines of a run have room; the picture shows the first ones.
const ROWS: u16 = 56;
const SHOWN_ROWS: u16 = 24;
const COLUMNS: u16 = 110;
/// How long each run stays on the screen.
const SHOWN_SECONDS: f64 = 5.0;

/// Commands of the cast, in the directory of the file.
const COMMANDS: [&str; 4] = [
    "cachewise run -n 3 -- cat data >/dev/null",
    "cachewise run -n 3 -- cat data >/dev/null",
    "cachewise run -n 3 -- dd if=data of=/dev/null bs=1M iflag=direct status=none",
    "cachewise files data",
];

/// The cast and the picture of a file that is read cold, warm and by direct I/O.
pub fn cold_warm_direct(scratch: &Scratch, to: &Path) {
    let file = scratch.file("data", 128 << 20);
    evict(&file);
    let mut scenes = Vec::new();
    let mut cast = format!(
        "{}\n",
        json!({
            "version": 2, "width": COLUMNS, "height": ROWS,
            "title": "cachewise: a file read cold, warm and by direct I/O",
            "env": { "TERM": "xterm-256color", "SHELL": "/bin/sh" },
        })
    );
    let mut clock = 0.0;
    for command in COMMANDS {
        // The program is found by its name, as it is typed.
        let script = format!(
            "cachewise() {{ \"$PROGRAM\" \"$@\"; }}; printf '\\033[H\\033[2J\\033[32m#\\033[0m %s\\n' \"$0\"; {command}"
        );
        let mut shell = CommandBuilder::new("sh");
        shell.args(["-c", &script, command]);
        shell.env("PROGRAM", PROGRAM);
        shell.env("TERM", "xterm-256color");
        shell.cwd(scratch.directory());
        let mut terminal = OnTerminal::of_size(shell, ROWS, COLUMNS);
        assert_eq!(terminal.ended(), 0, "{command}: {}", terminal.text());
        terminal.until_read();
        let mut last = Duration::ZERO;
        for (time, bytes) in terminal.written() {
            last = time;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let line = json!([clock + time.as_secs_f64(), "o", text]);
            let _ = writeln!(cast, "{line}");
        }
        clock += last.as_secs_f64() + SHOWN_SECONDS;
        scenes.push(Scene {
            screen: terminal.screen(),
            seconds: SHOWN_SECONDS,
        });
    }
    for (scene, expected) in scenes.iter().zip([
        "waiting for cold data",
        "not your problem",
        "direct I/O",
        "100.00",
    ]) {
        let text = scene.screen.contents();
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let title = "A file read cold, warm and by direct I/O, and what of it is in the page cache";
    super::write(to, "runs.svg", drawn(title, &scenes, SHOWN_ROWS).as_bytes());
    super::write(to, "runs.cast", cast.as_bytes());
}

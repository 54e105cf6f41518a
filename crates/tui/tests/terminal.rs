//! A real pseudo-terminal: taken over, resized, stopped, continued, killed, panicked in; and its
//! state afterwards.
//!
//! This file is also the program under test: `main` selects the role.

mod hand_made;

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cachewise_model::{Interval, Measured, Reason, Residency};
use cachewise_tui::{Act, App, FileName, LiveOptions, Machine, ProcessName, Source, live};
use libtest_mimic::{Arguments, Trial};
use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr};

const NAME: &str = "CACHEWISE_TEST_PROGRAM";

/// Far more than any step takes.
const LIMIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);

fn main() -> ExitCode {
    if let Ok(part) = std::env::var(NAME) {
        return program(&part);
    }
    let trials = vec![
        Trial::test("quit::leaves_it_as_it_was", || run(quit)),
        Trial::test("quit::by_signals", || run(signals)),
        Trial::test("quit::by_a_closed_terminal", || run(closed)),
        Trial::test("size::is_followed", || run(resized)),
        Trial::test("size::one_by_one", || run(tiny)),
        Trial::test("stop::by_a_shell_and_continued", || run(shell)),
        Trial::test("stop::without_a_shell_it_goes_on", || run(orphan)),
        Trial::test("stop::with_the_session_outside", || run(outside)),
        Trial::test("stop::behind_its_back", || run(stopped)),
        Trial::test("panic::in_the_source", || run(|| panics("source", ""))),
        Trial::test("panic::in_the_machine", || run(|| panics("machine", "\r"))),
        Trial::test("mouse::is_left_alone_if_asked", || run(no_mouse)),
    ];
    let mut arguments = Arguments::from_args();
    // Each test runs a program, and all share two processors.
    arguments.test_threads.get_or_insert(2);
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn run(test: impl FnOnce()) -> Result<(), libtest_mimic::Failed> {
    test();
    Ok(())
}

/// The program: a view of made-up intervals.
fn program(part: &str) -> ExitCode {
    struct Made(String, u64);
    impl Source for Made {
        fn interval(&mut self) -> Result<Interval, String> {
            self.1 += 1;
            assert!(self.0 != "source" || self.1 < 3, "it was to panic");
            Ok(hand_made::busy(1))
        }
    }
    struct Nothing;
    impl Machine for Nothing {
        fn residency(&mut self, _: &FileName) -> Residency {
            panic!("it was to panic")
        }
        fn command_line(&mut self, _: &ProcessName) -> Measured<String> {
            Measured::unknown(Reason::NotReported)
        }
        fn act(&mut self, _: &Act, _: &AtomicBool) -> Result<String, String> {
            Ok("done".into())
        }
    }
    let app = App::new(cachewise_tui::Setup {
        interval: Duration::from_millis(50),
        ..hand_made::setup()
    });
    let options = LiveOptions {
        mouse: part != "no-mouse",
        count: None,
    };
    match live(app, Made(part.to_owned(), 0), Nothing, options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ended: {error}");
            ExitCode::from(2)
        }
    }
}

/// A terminal with the program on it.
struct Desk {
    master: Option<Box<dyn MasterPty + Send>>,
    keyboard: Option<Box<dyn Write + Send>>,
    child: Box<dyn Child + Send + Sync>,
    screen: Arc<Mutex<vt100::Parser>>,
    /// A second descriptor of the terminal, to read its modes.
    line: File,
    before: LocalModes,
}

impl Desk {
    fn new(part: &str, rows: u16, cols: u16) -> Desk {
        let own = std::env::current_exe().expect("a program knows where it is");
        let mut command = CommandBuilder::new(own);
        command.env(NAME, part);
        // The message of a panic must stay on the screen.
        command.env("RUST_BACKTRACE", "0");
        Desk::of(command, rows, cols)
    }

    fn of(mut command: CommandBuilder, rows: u16, cols: u16) -> Desk {
        let size = PtySize {
            rows,
            cols,
            ..PtySize::default()
        };
        let pair = native_pty_system()
            .openpty(size)
            .expect("there are pseudo-terminals");
        let name = pair.master.tty_name().expect("it has a name");
        // It must not become our own controlling terminal, as for the first process of a session.
        let line = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NOCTTY.bits().cast_signed())
            .open(name)
            .expect("it is ours");
        let before = modes(&line);
        command.env("TERM", "xterm-256color");
        command.cwd("/");
        let child = pair
            .slave
            .spawn_command(command)
            .expect("the program can be started");
        // The parser of the output needs some room, whatever the size for the program.
        let screen = vt100::Parser::new(rows.max(4), cols.max(40), 0);
        let screen = Arc::new(Mutex::new(screen));
        let mut reader = pair.master.try_clone_reader().expect("it can be read");
        let seen = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                seen.lock()
                    .expect("no thread panics with it")
                    .process(&bytes[..read]);
            }
        });
        Desk {
            keyboard: Some(pair.master.take_writer().expect("it is taken once")),
            master: Some(pair.master),
            child,
            screen,
            line,
            before,
        }
    }

    fn text(&self) -> String {
        self.look(|screen| screen.contents())
    }

    fn look<T>(&self, look: impl FnOnce(&vt100::Screen) -> T) -> T {
        look(
            self.screen
                .lock()
                .expect("no thread panics with it")
                .screen(),
        )
    }

    fn until(&self, what: &str, mut is_so: impl FnMut(&Desk) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !is_so(self) {
            assert!(
                Instant::now() < deadline,
                "gave up waiting until {what}: {}\n{}",
                self.text(),
                self.state()
            );
            std::thread::sleep(LOOK);
        }
    }

    fn until_shown(&self, text: &str) {
        self.until(&format!("{text:?} is shown"), |desk| {
            desk.text().contains(text)
        });
    }

    fn until_taken(&self) {
        self.until("it has the terminal", |desk| {
            let is_full = desk.look(|screen| screen.alternate_screen() && screen.hide_cursor());
            is_full && !modes(&desk.line).contains(LocalModes::ICANON)
        });
    }

    fn press(&mut self, keys: &str) {
        let keyboard = self.keyboard.as_mut().expect("it is there");
        keyboard.write_all(keys.as_bytes()).expect("somebody reads");
        keyboard.flush().expect("somebody reads");
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.process_id().expect("it runs");
        let pid = Pid::from_raw(i32::try_from(pid).expect("ids are small")).expect("nor 0");
        kill_process(pid, signal).expect("it is ours");
    }

    fn ended(&mut self) -> u32 {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return status.exit_code();
            }
            assert!(
                Instant::now() < deadline,
                "it does not end: {}\n{}",
                self.text(),
                self.state()
            );
            std::thread::sleep(LOOK);
        }
    }

    /// State for the report of a failure: whether the program runs, is stopped or gone, its pending
    /// and blocked signals, and the owner of the terminal.
    fn state(&self) -> String {
        let Some(pid) = self.child.process_id() else {
            return "the program has ended".into();
        };
        let told = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
        let status = told("status").unwrap_or_else(|error| format!("status: {error}"));
        let wanted = ["State", "PPid", "Sig", "Shd", "NSsid", "NSpgid"];
        let status = status
            .lines()
            .filter(|line| wanted.iter().any(|name| line.starts_with(name)));
        let stat = told("stat").unwrap_or_else(|error| error.to_string());
        let ours =
            std::fs::read_to_string("/proc/self/stat").unwrap_or_else(|error| error.to_string());
        format!(
            "program {pid}, modes {:?} (before {:?})\n{}\nstat {stat}our stat {ours}",
            modes(&self.line),
            self.before,
            status.collect::<Vec<_>>().join(", ")
        )
    }

    /// Fails unless the terminal is restored.
    fn assert_sane(&self, when: &str) {
        self.until(&format!("the terminal is given back {when}"), |desk| {
            desk.look(|screen| !screen.alternate_screen())
        });
        self.look(|screen| {
            assert!(!screen.hide_cursor(), "the cursor is seen {when}");
            assert_eq!(
                screen.mouse_protocol_mode(),
                vt100::MouseProtocolMode::None,
                "the mouse is the terminal's {when}"
            );
            assert!(!screen.bracketed_paste(), "pasting is as it was {when}");
        });
        assert_eq!(
            modes(&self.line),
            self.before,
            "lines are edited and echoed as before {when}"
        );
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn modes(line: &File) -> LocalModes {
    tcgetattr(line).expect("it is a terminal").local_modes
}

fn quit() {
    let mut desk = Desk::new("plain", 24, 80);
    desk.until_taken();
    desk.until_shown("dd");
    desk.look(|screen| {
        assert_ne!(
            screen.mouse_protocol_mode(),
            vt100::MouseProtocolMode::None,
            "the mouse is captured"
        );
    });
    desk.press("2");
    desk.until_shown("/srv/data/b");
    desk.press("q");
    assert_eq!(desk.ended(), 0, "it quits on request");
    desk.assert_sane("after q");
}

fn signals() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut desk = Desk::new("plain", 24, 80);
        desk.until_shown("dd");
        desk.signal(signal);
        assert_eq!(desk.ended(), 0, "{signal:?} ends it cleanly");
        desk.assert_sane("after a signal");
    }
}

fn closed() {
    let mut desk = Desk::new("plain", 24, 80);
    desk.until_shown("dd");
    desk.keyboard = None;
    desk.master = None;
    let deadline = Instant::now() + LIMIT;
    // Our reader holds the other end; closing a window sends SIGHUP.
    desk.signal(Signal::HUP);
    assert_eq!(desk.ended(), 0, "the terminal is closed");
    assert!(Instant::now() < deadline, "at once");
}

fn resized() {
    let mut desk = Desk::new("plain", 24, 80);
    desk.until_shown("reads");
    for (rows, cols, shown, hidden) in [
        (10, 40, "[1 processes]", "2 files"),
        (50, 160, "r reverse", "\u{0}"),
        (24, 80, "2 files", "r reverse"),
    ] {
        desk.screen
            .lock()
            .expect("no thread panics with it")
            .screen_mut()
            .set_size(rows, cols);
        let master = desk.master.as_ref().expect("it is open");
        master
            .resize(PtySize {
                rows,
                cols,
                ..PtySize::default()
            })
            .expect("it can be resized");
        desk.until(&format!("{cols}x{rows} is used"), |desk| {
            let text = desk.text();
            text.contains(shown) && !text.contains(hidden) && text.contains("dd")
        });
    }
    desk.press("q");
    assert_eq!(desk.ended(), 0, "whatever the size");
    desk.assert_sane("after resizing");
}

fn tiny() {
    let mut desk = Desk::new("plain", 1, 1);
    desk.until_taken();
    desk.press("2t?\u{1b}");
    desk.press("\u{3}");
    assert_eq!(desk.ended(), 0, "even there it can be ended");
    desk.assert_sane("on a single cell");
}

fn shell() {
    let own = std::env::current_exe().expect("a program knows where it is");
    let mut command = CommandBuilder::new("sh");
    command.args(["-i", "-m"]);
    command.env("PS1", "ready> ");
    command.env("PROGRAM", own);
    command.env_remove("ENV");
    let mut desk = Desk::of(command, 24, 80);
    desk.until_shown("ready>");
    desk.press(&format!("{NAME}=plain \"$PROGRAM\"\n"));
    for round in 0..2 {
        desk.until_taken();
        desk.until_shown("dd");
        desk.press("\u{1a}");
        // Wait for each stop: before it, keys would still go to the program.
        desk.until("the shell is back", |desk| {
            desk.look(|screen| {
                let stops = screen.contents().matches("Stopped").count();
                !screen.alternate_screen() && stops > round
            })
        });
        desk.assert_sane("while it is stopped");
        desk.press(&format!("echo $((40 + {round}))\n"));
        desk.until_shown(&format!("\n4{round}"));
        desk.press("fg\n");
    }
    desk.until_taken();
    desk.until_shown("dd");
    desk.press("q");
    desk.until("the shell is back for good", |desk| {
        desk.look(|screen| !screen.alternate_screen()) && modes(&desk.line) == desk.before
    });
    desk.press("echo status $?\n");
    desk.until_shown("status 0");
    desk.assert_sane("at the end");
    desk.press("exit\n");
    desk.ended();
}

fn orphan() {
    let mut desk = Desk::new("plain", 24, 120);
    desk.until_shown("dd");
    desk.press("\u{1a}");
    desk.until_shown("nothing to go back to");
    desk.signal(Signal::TSTP);
    desk.press("2");
    desk.until_shown("/srv/data/b");
    desk.press("q");
    assert_eq!(desk.ended(), 0, "it lives");
}

/// As in a container: the session, and the shell that could continue the job, are in another pid
/// namespace.
fn outside() {
    const WRAPPER: [&str; 6] = [
        "unshare",
        "--user",
        "--map-root-user",
        "--pid",
        "--fork",
        "--mount-proc",
    ];
    let probe = std::process::Command::new(WRAPPER[0])
        .args(&WRAPPER[1..])
        .arg("true")
        .output();
    if !probe.as_ref().is_ok_and(|made| made.status.success()) {
        println!("skipped: a program in a namespace of processes: unshare: {probe:?}");
        return;
    }
    let own = std::env::current_exe().expect("a program knows where it is");
    let mut command = CommandBuilder::new(WRAPPER[0]);
    command.args(&WRAPPER[1..]);
    // The second process there: the first is never stopped, in any session.
    command.args(["sh", "-c", "\"$PROGRAM\"; exit $?"]);
    command.env("PROGRAM", own);
    command.env(NAME, "plain");
    let mut desk = Desk::of(command, 24, 120);
    desk.until_shown("dd");
    desk.press("\u{1a}");
    desk.until_shown("nothing to go back to");
    desk.press("q");
    assert_eq!(desk.ended(), 0, "it lives");
}

fn stopped() {
    let mut desk = Desk::new("plain", 24, 80);
    desk.until_shown("dd");
    desk.signal(Signal::STOP);
    // Another program writes on the screen meanwhile.
    desk.screen
        .lock()
        .expect("no thread panics with it")
        .process(b"\x1b[2J\x1b[Hgarbage");
    desk.signal(Signal::CONT);
    desk.until("everything is drawn again", |desk| {
        let text = desk.text();
        text.contains("cachewise top") && text.contains("? help") && !text.contains("garbage")
    });
    desk.press("q");
    assert_eq!(desk.ended(), 0, "it lives");
    desk.assert_sane("after a stop that it could not see");
}

fn panics(part: &str, keys: &str) {
    let mut desk = Desk::new(part, 24, 80);
    if !keys.is_empty() {
        desk.until_shown("dd");
        desk.press(keys);
    }
    assert_eq!(desk.ended(), 2, "that is a failure");
    desk.assert_sane("after a panic");
    desk.until_shown("it was to panic");
    desk.until_shown("panicked");
}

fn no_mouse() {
    let mut desk = Desk::new("no-mouse", 24, 80);
    desk.until_shown("dd");
    desk.look(|screen| {
        assert_eq!(
            screen.mouse_protocol_mode(),
            vt100::MouseProtocolMode::None,
            "text can be selected"
        );
    });
    desk.press("q");
    assert_eq!(desk.ended(), 0, "on request");
}

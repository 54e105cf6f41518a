//! Made-up intervals, and a screen to inspect.

#![allow(dead_code)]

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{
    Backend, CgroupRow, Counter, DeviceRow, Exit, FileNumber, FileRow, GroupNames, Interval,
    Ledger, Measured, ProcessFileUse, ProcessRow, Reason, Source, System,
};
use cachewise_tui::{
    Answer, App, Headline, Recorded, Request, Scene, Setup, TerminalStyle, ViewKind,
};
use cachewise_units::PageSize;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseEvent, MouseEventKind};
use ratatui::style::Color;

/// The machine of the intervals.
pub fn source() -> Arc<Source> {
    Arc::new(Source {
        hostname: "box".into(),
        page_size: PageSize::new(4 << 10),
        backend: Backend {
            name: "tracepoints".into(),
            exact: true,
            ..Backend::default()
        },
        ..Source::default()
    })
}

/// The setup of a live view.
pub fn setup() -> Setup {
    Setup {
        scene: Scene::Live,
        look: TerminalStyle {
            ascii: false,
            color: true,
        },
        source: source(),
        interval: Duration::from_secs(1),
        readonly: false,
        view: ViewKind::Process,
        filter: None,
        sort: None,
        scope: None,
        settings: Default::default(),
        recorded: None,
    }
}

/// The setup of a recording's view.
pub fn recorded(top: u64) -> Setup {
    Setup {
        scene: Scene::Recording,
        readonly: true,
        recorded: Some(Recorded {
            name: "night.rec".into(),
            top,
        }),
        ..setup()
    }
}

/// The row of all processes without a row of their own.
pub fn process_without_a_name() -> ProcessRow {
    ProcessRow {
        command: Measured::not_offered(Reason::SummedUp),
        cgroup: Measured::not_offered(Reason::SummedUp),
        pid: None,
        ..process(0, 0, "", "", reads(100, 10))
    }
}

/// Counters of reads.
pub fn reads(pages: u64, misses: u64) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.set(Counter::ReadRequestedPages, pages);
    ledger.set(Counter::ReadMissedPages, misses);
    ledger.set(Counter::ReadRequestedBytes, pages * 4096);
    ledger.derive_hits();
    ledger
}

/// A running process.
pub fn process(pid: u32, ppid: u32, command: &str, cgroup: &str, ledger: Ledger) -> ProcessRow {
    ProcessRow {
        pid: Some(pid),
        started: Measured::Exact(u64::from(pid) * 1000),
        ppid: Measured::Exact(ppid),
        command: Measured::Exact(command.into()),
        cgroup: Measured::Exact(cgroup.into()),
        exit: Exit::Running,
        cpu_seconds: Measured::Exact(0.1),
        device_read_bytes: Measured::Exact(0),
        device_write_bytes: Measured::Exact(0),
        ledger,
    }
}

/// An existing file.
pub fn file(path: &str, inode: u64, size: u64, ledger: Ledger) -> FileRow {
    FileRow {
        path: Measured::Exact(path.into()),
        label: Measured::Missing(cachewise_model::NOT_APPLICABLE),
        deleted: false,
        filesystem: Measured::Exact("ext4".into()),
        number: Some(FileNumber {
            device: "254:1".into(),
            inode,
        }),
        size_bytes: Measured::Exact(size),
        resident_before_pages: Measured::unknown(Reason::NotAskedEachTime),
        resident_after_pages: Measured::unknown(Reason::NotAskedEachTime),
        direct: false,
        ledger,
    }
}

/// A second without activity.
pub fn quiet() -> Interval {
    let gauge = |bytes: u64| Measured::Exact(bytes);
    Interval {
        elapsed: Duration::from_secs(1),
        system: System {
            cached_bytes: gauge(1 << 30),
            buffers_bytes: gauge(128 << 20),
            dirty_bytes: gauge(12 << 10),
            psi_memory_some_seconds: gauge(100_000),
            psi_io_some_seconds: gauge(250_000),
            ..System::default()
        },
        device_read_bytes: gauge(0),
        device_write_bytes: gauge(0),
        ..Interval::new(source(), "2026-01-02T03:04:05.000Z".into())
    }
}

/// `dd` misses 256 of 2,048 pages of b; `cat` hits 8,192 of a and of b; their parent, the shell, is
/// idle.
pub fn busy(seconds: u64) -> Interval {
    let mut interval = quiet();
    interval.elapsed = Duration::from_secs(seconds);
    let group = "/system.slice/db.service";
    interval.processes = vec![
        process(1001, 1, "sh", "/", Ledger::default()),
        process(1002, 1001, "dd", group, reads(2048, 256)),
        process(1003, 1001, "cat", group, reads(8192, 0)),
    ];
    interval.files = vec![
        file("/srv/data/a", 11, 32 << 20, reads(4096, 0)),
        file("/srv/data/b", 12, 64 << 20, reads(6144, 256)),
        file("/srv/data/c", 13, 64 << 20, Ledger::default()),
    ];
    let used = |process, file, ledger| ProcessFileUse {
        process,
        file,
        ledger,
    };
    let mut evicted = Ledger::default();
    evicted.set(Counter::EvictedReclaimPages, 5);
    interval.uses = vec![
        used(Some(1), 1, reads(2048, 256)),
        used(Some(2), 0, reads(4096, 0)),
        used(Some(2), 1, reads(4096, 0)),
        used(None, 1, evicted),
    ];
    interval.ledger = interval
        .processes
        .iter()
        .map(|process| &process.ledger)
        .sum();
    let system = System {
        memory_used_bytes: Measured::Exact(96 << 20),
        ..System::default()
    };
    interval.cgroups = vec![
        CgroupRow {
            path: Measured::Exact("/".into()),
            names: GroupNames::none(),
            ledger: Ledger::default(),
            system: system.clone(),
            memory_limit_path: Measured::not_offered(Reason::NotMeasured),
        },
        CgroupRow {
            path: Measured::Exact(group.into()),
            names: GroupNames {
                unit: Measured::Exact("db.service".into()),
                ..GroupNames::none()
            },
            ledger: reads(10_240, 256),
            system,
            memory_limit_path: Measured::not_offered(Reason::NotMeasured),
        },
    ];
    interval.devices = vec![DeviceRow {
        device: "254:1".into(),
        path: Measured::Exact("/dev/vda1".into()),
        filesystem: Measured::Exact("ext4".into()),
        ledger: reads(10_240, 256),
        device_read_bytes: Measured::Exact(1 << 20),
        device_write_bytes: Measured::Exact(0),
        busy: Measured::Exact(0),
    }];
    interval
}

/// The control group of a container.
pub fn container(path: &str, name: &str) -> CgroupRow {
    CgroupRow {
        path: Measured::Exact(path.into()),
        names: GroupNames {
            container: Measured::Exact(name.into()),
            ..GroupNames::none()
        },
        ledger: Ledger::default(),
        system: System::default(),
        memory_limit_path: Measured::not_offered(Reason::NotMeasured),
    }
}

/// A process that misses this many pages.
pub fn one_process(name: &str, misses: u64) -> Interval {
    let mut interval = quiet();
    interval.processes = vec![process(7, 1, name, "/", reads(misses, misses))];
    interval.ledger = reads(misses, misses);
    interval
}

/// A file read by direct I/O.
pub fn direct(bytes: u64) -> Interval {
    let mut interval = busy(1);
    let mut ledger = Ledger::default();
    ledger.set(Counter::DirectReadBytes, bytes);
    ledger.set(Counter::DirectReadRequests, bytes >> 20);
    interval.files[2].ledger = ledger.clone();
    interval.files[2].direct = true;
    interval.ledger += ledger;
    interval
}

/// This many processes, each with a file; the n-th misses n pages.
pub fn many(count: u32) -> Interval {
    let mut interval = quiet();
    for number in 0..count {
        let ledger = reads(u64::from(number) * 2, u64::from(number));
        let name = format!("p{number}");
        interval
            .processes
            .push(process(number + 10, 1, &name, "/", ledger.clone()));
        let path = format!("/srv/{}/{}/file{number}", number % 7, number % 130);
        let number = u64::from(number);
        interval
            .files
            .push(file(&path, number + 1, number << 12, ledger.clone()));
        interval.uses.push(ProcessFileUse {
            process: Some(number as usize),
            file: number as usize,
            ledger,
        });
    }
    interval.ledger = interval
        .processes
        .iter()
        .map(|process| &process.ledger)
        .sum();
    interval
}

/// A key.
pub fn key(code: KeyCode, modifiers: KeyModifiers) -> KeyEvent {
    KeyEvent::new(code, modifiers)
}

/// A view with its screen.
pub struct View {
    pub app: App,
    terminal: Terminal<TestBackend>,
    requests: Vec<Request>,
}

impl View {
    pub fn new(width: u16, height: u16) -> View {
        View::with(width, height, |_| {})
    }

    pub fn with(width: u16, height: u16, change: impl FnOnce(&mut Setup)) -> View {
        let mut setup = setup();
        change(&mut setup);
        let mut view = View {
            app: App::new(setup),
            terminal: Terminal::new(TestBackend::new(width, height)).expect("memory is enough"),
            requests: Vec::new(),
        };
        view.draw();
        view
    }

    pub fn draw(&mut self) -> &mut View {
        self.terminal
            .draw(|frame| self.app.draw(frame))
            .expect("memory is enough");
        self.requests.extend(self.app.take_requests());
        self
    }

    pub fn resize(&mut self, width: u16, height: u16) -> &mut View {
        self.terminal.backend_mut().resize(width, height);
        self.draw()
    }

    pub fn feed(&mut self, interval: Interval) -> &mut View {
        self.app.feed(interval);
        self.draw()
    }

    /// Finds the verdict that is due, as a thread of the loop does.
    pub fn judge(&mut self) -> &mut View {
        if let Some(recent) = self.app.take_unjudged() {
            self.app.answer(Answer::Verdict(Headline::of(&recent)));
        }
        self.draw()
    }

    pub fn answer(&mut self, answer: Answer) -> &mut View {
        self.app.answer(answer);
        self.draw()
    }

    pub fn code(&mut self, code: KeyCode) -> &mut View {
        self.app.key(key(code, KeyModifiers::NONE));
        self.draw()
    }

    pub fn key(&mut self, letter: char) -> &mut View {
        self.code(KeyCode::Char(letter))
    }

    pub fn text(&mut self, text: &str) -> &mut View {
        text.chars().fold(self, |view, letter| view.key(letter))
    }

    pub fn control(&mut self, letter: char) -> &mut View {
        self.app
            .key(key(KeyCode::Char(letter), KeyModifiers::CONTROL));
        self.draw()
    }

    pub fn mouse(&mut self, kind: MouseEventKind, column: u16, row: u16) -> &mut View {
        self.app.mouse(MouseEvent {
            kind,
            column,
            row,
            modifiers: KeyModifiers::NONE,
        });
        self.draw()
    }

    /// Requests to the outside since the last call.
    pub fn requests(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
    }

    pub fn lines(&self) -> Vec<String> {
        let buffer = self.terminal.backend().buffer();
        let area = buffer.area;
        (area.top()..area.bottom())
            .map(|y| {
                let mut line = String::new();
                let mut hidden = 0;
                for x in area.left()..area.right() {
                    let symbol = buffer[(x, y)].symbol();
                    // The second half of a wide character is not text.
                    if hidden > 0 {
                        hidden -= 1;
                        continue;
                    }
                    hidden = ratatui::text::Span::raw(symbol).width().saturating_sub(1);
                    line += symbol;
                }
                line
            })
            .collect()
    }

    pub fn shows(&self, text: &str) -> bool {
        self.lines().iter().any(|line| line.contains(text))
    }

    /// The n-th line below the headings.
    pub fn row(&self, number: usize) -> String {
        let lines = self.lines();
        let heads = ["PID", "PATH", "CGROUP", "MISSED"];
        let headings = lines
            .iter()
            .position(|line| heads.iter().filter(|head| line.contains(**head)).count() > 0);
        let headings = headings.expect("there are headings");
        lines
            .get(headings + 1 + number)
            .cloned()
            .unwrap_or_default()
    }

    /// The selected line.
    pub fn selected(&self) -> String {
        let lines = self.lines();
        let line = lines.iter().find(|line| line.starts_with('▸'));
        line.map_or(String::new(), |line| line.trim_end().to_owned())
    }

    /// The position of a text.
    pub fn find(&self, text: &str) -> (u16, u16) {
        for (y, line) in self.lines().iter().enumerate() {
            if let Some(byte) = line.find(text) {
                let x = line[..byte].chars().count();
                return (x as u16, y as u16);
            }
        }
        panic!("{text} is on the screen: {self}");
    }

    /// The colours of a screen with data.
    pub fn colours(mut self) -> Vec<Color> {
        self.feed(busy(1)).feed(busy(1));
        let cells = self.terminal.backend().buffer().content();
        let colours = cells.iter().flat_map(|cell| [cell.fg, cell.bg]);
        colours.filter(|colour| *colour != Color::Reset).collect()
    }

    pub fn after_busy(mut self) -> String {
        self.feed(busy(1)).to_string()
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{}", self.lines().join("\n"))
    }
}

//! Programs to be measured, where the system has none that would do.
//!
//! A test file runs itself for them: `main` asks [`be_one`] first.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use cachewise_sys::{Mapping, page_size};
use cachewise_units::PageRange;

use super::command::{Started, as_nobody};

const NAME: &str = "CACHEWISE_TEST_PROGRAM";
const FILE: &str = "CACHEWISE_TEST_FILE";
const THREADS: u64 = 4;

/// This test file as a program: `threads` reads a file, a quarter by each of four threads; `mapped` has all of
/// it mapped, says so, and ends with its input; the names of [`LOADS`] go on until their input ends.
pub fn program(name: &str, file: &Path) -> Command {
    let own = std::env::current_exe().expect("a program knows where it is");
    // `env`, so that it can follow `cachewise run --` as well as stand alone.
    let mut command = Command::new("env");
    let mut file_variable = std::ffi::OsString::from(format!("{FILE}="));
    file_variable.push(file);
    command
        .arg(format!("{NAME}={name}"))
        .arg(file_variable)
        .arg(own);
    command
}

/// Is such a program, if it was started as one.
pub(super) fn be_one() -> Option<ExitCode> {
    let name = std::env::var_os(NAME)?;
    let path = std::env::var_os(FILE)?;
    let file = File::open(&path).expect("the file can be opened");
    let size = file.metadata().expect("an open file has a size").len();
    if name == "mapped" {
        mapped(&file, size);
        return Some(ExitCode::SUCCESS);
    }
    if let Some((_, round)) = LOADS.iter().find(|(load, _)| name == *load) {
        go_on(&path, *round);
        return Some(ExitCode::SUCCESS);
    }
    assert_eq!(name, "threads", "there is no other");
    let part = size / THREADS;
    thread::scope(|scope| {
        for number in 0..THREADS {
            let file = &file;
            scope.spawn(move || {
                let mut buffer = vec![0; part as usize];
                file.read_exact_at(&mut buffer, number * part)
                    .expect("its part can be read");
            });
        }
    });
    Some(ExitCode::SUCCESS)
}

/// One round of a load on a file of this size.
type Round = fn(&File, u64);

/// Loads that run until their input ends: each makes a finding.
const LOADS: [(&str, Round); 5] = [
    // A page here and a page there, of a file that is not in the cache.
    ("random", |file, size| {
        evict(file);
        let pages = size / page_size().get();
        let mut buffer = vec![0; page_size().get() as usize];
        let mut place = 1u64;
        for _ in 0..pages / 4 {
            // Any walk through all pages will do that is neither in order nor nearly so.
            place = (place.wrapping_mul(6_364_136_223_846_793_005))
                .wrapping_add(1_442_695_040_888_963_407);
            let offset = (place >> 33) % pages * page_size().get();
            file.read_exact_at(&mut buffer, offset)
                .expect("it can be read");
        }
    }),
    // In order for a while, so that the kernel reads ahead, and then somewhere else.
    ("jumps", |file, size| {
        evict(file);
        let mut buffer = vec![0; 64 << 10];
        for start in (0..size).step_by(32 << 20) {
            for offset in (start..start + (1 << 20)).step_by(buffer.len()) {
                file.read_exact_at(&mut buffer, offset)
                    .expect("it can be read");
            }
        }
    }),
    // The same again and again, and each time from the device.
    ("again", |file, size| {
        evict(file);
        read_all(file, size);
    }),
    ("tiny", |file, size| {
        let mut buffer = [0; 100];
        for offset in (0..size - 100).step_by(buffer.len()).take(100_000) {
            file.read_exact_at(&mut buffer, offset)
                .expect("it can be read");
        }
    }),
    // Written over and over.
    ("dirty", |file, size| {
        let buffer = vec![7; 1 << 20];
        for offset in (0..size).step_by(buffer.len()) {
            file.write_all_at(&buffer, offset)
                .expect("it can be written");
        }
    }),
];

fn evict(file: &File) {
    cachewise_sys::fadvise_dont_need(file.as_fd()).expect("advice is taken");
}

fn read_all(file: &File, size: u64) {
    let mut buffer = vec![0; 1 << 20];
    for offset in (0..size).step_by(buffer.len()) {
        file.read_exact_at(&mut buffer, offset)
            .expect("it can be read");
    }
}

/// Round after round, until the input ends.
fn go_on(path: &std::ffi::OsStr, round: Round) {
    let file = File::options().read(true).write(true).open(path);
    let file = file.expect("the file can be opened");
    let size = file.metadata().expect("an open file has a size").len();
    let told = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let listener = std::sync::Arc::clone(&told);
    thread::spawn(move || {
        let _ = std::io::stdin().read_line(&mut String::new());
        listener.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    println!("ready");
    while !told.load(std::sync::atomic::Ordering::Relaxed) {
        round(&file, size);
    }
}

fn mapped(file: &File, size: u64) {
    let pages = PageRange {
        start: 0,
        end: size.div_ceil(page_size().get()),
    };
    let mapping = Mapping::of_pages(file.as_fd(), pages).expect("the file can be mapped");
    mapping.populate(pages).expect("and read");
    println!("mapped");
    // Until standard input has a line or ends.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// A shell that reads a file once per line of input, and reports the end of each read.
pub struct Reader(Started);

impl Reader {
    const SCRIPT: &str = r#"echo ready; while read -r _; do cat "$1" >/dev/null; echo done; done"#;

    /// Starts one.
    pub fn of(file: &Path) -> Reader {
        Reader::start(&mut Command::new("sh"), file)
    }

    /// Starts one that belongs to another user.
    pub fn of_nobody(file: &Path) -> Reader {
        Reader::start(as_nobody().arg("sh"), file)
    }

    /// Starts one in a control group.
    pub fn of_group(file: &Path, group: &Path) -> Reader {
        let mut command = Command::new("sh");
        command
            .args(["-c", r#"echo $$ > "$0/cgroup.procs" && exec sh "$@""#])
            .arg(group);
        Reader::start(&mut command, file)
    }

    fn start(command: &mut Command, file: &Path) -> Reader {
        command
            .args(["-c", Self::SCRIPT, "sh"])
            .arg(file)
            .stdin(Stdio::piped());
        let mut reader = Reader(Started::of(command));
        assert_eq!(
            reader.0.line().as_deref(),
            Some(&b"ready\n"[..]),
            "the reader can be started"
        );
        reader
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Has it read the file once.
    pub fn read(&mut self) {
        use std::io::Write;
        let stdin = self.0.child.stdin.as_mut().expect("it was asked for");
        stdin.write_all(b"\n").expect("the reader listens");
        assert_eq!(
            self.0.line().as_deref(),
            Some(&b"done\n"[..]),
            "the reader reads"
        );
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.0
            .child
            .try_wait()
            .expect("a child can be waited for")
            .is_none()
    }

    /// Has it end.
    pub fn end(mut self) {
        drop(self.0.child.stdin.take());
        self.0.wait().expect(0, "the reader ends by itself");
    }
}

/// A file that is read again and again, until this is dropped.
pub struct Busy {
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Busy {
    /// Starts a reader of this file.
    pub fn with(file: &Path) -> Busy {
        Busy::of(Reader::of(file))
    }

    /// Has this reader read.
    pub fn of(mut reader: Reader) -> Busy {
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let reader = std::thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                reader.read();
            }
        });
        Busy {
            stop,
            reader: Some(reader),
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

//! Many files of a page or two, read whole; and programs that search them.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cachewise_sys::allow_open_files;

use super::{Goal, Limit, PAGE, Work};
use crate::Outcome;
use crate::machine::Clock;
use crate::variant::Variant;

/// Files of the tree.
const FILES: usize = 20_000;
/// Those that are read again.
const FEW: usize = 2_000;
/// Those that are open at a time.
const OPEN: usize = 10_000;
/// Times that files are read again in a block.
const TIMES: usize = 10;
const SIZE: usize = 6_000;

/// The use of the files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Each is opened, read and closed, once: the probe has seen none of them.
    New,
    /// The same few, again and again.
    Again,
    /// A page of each of those that are open, again and again.
    Open,
    /// `git grep` over all.
    Grep,
}

pub struct SmallFiles {
    used: Use,
    directory: PathBuf,
    paths: Vec<PathBuf>,
    open: Vec<File>,
}

impl SmallFiles {
    pub fn new(used: Use, directory: &Path) -> Self {
        SmallFiles {
            used,
            directory: directory.join("small"),
            paths: Vec::new(),
            open: Vec::new(),
        }
    }

    /// Whether this process may have as many files open as [`Use::Open`] has.
    pub fn may_be_open() -> bool {
        allow_open_files(OPEN as u64 + 1_000) >= OPEN as u64 + 1_000
    }

    /// Makes the files, each with other lines.
    fn make(&self) -> Outcome<()> {
        let mut text = String::with_capacity(SIZE + 80);
        for (number, path) in self.paths.iter().enumerate() {
            text.clear();
            while text.len() < SIZE {
                let line = text.len();
                writeln!(text, "{number:06} {line:06} let value = of_line(place);")?;
            }
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, &text.as_bytes()[..SIZE])?;
        }
        // Dirty pages would be written back in the middle of a block.
        Ok(rustix::fs::syncfs(File::open(&self.directory)?)?)
    }

    fn git(&self, arguments: &[&str]) -> Outcome<Option<i32>> {
        let status = Command::new("git")
            .arg("-C")
            .arg(&self.directory)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()?;
        Ok(status.code())
    }
}

fn read_each(paths: &[PathBuf]) -> Outcome<()> {
    let mut buffer = [0; 2 * PAGE];
    for path in paths {
        let read = File::open(path)?.read(&mut buffer)?;
        if read != SIZE {
            return Err(format!("{}: {read} bytes", path.display()).into());
        }
    }
    Ok(())
}

impl Work for SmallFiles {
    fn name(&self) -> &'static str {
        match self.used {
            Use::New => "new-files-6k",
            Use::Again => "files-6k-again",
            Use::Open => "open-files-again",
            Use::Grep => "git-grep",
        }
    }

    fn operation(&self) -> &'static str {
        match self.used {
            Use::New | Use::Again => "file of 6 kB, opened, read and closed",
            Use::Open => "pread of 4 KiB",
            Use::Grep => "file that git grep reads",
        }
    }

    fn goals(&self) -> &'static [Goal] {
        match self.used {
            Use::New => &[
                (Variant::Run, Limit::Ratio(1.06)),
                (Variant::Run, Limit::Nanoseconds(1200.0)),
            ],
            Use::Again => &[(Variant::Run, Limit::Ratio(1.06))],
            Use::Open => &[(Variant::Run, Limit::Nanoseconds(300.0))],
            Use::Grep => &[(Variant::Run, Limit::Ratio(1.08))],
        }
    }

    fn clock(&self) -> Clock {
        match self.used {
            Use::Grep => Clock::Children,
            _ => Clock::Thread,
        }
    }

    fn prepare(&mut self) -> Outcome<()> {
        let path = |number: usize| {
            let directory = self.directory.join(format!("{:03}", number / 100));
            directory.join(format!("{number:05}.rs"))
        };
        self.paths = (0..FILES).map(path).collect();
        if !self.directory.exists() {
            self.make()?;
        }
        match self.used {
            Use::New | Use::Again => {}
            Use::Open => {
                let open = self.paths[..OPEN].iter().map(File::open);
                self.open = open.collect::<Result<_, _>>()?;
            }
            Use::Grep => {
                for arguments in [&["init", "-q"][..], &["add", "."]] {
                    if self.git(arguments)? != Some(0) {
                        return Err(format!("git {arguments:?} failed").into());
                    }
                }
            }
        }
        self.run(None)?;
        Ok(())
    }

    fn run(&mut self, _: Option<u64>) -> Outcome<u64> {
        match self.used {
            Use::New => {
                read_each(&self.paths)?;
                Ok(FILES as u64)
            }
            Use::Again => {
                for _ in 0..TIMES {
                    read_each(&self.paths[..FEW])?;
                }
                Ok((TIMES * FEW) as u64)
            }
            Use::Open => {
                let mut buffer = [0; PAGE];
                for _ in 0..TIMES {
                    for file in &self.open {
                        file.read_exact_at(&mut buffer, 0)?;
                    }
                }
                Ok((TIMES * OPEN) as u64)
            }
            Use::Grep => match self.git(&["grep", "-q", "-F", "no file has this"])? {
                Some(1) => Ok(FILES as u64),
                code => Err(format!("git grep ended with {code:?}").into()),
            },
        }
    }

    fn warms_up(&self) -> bool {
        matches!(self.used, Use::Again | Use::Open)
    }

    fn pages(&self, operations: u64) -> u64 {
        operations
    }
}

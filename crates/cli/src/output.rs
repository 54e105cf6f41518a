//! Where output goes: standard streams or a file, in a format, with or without colour.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use cachewise_kstat::Kernel;
use cachewise_units::escaped;
use cachewise_view::{Format, Markdown, RowOptions, Style, Tables};
use rustix::termios::tcgetwinsize;

use crate::arguments::Color;
use crate::host;
use crate::target::{Ending, Target};
use crate::whole_file::Replaced;

pub use crate::messages::{Failures, explain, explain_causes, is_broken_pipe, printable, tell};
pub use crate::whole_file::{Whole, write_whole};

/// The exit status where the answer is no: less is resident than required, or nothing was to be dropped.
pub const NO: u8 = 1;

/// The exit status for what could not be done, or is not known.
pub const FAILED: u8 = 2;

/// The exit status of work that was done, or of which something could not be.
pub fn status(is_failed: bool) -> ExitCode {
    match is_failed {
        true => ExitCode::from(FAILED),
        false => ExitCode::SUCCESS,
    }
}

/// Width of a table without a terminal.
const PLAIN_WIDTH: usize = 120;

/// The standard stream of a command's output, unless `-o` names a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// The command's result is its output.
    Stdout,
    /// Standard output belongs to the program that is run.
    Stderr,
}

impl Stream {
    /// Its name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "standard output",
            Stream::Stderr => "standard error",
        }
    }

    fn writer(self) -> Box<dyn Write> {
        match self {
            Stream::Stdout => Box::new(io::stdout()),
            Stream::Stderr => Box::new(io::stderr()),
        }
    }

    /// Columns of its terminal; `None` if it is none. `COLUMNS` takes precedence over the terminal's own
    /// size.
    pub fn width(self) -> Option<usize> {
        let (is_terminal, size) = match self {
            Stream::Stdout => (io::stdout().is_terminal(), tcgetwinsize(io::stdout())),
            Stream::Stderr => (io::stderr().is_terminal(), tcgetwinsize(io::stderr())),
        };
        if !is_terminal {
            return None;
        }
        let asked = std::env::var("COLUMNS").ok();
        let asked = asked.and_then(|columns| columns.trim().parse().ok());
        let own = size.map(|size| size.ws_col.into()).ok();
        // Serial lines report no size: the usual width.
        let known = [asked, own].into_iter().flatten().find(|width| *width > 0);
        Some(known.unwrap_or(80))
    }
}

/// Where to write.
pub struct Sink {
    /// How.
    pub format: Format,
    /// How it may look.
    pub style: Style,
    /// Whether it is a terminal.
    pub is_terminal: bool,
    name: String,
    writer: Box<dyn Write>,
    /// Text is written as Markdown.
    markdown: Option<Markdown>,
    /// The file that what is written is going to be.
    replaced: Option<Replaced>,
}

impl Sink {
    /// Opens a target for what is written as it comes.
    pub(crate) fn open(target: Target, color: Color, stream: Stream) -> Result<Self> {
        Sink::with(target, color, stream, |path| {
            Ok((File::create(path)?, None))
        })
    }

    /// Opens a target for what is of use only as a whole: a file takes its place, and another's, with
    /// [`keep`](Self::keep).
    pub(crate) fn open_whole(target: Target, color: Color, stream: Stream) -> Result<Self> {
        Sink::with(target, color, stream, |path| match Replaced::begin(path)? {
            Some(replaced) => Ok((replaced.draft.try_clone()?, Some(replaced))),
            None => Ok((File::create(path)?, None)),
        })
    }

    /// Marks the output as complete.
    pub fn keep(mut self) -> Result<()> {
        let kept = self.end_markdown().and_then(|()| self.writer.flush());
        let kept = kept.and_then(|()| match self.replaced {
            Some(replaced) => replaced.finish(),
            None => Ok(()),
        });
        kept.with_context(|| format!("cannot write to {}", self.name))
    }

    fn end_markdown(&mut self) -> io::Result<()> {
        match &mut self.markdown {
            Some(markdown) => self.writer.write_all(markdown.end().as_bytes()),
            None => Ok(()),
        }
    }

    fn with(
        target: Target,
        color: Color,
        stream: Stream,
        make: impl FnOnce(&Path) -> io::Result<(File, Option<Replaced>)>,
    ) -> Result<Self> {
        if let Target {
            file: Some(path),
            ending: Ending::Unknown,
            ..
        } = &target
        {
            let path = escaped(path);
            tell(&format!(
                "note: {path} has the ending of no format, so it gets the table; for another write json={path}"
            ));
        }
        let mut replaced = None;
        let (name, width, writer): (_, _, Box<dyn Write>) = match &target.file {
            Some(path) => {
                let (file, made) = make(path)
                    .with_context(|| format!("cannot create the output file {}", escaped(path)))?;
                replaced = made;
                (escaped(path).into_owned(), None, Box::new(file))
            }
            None => (stream.name().into(), stream.width(), stream.writer()),
        };
        let is_terminal = width.is_some();
        let color = match color {
            // Markdown shows what is bold.
            _ if target.is_markdown => true,
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                is_terminal && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
            }
        };
        let tables = match (target.is_markdown, is_terminal) {
            (true, _) => Tables::Markdown,
            (false, true) => Tables::Fitted,
            (false, false) => Tables::Whole,
        };
        let style = Style {
            color,
            width: match tables {
                // Lines are broken where they are read.
                Tables::Markdown => usize::MAX,
                _ => width.unwrap_or(PLAIN_WIDTH),
            },
            ascii: !target.is_markdown && !has_utf8(),
            tables,
        };
        Ok(Sink {
            format: target.format,
            style,
            is_terminal: is_terminal && !target.is_markdown,
            name,
            writer,
            markdown: target.is_markdown.then(Markdown::default),
            replaced,
        })
    }

    /// Whether it shares the stream that notes to the user go to.
    pub fn is_stderr(&self) -> bool {
        self.name == Stream::Stderr.name()
    }

    /// Rows of here and now, as this may look.
    pub fn row_options(&self) -> RowOptions {
        RowOptions {
            timestamp: host::timestamp(),
            hostname: host::hostname(&Kernel::new()),
            page_size: cachewise_sys::page_size(),
            style: self.style,
            room: None,
            header_every: None,
        }
    }

    /// The name of the target, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Whether the locale of the environment is one of UTF-8, in the order of setlocale(3).
#[must_use]
pub fn has_utf8() -> bool {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Sink")
            .field("name", &self.name)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(markdown) = &mut self.markdown else {
            return self.writer.write(bytes);
        };
        let text = markdown.push(&String::from_utf8_lossy(bytes));
        self.writer.write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

//! Where output goes: standard streams or a file, in a format, with or without colour.

use std::fs::{self, File, Permissions};
use std::io::{self, IsTerminal, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, Result};
use cachewise_kstat::Kernel;
use cachewise_units::escaped;
use cachewise_view::{Format, RowOptions, Style};
use rustix::termios::tcgetwinsize;

use crate::arguments::{Color, Output};
use crate::host;

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

/// The width of a table where no terminal says it.
const PLAIN_WIDTH: usize = 120;

/// `-o`: a format, a file, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    format: Format,
    file: Option<PathBuf>,
    ending: Ending,
}

/// Whether a file's ending had a say in the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It is a format's, or the format was given, or there is none.
    Clear,
    /// It is no format's: the table is a guess.
    Unknown,
}

impl Target {
    fn new(format: Format, file: Option<PathBuf>, ending: Ending) -> Target {
        Target {
            format,
            file,
            ending,
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(format) = text.parse() {
            return Ok(Target::new(format, None, Ending::Clear));
        }
        let (format, file, ending) = match text.split_once('=') {
            Some((name, file)) if !name.contains('/') => {
                let format = name.parse::<Format>().map_err(|error| error.to_string())?;
                (format, file, Ending::Clear)
            }
            _ => {
                let (format, ending) = of_file(Path::new(text))?;
                (format, text, ending)
            }
        };
        if file.is_empty() {
            return Err("the file's name is empty".into());
        }
        let file = (file != "-").then(|| PathBuf::from(file));
        Ok(Target::new(format, file, ending))
    }
}

/// The format that a file's name ends in; nothing if the ending is not one of a format's.
fn by_ending(file: &Path) -> Option<Format> {
    let ending = file.extension()?.to_str()?.to_ascii_lowercase();
    match ending.as_str() {
        "json" => Some(Format::Json),
        "jsonl" | "ndjson" => Some(Format::JsonLines),
        "csv" => Some(Format::Csv),
        "om" | "prom" | "openmetrics" => Some(Format::OpenMetrics),
        "txt" | "log" => Some(Format::Table),
        _ => None,
    }
}

/// The format of a file whose name alone was given.
fn of_file(file: &Path) -> Result<(Format, Ending), String> {
    match (by_ending(file), file.extension()) {
        (Some(format), _) => Ok((format, Ending::Clear)),
        (None, Some(_)) => Ok((Format::Table, Ending::Unknown)),
        (None, None) if file.components().count() > 1 => Ok((Format::Table, Ending::Clear)),
        // A bare word that is no format is more likely a mistyped format than a file.
        (None, None) => Err(format!(
            "neither a format ({}) nor a file with an ending; for a file of this name write table={}",
            Format::NAMES.join(", "),
            escaped(file)
        )),
    }
}

/// The standard stream that a command writes to unless told otherwise.
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
        // Serial lines know no size: what terminals had before they could be asked.
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
    /// The file that what is written is going to be.
    replaced: Option<Replaced>,
}

/// A file that takes its place when it is complete: until then, what was there stays.
#[derive(Debug)]
struct Replaced {
    /// Without a name, so that nothing is left of it however we end.
    draft: File,
    /// Its name; no symbolic link when it was looked at, and none is followed when it is replaced.
    path: PathBuf,
    /// Those of what is there.
    permissions: Option<Permissions>,
}

impl Replaced {
    /// Begins one; `None` where writing into what is there is the only way to keep it what it is: a device or a
    /// pipe, a symbolic link, another's file, one with several names, or one in a directory where nothing can be
    /// made.
    fn begin(path: &Path) -> io::Result<Option<Replaced>> {
        // Descriptors of this process too: writing continues at their position.
        if path.starts_with("/dev") || directory(path).ends_with("fd") {
            return Ok(None);
        }
        let path = path.to_owned();
        let is_there = match path.symlink_metadata() {
            // Only open(2) knows whether this link may be followed (fs.protected_symlinks).
            Ok(found) if found.is_symlink() => return Ok(None),
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(_) => return Ok(None),
        };
        let mut permissions = None;
        if is_there {
            let found = fs::metadata(&path)?;
            let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
            let is_ours = found.uid() == user.as_raw() && found.gid() == group.as_raw();
            if !found.is_file() || found.nlink() > 1 || !is_ours {
                return Ok(None);
            }
            // A caller without permission to write must not replace it.
            File::options().write(true).open(&path)?;
            permissions = Some(found.permissions());
        }
        let draft = tempfile::tempfile_in(directory(&path));
        Ok(draft.ok().map(|draft| Replaced {
            draft,
            path,
            permissions,
        }))
    }

    /// Has it take its place.
    fn finish(mut self) -> io::Result<()> {
        let mut file = tempfile::Builder::new()
            .prefix(".cachewise-")
            // As any new file: the umask takes from it.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory(&self.path))
            // Without the temporary name, which the caller does not know.
            .map_err(|error| io::Error::from(error.kind()))?;
        self.draft.rewind()?;
        io::copy(&mut self.draft, &mut file)?;
        if let Some(permissions) = self.permissions {
            file.as_file().set_permissions(permissions)?;
        }
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Writes a file that takes its place when it is complete.
///
/// # Errors
/// What the file system says; the old file is as it was.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Whole::begin(path)?.write(bytes)
}

/// A file that is written as a whole, later: that it cannot be is known before.
#[derive(Debug)]
pub struct Whole(Result<Replaced, File>);

impl Whole {
    /// Opens what there is to be opened.
    ///
    /// # Errors
    /// What the file system says; the old file is as it was.
    pub fn begin(path: &Path) -> io::Result<Whole> {
        Ok(Whole(match Replaced::begin(path)? {
            Some(replaced) => Ok(replaced),
            None => Err(File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)?),
        }))
    }

    /// Writes it.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(self, bytes: &[u8]) -> io::Result<()> {
        match self.0 {
            Ok(mut replaced) => {
                replaced.draft.write_all(bytes)?;
                replaced.finish()
            }
            Err(mut file) => {
                // Of what has a length; a pipe has none.
                if file.metadata()?.is_file() {
                    file.set_len(0)?;
                }
                file.write_all(bytes)
            }
        }
    }
}

/// The directory that a file is in.
fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

impl Sink {
    /// Opens the target for what is written as it comes, before anything is done: a file that cannot be made should
    /// not cost a run.
    pub fn open(output: &Output, stream: Stream) -> Result<Self> {
        Sink::with(output, stream, |path| Ok((File::create(path)?, None)))
    }

    /// Opens the target for what is of use only as a whole: a file takes its place, and another's, with
    /// [`keep`](Self::keep).
    pub fn open_whole(output: &Output, stream: Stream) -> Result<Self> {
        Sink::with(output, stream, |path| match Replaced::begin(path)? {
            Some(replaced) => Ok((replaced.draft.try_clone()?, Some(replaced))),
            None => Ok((File::create(path)?, None)),
        })
    }

    /// Marks the output as complete.
    pub fn keep(mut self) -> Result<()> {
        let kept = self.writer.flush().and_then(|()| match self.replaced {
            Some(replaced) => replaced.finish(),
            None => Ok(()),
        });
        kept.with_context(|| format!("cannot write to {}", self.name))
    }

    fn with(
        output: &Output,
        stream: Stream,
        make: impl FnOnce(&Path) -> io::Result<(File, Option<Replaced>)>,
    ) -> Result<Self> {
        let format = if output.json {
            Format::Json
        } else {
            Format::Table
        };
        let target = output.output.clone();
        let target = target.unwrap_or(Target::new(format, None, Ending::Clear));
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
        let color = match output.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                is_terminal && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
            }
        };
        let style = Style {
            color,
            width: width.unwrap_or(PLAIN_WIDTH),
        };
        Ok(Sink {
            format: target.format,
            style,
            is_terminal,
            name,
            writer,
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
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Writes a message to standard error. Names in it come from outside: control characters are escaped.
/// A closed or full standard error is ignored.
pub fn tell(message: &str) {
    let _ = writeln!(io::stderr(), "cachewise: {}", printable(message));
}

/// Failures that are printed one by one; the rest are counted.
const TOLD: u64 = 10;

/// The number of failures; the first few are printed.
#[derive(Debug, Default)]
pub struct Failures(u64);

impl Failures {
    /// Counts one, and prints it if it is one of the first.
    pub fn add(&mut self, error: &str, tell: impl FnOnce(&str)) {
        self.0 += 1;
        if self.0 <= TOLD {
            tell(error);
        }
    }

    /// Has the number of the rest told, and returns how many there were in all.
    pub fn end(&self, tell: impl FnOnce(&str)) -> u64 {
        if self.0 > TOLD {
            let more = self.0 - TOLD;
            tell(&match more {
                1 => "and 1 more that failed".to_owned(),
                _ => format!("and {more} more that failed"),
            });
        }
        self.0
    }
}

/// An error with its causes, each said once: some of them name their own cause already.
pub fn explain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// The text with its control characters escaped, but for the ends of lines: some texts have several, so a name that
/// has them is escaped where it enters.
pub fn printable(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(escaped).collect();
    lines.join("\n")
}

/// Whether the reader of our output has gone, which is not a failure.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Format, Option<PathBuf>) {
        let target: Target = text.parse().unwrap();
        (target.format, target.file)
    }

    #[test]
    fn a_target_is_a_format_a_file_or_both() {
        assert_eq!(parse("jsonl"), (Format::JsonLines, None), "a format's name");
        assert_eq!(
            parse("a.csv"),
            (Format::Csv, Some("a.csv".into())),
            "a file, by its ending"
        );
        assert_eq!(
            parse("a.PROM"),
            (Format::OpenMetrics, Some("a.PROM".into())),
            "in any case"
        );
        for (text, ending) in [
            ("a.foo", Ending::Unknown),
            ("a.txt", Ending::Clear),
            ("table=a.foo", Ending::Clear),
            ("/tmp/a", Ending::Clear),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.format, Format::Table, "{text} gets the table");
            assert_eq!(target.ending, ending, "{text}: whether it was a guess");
        }
        assert_eq!(
            parse("/tmp/report"),
            (Format::Table, Some("/tmp/report".into())),
            "a path"
        );
        assert_eq!(parse("json=x"), (Format::Json, Some("x".into())), "both");
        assert_eq!(
            parse("csv=-"),
            (Format::Csv, None),
            "- is the standard stream"
        );
        assert_eq!(
            parse("./a=b.json"),
            (Format::Json, Some("./a=b.json".into())),
            "a path with ="
        );
    }

    #[test]
    fn what_a_terminal_would_act_on_is_shown() {
        assert_eq!(
            printable("a\x1b[31m\nb\u{9b}"),
            "a\\x1b[31m\nb\\u{9b}",
            "escaped, lines kept"
        );
    }

    #[test]
    fn a_cause_is_said_once() {
        let cause = io::Error::from_raw_os_error(13);
        let error = anyhow::Error::new(cause).context("read /x: Permission denied (os error 13)");
        assert_eq!(
            explain(&error),
            "read /x: Permission denied (os error 13)",
            "not twice"
        );
        let error = anyhow::anyhow!("inner").context("outer");
        assert_eq!(explain(&error), "outer: inner", "what is new is said");
    }

    #[test]
    fn a_mistyped_format_does_not_become_a_file() {
        let error = "jsn".parse::<Target>().unwrap_err();
        assert!(
            error.contains("json") && error.contains("table=jsn"),
            "it says what to write: {error}"
        );
        assert!(
            "xml=f".parse::<Target>().is_err(),
            "an unknown format before ="
        );
        assert!("json=".parse::<Target>().is_err(), "no file after =");
    }
}

//! `record`: the machine over time, in a file that survives the end of the recorder.
//!
//! # Layout
//! - `course`: the recorded command or process, and the end of the recording
//! - `scope`: the processes that are counted
//! - `clock`: time that the machine slept
//! - this file: the samples, and the summary at the end

pub mod arguments;
mod clock;
mod course;
mod scope;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use cachewise_kstat::Kernel;
use cachewise_model::{Interval, redact_arguments};
use cachewise_recording::{
    Gaps, Limits, Sample, Session, TargetFile, Writer, check_target, reduce,
};
use cachewise_sys::LaterMappings;
use cachewise_units::Bytes;

use crate::watch::Watch;
use arguments::Record;
use cachewise_cli::output::{FAILED, explain, tell};
use clock::Clock;
use course::{Course, Next};

/// Memory that the recorder takes from the start, so that a sample needs nothing from the kernel when there is
/// nothing to be had.
const AHEAD: Bytes = Bytes(16 << 20);

/// Records until it is over.
pub fn record(arguments: &Record) -> Result<ExitCode> {
    let kernel = Kernel::new();
    // The real path, as parts would otherwise be placed beside a symbolic link.
    // `metadata` comes first, as it fails where the kernel does not follow a link (fs.protected_symlinks); canonicalize
    // does not check that.
    let path = std::fs::metadata(&arguments.file)
        .and_then(|_| arguments.file.canonicalize())
        .unwrap_or_else(|_| arguments.file.clone());
    // Before anything is begun: what is refused should cost nothing.
    let found = check_target(&path)?;
    let selected = arguments.selection.select(&kernel)?;
    let mut course = Course::begin(arguments, &selected)?;
    let (options, scope) = scope::of(arguments, &selected, &kernel)?;
    let labels = arguments.labels.read()?;
    let mut watch = Watch::open(&options, Kernel::new())?.labelled(labels);
    let session = session(arguments, &watch, scope);
    let mut recorder = Recorder::open(arguments, path, found, session)?;
    if !arguments.quiet {
        for note in &watch.backend().notes {
            tell(&format!("note: {note}"));
        }
    }
    // Debug information is mapped to be searched, and only parts of it are read.
    let later = match arguments.stacks {
        true => LaterMappings::AsTouched,
        false => LaterMappings::Whole,
    };
    if !arguments.no_lock
        && let Err(error) = cachewise_sys::lock_memory(AHEAD, later)
    {
        tell(&format!(
            "note: the recorder's memory is not locked, samples may be late when memory is short: {error}"
        ));
    }
    // Counts during the setup belong to no sample.
    watch.named_interval()?;
    if let course::Start::Not(code) = course.start()? {
        recorder.discard(found);
        return Ok(code);
    }
    let failed = recorder.run(&mut watch, &mut course).err();
    // The probe goes before anything else is waited for.
    drop(watch);
    if let Some(error) = &failed {
        tell(&explain(error));
    }
    recorder.summary(arguments.quiet && failed.is_none());
    // A command that is recorded runs to its end, whatever becomes of the recording.
    let status = course.end()?;
    Ok(ExitCode::from(match (status, failed) {
        (0, Some(_)) => FAILED,
        (status, _) => status,
    }))
}

fn session(arguments: &Record, watch: &Watch, scope: String) -> Session {
    let mut session = Session::new(watch.source());
    session.cachewise = env!("CARGO_PKG_VERSION").into();
    session.interval = arguments.interval.get();
    session.top = arguments.top.into();
    session.scope = scope;
    let words = arguments.command.iter();
    session.command = words.map(|word| word.to_string_lossy().into()).collect();
    if arguments.redact_args {
        redact_arguments(&mut session.command);
    }
    session
}

struct Recorder {
    /// As it was typed.
    name: PathBuf,
    /// Where it really is.
    path: PathBuf,
    writer: Writer,
    interval: Duration,
    top: usize,
    gaps: Gaps,
    gap_count: u64,
    elapsed: Duration,
    bar: Option<indicatif::ProgressBar>,
}

impl Recorder {
    fn open(
        arguments: &Record,
        path: PathBuf,
        found: TargetFile,
        session: Session,
    ) -> Result<Recorder> {
        let limits = Limits {
            max_size: arguments.max_size,
            keep: arguments.keep.into(),
            ..Limits::default()
        };
        let writer = match found {
            TargetFile::Empty => Writer::create(&path, session, limits),
            TargetFile::Recording => Writer::append(&path, session, limits),
        };
        let writer = writer?;
        let name = arguments.file.clone();
        if !arguments.quiet && found == TargetFile::Recording {
            let cut = match writer.cut() {
                0 => String::new(),
                bytes => format!(", without its last {bytes} bytes, half a sample"),
            };
            tell(&format!("going on with {}{cut}", name.display()));
        }
        Ok(Recorder {
            name,
            path,
            writer,
            interval: arguments.interval.get(),
            top: arguments.top.into(),
            gaps: Gaps::default(),
            gap_count: 0,
            elapsed: Duration::ZERO,
            // The terminal is the command's, if there is one.
            bar: (!arguments.quiet && arguments.command.is_empty()).then(bar),
        })
    }

    /// A sample a tick, and one at the end for what is left.
    fn run(&mut self, watch: &mut Watch, course: &mut Course) -> Result<()> {
        let mut clock = Clock::now();
        let mut due = Instant::now() + self.interval;
        loop {
            let next = course.wait(due);
            let interval = match next {
                Next::End => watch.named_interval()?,
                Next::Tick => watch.interval()?,
            };
            let suspended = clock.slept();
            self.write(interval, suspended)?;
            if let Next::End = next {
                return Ok(());
            }
            // Ticks that were missed are not made up for: the gap is in the sample's length.
            let now = Instant::now();
            due += self.interval;
            if due <= now {
                due = now + self.interval;
            }
        }
    }

    fn write(&mut self, mut interval: Interval, suspended: Duration) -> Result<()> {
        reduce(&mut interval, self.top);
        let sample = Sample {
            suspended,
            ..Sample::from_interval(interval)
        };
        self.writer.write(&sample).map_err(|error| {
            let advice = match error.is_full() {
                true => ": no space left; all earlier samples are intact",
                false => "",
            };
            anyhow::Error::from(error).context(format!("the recording ends here{advice}"))
        })?;
        self.elapsed += sample.interval.elapsed;
        if let Some(gap) = self.gaps.find(&sample, self.interval) {
            self.gap_count += 1;
            if let Some(bar) = &self.bar {
                bar.suspend(|| {
                    tell(&format!("gap: {}", cachewise_view::gap_text(&gap)));
                });
            }
        }
        if let Some(bar) = &self.bar {
            bar.set_message(format!(
                "{} samples, {}{}",
                self.writer.samples(),
                Bytes(self.writer.written()),
                self.gaps_told()
            ));
            bar.tick();
        }
        Ok(())
    }

    /// Takes a recording away that was made for nothing.
    fn discard(self, found: TargetFile) {
        if found == TargetFile::Empty {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    fn gaps_told(&self) -> String {
        match self.gap_count {
            0 => String::new(),
            1 => ", 1 gap".into(),
            count => format!(", {count} gaps"),
        }
    }

    fn summary(&mut self, quiet: bool) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        if quiet {
            return;
        }
        let name = cachewise_model::shell_quoted(&self.name);
        tell(&format!(
            "{} over {}, {}{}; to read it: cachewise report {name}",
            cachewise_units::counted(self.writer.samples(), "sample"),
            cachewise_view::length(self.elapsed),
            Bytes(self.writer.written()),
            self.gaps_told(),
        ));
    }
}

/// A progress line; hidden unless standard error is a terminal.
fn bar() -> indicatif::ProgressBar {
    let bar = indicatif::ProgressBar::new_spinner();
    if let Ok(style) = indicatif::ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
        bar.set_style(style);
    }
    bar
}

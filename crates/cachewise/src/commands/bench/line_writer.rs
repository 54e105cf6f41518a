//! [`LineWriter`]: output in the format of cache-bench, line for line.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cachewise_bench::{Event, Fill, Preparation, Summary, Workload};
use cachewise_units::{Bytes, escaped};

use super::arguments::Measure;
use super::measurement_events::{MeasurementEvents, cannot_write, mebibytes};

/// Writer of lines to standard output and the log.
pub struct LineWriter {
    log: Option<Log>,
    file: PathBuf,
    interval: Duration,
    /// Whether lines also go to standard output.
    is_printed: bool,
    /// When the first read of the file started, and when its last line was printed.
    preread: Option<(Instant, Instant)>,
}

struct Log {
    file: File,
    path: PathBuf,
}

impl LineWriter {
    /// # Errors
    /// The log cannot be written to.
    pub fn open(arguments: &Measure) -> Result<LineWriter> {
        let mut lines = LineWriter::to_log(arguments)?;
        lines.is_printed = true;
        Ok(lines)
    }

    /// Writes lines only to the log.
    ///
    /// # Errors
    /// The log cannot be written to.
    pub fn to_log(arguments: &Measure) -> Result<LineWriter> {
        let log = match &arguments.log {
            Some(path) => {
                let file = File::options().append(true).create(true).open(path);
                let file =
                    file.with_context(|| format!("cannot open the log {}", escaped(path)))?;
                Some(Log {
                    file,
                    path: path.clone(),
                })
            }
            None => None,
        };
        Ok(LineWriter {
            log,
            file: arguments.file.clone(),
            interval: arguments.interval.get(),
            is_printed: false,
            preread: None,
        })
    }

    /// Prints the start of `-w`.
    pub fn writing(&mut self, size: Bytes) -> Result<()> {
        self.line("starting cache-bench")?;
        self.line(&format!("  file: {}", escaped(&self.file)))?;
        self.line(&format!("  file size: {} MiB", mebibytes(size)))?;
        self.line("writing the file...")
    }

    /// Prints the end of `-w`; cache-bench prints two steps, which are one here.
    pub fn written(&mut self) -> Result<()> {
        self.line("fsync...")?;
        self.line("OK")
    }

    /// Prints the progress of reading the file first: a line each interval, and the last one in any
    /// case.
    fn preread(&mut self, done: Bytes, total: Bytes) -> Result<()> {
        let now = Instant::now();
        let (began, told) = match self.preread {
            Some(times) => times,
            None => {
                self.line("prereading (caching) the file...")?;
                (now, now)
            }
        };
        let is_due = done == total || now - told >= self.interval;
        self.preread = Some((began, if is_due { now } else { told }));
        if !is_due {
            return Ok(());
        }
        let part = done.0 as f64 / total.0 as f64 * 100.0;
        self.line(&format!(
            "  preread {:.1} MiB ({part:.1}%) in {:.1}s",
            mebibytes(done),
            (now - began).as_secs_f64()
        ))
    }

    fn line(&mut self, text: &str) -> Result<()> {
        if self.is_printed {
            // Flushed at once: the lines must survive a kill of the process.
            let mut out = io::stdout().lock();
            let written = writeln!(out, "{text}").and_then(|()| out.flush());
            cannot_write(written, "standard output")?;
        }
        if let Some(log) = &mut self.log {
            let now = jiff::Zoned::now();
            let stamp = now.strftime("%Y-%m-%d %H:%M:%S");
            let milliseconds = now.millisecond();
            let written = writeln!(log.file, "{stamp},{milliseconds:03}: {text}");
            written.with_context(|| format!("cannot write to the log {}", escaped(&log.path)))?;
        }
        Ok(())
    }
}

/// Speed in MiB/s; 0 for no time.
fn speed(bytes: Bytes, seconds: f64) -> f64 {
    match seconds > 0.0 {
        true => mebibytes(bytes) / seconds,
        false => 0.0,
    }
}

fn flag(is_set: bool) -> u8 {
    u8::from(is_set)
}

impl MeasurementEvents for LineWriter {
    fn begin(&mut self, workload: &Workload) -> Result<()> {
        self.preread = None;
        let found = std::fs::metadata(&workload.file).map(|found| Bytes(found.len()));
        let size = found.ok().or(workload.size).unwrap_or_default();
        self.line("starting cache-bench")?;
        self.line(&format!("  file: {}", escaped(&workload.file)))?;
        self.line(&format!("  file size: {:.1} MiB", mebibytes(size)))?;
        let log = match &self.log {
            Some(log) => format!("  log file: {}", escaped(&log.path)),
            None => "  log file is not set".to_owned(),
        };
        self.line(&log)?;
        self.line(&format!(
            "  output interval: {}s",
            self.interval.as_secs_f64()
        ))?;
        self.line(&format!(
            "  mmap: {}, preread: {}, bloat: {}, chunk: {} KiB",
            flag(workload.engine.is_mapped()),
            flag(matches!(workload.fill, Fill::Preread | Fill::Sequential)),
            flag(workload.bloat.is_some()),
            workload.chunk.0 as f64 / 1024.0,
        ))
    }

    fn event(&mut self, workload: &Workload, event: &Event<'_>) -> Result<()> {
        match event {
            Event::Preparing {
                what: Preparation::Filling,
                done,
                total,
            } if matches!(workload.fill, Fill::Preread | Fill::Sequential) => {
                self.preread(*done, *total)
            }
            Event::Started => match workload.bytes {
                Some(bytes) => self.line(&format!(
                    "reading {:.1} MiB from the file...",
                    mebibytes(bytes)
                )),
                None => self.line("reading from the file..."),
            },
            Event::Interval {
                figures,
                bytes,
                elapsed,
            } => {
                let (part, seconds) = (Bytes(figures.useful_bytes), figures.seconds);
                let total = elapsed.as_secs_f64();
                self.line(&format!(
                    "  read {:.1}M in {seconds:.1}s ({:.1}M/s); total {:.1}M in {total:.1}s, avg {:.1}M/s",
                    mebibytes(part),
                    speed(part, seconds),
                    mebibytes(*bytes),
                    speed(*bytes, total),
                ))
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, summary: &Summary) -> Result<()> {
        let (bytes, seconds) = (Bytes(summary.figures.useful_bytes), summary.figures.seconds);
        self.line(&format!(
            "total read {:.1} MiB in {seconds:.1}s (avg {:.1} MiB/s)",
            mebibytes(bytes),
            speed(bytes, seconds)
        ))
    }
}

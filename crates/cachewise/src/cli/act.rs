//! `cachewise warm`, `evict`, `lock` and `snapshot`, as typed.

use std::path::PathBuf;

use cachewise_model::Field;
use cachewise_units::{ByteRange, Bytes, Interval};
use clap::{Args, Subcommand};

use super::files::parse_columns;
use super::output::{Columns, Output};
use super::select::Select;
use crate::columns::fields;

/// What is acted on, and how it is shown.
#[derive(Debug, Args)]
pub struct Target {
    /// Only this part of each file: OFFSET:LENGTH, in bytes or with a unit (1G:64M); without a length to its end
    #[arg(long, value_name = "RANGE", value_parser = parse_range, allow_hyphen_values = true)]
    pub range: Option<ByteRange>,
    #[command(flatten)]
    pub select: Select,
    /// Say what would be done, and do nothing.
    #[arg(short = 'N', long)]
    pub dry_run: bool,
    /// Show so many files, those with the largest change first; 0: all. 20 in tables of more than what was named.
    #[arg(short = 'n', long, value_name = "N")]
    pub top: Option<usize>,
    /// Columns, separated by commas: ids or headings, in any case; `cachewise columns` lists them.
    #[arg(short, long, value_name = "LIST", value_parser = parse_columns)]
    pub columns: Option<Columns>,
    #[command(flatten)]
    pub output: Output,
}

impl Target {
    /// The part of each file that is meant.
    pub fn range(&self) -> ByteRange {
        self.range.unwrap_or(ByteRange::starting_at(0))
    }

    /// The columns asked for, or what was there before and after.
    pub fn fields(&self) -> Vec<&'static Field> {
        const COLUMNS: [&str; 6] = [
            "file_size_bytes",
            "file_pages",
            "resident_before_pages",
            "resident_after_pages",
            "note",
            "path",
        ];
        match &self.columns {
            Some(columns) => columns.0.clone(),
            None => fields(&COLUMNS),
        }
    }
}

/// `cachewise warm`.
#[derive(Debug, Args)]
#[command(
    after_help = "What is resident already is left out, and so are holes. Pages that did not stay are said: memory, or \
    the control group's limit, is too small for them.\n\n\
    Exit status: 0 done; 2 something could not be read, did not stay, or is not shown to you: of others' files you \
    are not told what is resident; 128+N ended by signal N, what was done is shown.\n\n\
    Examples:\n  \
    cachewise warm /var/lib/db/users.ibd\n  \
    cachewise warm --rate 200M --include '*.idx' /srv/search"
)]
pub struct Warm {
    /// Files and directories.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Read no faster than this: bytes a second (200M).
    #[arg(long, value_name = "BYTES", value_parser = parse_rate, allow_hyphen_values = true)]
    pub rate: Option<Bytes>,
    #[command(flatten)]
    pub target: Target,
}

/// `cachewise evict`.
#[derive(Debug, Args)]
#[command(
    after_help = "Nothing is lost. The kernel sets dirty pages off to the disk; what is dirty or being written at that \
    moment stays, unless --sync waits for it first. What stays is said, with the reason: dirty, being written, locked, \
    mapped (and by whom), at the edge of a range, in memory only.\n\n\
    Exit status: 0 done, also where pages stay; 2 something could not be done, or is not shown to you: of others' \
    files you are not told what is resident; 128+N ended by signal N, what was done is shown.\n\n\
    Examples:\n  \
    cachewise evict --sync backup.tar\n  \
    cachewise evict --dry-run /var/log"
)]
pub struct Evict {
    /// Files and directories.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Write dirty pages back first, and wait for it.
    #[arg(long)]
    pub sync: bool,
    #[command(flatten)]
    pub target: Target,
}

const LOCK_USAGE: &str = "cachewise lock [OPTIONS] <PATH>...
       cachewise lock [OPTIONS] --follow";

/// `cachewise lock`.
#[derive(Debug, Args)]
#[command(
    override_usage = LOCK_USAGE,
    after_help = "Pages stay locked as long as this runs: Ctrl-C or SIGTERM lets them go. The limit is RLIMIT_MEMLOCK, unless \
    run as root; an error says what to set. Nothing is locked where less memory than 1/16 would be left in the machine \
    or in a control group; --force locks all the same.\n\n\
    --follow keeps the programs and libraries of running processes in memory, so that a machine short of memory stays \
    responsive: only their resident pages are locked, and what processes map later follows with the next scan.\n\n\
    Exit status: 0 let go by a signal; 2 something could not be locked, or there is nothing to lock; with --dry-run \
    also what is not shown to you; 128+N ended by signal N before all was locked.\n\n\
    Examples:\n  \
    cachewise lock /usr/bin/sshd /lib/x86_64-linux-gnu/libc.so.6\n  \
    cachewise lock --resident /var/lib/db/hot.idx\n  \
    cachewise lock --follow --max-file 10M --max-total 500M --dump /var/lib/cachewise/locked"
)]
pub struct Lock {
    /// Files and directories.
    #[arg(value_name = "PATH", required_unless_present = "follow")]
    pub paths: Vec<PathBuf>,
    /// Lock what is resident, and bring nothing in.
    #[arg(long)]
    pub resident: bool,
    /// Lock the executables and libraries of running processes, and look again after each period.
    #[arg(long, conflicts_with_all = ["paths", "range", "resident", "one_file_system", "threads"])]
    pub follow: bool,
    // That these need --follow is said the other way round: clap drops a requirement for what conflicts.
    /// With --follow: look again after so long.
    #[arg(
        long,
        value_name = "INTERVAL",
        default_value = "60",
        conflicts_with = "paths"
    )]
    pub period: Interval,
    /// With --follow: leave out larger files.
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "32M",
        conflicts_with = "paths"
    )]
    pub max_file: Bytes,
    /// With --follow: lock no more than this in all; files count whole, resident or not.
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "512M",
        conflicts_with = "paths"
    )]
    pub max_total: Bytes,
    /// With --follow: write the paths of what is locked to this file, and lock what it names first when started
    /// again.
    #[arg(long, value_name = "FILE", conflicts_with = "paths")]
    pub dump: Option<PathBuf>,
    /// Lock also where memory, or the limit of a control group, is too small for it.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub target: Target,
}

/// `cachewise snapshot`.
#[derive(Debug, Args)]
#[command(
    after_help = "A snapshot holds which pages of which files are resident, not their content. It is text: a line of JSON \
    a file. Its paths are not for everybody: a new one has mode 0600, and one that is replaced passes on its mode. What is \
    neither a snapshot nor empty is never replaced.\n\n\
    Exit status: 0 done; 2 something could not be done, or is not known; 128+N ended by signal N.\n\n\
    Examples:\n  \
    cachewise snapshot save before.snap /var/lib/db\n  \
    cachewise snapshot restore before.snap\n  \
    cachewise snapshot diff before.snap"
)]
pub struct Snapshot {
    /// What to do.
    #[command(subcommand)]
    pub command: SnapshotCommand,
}

/// What can be done with a snapshot.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Write down what of files and trees is resident.
    Save {
        /// The file to write; it takes its place when it is complete. `-` is standard output. A new one is readable by
        /// its owner alone.
        file: PathBuf,
        /// Files and directories.
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        select: Select,
    },
    /// Bring in again what was resident.
    Restore {
        /// The file that was saved; `-` is standard input.
        file: PathBuf,
        /// Files that have changed since, too: the pages at the same places.
        #[arg(long)]
        anyway: bool,
        /// Read no faster than this: bytes a second (200M).
        #[arg(long, value_name = "BYTES", value_parser = parse_rate, allow_hyphen_values = true)]
        rate: Option<Bytes>,
        /// How many threads read; as many as there are CPUs, up to 8.
        #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
        threads: Option<u16>,
        /// Say what would be read, and read nothing.
        #[arg(short = 'N', long)]
        dry_run: bool,
    },
    /// Compare with another snapshot, or with now.
    Diff {
        /// The earlier one; `-` is standard input.
        file: PathBuf,
        /// The later one; without it, what is resident now.
        other: Option<PathBuf>,
        /// Show so many files, those with the largest change first; 0: all.
        #[arg(short = 'n', long, value_name = "N")]
        top: Option<usize>,
        #[command(flatten)]
        output: Output,
    },
}

fn parse_range(text: &str) -> Result<ByteRange, String> {
    let (start, length) = text.split_once(':').unwrap_or((text, ""));
    let bytes = |text: &str| {
        text.parse::<Bytes>()
            .map(|bytes| bytes.0)
            .map_err(|error| error.to_string())
    };
    let start = bytes(start)?;
    let range = match length {
        "" => ByteRange::starting_at(start),
        length => ByteRange {
            start,
            len: bytes(length)?,
        },
    };
    if range.len == 0 && !length.is_empty() {
        return Err(format!(
            "a part without a byte; from there to the end is {start}:"
        ));
    }
    // No offset of a file is larger than an i64.
    match start.checked_add(range.len) {
        Some(_) if start <= i64::MAX as u64 => Ok(range),
        _ => Err("it goes beyond the largest offset that a file can have, 2^63".into()),
    }
}

fn parse_rate(text: &str) -> Result<Bytes, String> {
    match text.strip_suffix("/s").unwrap_or(text).parse::<Bytes>() {
        Ok(Bytes(0)) => Err("at this rate nothing would ever be read".into()),
        Ok(rate) => Ok(rate),
        Err(error) => Err(error.to_string()),
    }
}

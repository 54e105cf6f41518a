//! Arguments of `cachewise files`.

use std::path::PathBuf;

use cachewise_model::Field;
use cachewise_units::Interval;
use clap::Args;

use crate::options::{Columns, Output, Select, parse_file_columns, parse_pid};

const USAGE: &str = "cachewise files [OPTIONS] PATH...
       cachewise files [OPTIONS] --pid PID
       cachewise files [OPTIONS] --all";

/// `cachewise files`.
#[derive(Debug, Args)]
#[command(
    override_usage = USAGE,
    after_help = "Asking changes nothing: no page is brought in, no access time written, no FIFO or device \
    opened. The kernel tells a file's owner, who may write it, and root; for others the answer is `?`.\n\n\
    --all needs root, or CAP_BPF and CAP_PERFMON. It sees closed and deleted files, memfd, shared memory, other \
    mount namespaces and block devices, and its sum is set against the kernel's own Cached and Buffers.\n\n\
    Exit status: 0 done; 1 less is resident than --fail-below asks for; 2 something could not be looked at, is not \
    known, or there is no file; 128+N ended by signal N, with what was found until then.\n\n\
    Examples:\n  \
    cachewise files --all\n  \
    cachewise files --all --tree --depth 2 --sort resident\n  \
    cachewise files /var/lib/db/*.ibd --histogram\n  \
    cachewise files -x --tree --depth 2 /var\n  \
    cachewise files -p 1234\n  \
    cachewise files --fail-below 0.9 /srv/index && echo warm\n  \
    cachewise files --all --ncdu -o cache.json && ncdu -f cache.json"
)]
pub struct Files {
    /// Files and directories; what is under a directory is walked.
    #[arg(value_name = "PATH", required_unless_present_any = ["all", "pid", "evicted"])]
    pub paths: Vec<PathBuf>,
    /// The whole machine: every file that has pages in the cache, whoever used it.
    #[arg(short, long, conflicts_with_all = ["paths", "pid"])]
    pub all: bool,
    /// The files that this process holds open or has mapped; may be given again.
    #[arg(short, long, value_name = "PID", value_parser = parse_pid, conflicts_with = "paths")]
    pub pid: Vec<u32>,
    /// With the whole machine: the files that reclaim threw out, of which nothing is left.
    #[arg(long, conflicts_with_all = ["paths", "pid", "only_cached", "fail_below"])]
    pub evicted: bool,

    /// Sums by directory instead of files; with --sort or --top those first in the order.
    #[arg(long, conflicts_with_all = ["pid", "evicted"])]
    pub tree: bool,
    /// With --tree: so many levels below each path; what lies deeper is in the sums.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "tree")]
    pub depth: usize,
    /// Show so many rows, those first in the order; 0: all. 20 in tables of more than what was named.
    #[arg(short = 'n', long, value_name = "N")]
    pub top: Option<usize>,
    /// By what to order, the largest first.
    #[arg(short, long, value_name = "KEY", value_enum)]
    pub sort: Option<SortKey>,
    /// The smallest first.
    #[arg(short, long)]
    pub reverse: bool,
    /// Leave out files of which nothing is resident.
    #[arg(long)]
    pub only_cached: bool,
    /// Again after each interval, until interrupted.
    #[arg(short, long, value_name = "INTERVAL")]
    pub watch: Option<Interval>,

    /// Where in the file its resident pages are, as a strip.
    #[arg(long, conflicts_with_all = ["all", "evicted", "tree"])]
    pub histogram: bool,
    /// A row for each resident range instead of each file.
    #[arg(long, conflicts_with_all = ["all", "evicted", "tree", "histogram"])]
    pub map: bool,

    #[command(flatten)]
    pub select: Select,

    /// End with status 1 if a smaller part than this of all pages is resident (0 to 1).
    #[arg(long, value_name = "RATIO", value_parser = parse_share)]
    pub fail_below: Option<f64>,
    /// Write the format that `ncdu -f` browses: apparent sizes are the files', disk usage what is resident.
    #[arg(long, conflicts_with_all = ["pid", "evicted", "tree", "map", "histogram", "columns", "top", "sort", "reverse", "only_cached", "watch", "json"])]
    pub ncdu: bool,
    /// Columns, separated by commas: ids or headings, in any case; `cachewise columns` lists them.
    #[arg(short, long, value_name = "LIST", value_parser = parse_file_columns)]
    pub columns: Option<Columns>,
    #[command(flatten)]
    pub output: Output,
}

/// What rows can be ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SortKey {
    /// Resident pages.
    Resident,
    /// Size of the file.
    Size,
    /// Resident part of the file.
    Ratio,
    /// Pages that are not resident.
    Absent,
    /// Dirty pages.
    Dirty,
    /// Pages that reclaim threw out.
    Evicted,
    /// Path, as bytes.
    Path,
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    share
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "not a part of a whole: 0 to 1, or 0% to 100%".into())
}

/// Columns of a table of files; the first five are those of `pcstat`, the rest `fincore`'s.
const FILE_COLUMNS: [&str; 9] = [
    "file_size_bytes",
    "file_pages",
    "resident_pages",
    "resident_ratio",
    "resident_dirty_pages",
    "resident_writeback_pages",
    "shadow_pages",
    "recent_shadow_pages",
    "path",
];
const TREE_COLUMNS: [&str; 6] = [
    "files",
    "file_size_bytes",
    "file_pages",
    "resident_pages",
    "resident_ratio",
    "path",
];
const MAP_COLUMNS: [&str; 5] = [
    "first_page",
    "last_page",
    "resident_pages",
    "resident_bytes",
    "path",
];
/// What the census tells, with what it notes: a deleted file does not look like one.
const CENSUS_COLUMNS: [&str; 8] = [
    "resident_bytes",
    "file_size_bytes",
    "resident_ratio",
    "resident_dirty_pages",
    "shadow_pages",
    "filesystem",
    "note",
    "path",
];
/// Of what a process holds, with how it holds it.
const HELD_COLUMNS: [&str; 8] = [
    "file_size_bytes",
    "file_pages",
    "resident_pages",
    "resident_ratio",
    "resident_dirty_pages",
    "shadow_pages",
    "note",
    "path",
];

const EVICTED_COLUMNS: [&str; 5] = [
    "shadow_pages",
    "recent_shadow_pages",
    "file_size_bytes",
    "filesystem",
    "path",
];

impl Files {
    /// The columns asked for, or those that fit what is shown.
    pub fn fields(&self) -> Vec<&'static Field> {
        if let Some(columns) = &self.columns {
            return columns.0.clone();
        }
        let ids: &[&str] = if self.tree {
            &TREE_COLUMNS
        } else if self.map {
            &MAP_COLUMNS
        } else if self.evicted {
            &EVICTED_COLUMNS
        } else if self.all {
            &CENSUS_COLUMNS
        } else if !self.pid.is_empty() {
            &HELD_COLUMNS
        } else {
            &FILE_COLUMNS
        };
        let strip = self.histogram.then_some("histogram");
        let (last, first) = ids
            .split_last()
            .map_or((None, ids), |(last, first)| (Some(*last), first));
        first
            .iter()
            .copied()
            .chain(strip)
            .chain(last)
            .filter_map(cachewise_model::field)
            .collect()
    }
}

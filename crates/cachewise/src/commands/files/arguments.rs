//! Arguments of `cachewise files`.

use std::path::PathBuf;

use cachewise_model::Field;
use cachewise_units::Period;
use clap::Args;

use crate::options::{
    Columns, LabelFile, Output, Select, SeparatedPathList, file_columns, parse_pid,
};
use crate::selection::Named;

const USAGE: &str = "cachewise files [OPTIONS] PATH...
       cachewise files [OPTIONS] --pid PID
       cachewise files [OPTIONS] --unit NAME
       cachewise files [OPTIONS] --all";

/// `cachewise files`.
#[derive(Debug, Args)]
#[command(
    override_usage = USAGE,
    mut_arg("cgroup", |cgroup| cgroup.help("Show the files of all tasks under this control group, by its name or directory")),
    mut_arg("unit", |unit| unit.help("Show the files of the tasks of this systemd unit; `nginx` stands for `nginx.service`")),
    mut_arg("container", |container| container.help(
        "Show the files of the tasks of this container (name, POD/NAME, or start of the id) or pod (NAMESPACE/POD)")),
    mut_arg("program", |program| program.help(
        "Show the files of processes whose command line matches PATTERN, and of their descendants. PATTERN is a \
        substring (case-insensitive unless it has capitals), re:REGEX, or glob:GLOB for the program name")),
    after_help = "files changes nothing: it inserts no page, updates no access time, and opens no FIFO or device. Residency \
    is visible to root and to users who own or may write the file; others get `?`.\n\n\
    --all needs root, or CAP_BPF and CAP_PERFMON. It includes closed and deleted files, memfd, shared memory, other \
    mount namespaces and block devices, and compares its sum with Cached and Buffers of the kernel.\n\n\
    Exit status: 0 done; 1 the resident share is below --fail-below; 2 something could not be read, is unknown, or there \
    is no file; 128+N ended by signal N, after the result so far.\n\n\
    Examples:\n  \
    cachewise files --all\n  \
    cachewise files --all --tree --depth 2 --sort resident\n  \
    cachewise files /var/lib/db/*.ibd --histogram\n  \
    cachewise files -x --tree --depth 2 /var\n  \
    cachewise files -p 1234\n  \
    cachewise files --evicted --culprits night.rec\n  \
    cachewise files --fail-below 0.9 /srv/index && echo warm\n  \
    cachewise files --all --ncdu -o cache.json && ncdu -f cache.json"
)]
pub struct Files {
    /// Files and directories; directories are walked.
    #[arg(value_name = "PATH", required_unless_present_any = ["files_from", "all", "pid", "evicted", "cgroup", "unit", "container", "program"])]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub list: SeparatedPathList,
    /// Show every file of the machine that has pages in the cache.
    #[arg(short, long, conflicts_with_all = ["paths", "files_from", "pid", "cgroup", "unit", "container", "program"])]
    pub all: bool,
    /// Show the files that this process has open or mapped; repeat for more processes.
    #[arg(short, long, value_name = "PID", value_parser = parse_pid, conflicts_with_all = ["paths", "files_from"])]
    pub pid: Vec<u32>,
    #[command(flatten)]
    pub named: Named,
    /// Show files without resident pages of which the kernel remembers evicted pages.
    #[arg(long, conflicts_with_all = ["paths", "files_from", "pid", "cgroup", "unit", "container", "program", "only_cached", "fail_below"])]
    pub evicted: bool,
    /// Name the process that evicted most of each file, from a recording made meanwhile by `cachewise record`.
    #[arg(long, value_name = "RECORDING", requires = "evicted")]
    pub culprits: Option<PathBuf>,

    /// Show sums by directory instead of files; --sort and --top apply to directories.
    #[arg(long, conflicts_with_all = ["pid", "cgroup", "unit", "container", "program", "evicted"])]
    pub tree: bool,
    /// Levels of directories to show below each path, with --tree; deeper ones count in the sums.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "tree")]
    pub depth: usize,
    /// Maximum rows to show; 0 shows all [default: all named files, 20 of directories and --all].
    #[arg(short = 'n', long, value_name = "N")]
    pub top: Option<usize>,
    /// Sort by this key, largest first.
    #[arg(short, long, value_name = "KEY", value_enum)]
    pub sort: Option<SortKey>,
    /// Sort smallest first.
    #[arg(short, long)]
    pub reverse: bool,
    /// Omit files without resident pages.
    #[arg(long)]
    pub only_cached: bool,
    /// Repeat at this interval, in seconds or with a unit, until interrupted.
    #[arg(short, long, value_name = "INTERVAL")]
    pub watch: Option<Period>,

    /// Draw the position of resident pages in each file as a strip.
    #[arg(long, conflicts_with_all = ["all", "evicted", "tree"])]
    pub histogram: bool,
    /// Show one row per resident range instead of one per file.
    #[arg(long, conflicts_with_all = ["all", "evicted", "tree", "histogram"])]
    pub map: bool,

    #[command(flatten)]
    pub select: Select,
    #[command(flatten)]
    pub labels: LabelFile,

    /// Exit with status 1 if the resident share of all pages is below this: 0 to 1, or 0% to 100%.
    #[arg(long, value_name = "RATIO", value_parser = parse_share)]
    pub fail_below: Option<f64>,
    /// Write a file for `ncdu -f`: the apparent size is the size of the file, the disk usage its resident bytes.
    #[arg(long, conflicts_with_all = ["pid", "cgroup", "unit", "container", "program", "evicted", "tree", "map", "histogram", "columns", "top", "sort", "reverse", "only_cached", "watch", "json"])]
    pub ncdu: bool,
    /// Columns, comma-separated ids (resident_pages) or headings (RESIDENT), in any case; see `cachewise columns`.
    #[arg(short, long, value_name = "LIST", value_parser = file_columns(), hide_possible_values = true)]
    pub columns: Option<Columns>,
    #[command(flatten)]
    pub output: Output,
}

/// Sort key of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SortKey {
    /// Resident pages.
    Resident,
    /// Size of the file.
    Size,
    /// Resident share of the file.
    Ratio,
    /// Pages that are not resident.
    Absent,
    /// Dirty pages.
    Dirty,
    /// Recently evicted pages.
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
        .ok_or_else(|| "invalid share: write 0 to 1, or 0% to 100%".into())
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
/// Columns of the census, with its notes: nothing else marks a deleted file.
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
/// Columns of the files of a process, with a note of how it holds each.
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
    /// Columns of `--columns`, or the usual ones of this kind of table.
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
        let note = self.culprits.is_some().then_some("note");
        let label = self.labels.label.is_some().then_some("label");
        let (last, first) = ids
            .split_last()
            .map_or((None, ids), |(last, first)| (Some(*last), first));
        first
            .iter()
            .copied()
            .chain(strip)
            .chain(note)
            .chain(label)
            .chain(last)
            .filter_map(cachewise_model::field)
            .collect()
    }
}

//! Arguments of `cachewise report`.

use std::path::{Path, PathBuf};

use cachewise_model::{Condition, Field, Part, Row, STAT_COLUMNS, TablePlace, field};
use cachewise_tui::ViewKind;
use clap::Args;

use crate::options::{LabelFile, Output, StackFiles, any_columns, fail_if, parse_columns};
use crate::row_kinds::kind_of_row;
use crate::selection::Selection;

/// `cachewise report`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without --series, report shows minimum, mean, percentiles and maximum of each number, time lost to \
    waiting, gaps, and the most active processes, files and control groups. Counters are per second, with their sum.\n\n\
    Times: RFC 3339 (2026-01-02T03:04:05Z); local 2026-01-02 03:04; 03:04 on the day on which the recording begins; \
    +10m from its beginning; -10m from its end.\n\n\
    Exit status: 0 done; 1 a condition of --fail-if is true; 2 the recording, or a part of it, could not be read, or a \
    condition is unknown.\n\n\
    Examples:\n  \
    cachewise report night.rec\n  \
    cachewise report night.rec --from 03:00 --to 03:30 --html night.html\n  \
    cachewise report night.rec --series -o csv --columns time,requested,missed,cached,io-some%\n  \
    cachewise report night.rec --series --of cgroups -o jsonl\n  \
    cachewise report app.rec --flamegraph flame.svg\n  \
    cachewise report --compare before.json after.json"
)]
pub struct Report {
    /// Recording to read.
    #[arg(required_unless_present = "compare", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Compare two recordings, or JSON reports of `run` or `bench matrix`: changes by field, file and process. A file with
    /// several reports, one after the other, has repeats.
    #[arg(long, num_args = 2, value_names = ["OLD", "NEW"],
        conflicts_with_all = ["file", "from", "to", "series", "html", "tui", "fail_if", "redact_args",
        "pid", "cgroup", "unit", "container", "program"])]
    pub compare: Option<Vec<PathBuf>>,
    /// Report only samples after this time [default: from the beginning].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// Report only samples before this time [default: to the end].
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// Columns, comma-separated ids (read_hit_pages) or headings (HITS), in any case; see `cachewise columns`.
    #[arg(short, long, value_name = "LIST", value_parser = any_columns(), hide_possible_values = true)]
    pub columns: Option<String>,
    /// Show every sample instead of statistics over all samples.
    #[arg(short, long, conflicts_with_all = ["html", "tui"])]
    pub series: bool,
    /// Kind of rows, with --series.
    #[arg(long, value_enum, default_value_t = Of::Machine, requires = "series")]
    pub of: Of,
    /// Maximum processes, files and control groups to show in the table.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Omit the arguments of the recorded command: they may hold secrets.
    #[arg(long, conflicts_with_all = ["series", "tui"])]
    pub redact_args: bool,
    /// Write one HTML page with plots, which needs no network.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "json", "tui"])]
    pub html: Option<PathBuf>,
    /// Exit with 1 if this is true of the totals, as in 'refault_pages > 1G'; repeat for more conditions.
    #[arg(long, value_name = "CONDITION", conflicts_with_all = ["series", "tui"], value_parser = fail_if::parse_of_recording)]
    pub fail_if: Vec<Condition>,
    /// Step through time on the terminal.
    #[arg(long, conflicts_with_all = ["output", "json"])]
    pub tui: bool,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub stack_files: StackFiles,
    #[command(flatten)]
    pub labels: LabelFile,
    #[command(flatten)]
    pub output: Output,
}

/// Kind of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Of {
    /// The whole machine: one row per sample.
    Machine,
    /// Processes.
    Processes,
    /// Files.
    Files,
    /// Control groups; counters of a group without page-cache activity can be up to 30 s old.
    Cgroups,
    /// Devices.
    Devices,
}

impl Of {
    /// The columns without `--columns`.
    fn usual(self) -> Vec<&'static Field> {
        let part = match self {
            Of::Machine => return STAT_COLUMNS.iter().filter_map(|id| field(id)).collect(),
            Of::Processes => Part::Process,
            Of::Files => Part::File,
            Of::Cgroups => Part::Cgroup,
            Of::Devices => Part::Device,
        };
        let shown = part.columns(TablePlace::Recording).into_iter();
        let numbers = shown.map(|shown| shown.field);
        field("time")
            .into_iter()
            .chain(numbers)
            .chain(part.name())
            .collect()
    }

    /// A row of this kind, for the columns that it has.
    fn row(self) -> Row {
        match self {
            Of::Machine => Row::of_system(),
            Of::Processes => kind_of_row(ViewKind::Process),
            Of::Files => kind_of_row(ViewKind::File),
            Of::Cgroups => kind_of_row(ViewKind::Cgroup),
            Of::Devices => kind_of_row(ViewKind::Device),
        }
    }
}

impl Report {
    /// The recording; empty where reports are compared.
    pub fn file(&self) -> &Path {
        self.file.as_deref().unwrap_or(Path::new(""))
    }

    /// Columns of `--columns`, or the usual ones.
    ///
    /// # Errors
    /// Names the first unknown column.
    pub fn fields(&self) -> Result<Vec<&'static Field>, String> {
        let Some(list) = &self.columns else {
            return Ok(self.of.usual());
        };
        if self.of == Of::Machine {
            return parse_columns(list).map(|columns| columns.0);
        }
        let like = self.of.row();
        let mut fields = Vec::new();
        for name in list.split(',') {
            match cachewise_model::field(name.trim()) {
                Some(field) => fields.push(field),
                // Its error lists similar names.
                None => fields.extend(cachewise_model::columns(name, &like)?),
            }
        }
        Ok(fields)
    }
}

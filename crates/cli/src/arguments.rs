//! Options that several commands share.

use clap::Args;

use cachewise_view::Format;

use crate::target::Target;

const OUTPUT_HELP: &str = "Format (table, json, jsonl, csv, openmetrics, markdown), FILE, or FORMAT=FILE; repeat for several files; for FILE alone, its \
    extension selects the format: .json, .jsonl, .ndjson, .csv, .prom, .om, .openmetrics, .md, else table";

/// The help of `-o` of a command that has no metrics.
pub const OUTPUT_WITHOUT_METRICS: &str = "Format (table, json, jsonl, csv, markdown), FILE, or FORMAT=FILE; repeat for several files; for FILE alone, its extension \
    selects the format: .json, .jsonl, .ndjson, .csv, .md, else table";

/// Destination and format of the output.
#[derive(Debug, Args)]
pub struct Output {
    /// Format, file, or both, for each target.
    #[arg(short, long, value_name = "TARGET", help = OUTPUT_HELP)]
    pub output: Vec<Target>,
    /// Same as -o json.
    #[arg(long, conflicts_with = "output")]
    pub json: bool,
    /// When to use colour.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

impl Output {
    /// A table, written to the default destination of the command.
    pub fn usual() -> Output {
        Output {
            output: Vec::new(),
            json: false,
            color: Color::Auto,
        }
    }

    /// Whether a target is a table.
    #[must_use]
    pub fn has_table(&self) -> bool {
        match self.output.is_empty() {
            true => !self.json,
            false => self
                .output
                .iter()
                .any(|target| target.format() == Format::Table),
        }
    }
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// A process id.
pub fn parse_pid(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|pid| *pid > 0).ok_or_else(|| {
        "invalid process id: write a whole number from 1; `pgrep NAME` prints it".into()
    })
}

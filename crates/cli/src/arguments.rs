//! Options that several commands share.

use clap::Args;

use crate::target::Target;

const OUTPUT_HELP: &str = "Format (table, json, jsonl, csv, openmetrics), FILE, or FORMAT=FILE. FILE alone: by its ending \
    .json, .jsonl, .ndjson, .csv, .prom, .om, .openmetrics; any other gets the table";

/// Where the output goes, and how it looks.
#[derive(Debug, Args)]
pub struct Output {
    /// Format, file, or both.
    #[arg(short, long, value_name = "TARGET", help = OUTPUT_HELP)]
    pub output: Option<Target>,
    /// Short for -o json. With `run` it goes to standard error, where the program's own errors go too:
    /// for a clean document write -o FILE.json.
    #[arg(long, conflicts_with = "output")]
    pub json: bool,
    /// When to colour.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

impl Output {
    /// A table to where the command writes by itself.
    pub fn usual() -> Output {
        Output {
            output: None,
            json: false,
            color: Color::Auto,
        }
    }
}

/// When to colour.
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
        "not a process id, which is a whole number from 1 on; `pgrep NAME` finds it".into()
    })
}

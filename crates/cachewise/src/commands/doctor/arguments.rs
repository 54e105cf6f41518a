//! Arguments of `cachewise doctor`.

use std::time::Duration;

use cachewise_cli::columns::SheetColumnsParser;
use cachewise_view::{CHECK_COLUMNS, SheetColumns};
use clap::Args;

use crate::options::Output;

/// `cachewise doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "doctor first loads a BPF program for each kind of hook, because kernel settings do not show whether \
    it works. Then it watches the machine and reports what costs time or memory, with figures and the next step. It \
    changes nothing.\n\n\
    Without root it reports the missing capabilities, and watches with estimates.\n\n\
    Exit status: 0 done; 1 with --check, if there are warnings; 2 something could not be done.\n\n\
    Examples:\n  \
    cachewise doctor\n  \
    cachewise doctor --seconds 30\n  \
    cachewise doctor --capabilities --json\n  \
    cachewise doctor --capabilities --columns state,check,found\n  \
    cachewise doctor --check -o csv=/tmp/doctor.csv || echo look\n  \
    cachewise doctor --explain cold_start\n  \
    cachewise doctor --setcap"
)]
pub struct Doctor {
    /// Time to watch, in seconds or with a unit: 0.5, 500ms, 1m; 0 skips watching.
    #[arg(short, long, visible_short_alias = 'd', visible_alias = "duration", value_name = "TIME", default_value = "5", value_parser = parse_time, allow_negative_numbers = true)]
    pub seconds: Duration,
    /// Print what can be measured here, without watching, as with --seconds 0.
    #[arg(long, conflicts_with = "seconds")]
    pub capabilities: bool,
    /// Exit with status 1 if there are warnings.
    #[arg(long)]
    pub check: bool,
    /// Print the setcap command that lets this program count without root, and exit.
    #[arg(long, conflicts_with_all = ["check", "output", "json"])]
    pub setcap: bool,
    /// Print the page about a finding, and exit: what it means, how it is detected, the fix.
    #[arg(long, value_name = "FINDING", conflicts_with_all = ["check", "output", "json", "setcap"], value_parser = super::explain::ids())]
    pub explain: Option<String>,
    /// Columns of the checks, which are then shown as a table, and of CSV, comma-separated ids or headings; see
    /// `cachewise columns`.
    #[arg(short, long, value_name = "LIST", conflicts_with_all = ["setcap", "explain"],
        value_parser = SheetColumnsParser(&[&CHECK_COLUMNS]), hide_possible_values = true)]
    pub columns: Option<SheetColumns>,
    #[command(flatten)]
    pub output: Output,
}

/// An interval, or 0.
fn parse_time(text: &str) -> Result<Duration, String> {
    if text.trim_end_matches('0').is_empty() && !text.is_empty() {
        return Ok(Duration::ZERO);
    }
    let interval: cachewise_units::Period = text.parse().map_err(|error| format!("{error}"))?;
    Ok(interval.get())
}

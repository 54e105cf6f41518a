//! Arguments of `cachewise doctor`.

use std::time::Duration;

use clap::Args;

use crate::options::Output;

/// `cachewise doctor`.
#[derive(Debug, Args)]
#[command(
    after_help = "First what this machine offers: each way to count is tried by loading a program, as a setting \
    proves nothing. Then the machine is watched, and what costs time or memory is named, with figures and the \
    next step. Nothing is changed.\n\n\
    Without root it tells what is missing, and watches with estimates.\n\n\
    Exit status: 0 done; 1 with --check, if there are warnings; 2 something could not be done.\n\n\
    Examples:\n  \
    cachewise doctor\n  \
    cachewise doctor --seconds 30\n  \
    cachewise doctor --seconds 0 --json\n  \
    cachewise doctor --check -o csv=/tmp/doctor.csv || echo look\n  \
    cachewise doctor --setcap"
)]
pub struct Doctor {
    /// How long to watch: 5, 0.5, 500ms, 1m; 0: not at all.
    #[arg(short, long, value_name = "TIME", default_value = "5", value_parser = parse_time, allow_negative_numbers = true)]
    pub seconds: Duration,
    /// End with 1 if there are warnings.
    #[arg(long)]
    pub check: bool,
    /// Print the line that lets this program count without root, and do nothing else.
    #[arg(long, conflicts_with_all = ["check", "output", "json"])]
    pub setcap: bool,
    #[command(flatten)]
    pub output: Output,
}

/// An interval, or 0.
fn parse_time(text: &str) -> Result<Duration, String> {
    if text.trim_end_matches('0').is_empty() && !text.is_empty() {
        return Ok(Duration::ZERO);
    }
    let interval: cachewise_units::Interval = text.parse().map_err(|error| format!("{error}"))?;
    Ok(interval.get())
}

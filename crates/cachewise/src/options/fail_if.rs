//! `--fail-if`: conditions on the totals of a report, and the exit status that follows from them.

use cachewise_cli::output::{FAILED, NO, tell};
use cachewise_model::{Condition, Row, shell_quoted};
use cachewise_view::value_text;

/// Parses a condition on the totals of a run.
pub fn parse_of_run(text: &str) -> Result<Condition, String> {
    Condition::parse(text, &Row::of_run())
}

/// Parses a condition on the totals of a recording.
pub fn parse_of_recording(text: &str) -> Result<Condition, String> {
    Condition::parse(text, &Row::of_system())
}

/// Prints a line for each condition that is true or unknown of the totals. Returns the exit status: 1 if one is true,
/// 2 if none is and one is unknown, 0 otherwise.
pub fn judge(conditions: &[Condition], totals: &Row) -> u8 {
    let (mut is_true, mut is_unknown) = (false, false);
    for condition in conditions {
        let name = shell_quoted(condition.text.as_ref());
        let (field, value) = (&condition.name, condition.value(totals));
        match condition.holds(totals).known() {
            Some(false) => {}
            Some(true) => {
                is_true = true;
                tell(&format!(
                    "--fail-if {name} is true: {field} is {}",
                    value_text(&value)
                ));
            }
            None => {
                is_unknown = true;
                let reason = value.missing().map(|missing| missing.reason().words());
                tell(&format!(
                    "--fail-if {name} is unknown: {field} is {} ({})",
                    value_text(&value),
                    reason.unwrap_or_default()
                ));
            }
        }
    }
    match (is_true, is_unknown) {
        (true, _) => NO,
        (false, true) => FAILED,
        (false, false) => 0,
    }
}

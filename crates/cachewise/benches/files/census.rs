//! Cost of a census with all of its rows: `files --all -n 0 -o csv`.

use std::process::{Command, Stdio};

use crate::quantile::quantile;
use crate::{CACHEWISE, Outcome, cpu_of_children};

/// The most CPU time of a row: 176,000 rows in 600 ms.
const GOAL_MICROSECONDS: f64 = 600e3 / 176e3;

/// Measures it over the files that this machine has in memory; says what it took, and counts a missed goal.
pub fn census(rounds: usize, missed: &mut usize) -> Outcome<String> {
    let command = || {
        let mut command = Command::new(CACHEWISE);
        command.args(["files", "--all", "-n", "0", "-o", "csv"]);
        command.stderr(Stdio::null());
        command
    };
    let mut took = Vec::new();
    for _ in 0..=rounds {
        let before = cpu_of_children();
        let status = command().stdout(Stdio::null()).status()?;
        if !status.success() {
            return Ok(format!("without a census: {status}; it needs root"));
        }
        took.push(cpu_of_children() - before);
    }
    took.remove(0); // it brings the program in
    let csv = command().output()?.stdout;
    // The first line names the columns.
    let rows = csv.iter().filter(|byte| **byte == b'\n').count() - 1;
    let at = |share| quantile(&took, share);
    let of_a_row = at(0.5) * 1e3 / rows as f64;
    let is_met = of_a_row <= GOAL_MICROSECONDS;
    *missed += usize::from(!is_met);
    Ok(format!(
        "census of {rows} rows as CSV: CPU {:.0} ms [{:.0}-{:.0}], {of_a_row:.2} us a row (goal: at most \
         {GOAL_MICROSECONDS:.2}, which is 600 ms of 176,000 rows: {})",
        at(0.5),
        at(0.0),
        at(1.0),
        if is_met { "met" } else { "MISSED" }
    ))
}

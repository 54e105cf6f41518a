//! How a report ends.

use std::process::ExitCode;

use anyhow::{Result, bail};
use cachewise_cli::output::{FAILED, is_broken_pipe, tell};
use cachewise_model::Statistics;

use super::arguments::Report;
use super::range::span;
use crate::options::fail_if;

/// Prints what was left out of the report, which is a failure of a part, and judges the conditions.
pub fn judged(written: Result<()>, arguments: &Report, summary: &Statistics) -> Result<ExitCode> {
    let is_written = written.is_ok();
    let finished = finish(written, &summary.problems)?;
    let status = match is_written {
        true => fail_if::judge(&arguments.fail_if, &summary.total.row()),
        false => 0,
    };
    Ok(match (summary.problems.is_empty(), status) {
        (_, 0) => finished,
        (false, _) => ExitCode::from(FAILED),
        (true, status) => ExitCode::from(status),
    })
}

/// Prints what was left out of the report; that is a failure of a part.
pub fn finish(written: Result<()>, problems: &[String]) -> Result<ExitCode> {
    match written {
        Err(error) if is_broken_pipe(&error) => return Ok(ExitCode::SUCCESS),
        Err(error) => return Err(error),
        Ok(()) => {}
    }
    for problem in problems {
        tell(problem);
    }
    Ok(match problems {
        [] => ExitCode::SUCCESS,
        _ => ExitCode::from(FAILED),
    })
}

/// Fails because there is no sample to show.
pub fn nothing_in(arguments: &Report, problems: &[String]) -> Result<ExitCode> {
    for problem in problems {
        tell(problem);
    }
    let name = arguments.file().display();
    match (&arguments.from, &arguments.to) {
        (None, None) => bail!("{name} has no sample that could be read"),
        _ => match span(arguments)? {
            Some(span) => bail!(
                "{name} has no sample in that range: choose a time from {:.3} to {:.3}",
                span.begin,
                span.end
            ),
            None => bail!("{name} has no sample that could be read"),
        },
    }
}

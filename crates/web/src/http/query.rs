//! Queries of `/api/v1`, and their bounds.

use std::time::Duration;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use serde::Deserialize;

use crate::history;

/// Rows in an answer without a limit, and the maximum limit.
pub(super) const ROWS: usize = 200;
pub(crate) const MOST_ROWS: usize = 5000;
/// The longest time over which rows are summed.
pub(crate) const MOST_SECONDS: f64 = 60.0;
/// Members of a directory in an answer without a limit.
pub(super) const MEMBERS: usize = 60;
/// The parameters of a page with an interval.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IntervalQuery {
    pub(super) seconds: Option<f64>,
}

/// The time that the charts show.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    pub(super) seconds: Option<f64>,
}

/// No parameters: every page refuses parameters that it would ignore.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoQuery {}

/// The time, the sort key and the number of rows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowsQuery {
    pub(super) seconds: Option<f64>,
    pub(super) sort: Option<String>,
    pub(super) limit: Option<usize>,
    #[serde(default)]
    pub(super) format: RowsFormat,
}

/// The format of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RowsFormat {
    #[default]
    Json,
    Csv,
}

/// One process, file, control group or device.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SubjectQuery {
    pub(super) of: Option<String>,
}

/// The time and the number of rows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EvictionsQuery {
    pub(super) seconds: Option<f64>,
    pub(super) limit: Option<usize>,
}

/// The directory, and the number of its members.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DirectoryQuery {
    pub(super) path: Option<String>,
    pub(super) limit: Option<usize>,
}

/// Returns the requested time of the charts, or all of it if there is none.
pub(super) fn past(seconds: Option<f64>) -> Result<Duration, String> {
    let most = history::MOST.as_secs_f64();
    match seconds {
        None => Ok(history::MOST),
        Some(seconds) if seconds > 0.0 && seconds <= most => Ok(Duration::from_secs_f64(seconds)),
        Some(_) => Err(format!("seconds must be above 0 and at most {most}")),
    }
}

pub(super) type QueryResult<T> = Result<Query<T>, QueryRejection>;

/// Returns what is wrong with a query: the parameter and its fault.
pub(super) fn fault(rejection: &QueryRejection) -> String {
    let text = rejection.body_text();
    let inner = text.strip_prefix("Failed to deserialize query string: ");
    inner.map_or_else(|| text.clone(), str::to_owned)
}

/// Returns the requested time, or the interval if there is none.
pub(super) fn time(seconds: Option<f64>, interval: Duration) -> Result<Duration, String> {
    match seconds {
        None => Ok(interval),
        Some(seconds) if seconds > 0.0 && seconds <= MOST_SECONDS => {
            Ok(Duration::from_secs_f64(seconds))
        }
        Some(_) => Err(format!(
            "seconds must be above 0 and at most {MOST_SECONDS}"
        )),
    }
}

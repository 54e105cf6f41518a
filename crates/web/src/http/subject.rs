//! `/api/v1/subject`: one process, file, group or device; `/api/v1/tables`: the tables of the page over a longer time.

use axum::extract::{Query, State};
use axum::response::Response;
use serde_json::{Value as Json, json};

use super::api::{answered, bad, over};
use super::query::{IntervalQuery, QueryResult, SubjectQuery, fault, time};
use super::site::Site;
use crate::documents;
use crate::events::{self, Limit};
use crate::subject_id::SubjectId;

/// One subject in the last minute; the whole machine where none is named.
pub(super) async fn subject(
    State(site): State<Site>,
    asked: QueryResult<SubjectQuery>,
) -> Response {
    let id = match asked {
        Ok(Query(wanted)) => wanted.of.unwrap_or_else(|| "cgroup:/".into()),
        Err(error) => return bad(fault(&error)),
    };
    let id: SubjectId = match id.parse() {
        Ok(id) => id,
        Err(error) => return bad(error),
    };
    let answer = site.asking.ask(move |gathered, watching| {
        let whole = gathered.minute_or_begin(watching)?;
        let json = documents::subject(&id, &whole, gathered.parts(), Limit::EVENT);
        Ok::<Json, String>(json)
    });
    answered(answer.await.and_then(|answer| answer))
}

/// The tables of the page over the requested time.
pub(super) async fn tables(
    State(site): State<Site>,
    asked: QueryResult<IntervalQuery>,
) -> Response {
    let time = match asked {
        Ok(Query(wanted)) => time(wanted.seconds, site.options.interval),
        Err(error) => Err(fault(&error)),
    };
    let time = match time {
        Ok(time) => time,
        Err(error) => return bad(error),
    };
    let answer = over(&site, time, |gathered, interval| {
        let mut json = gathered.head(&interval.time);
        json["elapsed_seconds"] = interval.elapsed.as_secs_f64().into();
        json["reasons"] = json!({});
        json["reason_codes"] = json!({});
        events::tables(&interval, &mut json, Limit::EVENT);
        json
    });
    answered(answer.await)
}

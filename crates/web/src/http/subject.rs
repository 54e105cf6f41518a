//! `/api/v1/subject`: one process, file, group or device; `/api/v1/tables`: the tables of the page over a longer time.

use axum::extract::{Query, State};
use axum::response::Response;
use serde_json::{Value as Json, json};

use super::api::{answered, bad, over};
use super::query::{IntervalQuery, QueryResult, SubjectQuery, time};
use super::site::Site;
use crate::events;
use crate::subject::members;
use crate::subject_id::SubjectId;

/// One subject in the last minute; the whole machine where none is named.
pub(super) async fn subject(
    State(site): State<Site>,
    asked: QueryResult<SubjectQuery>,
) -> Response {
    let id = match asked {
        Ok(Query(wanted)) => wanted.of.unwrap_or_else(|| "cgroup:/".into()),
        Err(error) => return bad(error.body_text()),
    };
    let id: SubjectId = match id.parse() {
        Ok(id) => id,
        Err(error) => return bad(error),
    };
    let answer = site.asking.ask(move |gathered, watching| {
        let whole = gathered.minute_or_begin(watching)?;
        let mut json = gathered.head(&whole.time);
        match whole.parts_missing() {
            None => merge(&mut json, members(gathered, &id, &whole)),
            Some(missing) => {
                json["subject"] = id.to_string().into();
                for list in ["row", "processes", "files", "evictions", "points"] {
                    json[list] = Json::Null;
                    json["reasons"][list] = missing.reason().words().into();
                    json["reason_codes"][list] = missing.reason().code().into();
                }
            }
        }
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
        Err(error) => Err(error.body_text()),
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
        events::tables(&interval, &mut json);
        json
    });
    answered(answer.await)
}

fn merge(json: &mut Json, members: Json) {
    if let Json::Object(members) = members {
        for (name, member) in members {
            json[name] = member;
        }
    }
}

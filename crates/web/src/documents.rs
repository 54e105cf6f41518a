//! Documents of `/api/v1` that a server and a recorded page make of the same parts.

use std::time::Duration;

use cachewise_model::{Interval, Source};
use serde_json::{Value as Json, json};

use crate::events::Limit;
use crate::subject::members;
use crate::subject_id::SubjectId;

/// The members that every document begins with.
pub(crate) fn head(source: &Source, time: &str) -> Json {
    json!({
        "schema_version": cachewise_model::SCHEMA_VERSION,
        "timestamp": time,
        "hostname": source.hostname,
        "page_size_bytes": source.page().get(),
    })
}

/// The history without its points. `interval` is that of the samples, `longest` the length of the longest point.
pub(crate) fn history(
    mut head: Json,
    started: &str,
    interval: Duration,
    longest: Duration,
) -> Json {
    head["started"] = started.into();
    head["interval_seconds"] = interval.as_secs_f64().into();
    head["longest_point_seconds"] = longest.max(interval).as_secs_f64().into();
    head
}

/// A subject in an interval, with its past in the parts of it.
pub(crate) fn subject<'a>(
    id: &SubjectId,
    whole: &Interval,
    parts: impl Iterator<Item = &'a Interval>,
    limit: Limit,
) -> Json {
    let mut json = head(&whole.source, &whole.time);
    match whole.parts_missing() {
        None => {
            if let Json::Object(members) = members(parts, id, whole, limit) {
                for (name, member) in members {
                    json[name] = member;
                }
            }
        }
        Some(missing) => {
            json["subject"] = id.to_string().into();
            for list in ["row", "processes", "files", "evictions", "points"] {
                json[list] = Json::Null;
                json["reasons"][list] = missing.reason().words().into();
                json["reason_codes"][list] = missing.reason().code().into();
            }
        }
    }
    json
}

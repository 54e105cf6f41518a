//! The JSON under `/api/v1`. `schema` describes it.

use std::fmt::Display;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use cachewise_model::{Interval, Missing, Unit, field};
use cachewise_view::{backend_json, evictions_json, findings_json, lost_json, row_json};
use serde_json::{Value as Json, json};

use super::answer::{document, problem};
use super::csv;
use super::query::{
    DirectoryQuery, EvictionsQuery, HistoryQuery, IntervalQuery, MEMBERS, MOST_ROWS, NoQuery,
    QueryResult, ROWS, RowsFormat, RowsQuery, fault, past, time,
};
use super::site::Site;
use crate::columns::{CGROUPS, DEVICES, FILES, PROCESSES, Table, greatest};
use crate::documents;
use crate::events::with_member;
use crate::gathered::Gathered;
use crate::history::COARSE;

pub(super) fn bad(why: impl ToString) -> Response {
    problem(StatusCode::BAD_REQUEST, why.to_string())
}

/// An answer, or the reason why there is none now.
pub(super) fn answered(answer: Result<impl Display, String>) -> Response {
    match answer {
        Ok(json) => document(StatusCode::OK, &json),
        Err(error) => not_now(error),
    }
}

pub(super) fn not_now(why: String) -> Response {
    problem(StatusCode::SERVICE_UNAVAILABLE, why)
}

pub(super) async fn unknown() -> Response {
    problem(
        StatusCode::NOT_FOUND,
        "there is no such page; /api/v1/openapi.json lists them".into(),
    )
}

pub(super) async fn other_method() -> Response {
    problem(
        StatusCode::METHOD_NOT_ALLOWED,
        "this page only answers GET: nothing can be changed here".into(),
    )
}

pub(super) async fn openapi(asked: QueryResult<NoQuery>) -> Response {
    if let Err(error) = asked {
        return bad(fault(&error));
    }
    document(StatusCode::OK, &crate::schema::openapi())
}

/// Answers with rows of one kind over the requested time.
async fn rows(site: Site, asked: QueryResult<RowsQuery>, table: &'static Table) -> Response {
    let Query(wanted) = match asked {
        Ok(wanted) => wanted,
        Err(error) => return bad(fault(&error)),
    };
    let time = match time(wanted.seconds, site.options.interval) {
        Ok(time) => time,
        Err(error) => return bad(error),
    };
    let mut order = table.order();
    if let Some(sort) = &wanted.sort {
        let Some(by) = field(sort) else {
            return bad(format!(
                "there is no field {sort}; `cachewise columns` lists them"
            ));
        };
        if matches!(by.unit, Unit::Text | Unit::Time) {
            return bad(format!(
                "{sort} is no number: rows are sorted by the greatest"
            ));
        }
        order.insert(0, by);
    }
    let limit = wanted.limit.unwrap_or(ROWS).min(MOST_ROWS);
    let answer = over(&site, time, |gathered, interval| {
        (gathered.head(&interval.time), interval)
    });
    let (mut json, interval) = match answer.await {
        Ok(answer) => answer,
        Err(error) => return not_now(error),
    };
    json["elapsed_seconds"] = interval.elapsed.as_secs_f64().into();
    match table.rows_of(&interval) {
        Ok(rows) => {
            json["count"] = rows.len().into();
            let rows = greatest(rows.into_iter(), &order, limit);
            if wanted.format == RowsFormat::Csv {
                return csv::file(table, &rows, site.machine.source.page());
            }
            json[table.id] = rows.iter().map(row_json).collect();
        }
        Err(missing) => set_missing(&mut json, &["count", table.id], missing),
    }
    document(StatusCode::OK, &json)
}

/// Applies `of` to the interval of the requested time, or to a short first one before the first
/// tick.
pub(super) async fn over<T: Send + 'static>(
    site: &Site,
    time: Duration,
    of: impl FnOnce(&mut Gathered, Interval) -> T + Send + 'static,
) -> Result<T, String> {
    let answer = site.asking.ask(move |gathered, watching| {
        let interval = gathered.over_or_begin(time, watching)?;
        Ok(of(gathered, interval))
    });
    answer.await.and_then(|answer| answer)
}

pub(super) async fn processes(State(site): State<Site>, asked: QueryResult<RowsQuery>) -> Response {
    rows(site, asked, &PROCESSES).await
}

pub(super) async fn files(State(site): State<Site>, asked: QueryResult<RowsQuery>) -> Response {
    rows(site, asked, &FILES).await
}

pub(super) async fn cgroups(State(site): State<Site>, asked: QueryResult<RowsQuery>) -> Response {
    rows(site, asked, &CGROUPS).await
}

pub(super) async fn devices(State(site): State<Site>, asked: QueryResult<RowsQuery>) -> Response {
    rows(site, asked, &DEVICES).await
}

/// Evicted pages by file, cause and process over the requested time.
pub(super) async fn evictions(
    State(site): State<Site>,
    asked: QueryResult<EvictionsQuery>,
) -> Response {
    let Query(wanted) = match asked {
        Ok(wanted) => wanted,
        Err(error) => return bad(fault(&error)),
    };
    let time = match time(wanted.seconds, site.options.interval) {
        Ok(time) => time,
        Err(error) => return bad(error),
    };
    let limit = wanted.limit.unwrap_or(ROWS).min(MOST_ROWS);
    let answer = over(&site, time, move |gathered, interval| {
        let mut json = gathered.head(&interval.time);
        json["elapsed_seconds"] = interval.elapsed.as_secs_f64().into();
        match interval.parts_missing() {
            None => {
                let mut rows = evictions_json(&interval);
                json["count"] = rows.len().into();
                rows.truncate(limit);
                json["evictions"] = rows.into();
            }
            Some(missing) => set_missing(&mut json, &["count", "evictions"], missing),
        }
        json
    });
    answered(answer.await)
}

fn set_missing(json: &mut Json, members: &[&str], missing: Missing) {
    for id in members {
        json[*id] = Json::Null;
        json["reasons"][*id] = missing.reason().words().into();
        json["reason_codes"][*id] = missing.reason().code().into();
    }
}

/// The machine's numbers of the last interval, or of a longer time.
pub(super) async fn interval(
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
        json["stretch"] = row_json(&interval.row());
        json["lost"] = lost_json(&interval.lost);
        json
    });
    answered(answer.await)
}

/// The machine's numbers since the start: what the metrics are, at this moment.
pub(super) async fn totals(State(site): State<Site>, asked: QueryResult<NoQuery>) -> Response {
    if let Err(error) = asked {
        return bad(fault(&error));
    }
    let answer = site.asking.ask(|gathered, watching| {
        gathered.take(watching)?;
        let time = gathered.totals.as_ref().map_or("", |totals| &totals.time);
        let mut json = gathered.head(time);
        json["started"] = gathered.machine.started.as_str().into();
        json["totals"] = row_json(&gathered.total_row());
        json["lost"] = lost_json(gathered.lost());
        Ok::<Json, String>(json)
    });
    answered(answer.await.and_then(|answer| answer))
}

/// The points of the charts so far.
pub(super) async fn history(
    State(site): State<Site>,
    asked: QueryResult<HistoryQuery>,
) -> Response {
    let time = match asked {
        Ok(Query(wanted)) => past(wanted.seconds),
        Err(error) => Err(fault(&error)),
    };
    let time = match time {
        Ok(time) => time,
        Err(error) => return bad(error),
    };
    let answer = site.asking.ask(move |gathered, _| {
        let head = gathered.head(gathered.time().unwrap_or_default());
        let (started, interval) = (&gathered.machine.started, gathered.options.interval);
        let json = documents::history(head, started, interval, COARSE);
        with_member(&json, "points", &gathered.history.points(time))
    });
    answered(answer.await)
}

/// The findings of the last minute.
pub(super) async fn findings(State(site): State<Site>, asked: QueryResult<NoQuery>) -> Response {
    if let Err(error) = asked {
        return bad(fault(&error));
    }
    let answer = over(&site, site.options.interval, |gathered, interval| {
        let mut json = gathered.head(&interval.time);
        for (name, member) in findings_json(gathered.findings()) {
            json[name] = member;
        }
        json
    });
    answered(answer.await)
}

/// Facts about the machine and this server.
pub(super) async fn machine(State(site): State<Site>, asked: QueryResult<NoQuery>) -> Response {
    if let Err(error) = asked {
        return bad(fault(&error));
    }
    let answer = site.asking.ask(|gathered, _| {
        let machine = &gathered.machine;
        let mut json = gathered.head(gathered.time().unwrap_or(&machine.started));
        json["kernel_release"] = machine.source.kernel.as_str().into();
        json["version"] = machine.version.into();
        json["started"] = machine.started.as_str().into();
        json["interval_seconds"] = gathered.options.interval.as_secs_f64().into();
        json["backend"] = backend_json(&machine.source.backend, gathered.exactness());
        json["lost"] = lost_json(gathered.lost());
        let collectors = gathered.options.collectors.iter();
        json["collectors"] = collectors.map(|collector| collector.id()).collect();
        json["names_all"] = (gathered.options.names == crate::Names::All).into();
        json
    });
    answered(answer.await)
}

/// A directory of the census.
pub(super) async fn cache(
    State(site): State<Site>,
    asked: QueryResult<DirectoryQuery>,
) -> Response {
    let Query(wanted) = match asked {
        Ok(wanted) => wanted,
        Err(error) => return bad(fault(&error)),
    };
    let path = wanted.path.unwrap_or_else(|| "/".into());
    if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
        return bad("path must be absolute, without `..`");
    }
    let limit = wanted.limit.unwrap_or(MEMBERS).clamp(1, MOST_ROWS);
    match site.survey.cache().await {
        Err(error) => not_now(error),
        Ok(tree) => match tree.view(&path, limit) {
            // One answer for absent and for masked names, so that it does not reveal which.
            None => problem(
                StatusCode::NOT_FOUND,
                "nothing of this name is in the page cache, or it may not be told".into(),
            ),
            Some(view) => {
                let json = json!({
                    "schema_version": cachewise_model::SCHEMA_VERSION,
                    "timestamp": tree.time,
                    "hostname": site.machine.source.hostname,
                    "page_size_bytes": site.machine.source.page().get(),
                    "census_seconds": tree.seconds,
                    "notes": tree.notes,
                    "cache": view,
                });
                document(StatusCode::OK, &json)
            }
        },
    }
}

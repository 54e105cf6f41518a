//! The JSON under `/api/v1`. `schema` describes it.

use std::fmt::Display;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use cachewise_model::{Row, Stretch, field};
use cachewise_view::{finding_json, row_json};
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::Site;
use super::columns::{CGROUPS, DEVICES, FILES, PROCESSES, Table, greatest};
use super::live::with_member;

/// Rows unless more or fewer are asked for, and the most.
const ROWS: usize = 200;
pub(crate) const MOST_ROWS: usize = 5000;
/// The longest time over which rows are summed.
pub(crate) const MOST_SECONDS: f64 = 60.0;
/// Members of a directory.
const MEMBERS: usize = 60;
const NOT_YET: &str = "no interval has passed yet: try again in a moment";

/// Over which time, in what order, how many.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    seconds: Option<f64>,
    sort: Option<String>,
    limit: Option<usize>,
}

/// Which directory.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Directory {
    path: Option<String>,
    limit: Option<usize>,
}

type Asked<T> = Result<Query<T>, QueryRejection>;

/// An error as JSON.
pub(super) fn problem(status: StatusCode, error: String) -> Response {
    document(status, &json!({ "error": error }))
}

fn document(status: StatusCode, json: &impl Display) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (status, kind, format!("{json}\n")).into_response()
}

fn bad(why: impl ToString) -> Response {
    problem(StatusCode::BAD_REQUEST, why.to_string())
}

fn not_now(why: String) -> Response {
    problem(StatusCode::SERVICE_UNAVAILABLE, why)
}

pub(super) async fn unknown() -> Response {
    problem(
        StatusCode::NOT_FOUND,
        "there is no such page; /api/v1/openapi.json lists them".into(),
    )
}

pub(super) async fn openapi() -> Response {
    document(StatusCode::OK, &crate::schema::openapi())
}

impl Wanted {
    fn time(&self, interval: Duration) -> Result<Duration, String> {
        match self.seconds {
            None => Ok(interval),
            Some(seconds) if seconds > 0.0 && seconds <= MOST_SECONDS => {
                Ok(Duration::from_secs_f64(seconds))
            }
            Some(_) => Err(format!(
                "seconds must be above 0 and at most {MOST_SECONDS}"
            )),
        }
    }
}

/// Rows of one kind, over the time that is asked for.
async fn rows(
    site: Site,
    asked: Asked<Wanted>,
    table: &'static Table,
    of: fn(&Stretch) -> Vec<Row>,
) -> Response {
    let Query(wanted) = match asked {
        Ok(wanted) => wanted,
        Err(error) => return bad(error.body_text()),
    };
    let time = match wanted.time(site.options.interval) {
        Ok(time) => time,
        Err(error) => return bad(error),
    };
    let sort = wanted.sort.as_deref().unwrap_or(table.order);
    let Some(by) = field(sort) else {
        return bad(format!(
            "there is no field {sort}; `cachewise columns` lists them"
        ));
    };
    let limit = wanted.limit.unwrap_or(ROWS).min(MOST_ROWS);
    let answer = site.asking.ask(move |gathered, _| {
        let stretch = gathered.over(time)?;
        Some((gathered.head(&stretch.time), stretch))
    });
    match answer.await {
        Ok(Some((mut json, stretch))) => {
            let rows = of(&stretch);
            json["elapsed_seconds"] = stretch.elapsed.as_secs_f64().into();
            json["count"] = rows.len().into();
            let rows = greatest(rows.into_iter(), by, limit);
            json[table.id] = rows.iter().map(row_json).collect();
            document(StatusCode::OK, &json)
        }
        Ok(None) => not_now(NOT_YET.into()),
        Err(error) => not_now(error),
    }
}

pub(super) async fn processes(State(site): State<Site>, asked: Asked<Wanted>) -> Response {
    rows(site, asked, &PROCESSES, |stretch| {
        stretch.process_rows().collect()
    })
    .await
}

pub(super) async fn files(State(site): State<Site>, asked: Asked<Wanted>) -> Response {
    rows(site, asked, &FILES, |stretch| stretch.file_rows().collect()).await
}

pub(super) async fn cgroups(State(site): State<Site>, asked: Asked<Wanted>) -> Response {
    rows(site, asked, &CGROUPS, |stretch| {
        stretch.cgroup_rows().collect()
    })
    .await
}

pub(super) async fn devices(State(site): State<Site>, asked: Asked<Wanted>) -> Response {
    rows(site, asked, &DEVICES, |stretch| {
        stretch.device_rows().collect()
    })
    .await
}

fn lost(stretch: &Stretch) -> Json {
    let lost = stretch.lost.iter();
    lost.map(|lost| json!({ "id": lost.id, "count": lost.count, "meaning": lost.meaning }))
        .collect()
}

/// The machine's numbers of the last interval, or of a longer time.
pub(super) async fn stretch(State(site): State<Site>, asked: Asked<Wanted>) -> Response {
    let time = match asked {
        Ok(Query(wanted)) => wanted.time(site.options.interval),
        Err(error) => Err(error.body_text()),
    };
    let time = match time {
        Ok(time) => time,
        Err(error) => return bad(error),
    };
    let answer = site.asking.ask(move |gathered, _| {
        let stretch = gathered.over(time)?;
        let mut json = gathered.head(&stretch.time);
        json["stretch"] = row_json(&stretch.row());
        json["lost"] = lost(&stretch);
        Some(json)
    });
    match answer.await {
        Ok(Some(json)) => document(StatusCode::OK, &json),
        Ok(None) => not_now(NOT_YET.into()),
        Err(error) => not_now(error),
    }
}

/// The machine's numbers since the start: what the metrics are, at this moment.
pub(super) async fn totals(State(site): State<Site>) -> Response {
    let answer = site.asking.ask(|gathered, watching| {
        gathered.take(watching)?;
        let time = gathered.totals.as_ref().map_or("", |totals| &totals.time);
        let mut json = gathered.head(time);
        json["started"] = gathered.machine.started.as_str().into();
        json["totals"] = row_json(&gathered.total_row());
        json["lost"] = gathered.totals.as_ref().map(lost).unwrap_or_default();
        Ok::<Json, String>(json)
    });
    match answer.await.and_then(|answer| answer) {
        Ok(json) => document(StatusCode::OK, &json),
        Err(error) => not_now(error),
    }
}

/// The points of the charts so far.
pub(super) async fn history(State(site): State<Site>) -> Response {
    let answer = site.asking.ask(|gathered, _| {
        let mut json = gathered.head(gathered.time().unwrap_or_default());
        json["interval_seconds"] = gathered.options.interval.as_secs_f64().into();
        with_member(&json, "points", &gathered.points())
    });
    match answer.await {
        Ok(json) => document(StatusCode::OK, &json),
        Err(error) => not_now(error),
    }
}

/// What is wrong, in the last minute.
pub(super) async fn findings(State(site): State<Site>) -> Response {
    let answer = site.asking.ask(|gathered, _| {
        let findings: Json = gathered.findings().iter().map(finding_json).collect();
        let mut json = gathered.head(gathered.time()?);
        json["findings"] = findings;
        Some(json)
    });
    match answer.await {
        Ok(Some(json)) => document(StatusCode::OK, &json),
        Ok(None) => not_now(NOT_YET.into()),
        Err(error) => not_now(error),
    }
}

/// What is known of the machine and of this server.
pub(super) async fn machine(State(site): State<Site>) -> Response {
    let answer = site.asking.ask(|gathered, _| {
        let machine = &gathered.machine;
        let mut json = gathered.head(gathered.time().unwrap_or(&machine.started));
        json["kernel_release"] = machine.kernel_release.as_str().into();
        json["version"] = machine.version.into();
        json["started"] = machine.started.as_str().into();
        json["interval_seconds"] = gathered.options.interval.as_secs_f64().into();
        json["backend"] = json!({
            "name": machine.backend.name,
            "exact": machine.backend.exact,
            "notes": machine.backend.notes,
        });
        let collectors = gathered.options.collectors.iter();
        json["collectors"] = collectors.map(|collector| collector.id()).collect();
        json["names_all"] = (gathered.options.names == crate::Names::All).into();
        json
    });
    match answer.await {
        Ok(json) => document(StatusCode::OK, &json),
        Err(error) => not_now(error),
    }
}

/// A directory of the census.
pub(super) async fn cache(State(site): State<Site>, asked: Asked<Directory>) -> Response {
    let Query(wanted) = match asked {
        Ok(wanted) => wanted,
        Err(error) => return bad(error.body_text()),
    };
    let path = wanted.path.unwrap_or_else(|| "/".into());
    if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
        return bad("path must be absolute, without `..`");
    }
    let limit = wanted.limit.unwrap_or(MEMBERS).clamp(1, MOST_ROWS);
    match site.survey.cache().await {
        Err(error) => not_now(error),
        Ok(tree) => match tree.view(&path, limit) {
            // Not there and not to be told are one answer.
            None => problem(
                StatusCode::NOT_FOUND,
                "nothing of this name is in the page cache, or it may not be told".into(),
            ),
            Some(view) => {
                let json = json!({
                    "schema_version": cachewise_model::SCHEMA_VERSION,
                    "timestamp": tree.time,
                    "hostname": site.machine.hostname,
                    "page_size_bytes": site.machine.page_size.get(),
                    "census_seconds": tree.seconds,
                    "notes": tree.notes,
                    "cache": view,
                });
                document(StatusCode::OK, &json)
            }
        },
    }
}

//! The documents inside the page: those that a server would send, with the whole recording as one tick.

use std::time::Duration;

use cachewise_model::{Finding, GapKind, Statistics, SubjectKind, escaped};
use serde_json::{Value as Json, json};

use super::samples::ReportSamples;
use crate::columns::TABLES;
use crate::documents;
use crate::events::{self, Beyond, Limit};
use crate::subject_id::SubjectId;

/// Rows of each table.
const TABLE: Limit = Limit {
    rows: 100,
    beyond: Beyond::Summed,
};
/// Rows of each table of a subject.
const SUBJECT: Limit = Limit {
    rows: 25,
    beyond: Beyond::Summed,
};
/// The size of all subjects; beyond it the least active are left out.
const MOST_BYTES: usize = 4 << 20;

/// `tick`, `history`, and `subjects` by their names, as JSON.
pub(super) fn documents(summary: &Statistics, samples: &ReportSamples) -> String {
    let total = &summary.total;
    let (findings, exactness) = (&summary.diagnosis, summary.exactness());
    let tick = events::document(total, findings, exactness, &total.lost, TABLE);
    let subjects = subjects(&names(summary, &tick), summary, samples);
    let history = history(summary, samples);
    format!("{{\"tick\":{tick},\"history\":{history},\"subjects\":{{{subjects}}}}}")
}

/// The points of the charts, and the gaps between them.
fn history(summary: &Statistics, samples: &ReportSamples) -> Json {
    let total = &summary.total;
    let head = documents::head(&total.source, &total.time);
    let longest = samples.points().map(|point| point.elapsed).max();
    let longest = longest.unwrap_or(Duration::ZERO);
    let mut json = documents::history(head, &summary.begin, summary.interval, longest);
    json["points"] = packed(&samples.points().map(events::point).collect::<Vec<_>>());
    let gaps = summary.gaps.iter().filter_map(|gap| {
        // A clock that was set has no length on its own axis.
        let is_shown = gap.kind != GapKind::ClockSet;
        let (begin, end) = (gap.begin.as_ref().known()?, gap.end.as_ref().known()?);
        is_shown.then(|| json!({ "begin": begin, "end": end, "kind": gap.kind.id() }))
    });
    json["gaps"] = gaps.collect();
    json
}

/// A list of objects with the names of their members once: `fields`, and in `rows` the values of each. `source.js` makes
/// the list of it again.
fn packed(list: &[Json]) -> Json {
    let mut fields: Vec<&String> = Vec::new();
    for object in list.iter().filter_map(Json::as_object) {
        for name in object.keys() {
            if !fields.contains(&name) {
                fields.push(name);
            }
        }
    }
    let row = |object: &Json| {
        fields
            .iter()
            .map(|name| object[*name].clone())
            .collect::<Json>()
    };
    let rows: Json = list.iter().map(row).collect();
    json!({ "fields": fields, "rows": rows })
}

/// The names of all subjects that the page leads to: those of findings, then the rows of the tables by their rank,
/// then the commands of the processes.
fn names(summary: &Statistics, tick: &Json) -> Vec<String> {
    let findings = summary.diagnosis.findings.iter().filter_map(of_finding);
    let mut names: Vec<String> = findings.collect();
    for rank in 0..TABLE.rows {
        let rows = TABLES.iter().map(|table| &tick[table.id][rank]["subject"]);
        names.extend(rows.filter_map(Json::as_str).map(str::to_owned));
    }
    let processes = tick["processes"].as_array().into_iter().flatten();
    let commands = processes.filter_map(|row| row["command"].as_str());
    names.extend(commands.map(|command| SubjectId::Command(command.to_owned()).to_string()));
    names
}

/// The subject of a finding as its card on the page names it.
fn of_finding(finding: &Finding) -> Option<String> {
    let path = || Some(escaped(finding.subject.as_deref()?).into_owned());
    let id = match finding.kind {
        SubjectKind::Process => SubjectId::Process(finding.pid?, None),
        SubjectKind::File => SubjectId::File(path()?),
        SubjectKind::Group => SubjectId::Cgroup(path()?),
        SubjectKind::Device => SubjectId::Device(path()?),
        SubjectKind::Machine => return None,
    };
    Some(id.to_string())
}

/// The documents of these subjects as members of an object, each once.
fn subjects(names: &[String], summary: &Statistics, samples: &ReportSamples) -> String {
    let mut members = String::new();
    let mut known = std::collections::HashSet::new();
    for name in names {
        let Ok(id) = name.parse::<SubjectId>() else {
            continue;
        };
        if !known.insert(name) {
            continue;
        }
        let mut document = documents::subject(&id, &summary.total, samples.parts(), SUBJECT);
        if let Json::Array(points) = &document["points"] {
            document["points"] = packed(points);
        }
        let member = format!("{}:{document}", json!(name));
        if members.len() + member.len() >= MOST_BYTES {
            break;
        }
        if !members.is_empty() {
            members.push(',');
        }
        members.push_str(&member);
    }
    members
}

//! A report as one complete JSON document.

use cachewise_model::{
    Backend, Datum, Diagnosis, Exactness, Exit, Finding, Folded, Interval, Law, Lost, Measured,
    NamesOfGroups, Reason, Row, SCHEMA_VERSION, Side, Unit, Value, Verdict, Verification, laws,
};
use serde_json::{Map, Value as Json, json};

use super::closing::headline_text;
use super::{evictions, stacks, times};
use crate::json::Object;

/// The whole document.
pub(super) fn json(interval: &Interval, diagnosis: &Diagnosis) -> Json {
    let run = interval.run();
    let around = &run.surroundings;
    let surroundings = Object::new()
        .value("memory_total_bytes", &around.memory_total_bytes.bytes())
        .value(
            "memory_available_bytes",
            &around.memory_available_bytes.bytes(),
        )
        .value("cgroup_limit_bytes", &around.cgroup_limit_bytes.bytes())
        .value(
            "cgroup_limit_path",
            &around.cgroup_limit_path.clone().map(Datum::Path),
        )
        .value("cgroup_limit_reached", &around.cgroup_limit_reached.count())
        .value("dirty_bytes", &around.dirty_bytes.bytes())
        .value("dirty_limit_bytes", &around.dirty_limit_bytes.bytes())
        .value(
            "dirty_background_bytes",
            &around.dirty_background_bytes.bytes(),
        );
    let files = interval.files.iter().map(|file| {
        let object = Object::new().everything(&interval.of_run(file.row()));
        object
            .set("deleted", file.deleted)
            .set("direct", file.direct)
            .finish()
    });
    let names = NamesOfGroups::of(&interval.cgroups);
    let processes = interval
        .processes
        .iter()
        .map(|process| everything(&interval.of_run(names.row(process))));
    let cgroups = interval
        .cgroups
        .iter()
        .map(|cgroup| everything(&interval.of_run(cgroup.row())));
    let devices = interval
        .devices
        .iter()
        .map(|device| everything(&interval.of_run(device.row())));
    Object::new()
        .set("schema_version", SCHEMA_VERSION)
        .set("timestamp", run.begin.as_str())
        .set("hostname", interval.source.hostname.as_str())
        .set("page_size_bytes", interval.page().get())
        .set("kernel_release", interval.source.kernel.as_str())
        .set("command", run.command.as_slice())
        .set("followed_pid", run.followed)
        .set("exit", exit(run.exit))
        .set("wall_seconds", interval.elapsed.as_secs_f64())
        .value("cpu_user_seconds", &Value::seconds(run.cpu_user_seconds))
        .value(
            "cpu_system_seconds",
            &Value::seconds(run.cpu_system_seconds),
        )
        .set("backend", backend(interval))
        .set("lost", lost_json(&interval.lost))
        .set("totals", everything(&interval.total_row()))
        .value("outside_bytes", &run.outside_bytes.bytes())
        .set("files", files.collect::<Json>())
        .set("processes", processes.collect::<Json>())
        .set("cgroups", cgroups.collect::<Json>())
        .set("devices", devices.collect::<Json>())
        .set("evictions", evictions::evictions_json(interval))
        .set("stacks", stacks::json(interval))
        .set("times", times::json(interval))
        .set("surroundings", surroundings.finish())
        .set("laws", laws(interval).iter().map(law).collect::<Json>())
        .set("verdict", interval.verdict(diagnosis))
        .set("verification", verification(interval))
        .merge(findings_json(diagnosis))
        .finish()
}

fn verification(interval: &Interval) -> Json {
    match &interval.run().verification {
        None => Json::Null,
        Some(Verification::Done {
            predicted_seconds,
            measured_seconds,
            cold_seconds,
            missed_pages,
        }) => json!({
            "predicted_seconds": predicted_seconds,
            "measured_seconds": measured_seconds,
            "cold_seconds": cold_seconds,
            "missed_pages": missed_pages,
        }),
        Some(Verification::Refused(reason)) => json!({ "refused": reason }),
    }
}

pub(crate) fn everything(row: &Row) -> Json {
    Object::new().everything(row).finish()
}

fn exit(exit: Exit) -> Json {
    let (code, signal, reason) = match exit {
        Exit::Code(code) => (Some(code), None, None),
        Exit::Signal(number) => (None, Some(number), None),
        Exit::Running => (None, None, Some(Reason::StillRuns)),
        Exit::Unknown(reason) => (None, None, Some(reason)),
    };
    json!({
        "code": code,
        "signal": signal,
        "signal_name": exit.signal_name(),
        "reason": reason.map(Reason::words),
        "reason_code": reason.map(Reason::code),
    })
}

pub(crate) fn backend(interval: &Interval) -> Json {
    backend_json(&interval.source.backend, interval.exactness())
}

/// The back end, with its quality and its price.
#[must_use]
pub fn backend_json(backend: &Backend, exactness: Exactness) -> Json {
    Object::new()
        .set("name", backend.name.as_str())
        .set("exact", backend.exact)
        .set("exactness", exactness.id())
        .set("notes", backend.notes.as_slice())
        .value("kernel_memory_bytes", &backend.kernel_memory_bytes.bytes())
        .finish()
}

/// Losses as a list of objects.
#[must_use]
pub fn lost_json(lost: &[Lost]) -> Json {
    lost.iter()
        .map(|lost| json!({ "id": lost.id, "count": lost.count, "meaning": lost.meaning }))
        .collect()
}

fn law(law: &Law) -> Json {
    let (holds, status, reason) = match law.verdict() {
        Verdict::Holds => (Some(true), "ok", None),
        Verdict::Broken => (Some(false), "violated", None),
        Verdict::Unknown(reason) => (None, "not_checked", Some(reason)),
    };
    let side = |side: &Side| -> Json {
        let named = side.iter();
        named
            .map(|(name, count)| json!({ "name": name, "value": count.known() }))
            .collect()
    };
    json!({
        "id": law.id,
        "scope": law.scope.id(),
        "subject": law.subject,
        "left": side(&law.left),
        "relation": law.relation.sign(),
        "right": side(&law.right),
        "unit": match law.unit {
            Unit::Bytes => "bytes",
            _ => "pages",
        },
        "status": status,
        "holds": holds,
        "reason": reason.map(Reason::words),
        "reason_code": law.reason_code(),
    })
}

/// Findings as members of a document: null with the reason if there are none and the rules had no
/// input.
#[must_use]
pub fn findings_json(diagnosis: &Diagnosis) -> Map<String, Json> {
    let Diagnosis { findings, blind } = diagnosis;
    let made: Json = match blind {
        Some(_) if findings.is_empty() => Json::Null,
        _ => findings.iter().map(finding_json).collect(),
    };
    let unchecked = blind.as_ref().map_or(&[][..], |blind| &blind.rules);
    let mut members = Map::new();
    members.insert("headline".into(), headline_text(diagnosis).into());
    members.insert("findings".into(), made);
    members.insert("unchecked_rules".into(), unchecked.into());
    if let Some(blind) = blind {
        let reasons = json!({ "findings": blind.to_string() });
        members.insert("reasons".into(), reasons);
        let codes = json!({ "findings": blind.reason.code() });
        members.insert("reason_codes".into(), codes);
    }
    members
}

fn folded_json(folded: &Folded) -> Json {
    let object = Object::new()
        .set("id", folded.id)
        .set("cause", folded.title.as_str());
    match &folded.subject {
        Some(path) => object.value("subject", &Measured::Exact(Datum::Path(path.clone()))),
        None => object.set("subject", Json::Null),
    }
    .finish()
}

fn finding_json(finding: &Finding) -> Json {
    let figures = finding
        .figures
        .iter()
        .fold(Object::new(), |object, (name, value)| {
            object.value(name, value)
        })
        .finish();
    let object = Object::new()
        .set("id", finding.id)
        .set("severity", finding.severity.id())
        .set("title", finding.title.as_str());
    let object = match &finding.subject {
        Some(path) => object.value("subject", &Measured::Exact(Datum::Path(path.clone()))),
        None => object.set("subject", Json::Null),
    };
    object
        .set("subject_kind", finding.kind.id())
        .set("subject_name", finding.name.as_deref())
        .set("pid", finding.pid)
        .set("rules", finding.rules().collect::<Json>())
        .set("cause", finding.title.as_str())
        .set("evidence", figures.clone())
        .set(
            "also",
            finding.also.iter().map(folded_json).collect::<Json>(),
        )
        .set("cost_bytes", finding.cost_bytes)
        .set("cost_seconds", finding.cost_seconds)
        .set("fix", finding.next_step.as_str())
        .set("verify", finding.verify.as_str())
        .set("page", finding.page().as_str())
        // The names of earlier versions.
        .set("figures", figures)
        .set("next_step", finding.next_step.as_str())
        .finish()
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Counter, Missing, Reason};

    use super::super::sample;
    use super::*;

    #[test]
    fn findings_without_input_are_null() {
        let mut interval = sample::cold();
        let mut diagnosis = sample::diagnosis();
        let seeing = findings_json(&diagnosis);
        assert_eq!(seeing["unchecked_rules"], json!([]), "all rules looked");
        assert!(!seeing.contains_key("reasons"), "nothing to explain");
        interval.ledger.set_missing(
            Counter::DirectReadBytes,
            Missing::Unknown(Reason::NeedsProbe),
        );
        diagnosis.blind = cachewise_model::blind(&interval);
        let partly = findings_json(&diagnosis);
        assert_eq!(partly["findings"][0]["id"], "cold_start", "the finding");
        assert_eq!(
            partly["unchecked_rules"],
            json!(["direct_io"]),
            "and the rules without input"
        );
        diagnosis.findings.clear();
        let none = findings_json(&diagnosis);
        assert!(none["findings"].is_null(), "not known is not none");
        assert_eq!(
            none["reasons"]["findings"],
            "1 of 22 rules could not look: only the probe can count it",
            "and why"
        );
    }

    #[test]
    fn json_is_complete_and_parses() {
        let mut interval = sample::cold();
        interval.device_write_bytes = Measured::unknown(Reason::NoPermission);
        let text = crate::json::to_text(&json(&interval, &sample::diagnosis()), true);
        let back: Json = serde_json::from_str(&text).unwrap();
        let members: Vec<&str> = back
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(
            members[..4],
            ["schema_version", "timestamp", "hostname", "page_size_bytes"],
            "every document begins with these"
        );
        assert_eq!(
            back["command"][1], "if=/data/file",
            "the command line is a list"
        );
        assert_eq!(back["exit"]["code"], 0, "how it ended");
        assert_eq!(
            back["totals"]["read_requested_pages"], 131_072,
            "the totals"
        );
        assert_eq!(back["totals"]["reuse_ratio"], 0.0, "and derived values");
        assert_eq!(
            back["totals"]["device_write_bytes"],
            Json::Null,
            "unknown is null"
        );
        assert_eq!(
            back["totals"]["reasons"]["device_write_bytes"],
            "residency is visible only to users who own or may write the file",
            "with the reason beside it"
        );
        assert_eq!(back["files"][0]["path"], "/data/file", "the files");
        assert_eq!(back["files"][0]["deleted"], false, "with their flags");
        assert!(
            back["files"][0].get("pid").is_none(),
            "and without fields that files do not have"
        );
        assert_eq!(back["processes"][0]["exit_status"], "0", "the processes");
        assert_eq!(
            back["cgroups"][0]["cgroup"], "/user.slice",
            "the control groups"
        );
        assert_eq!(back["findings"][0]["id"], "cold_start", "the findings");
        assert_eq!(
            back["findings"][0]["figures"]["cold_pages"], 131_072,
            "with their figures"
        );
        assert_eq!(back["laws"][0]["holds"], true, "the laws");
        assert_eq!(
            back["backend"]["kernel_memory_bytes"],
            32 << 20,
            "what it takes of the kernel"
        );
        assert_eq!(
            back["lost"][0]["count"], 0,
            "and what was lost, also if nothing was"
        );
        assert_eq!(
            back["surroundings"]["reasons"]["dirty_bytes"], "not measured in this run",
            "why"
        );
    }

    #[test]
    fn signal_has_number_and_name() {
        let json = exit(Exit::Signal(9));
        assert_eq!(json["signal"], 9, "the number");
        assert_eq!(json["signal_name"], "SIGKILL", "the name");
        assert_eq!(json["code"], Json::Null, "and no status");
        assert_eq!(
            exit(Exit::Running)["reason"],
            "still running",
            "no end has a reason too"
        );
    }
}

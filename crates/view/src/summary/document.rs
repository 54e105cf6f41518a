//! A summary as one complete JSON document.

use cachewise_model::{
    Figures, Kind, Measured, Row, SCHEMA_VERSION, Spread, Stall, Statistics, Value,
};
use serde_json::Value as Json;

use super::options::{SummaryOptions, is_wanted};
use crate::json::Object;
use crate::report::{backend_json, evictions_json, findings_json, lost_json, stacks};

pub(super) fn json(summary: &Statistics, options: &SummaryOptions) -> Json {
    let total = &summary.total;
    let list =
        |rows: &mut dyn Iterator<Item = Row>| rows.map(|row| everything(&row)).collect::<Json>();
    let wanted = (summary.spreads.iter()).filter(|spread| is_wanted(spread.field, options));
    let gaps = summary.gaps.iter().map(|gap| {
        let length = gap.length.map(|length| length.as_secs_f64());
        let object = Object::new()
            .set("kind", gap.kind.id())
            .set("meaning", gap.kind.meaning())
            .set("begin", gap.begin.clone().known())
            .set("end", gap.end.clone().known())
            .set("length_seconds", length.known());
        match length.missing() {
            Some(missing) => object.because("reason", Some(missing.reason())).finish(),
            None => object.finish(),
        }
    });
    Object::new()
        .set("schema_version", SCHEMA_VERSION)
        .set("timestamp", summary.total.time.as_str())
        .set("hostname", summary.total.source.hostname.as_str())
        .set("page_size_bytes", summary.total.page().get())
        .set("kernel_release", summary.total.source.kernel.as_str())
        .set("begin", summary.begin.as_str())
        .set("end", summary.total.time.as_str())
        .set("interval_seconds", summary.interval.as_secs_f64())
        .set("elapsed_seconds", total.elapsed.as_secs_f64())
        .set("samples", summary.samples)
        .set("sessions", summary.sessions)
        .set("command", summary.command.as_slice())
        .set("scope", summary.scope.as_str())
        .set(
            "backend",
            backend_json(&summary.total.source.backend, summary.exactness()),
        )
        .set("fields", wanted.map(spread).collect::<Json>())
        .set("stalls", summary.stalls.iter().map(stall).collect::<Json>())
        .set("gaps", gaps.collect::<Json>())
        .set("more_gaps", summary.more_gaps)
        .set("totals", everything(&total.row()))
        .set("processes", list(&mut total.process_rows()))
        .set("files", list(&mut total.file_rows()))
        .set("cgroups", list(&mut total.cgroup_rows()))
        .set("devices", list(&mut total.device_rows()))
        .set("evictions", evictions_json(total))
        .set("stacks", stacks::json(total))
        .merge(findings_json(&summary.diagnosis))
        .set("lost", lost_json(&total.lost))
        .set("problems", summary.problems.as_slice())
        .finish()
}

fn everything(row: &Row) -> Json {
    Object::new().everything(row).finish()
}

fn spread(spread: &Spread) -> Json {
    let field = spread.field;
    let figures = |of: fn(&Figures) -> f64| spread.figures.as_ref().map(of).known();
    let mut object = Object::new()
        .set("id", field.id)
        .set(
            "kind",
            match field.kind {
                Kind::Counter => "counter",
                Kind::Gauge | Kind::Label => "gauge",
            },
        )
        .set("unit", field.unit.name())
        .set("per_second", spread.is_rate())
        .set("known_samples", spread.known)
        .set("min", figures(|figures| figures.min))
        .set("mean", figures(|figures| figures.mean))
        .set("p50", figures(|figures| figures.p50))
        .set("p90", figures(|figures| figures.p90))
        .set("p99", figures(|figures| figures.p99))
        .set("max", figures(|figures| figures.max))
        .value("total", &spread.total);
    if let Some(missing) = spread.figures.missing() {
        object = object.because("reason", Some(missing.reason()));
    }
    if let Some(how) = spread.figures.estimate() {
        object = object.because("estimate", Some(how));
    }
    object.finish()
}

fn stall(stall: &Stall) -> Json {
    let time: Measured<String> = stall.worst_time.clone();
    Object::new()
        .set("resource", stall.resource)
        .set("kind", stall.kind)
        .value("seconds", &Value::seconds(stall.seconds))
        .value("ratio", &Value::seconds(stall.ratio))
        .value("worst_ratio", &Value::seconds(stall.worst_ratio))
        .set("worst_time", time.known())
        .finish()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn document_has_head_and_all_parts() {
        let mut night = sample::night();
        night.diagnosis.findings = crate::report::sample::diagnosis().findings;
        let json = json(&night, &SummaryOptions::default());
        assert_eq!(json["findings"][0]["id"], "cold_start", "the finding");
        assert_eq!(json["schema_version"], SCHEMA_VERSION, "which names it has");
        assert_eq!(json["page_size_bytes"], 4096, "the page size");
        assert_eq!(json["gaps"][0]["kind"], "not_recorded", "gaps");
        assert_eq!(json["totals"]["read_requested_pages"], 300, "sums");
        let read = (json["fields"].as_array().unwrap().iter())
            .find(|field| field["id"] == "read_requested_pages")
            .unwrap();
        assert_eq!(read["max"], 200.0, "the most in a second");
        assert_eq!(read["total"], 300, "in all");
        assert_eq!(json["processes"][0]["command"], "dd", "the busiest process");
        let io = (json["stalls"].as_array().unwrap().iter())
            .find(|stall| stall["resource"] == "io" && stall["kind"] == "some")
            .unwrap();
        assert_eq!(io["seconds"], 0.5, "time lost");
    }

    #[test]
    fn unknown_value_is_null_with_reason() {
        let json = json(&sample::night(), &SummaryOptions::default());
        let free = (json["fields"].as_array().unwrap().iter())
            .find(|field| field["id"] == "free_bytes")
            .unwrap();
        assert_eq!(free["max"], Json::Null, "not zero");
        assert!(free["reason"].is_string(), "with the reason");
    }
}

//! A server that may not load the probe: unknown is not 0, and not absent.

use serde_json::{Value, json};

use super::site::{Site, value_of};
use crate::support::Scratch;

const COUNTED: &str = "only the probe can count it";

/// Series of what is not known are left out, their collectors say that something is missing, and why.
pub fn metrics() {
    let scratch = Scratch::new();
    let site = Site::as_nobody(&scratch, &["--top-n", "3"]);
    let text = site.get("/metrics").body;
    for name in [
        "page_cache_requested",
        "page_cache_misses",
        "device_page_cache_requested",
        "cgroup_page_cache_requested",
        "cgroup_direct_bytes",
    ] {
        let series = format!("\ncachewise_{name}_total");
        assert!(!text.contains(&series), "{name} is not known: {text}");
    }
    for (name, value) in [("watch", 1.0), ("memory", 1.0), ("page_cache", 0.0)] {
        let series = format!("cachewise_collector_success{{collector=\"{name}\"}}");
        assert_eq!(value_of(&text, &series), Some(value), "{name}: {text}");
    }
    let why = format!(
        "cachewise_collector_left_out{{collector=\"page_cache\",reason=\"{COUNTED}\",reason_code=\"needs_probe\"}}"
    );
    assert!(
        value_of(&text, &why).is_some_and(|count| count > 0.0),
        "why, and how many: {text}"
    );
    assert!(
        text.contains("cachewise_memory_bytes{state=\"cached\"}"),
        "what everybody may know is there"
    );
}

/// Whether the list does not claim that all is well: unknown, or some findings that need no counting; an empty list would
/// claim it.
fn is_none_known(findings: &Value) -> bool {
    let list = findings.as_array();
    findings.is_null() || list.is_some_and(|list| !list.is_empty())
}

/// A list that would be empty because its contents are unknown is null, with the reason.
pub fn lists() {
    let scratch = Scratch::new();
    let site = Site::as_nobody(&scratch, &["--interval", "60"]);
    for name in ["processes", "files"] {
        let document = site.json(&format!("/api/v1/{name}"));
        for id in [name, "count"] {
            assert!(document[id].is_null(), "{id} is not known: {document}");
            assert_eq!(document["reasons"][id], COUNTED, "and why: {document}");
            assert_eq!(document["reason_codes"][id], "needs_probe", "{document}");
        }
    }
    for name in ["cgroups", "devices"] {
        let document = site.json(&format!("/api/v1/{name}"));
        for row in document[name].as_array().expect("these are known") {
            assert!(
                row["read_requested_pages"].is_null(),
                "but not what they read: {row}"
            );
            assert_eq!(
                row["reasons"]["read_requested_pages"], COUNTED,
                "and why: {row}"
            );
        }
    }
    let document = site.json("/api/v1/findings");
    assert!(is_none_known(&document["findings"]), "{document}");
    let unchecked = document["unchecked_rules"].as_array().expect("a list");
    assert!(
        unchecked.contains(&json!("who_misses")) && !unchecked.contains(&json!("thrashing")),
        "which rules could not look, and no others: {document}"
    );
    let why = document["reasons"]["findings"].as_str().expect("a reason");
    assert!(why.contains(COUNTED), "why they could not: {why}");
    let page = site.get("/").body;
    assert_eq!(
        page.matches(&format!("Not known: {COUNTED}.")).count(),
        2,
        "the page says so of processes and files"
    );
    assert!(
        page.contains(&format!("Not known: {why}.")),
        "and of the findings"
    );
}

/// The same in what keeps the page alive.
pub fn events() {
    let scratch = Scratch::new();
    let site = Site::as_nobody(&scratch, &["--interval", "0.1"]);
    let tick = site.tick();
    assert!(is_none_known(&tick["findings"]), "{tick}");
    for id in ["processes", "files", "findings"] {
        assert!(
            tick[id].is_null() || id == "findings",
            "{id} is not known: {tick}"
        );
        assert!(tick["reasons"][id].is_string(), "and why: {tick}");
    }
    let cgroups = tick["cgroups"].as_array();
    assert!(cgroups.is_some_and(|rows| rows.iter().all(Value::is_object)));
}

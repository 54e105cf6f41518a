//! Each query of the dashboards and alerts, asked of a real Prometheus that scrapes a real server under load.

use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use super::counted::{has, read_within};
use super::prometheus::Prometheus;
use super::site::Site;
use crate::support::{Group, Scratch, until};

const TOKEN: &str = "a-token-for-queries";

/// Parts of a panel's description that name what its queries need beyond the options of this test.
const NEEDS: [&str; 2] = ["kernel.bpf_stats_enabled", "Only of groups that belong to"];

/// Options that panels name; this test gives them.
const OPTIONS: [(&str, &str); 2] = [
    ("cachewise_cgroup_", "--top-n"),
    ("cachewise_fileset_", "--fileset"),
];

/// A query, and where it stands.
struct Query {
    place: String,
    description: String,
    text: String,
}

fn dashboards() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboards")
}

/// The queries of all panels, and of the variables.
fn of_panels() -> Vec<Query> {
    let mut queries = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(dashboards()).expect("it is there").flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|ending| ending != "json") {
            continue;
        }
        count += 1;
        let text = fs::read_to_string(&path).expect("it can be read");
        let json: Value = serde_json::from_str(&text).expect("it is JSON");
        let title = json["title"].as_str().expect("it has a title").to_owned();
        for panel in json["panels"].as_array().expect("it has panels") {
            for target in panel["targets"].as_array().into_iter().flatten() {
                queries.push(Query {
                    place: format!("{title}: {}", panel["title"]),
                    description: panel["description"].to_string(),
                    text: target["expr"].as_str().expect("a query").to_owned(),
                });
            }
        }
    }
    assert_eq!(count, 3, "host, groups, one program");
    queries
}

/// The expressions of the alerts, whole and without their thresholds.
fn of_alerts() -> Vec<(String, bool)> {
    let text = fs::read_to_string(dashboards().join("alerts.yml")).expect("it can be read");
    let mut queries = Vec::new();
    let mut waits = 0;
    // Each rule is a block that begins with its name.
    for rule in text.split("- alert: ").skip(1) {
        let (_, rest) = rule.split_once("expr:").expect("an expression");
        let (expression, rest) = rest.split_once("\n        for:").expect("a time to wait");
        waits += usize::from(!rest.is_empty());
        let expression = expression.trim_start_matches([' ', '>']);
        let expression = expression.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in expression.split(" and on (instance) ") {
            let end = [" > ", " < ", " == "]
                .iter()
                .filter_map(|sign| part.rfind(sign))
                .max();
            queries.push((part[..end.expect("a threshold")].to_owned(), true));
        }
        queries.push((expression, false));
    }
    assert!(waits > 5, "every alert waits before it fires: {waits}");
    queries
}

fn is_answered(json: &Value) -> bool {
    json["data"]["result"]
        .as_array()
        .is_some_and(|result| !result.is_empty())
}

pub fn all_have_answers_under_load() {
    if !has("prometheus", "the queries of dashboards and alerts") {
        return;
    }
    let Some(group) = Group::new() else {
        println!("skipped: the queries of dashboards and alerts: no group can be made here");
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.file("data", 8 << 20);
    let set = format!("data={}", file.display());
    let arguments = ["--top-n", "1000", "--fileset", &set];
    let site = Site::at("127.0.0.1:0", &arguments, Some(TOKEN));
    let prometheus = Prometheus::of(&site, TOKEN, &scratch);
    until("Prometheus scrapes it", || {
        (prometheus.number("up{job=\"cachewise\"}")? == 1.0).then_some(())
    });
    let evicted = "sum(cachewise_cgroup_page_cache_evicted_as_culprit_total{cause=\"advice\"})";
    let before = until("it has evictions", || prometheus.number(evicted));
    // Rates take two samples with growth between them.
    for _ in 0..4 {
        read_within(group.path(), &file);
        sleep(Duration::from_millis(1500));
    }
    until("the evictions of the load are there", || {
        (prometheus.number(evicted)? > before).then_some(())
    });
    let ask = |text: &str| {
        let text = text.replace("$instance", &site.address.to_string());
        let text = text
            .replace("$__rate_interval", "1m")
            .replace("$cgroup", ".*");
        let answer = prometheus.answer(&text).expect("it answers");
        assert_eq!(answer["status"], "success", "it parses: {text}: {answer}");
        answer
    };
    let mut empty = 0;
    let panels = of_panels();
    for query in &panels {
        let Query {
            place,
            description,
            text,
        } = query;
        for (name, option) in OPTIONS {
            assert!(
                !text.contains(name) || description.contains(option),
                "{place} says that it needs {option}: {description}"
            );
        }
        if !is_answered(&ask(text)) {
            empty += 1;
            assert!(
                NEEDS.iter().any(|need| description.contains(need)),
                "{place} has an answer, or says what it needs: {text}"
            );
        }
    }
    println!(
        "{} queries of panels, {empty} without an answer here",
        panels.len()
    );
    for (text, has_answer) in of_alerts() {
        let answer = ask(&text);
        assert!(
            !has_answer || is_answered(&answer),
            "it has an answer: {text}"
        );
    }
}

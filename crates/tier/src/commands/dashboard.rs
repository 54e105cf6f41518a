//! Dashboard and alert rules for the metrics of `tier stat -o openmetrics`: made of the tables of columns, and asked of
//! Prometheus.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use cachewise_view::SheetColumn;
use serde_json::{Value as Json, json};

use super::columns::STAT;
use super::totals;

/// One panel: title, unit of Grafana, and the columns that it shows, each of rows of one kind.
struct Panel {
    title: &'static str,
    unit: &'static str,
    of: Of,
    columns: &'static [&'static str],
}

/// The rows of a column.
#[derive(Clone, Copy)]
enum Of {
    /// The rows of this kind, each with a line of its own.
    Rows(&'static str),
    /// The one row of totals.
    All,
}

const fn panel(
    title: &'static str,
    unit: &'static str,
    of: Of,
    columns: &'static [&'static str],
) -> Panel {
    Panel {
        title,
        unit,
        of,
        columns,
    }
}

const PANELS: [Panel; 14] = [
    panel(
        "Bytes by tier",
        "binBps",
        Of::Rows("tier"),
        &["read_bytes_total"],
    ),
    panel(
        "Blocks found, by tier",
        "ops",
        Of::Rows("tier"),
        &["hits_total"],
    ),
    panel(
        "Blocks missed, by tier",
        "ops",
        Of::Rows("tier"),
        &["misses_total"],
    ),
    panel(
        "Errors and damaged blocks, by tier",
        "ops",
        Of::Rows("tier"),
        &["errors_total", "corrupt_total"],
    ),
    panel(
        "99th percentile of the response time, by tier",
        "s",
        Of::Rows("tier"),
        &["p99_seconds"],
    ),
    panel(
        "Requests to the mount",
        "ops",
        Of::Rows("operation"),
        &["calls_total"],
    ),
    panel(
        "99th percentile of the mount's response time",
        "s",
        Of::Rows("operation"),
        &["p99_seconds"],
    ),
    panel(
        "Requests by server",
        "ops",
        Of::Rows("node"),
        &["calls_total"],
    ),
    panel(
        "99th percentile of the response time, by server",
        "s",
        Of::Rows("node"),
        &["p99_seconds"],
    ),
    panel(
        "Late answers and hedged requests, by server",
        "ops",
        Of::Rows("node"),
        &["deadline_misses_total", "hedges_total"],
    ),
    panel(
        "Servers that were skipped",
        "ops",
        Of::Rows("node"),
        &["breaker_opened_total", "probes_total"],
    ),
    panel(
        "Reads, and those that failed",
        "ops",
        Of::All,
        &["reads_total", "failed_reads_total"],
    ),
    panel(
        "Blocks that were not stored",
        "ops",
        Of::All,
        &["dropped_fills_total", "dropped_disk_writes_total"],
    ),
    panel(
        "Leases: taken, waited for, in vain",
        "ops",
        Of::All,
        &[
            "leases_total",
            "lease_waits_total",
            "lease_waits_in_vain_total",
            "copies_total",
            "copy_hits_total",
        ],
    ),
];

/// Names, labels and columns of all metrics.
fn metrics() -> impl Iterator<Item = (String, &'static SheetColumn, Of)> {
    let rows = STAT.iter().filter(|column| column.is_number);
    let rows = rows.map(|column| {
        (
            format!("cachewise_tier_{}", column.id),
            column,
            Of::Rows(""),
        )
    });
    let all = totals::COLUMNS.iter();
    rows.chain(all.map(|column| (format!("cachewise_tier_all_{}", column.id), column, Of::All)))
}

/// Returns the query of a column, and its help.
fn query(of: Of, id: &str) -> (String, String, &'static str) {
    let prefix = match of {
        Of::Rows(_) => "cachewise_tier_",
        Of::All => "cachewise_tier_all_",
    };
    let name = format!("{prefix}{id}");
    let metric = metrics().find(|(known, ..)| *known == name);
    let (_, column, _) = metric.unwrap_or_else(|| panic!("{name}: no such metric"));
    let labels = match of {
        Of::Rows(kind) => format!("instance=\"$instance\", of=\"{kind}\""),
        Of::All => "instance=\"$instance\"".to_owned(),
    };
    let series = format!("{name}{{{labels}}}");
    let query = match id.ends_with("_total") {
        true => format!("rate({series}[$__rate_interval])"),
        false => series,
    };
    let legend = match of {
        Of::Rows(_) => format!("{{{{name}}}}: {}", id.trim_end_matches("_total")),
        Of::All => id.trim_end_matches("_total").to_owned(),
    };
    (query, legend, column.help)
}

fn dashboard() -> Json {
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    let panels = PANELS.iter().enumerate().map(|(number, panel)| {
        let queries: Vec<_> = panel.columns.iter().map(|id| query(panel.of, id)).collect();
        let targets = queries.iter().enumerate().map(|(at, (expr, legend, _))| {
            json!({"refId": char::from(b'A' + at as u8).to_string(), "expr": expr, "legendFormat": legend})
        });
        let help: Vec<&str> = queries.iter().map(|(_, _, help)| *help).collect();
        json!({
            "id": number + 1,
            "type": "timeseries",
            "title": panel.title,
            "description": help.join(". "),
            "datasource": source,
            "gridPos": {"h": 8, "w": 12, "x": number % 2 * 12, "y": number / 2 * 8},
            "targets": targets.collect::<Vec<_>>(),
            "fieldConfig": {
                "defaults": {"unit": panel.unit, "min": 0, "custom": {"lineWidth": 1, "showPoints": "never"}},
                "overrides": [],
            },
            "options": {
                "tooltip": {"mode": "multi", "sort": "desc"},
                "legend": {"displayMode": "list", "placement": "bottom"},
            },
        })
    });
    let instances = "label_values(cachewise_tier_all_reads_total, instance)";
    json!({
        "title": "cachewise: block cache",
        "uid": "cachewise-tier",
        "tags": ["cachewise", "block cache"],
        "schemaVersion": 38,
        "version": 1,
        "editable": true,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"},
            {
                "name": "instance", "type": "query", "label": "Machine", "datasource": source,
                "query": {"query": instances, "refId": "A"}, "refresh": 2, "sort": 1,
            },
        ]},
        "panels": panels.collect::<Vec<_>>(),
    })
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboards/tier")
}

/// With `CACHEWISE_WRITE_DOCS` set the dashboard is written.
#[test]
fn dashboard_is_made_of_the_tables_of_metrics() {
    let path = directory().join("tier.json");
    let wanted = format!("{:#}\n", dashboard());
    if std::env::var_os("CACHEWISE_WRITE_DOCS").is_some() {
        std::fs::write(path, wanted).expect("it can be written");
        return;
    }
    let text = std::fs::read_to_string(path).expect("the dashboard is there");
    assert!(
        text == wanted,
        "CACHEWISE_WRITE_DOCS=1 writes dashboards/tier/tier.json anew"
    );
}

#[test]
fn alert_rules_name_metrics_that_exist() {
    let text =
        std::fs::read_to_string(directory().join("alerts.yml")).expect("the rules are there");
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named: BTreeSet<&str> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .flat_map(|line| line.split(|c| !is_part(c)))
        .filter(|word| word.starts_with("cachewise_"))
        .collect();
    let known: BTreeSet<String> = metrics().map(|(name, ..)| name).collect();
    assert!(named.len() >= 5, "{named:?}");
    let unknown: Vec<_> = named
        .iter()
        .filter(|name| !known.contains(**name))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// Asks Prometheus each query of the dashboard while all metrics grow, and the alert rules.
#[test]
fn each_query_has_an_answer_and_each_alert_fires() {
    let has_promtool = Command::new("promtool").arg("--version").output();
    if !has_promtool.is_ok_and(|output| output.status.success()) {
        println!("skipped: queries of dashboards/tier: promtool is not installed");
        return;
    }
    let mut text =
        String::from("evaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n");
    for (name, column, of) in metrics() {
        let kinds: &[&str] = match of {
            Of::Rows(_) => &["operation", "tier", "node"],
            Of::All => &[""],
        };
        let values = match column.id.ends_with("_total") {
            true => "0+60x30",
            false => "1x30",
        };
        for kind in kinds {
            let labels = match of {
                Of::Rows(_) => format!("instance=\"a\", of=\"{kind}\", name=\"x\""),
                Of::All => "instance=\"a\"".to_owned(),
            };
            text += &format!("      - {{series: '{name}{{{labels}}}', values: '{values}'}}\n");
        }
    }
    text += "    promql_expr_test:\n";
    for panel in &PANELS {
        for id in panel.columns {
            let (query, ..) = query(panel.of, id);
            let query = query
                .replace("$instance", "a")
                .replace("$__rate_interval", "5m");
            let value = 1;
            text += &format!(
                "      - {{expr: 'count({query} == {value})', eval_time: 20m, exp_samples: [{{labels: '{{}}', value: 1}}]}}\n"
            );
        }
    }
    let scratch = tempfile::tempdir().expect("made");
    let queries = scratch.path().join("queries.yml");
    std::fs::write(&queries, text).expect("written");
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tier-alerts.yml");
    let rules = directory().join("alerts.yml");
    for (verb, file) in [("test", queries), ("check", rules), ("test", cases)] {
        let output = Command::new("promtool")
            .args([verb, "rules"])
            .arg(&file)
            .output();
        let output = output.expect("promtool runs");
        assert!(
            output.status.success(),
            "{verb} {}: {}{}",
            file.display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

//! Generated parts of docs/ and dashboards/, compared with the tables behind them. With `CACHEWISE_WRITE_DOCS` set they
//! are written anew.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use cachewise_model::{EvictionCause, RULES, Reason};
use cachewise_web::{FAMILIES, markdown};
use serde_json::Value;

use super::counted::has;

const END: &str = "<!-- end of the table -->\n";

fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("the crate lies two below")
        .to_owned()
}

fn compare(path: &str, is: &str, wanted: &str) {
    if is == wanted {
        return;
    }
    if std::env::var_os("CACHEWISE_WRITE_DOCS").is_some() {
        fs::write(root().join(path), wanted).expect("it can be written");
        return;
    }
    panic!(
        "{path} is not what the table gives: CACHEWISE_WRITE_DOCS=1 cargo test -p cachewise --test commands serve::written"
    );
}

/// Compares the table of a page, which the test of this name makes.
fn compare_table(path: &str, test: &str, table: &str) {
    let text = fs::read_to_string(root().join(path)).expect("the page is there");
    let begin = format!("<!-- the table: made by the test `written::{test}` -->\n");
    let (before, rest) = text
        .split_once(&begin)
        .expect("it has a place for the table");
    let (_, after) = rest.split_once(END).expect("with an end");
    let wanted = format!("{before}{begin}\n{table}{END}{after}");
    compare(path, &text, &wanted);
}

pub fn metrics() {
    compare_table("docs/metrics.md", "metrics", &markdown());
}

pub fn eviction_causes() {
    let mut table = String::from("| `cause` | the pages were evicted by |\n|---|---|\n");
    for cause in EvictionCause::ALL {
        let _ = writeln!(table, "| `{}` | {} |", cause.id(), cause.help());
    }
    compare_table("docs/counting.md", "eviction_causes", &(table + "\n"));
}

pub fn reasons() {
    let mut table = String::from("| code | meaning |\n|---|---|\n");
    for reason in Reason::ALL {
        let _ = writeln!(table, "| `{}` | {} |", reason.code(), reason.help());
    }
    compare_table("docs/reasons.md", "reasons", &(table + "\n"));
}

/// Each rule has a page with the same parts; the index and docs/doctor.md link to all of them.
pub fn findings() {
    const PARTS: [&str; 4] = ["## Detection", "## Fix", "## Verify", "## Example"];
    let doctor = fs::read_to_string(root().join("docs/doctor.md")).expect("the page is there");
    let mut table = String::from("| finding | subject |\n|---|---|\n");
    let mut pages = BTreeSet::from(["README.md".to_owned()]);
    for rule in RULES {
        let name = format!("{}.md", rule.id);
        let page = fs::read_to_string(root().join("docs/findings").join(&name));
        let page = page.unwrap_or_else(|error| panic!("docs/findings/{name}: {error}"));
        let head = format!("# Finding `{}`\n", rule.id);
        assert!(page.starts_with(&head), "{name} begins with {head}");
        let places = PARTS.map(|part| page.find(&format!("\n{part}\n")));
        assert!(
            places.is_sorted() && places[0].is_some(),
            "{name} has {PARTS:?}: {places:?}"
        );
        let (_, example) = page.split_once("```text\n").expect("a transcript");
        assert!(
            example.contains("    fix: ") && example.contains("    verify: "),
            "{name}: a finding as it is printed"
        );
        assert!(
            doctor.contains(&format!("[`{}`](findings/{name})", rule.id)),
            "docs/doctor.md links to {name}"
        );
        let _ = writeln!(table, "| [`{}`]({name}) | {} |", rule.id, rule.help);
        pages.insert(name);
    }
    compare_table("docs/findings/README.md", "findings", &(table + "\n"));
    let entries = fs::read_dir(root().join("docs/findings")).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names: BTreeSet<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, pages, "each page belongs to a rule");
}

pub fn openapi() {
    let path = "docs/openapi.json";
    let text = fs::read_to_string(root().join(path)).unwrap_or_default();
    compare(path, &text, &format!("{:#}\n", cachewise_web::openapi()));
}

/// The names of our metrics in a text.
fn named(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !is_part(c));
    let ours = words.filter(|word| word.starts_with("cachewise_"));
    ours.map(str::to_owned).collect()
}

fn check_names(what: &str, text: &str) {
    let known: BTreeSet<String> = FAMILIES.iter().map(|family| family.full_name()).collect();
    let names = named(text);
    assert!(!names.is_empty(), "{what} shows something");
    let unknown: Vec<_> = names.difference(&known).collect();
    assert!(
        unknown.is_empty(),
        "{what} names metrics that are not there: {unknown:?}"
    );
}

/// The expressions of a dashboard.
fn expressions(json: &Value, found: &mut Vec<String>) {
    match json {
        Value::Object(members) => {
            for (name, member) in members {
                match (name.as_str(), member) {
                    ("expr", Value::String(text)) => found.push(text.clone()),
                    _ => expressions(member, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| expressions(item, found)),
        _ => {}
    }
}

pub fn dashboards() {
    let directory = root().join("dashboards");
    let mut seen = 0;
    for entry in fs::read_dir(directory).expect("it is there").flatten() {
        if entry
            .path()
            .extension()
            .is_none_or(|ending| ending != "json")
        {
            continue;
        }
        let text = fs::read_to_string(entry.path()).expect("it can be read");
        let json: Value = serde_json::from_str(&text).expect("it is JSON");
        let mut found = Vec::new();
        expressions(&json, &mut found);
        assert!(found.len() > 5, "{:?} has panels", entry.path());
        for expression in found {
            check_names(&expression, &expression);
        }
        seen += 1;
    }
    assert!(seen > 0, "there is a dashboard");
}

pub fn rules() {
    let path = root().join("dashboards/alerts.yml");
    let text = fs::read_to_string(&path).expect("the rules are there");
    let uses: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .collect();
    check_names("dashboards/alerts.yml", &uses);
    if !has("promtool", "alert rules as promtool sees them") {
        return;
    }
    let cases = root().join("crates/cachewise/tests/commands/serve/alerts.yml");
    for (verb, file) in [("check", &path), ("test", &cases)] {
        let output = Command::new("promtool")
            .args([verb, "rules"])
            .arg(file)
            .output()
            .expect("promtool runs");
        assert!(
            output.status.success(),
            "promtool accepts the rules, and each fires when it should: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

//! Metrics and JSON against what was read, and against those who read them.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::prometheus::Prometheus;
use super::site::{Site, value_of};
use crate::support::{Group, Scratch, evict, page_size, pages_of, undisturbed, until};

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0";

/// Whether a program of a package is there; says so if not.
pub fn has(program: &str, what: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: {what}: needs {program}; scripts/setup test installs it");
    }
    found
}

pub fn promtool() {
    if !has("promtool", "metrics as promtool sees them") {
        return;
    }
    let site = Site::new(&["--top-n", "3", "--fileset", "etc=/etc/**"]);
    let text = site.get("/metrics").body;
    let mut tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs");
    let mut stdin = tool.stdin.take().expect("it was asked for");
    stdin.write_all(text.as_bytes()).expect("it reads");
    drop(stdin);
    let output = tool.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool accepts it: {said}");
    assert_eq!(said, "", "and has no advice");
}

pub fn formats() {
    let site = Site::new(&[]);
    let open = site
        .request("/metrics")
        .header("Accept", OPENMETRICS)
        .send();
    assert_eq!(
        open.header("Content-Type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "what was asked for"
    );
    assert!(open.body.ends_with("\n# EOF\n"), "it has its end");
    assert!(
        open.body.contains("# UNIT cachewise_memory_bytes bytes\n"),
        "and units"
    );
    let plain = site.get("/metrics");
    assert_eq!(
        plain.header("Content-Type"),
        Some("text/plain; version=0.0.4; charset=utf-8"),
        "what tools without a wish get"
    );
    let names = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let series = lines.filter_map(|line| line.rsplit_once(' '));
        series.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        names(&open.body),
        names(&plain.body),
        "the same series in both"
    );
    assert!(
        names(&plain.body).len() > 30,
        "and there are some: {}",
        plain.body
    );
}

pub fn collectors() {
    let site = Site::new(&["--no-collector", "memory,pressure"]);
    let text = site.get("/metrics").body;
    assert!(!text.contains("cachewise_memory_bytes"), "left out");
    assert!(!text.contains("cachewise_pressure"), "left out as well");
    assert!(
        text.contains("cachewise_major_faults_total"),
        "the others are there"
    );
    assert!(
        !text.contains("cgroup="),
        "groups are only there when asked for"
    );
    drop(site);
    let site = Site::new(&["--collector", "memory"]);
    let text = site.get("/metrics").body;
    assert!(
        text.contains("cachewise_memory_bytes{state=\"cached\"}"),
        "asked for"
    );
    assert!(!text.contains("cachewise_major_faults"), "nothing else");
    assert!(
        value_of(&text, "cachewise_own_cpu_seconds_total").is_some_and(|seconds| seconds > 0.0),
        "what the server takes for itself: {text}"
    );
    if rustix::process::geteuid().is_root() {
        let kernel = value_of(&text, "cachewise_kernel_memory_bytes");
        assert!(
            kernel.is_some_and(|bytes| bytes > (8 << 20) as f64),
            "and what it takes of the kernel: {kernel:?}"
        );
    }
    for name in ["watch", "memory"] {
        assert_eq!(
            value_of(
                &text,
                &format!("cachewise_collector_success{{collector=\"{name}\"}}")
            ),
            Some(1.0),
            "{name} did its work"
        );
        let took = format!("cachewise_scrape_duration_seconds{{collector=\"{name}\"}}");
        assert!(
            value_of(&text, &took).is_some_and(|seconds| seconds > 0.0),
            "and says how long that took: {text}"
        );
    }
}

pub fn filesets() {
    let scratch = Scratch::new();
    scratch.file("one.db", 10 * page_size());
    let cold = scratch.file("two.db", 6 * page_size());
    scratch.file("three.log", page_size());
    let glob = format!("data={}/*.db", scratch.directory().display());
    let site = Site::new(&["--fileset", &glob]);
    let text = undisturbed(|| {
        crate::support::warm(&scratch.path("one.db"));
        evict(&cold);
        let text = site.get("/metrics").body;
        (crate::support::resident(&scratch.path("one.db")) == 10).then_some(text)
    });
    let of = |name: &str| value_of(&text, &format!("cachewise_fileset_{name}{{set=\"data\"}}"));
    let page = page_size() as f64;
    assert_eq!(of("files"), Some(2.0), "those that match");
    assert_eq!(of("size_bytes"), Some(16.0 * page), "all of them");
    assert_eq!(of("resident_bytes"), Some(10.0 * page), "what is there");
    assert!(of("age_seconds").is_some(), "and when it was looked at");
}

/// Reads a file through the cache, cold and warm, and around it, as a task of this group; this process does
/// it, as a program of its own would read libraries too.
pub fn read_within(group: &Path, file: &Path) {
    let me = std::process::id().to_string();
    let root = group.parent().expect("it is below the root");
    std::fs::write(group.join("cgroup.procs"), &me).expect("root may move a process");
    evict(file);
    let mut buffer = vec![0; 1 << 20];
    for _ in 0..2 {
        let mut file = File::open(file).expect("it is there");
        while file.read(&mut buffer).expect("it can be read") > 0 {}
    }
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = File::options().read(true).custom_flags(direct).open(file);
    let file = file.expect("the file system can do without the cache");
    // Direct reads want an aligned buffer.
    let mut store = vec![0; (1 << 20) + 4096];
    let offset = store.as_ptr().align_offset(4096);
    let place = &mut store[offset..offset + (1 << 20)];
    let mut at = 0;
    loop {
        let read = rustix::io::pread(&file, &mut *place, at).expect("it can be read directly");
        if read == 0 {
            break;
        }
        at += read as u64;
    }
    std::fs::write(root.join("cgroup.procs"), &me).expect("and back");
}

const FILE: u64 = 8 << 20;

pub fn name_of(group: &Group) -> String {
    let name = group
        .path()
        .file_name()
        .expect("it has a name")
        .to_string_lossy();
    format!("/{name}")
}

/// Checks one reading of each kind against an exposition.
fn check(text: &str, name: &str, pages: u64) {
    let of = |what: &str| {
        let series = format!("cachewise_cgroup_{what}_total{{cgroup=\"{name}\"}}");
        value_of(text, &series).unwrap_or_else(|| panic!("there is {series}: {text}"))
    };
    assert_eq!(
        of("page_cache_requested"),
        2.0 * pages as f64,
        "each page was asked for twice"
    );
    assert_eq!(
        of("page_cache_hits") + of("page_cache_misses"),
        2.0 * pages as f64,
        "hits and misses are all of them"
    );
    assert!(of("page_cache_misses") >= 1.0, "the first read waited");
    assert_eq!(of("direct_bytes"), FILE as f64, "and once around the cache");
}

pub fn by_group_to_the_page() {
    let Some(group) = Group::new() else {
        println!("skipped: metrics by control group: no group can be made here");
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.file("data", FILE);
    let site = Site::new(&["--top-n", "1000"]);
    let before = site.metric("cachewise_page_cache_requested_total");
    read_within(group.path(), &file);
    let text = site.get("/metrics").body;
    check(&text, &name_of(&group), pages_of(&file));
    let after = value_of(&text, "cachewise_page_cache_requested_total");
    let added = after.zip(before).map(|(after, before)| after - before);
    assert!(
        added.is_some_and(|added| added >= 2.0 * pages_of(&file) as f64),
        "the machine's counter has them too: {added:?}"
    );
    // The same in JSON: of the group, and of the file, which no other process read.
    let path = file.to_string_lossy().into_owned();
    let row = until("the interval with the reads has passed", || {
        let json = site.json("/api/v1/files?seconds=60&limit=5000");
        let rows = json["files"].as_array().expect("a list").clone();
        rows.into_iter().find(|row| row["path"] == path.as_str())
    });
    assert_eq!(
        row["read_requested_pages"],
        2 * pages_of(&file),
        "to the page: {row}"
    );
    assert_eq!(row["direct_read_bytes"], FILE, "to the byte: {row}");
    let json = site.json("/api/v1/cgroups?seconds=60&limit=5000");
    let rows = json["cgroups"].as_array().expect("a list");
    let row = rows
        .iter()
        .find(|row| row["cgroup"] == name_of(&group).as_str());
    assert_eq!(
        row.map(|row| &row["read_requested_pages"]),
        Some(&Value::from(2 * pages_of(&file))),
        "of the group as well"
    );
}

pub fn by_prometheus() {
    if !has("prometheus", "a real Prometheus") {
        return;
    }
    let Some(group) = Group::new() else {
        println!("skipped: a real Prometheus: no group can be made here");
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.file("data", FILE);
    let site = Site::at(
        "127.0.0.1:0",
        &["--top-n", "1000"],
        Some("a-token-for-prometheus"),
    );
    let prometheus = Prometheus::of(&site, "a-token-for-prometheus", &scratch);
    let ask = |query: &str| prometheus.number(query);
    until("Prometheus scrapes it", || {
        (ask("up{job=\"cachewise\"}")? == 1.0).then_some(())
    });
    read_within(group.path(), &file);
    let series = |what: &str| {
        format!(
            "cachewise_cgroup_{what}_total{{cgroup=\"{}\"}}",
            name_of(&group)
        )
    };
    let direct = until("Prometheus has what was read", || {
        ask(&series("direct_bytes")).filter(|bytes| *bytes >= FILE as f64)
    });
    assert_eq!(direct, FILE as f64, "to the byte");
    let pages = 2.0 * pages_of(&file) as f64;
    assert_eq!(
        ask(&series("page_cache_requested")),
        Some(pages),
        "what Prometheus answers is what was read, to the page"
    );
    let law = "cachewise_page_cache_requested_total - cachewise_page_cache_hits_total - cachewise_page_cache_misses_total";
    assert_eq!(
        ask(law),
        Some(0.0),
        "hits and misses are all, for the machine too"
    );
    let success = "min(cachewise_collector_success)";
    assert_eq!(ask(success), Some(1.0), "every collector works");
}

pub fn json_is_as_described() {
    let site = Site::new(&["--interval", "0.1"]);
    let schema = site.json("/api/v1/openapi.json");
    let paths = schema["paths"].as_object().expect("it has paths");
    let mut checked = 0;
    for (path, item) in paths {
        let content = &item["get"]["responses"]["200"]["content"];
        let Some(described) = content.get("application/json") else {
            continue;
        };
        let has_census = path != "/api/v1/cache" || rustix::process::geteuid().is_root();
        if !has_census {
            continue;
        }
        let json = site.json(path);
        let mut wrong = Vec::new();
        validate(&schema, &described["schema"], &json, path, &mut wrong);
        assert!(wrong.is_empty(), "{path} is as described: {wrong:?}");
        checked += 1;
    }
    assert!(checked >= 9, "all documents were looked at: {checked}");
    for (path, status) in [
        ("/api/v1/files?seconds=0", 400),
        ("/api/v1/files?seconds=61", 400),
        ("/api/v1/files?seconds=x", 400),
        ("/api/v1/files?sort=nothing", 400),
        ("/api/v1/files?limit=-1", 400),
        ("/api/v1/files?unknown=1", 400),
        ("/api/v1/files?sort=path", 400),
        ("/api/v1/stretch?seconds=0", 400),
        ("/api/v1/stretch?sort=read_requested_pages", 400),
        ("/api/v1/stretch?limit=1", 400),
        ("/api/v1/findings?limit=1", 400),
        ("/api/v1/history?limit=1", 400),
        ("/api/v1/totals?seconds=1", 400),
        ("/api/v1/machine?x=1", 400),
        ("/api/v1/cache?path=relative", 400),
        ("/api/v1/cache?path=/var/../etc", 400),
        ("/api/v1/nothing", 404),
        ("/assets/../Cargo.toml", 404),
        ("/assets/%2e%2e%2fmod.rs", 404),
    ] {
        let answer = site.get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
        let json: Value = serde_json::from_str(&answer.body).expect("errors are JSON");
        assert!(json["error"].is_string(), "{path} says what is wrong");
    }
}

/// A request before the end of the first interval gets the present state, and no error.
pub fn before_the_first_tick() {
    let site = Site::new(&["--interval", "3600"]);
    for path in ["stretch", "processes", "devices", "findings"] {
        let document = site.json(&format!("/api/v1/{path}"));
        assert!(document["timestamp"].is_string(), "{path}: {document}");
    }
    let interval = site.json("/api/v1/processes");
    let elapsed = interval["elapsed_seconds"].as_f64().expect("a number");
    assert!(elapsed > 0.05, "rates are not over an instant: {interval}");
    let history = site.json("/api/v1/history");
    let points = history["points"].as_array().expect("a list");
    assert_eq!(points.len(), 1, "one short stretch for all that ask");
}

/// The part of JSON Schema that the description uses.
fn validate(root: &Value, schema: &Value, json: &Value, at: &str, wrong: &mut Vec<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#'));
        let target = target.unwrap_or_else(|| panic!("{reference} is described"));
        return validate(root, target, json, at, wrong);
    }
    let is = |kind: &str| match kind {
        "object" => json.is_object(),
        "array" => json.is_array(),
        "string" => json.is_string(),
        "integer" => json.is_u64() || json.is_i64(),
        "number" => json.is_number(),
        "boolean" => json.is_boolean(),
        "null" => json.is_null(),
        other => panic!("{at}: {other} is a type"),
    };
    let fits = match &schema["type"] {
        Value::String(kind) => is(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).any(is),
        _ => true,
    };
    let constant = schema.get("const").is_none_or(|constant| constant == json);
    let listed = schema["enum"]
        .as_array()
        .is_none_or(|values| values.contains(json));
    if !fits || !constant || !listed {
        wrong.push(format!("{at}: {json} is not {schema}"));
        return;
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().expect("names are text");
        if json.get(name).is_none() {
            wrong.push(format!("{at}: {name} is missing"));
        }
    }
    for (name, member) in json.as_object().into_iter().flatten() {
        match schema["properties"].get(name) {
            Some(described) => {
                validate(root, described, member, &format!("{at}/{name}"), wrong);
            }
            None if schema["additionalProperties"] == false => {
                wrong.push(format!("{at}: {name} is not described"));
            }
            None => {}
        }
    }
    if let Some(items) = schema.get("items") {
        for (place, item) in json.as_array().into_iter().flatten().enumerate() {
            validate(root, items, item, &format!("{at}/{place}"), wrong);
        }
    }
}

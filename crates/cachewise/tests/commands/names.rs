//! Names of control groups in rows: units, containers and pods.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{
    Ended, Group, Report, Scratch, Trial, cachewise, cachewise_as_nobody, needs_root, plain,
};

/// A container of Docker, of which `HOST` has the state.
const ID: &str = "2606783da4c704677433e2b3dbe31e55d094ab09e9736276fe562891bd111d4b";
/// The root directory of a machine with containers.
const HOST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/testdata/host");
const HOST_ROOT: &str = "CACHEWISE_HOST_ROOT";

pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("run_names_the_container_of_groups_and_processes", run),
        needs_root(
            "names_without_state_have_a_reason_and_the_id",
            without_state,
        ),
        needs_root("recordings_keep_the_names", recorded),
        needs_root(
            "names_that_only_root_may_read_are_unknown_to_others",
            denied,
        ),
        plain("columns_lists_the_names", listed),
    ]
}

fn text(path: &Path) -> &str {
    path.to_str().expect("tests make ordinary names")
}

/// A group as Docker makes it with systemd.
struct Container {
    group: Group,
    _above: Group,
}

impl Container {
    fn new(what: &str) -> Option<Container> {
        let Some(above) = Group::new() else {
            println!("skipped: {what}: no control group can be made here");
            return None;
        };
        let group = above.inner_named(&format!("docker-{ID}.scope"));
        Some(Container {
            group,
            _above: above,
        })
    }

    /// The report of a command that reads a file in the group, on the machine with this root.
    fn run(&self, host: &Path) -> Report {
        let scratch = Scratch::new();
        let file = scratch.file("file", 1 << 20);
        let report = scratch.directory().join("report.json");
        let target = format!("json={}", report.display());
        let script = "echo $$ >\"$1\"/cgroup.procs && exec cat \"$2\"";
        let mut run = cachewise(["run", "-o", &target, "--", "sh", "-c", script, "sh"]);
        run.args([self.group.path(), &file]).env(HOST_ROOT, host);
        let ended = Ended::of(&mut run).expect(0, "it is run");
        Report::read(&report, ended)
    }

    fn row<'a>(&self, rows: &'a [Value]) -> &'a Value {
        let ours = |row: &&Value| {
            let path = row["cgroup"].as_str().unwrap_or_default();
            self.group.path().ends_with(path.trim_start_matches('/')) && path.contains(ID)
        };
        let row = rows.iter().find(ours);
        row.unwrap_or_else(|| panic!("the group has a row: {rows:#?}"))
    }
}

fn run() {
    let Some(container) = Container::new("names of containers") else {
        return;
    };
    let report = container.run(Path::new(HOST));
    let cat = report
        .processes()
        .iter()
        .find(|row| row["command"] == "cat");
    let cat = cat.expect("the reader has a row");
    let groups = report.json["cgroups"].as_array().expect("groups");
    for row in [container.row(groups), cat] {
        assert_eq!(row["container"], "orders-cache", "{row:#}");
        assert_eq!(row["container_id"], ID, "{row:#}");
        assert_eq!(row["unit"], format!("docker-{ID}.scope"), "{row:#}");
        assert_eq!(row["pod"], Value::Null, "{row:#}");
        assert_eq!(row["reason_codes"]["pod"], "no_pod", "{row:#}");
        assert_eq!(
            row["group_name"], "orders-cache",
            "what people use: {row:#}"
        );
    }
}

fn without_state() {
    let Some(container) = Container::new("names without state") else {
        return;
    };
    let scratch = Scratch::new();
    let report = container.run(scratch.directory());
    let groups = report.json["cgroups"].as_array().expect("groups");
    let row = container.row(groups);
    assert_eq!(row["container"], Value::Null, "{row:#}");
    let why = &row["reason_codes"]["container"];
    assert_eq!(why, "runtime_state_not_found", "{row:#}");
    assert_eq!(
        row["group_name"],
        ID[..12],
        "what the runtimes show: {row:#}"
    );
}

fn recorded() {
    let Some(container) = Container::new("names in recordings") else {
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.file("file", 1 << 20);
    let recording = scratch.directory().join("names.rec");
    let script = "echo $$ >\"$1\"/cgroup.procs && exec cat \"$2\"";
    let mut record = cachewise(["record", "--interval", "100ms", text(&recording)]);
    record.args(["--", "sh", "-c", script, "sh"]);
    record
        .args([container.group.path(), &file])
        .env(HOST_ROOT, HOST);
    Ended::of(&mut record).expect(0, "it is recorded");
    let report = ["report", text(&recording), "--series", "--of", "cgroups"];
    let mut report = cachewise(report);
    report.args([
        "--columns",
        "cgroup,container,group_name,unit",
        "-o",
        "jsonl",
    ]);
    let ended = Ended::of(report.env(HOST_ROOT, "/nonexistent")).expect(0, "it is read");
    let rows: Vec<Value> = ended
        .out()
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is a document"))
        .collect();
    let row = container.row(&rows);
    assert_eq!(
        row["container"], "orders-cache",
        "as it was recorded: {row}"
    );
    assert_eq!(row["group_name"], "orders-cache", "{row}");
}

fn denied() {
    let Some(container) = Container::new("names for other users") else {
        return;
    };
    let scratch = Scratch::new();
    let state = scratch
        .directory()
        .join("var/lib/docker/containers")
        .join(ID);
    fs::create_dir_all(&state).expect("a directory for the test");
    fs::write(state.join("config.v2.json"), "{}").expect("a file for the test");
    let docker: PathBuf = scratch.directory().join("var/lib/docker");
    fs::set_permissions(docker, fs::Permissions::from_mode(0o710)).expect("it is ours");
    let mut top = cachewise_as_nobody(&scratch);
    top.args([
        "top", "-b", "-d", "0.1", "-n", "1", "--view", "cgroup", "-o", "jsonl",
    ]);
    // Only a group with memory has a row without a probe.
    let mut reader = std::process::Command::new("sh");
    let script = "echo $$ >\"$1\"/cgroup.procs && echo there && exec sleep 1000";
    reader.args(["-c", script, "sh", text(container.group.path())]);
    let mut reader = crate::support::Started::of(&mut reader);
    assert_eq!(reader.line().as_deref(), Some(&b"there\n"[..]), "it is in");
    let ended = Ended::of(top.env(HOST_ROOT, scratch.directory())).expect(0, "rows of groups");
    let rows: Vec<Value> = ended
        .out()
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is a document"))
        .collect();
    let row = container.row(&rows);
    assert_eq!(row["container"], Value::Null, "{row:#}");
    let why = &row["reason_codes"]["container"];
    assert_eq!(why, "runtime_state_denied", "root may read it: {row:#}");
    assert_eq!(
        row["group_name"],
        ID[..12],
        "the id is in the path: {row:#}"
    );
}

fn listed() {
    let ended = Ended::of(&mut cachewise(["columns"])).expect(0, "the list");
    for id in ["group_name", "unit", "container", "container_id", "pod"] {
        let is_there = ended
            .out()
            .lines()
            .any(|line| line.split_whitespace().any(|word| word == id));
        assert!(is_there, "`{id}` can be chosen: {}", ended.out());
    }
}

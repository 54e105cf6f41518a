//! Names of control groups in rows: units, containers and pods.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{
    Busy, Ended, Group, Report, Scratch, Started, Trial, cachewise, cachewise_as_nobody,
    needs_root, page_size, plain,
};

/// The state of a container, as Docker wrote it.
const STATE: &str = include_str!(
    "../../../cli/testdata/host/var/lib/docker/containers/\
     2606783da4c704677433e2b3dbe31e55d094ab09e9736276fe562891bd111d4b/config.v2.json"
);
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
        needs_root(
            "top_shows_the_processes_of_a_container_alone",
            of_a_container,
        ),
        needs_root("commands_accept_a_name_an_id_and_a_unit", accepted),
        needs_root("absent_names_are_refused_with_the_nearest", absent),
        needs_root("ambiguous_ids_are_refused_with_their_containers", ambiguous),
        needs_root(
            "command_selects_matching_processes_and_descendants",
            by_command_line,
        ),
        needs_root("files_lists_what_a_container_holds", held),
        plain("selections_that_contradict_are_refused", contradictions),
    ]
}

fn text(path: &Path) -> &str {
    path.to_str().expect("tests make ordinary names")
}

/// A group as Docker makes it with systemd, and the state that Docker keeps. Name and id are unique:
/// all tests see the groups of all.
struct Container {
    id: String,
    name: String,
    host: Scratch,
    group: Group,
    above: Group,
}

impl Container {
    fn new(what: &str) -> Option<Container> {
        let Some(above) = Group::new() else {
            println!("skipped: {what}: no control group can be made here");
            return None;
        };
        let id: String = std::iter::repeat_with(|| fastrand::char('a'..='f'))
            .take(64)
            .collect();
        let name = format!("orders-cache-{}", &id[..16]);
        let host = Scratch::new();
        let state = host.directory().join("var/lib/docker/containers").join(&id);
        fs::create_dir_all(&state).expect("a directory for the test");
        let config = STATE.replace("/orders-cache", &format!("/{name}"));
        fs::write(state.join("config.v2.json"), config).expect("a file for the test");
        let group = above.inner_named(&format!("docker-{id}.scope"));
        Some(Container {
            id,
            name,
            host,
            group,
            above,
        })
    }

    fn host(&self) -> &Path {
        self.host.directory()
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
            self.group.path().ends_with(path.trim_start_matches('/')) && path.contains(&self.id)
        };
        let row = rows.iter().find(ours);
        row.unwrap_or_else(|| panic!("the group has a row: {rows:#?}"))
    }
}

fn run() {
    let Some(container) = Container::new("names of containers") else {
        return;
    };
    let (id, name) = (&container.id, &container.name);
    let report = container.run(container.host());
    let cat = report
        .processes()
        .iter()
        .find(|row| row["command"] == "cat");
    let cat = cat.expect("the reader has a row");
    let groups = report.json["cgroups"].as_array().expect("groups");
    for row in [container.row(groups), cat] {
        assert_eq!(row["container"], *name, "{row:#}");
        assert_eq!(row["container_id"], *id, "{row:#}");
        assert_eq!(row["unit"], format!("docker-{id}.scope"), "{row:#}");
        assert_eq!(row["pod"], Value::Null, "{row:#}");
        assert_eq!(row["reason_codes"]["pod"], "no_pod", "{row:#}");
        assert_eq!(
            row["group_name"], container.name,
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
        container.id[..12],
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
        .env(HOST_ROOT, container.host());
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
        row["container"], container.name,
        "as it was recorded: {row}"
    );
    assert_eq!(row["group_name"], container.name, "{row}");
    let unit = format!("docker-{}.scope", container.id);
    for (option, name) in [("--container", &container.name), ("--unit", &unit)] {
        let report = ["report", text(&recording), option, name, "--json"];
        let ended = Ended::of(&mut cachewise(report)).expect(0, "a part is reported");
        let json: Value = serde_json::from_slice(&ended.out).expect("JSON");
        let groups = json["cgroups"].as_array().expect("groups");
        assert_eq!(
            groups.len(),
            1,
            "{option}: the container's alone: {groups:?}"
        );
        let pages = &container.row(groups)["read_requested_pages"];
        assert!(pages.as_u64() >= Some((1 << 20) / page_size()), "{pages}");
        assert_eq!(
            json["totals"]["read_requested_pages"], *pages,
            "{option}: the sum"
        );
        let scope = json["scope"].as_str().unwrap_or_default();
        assert!(scope.contains(name.as_str()), "{option}: {scope}");
    }
    let near = container.name.replace("cache", "cahce");
    Ended::of(&mut cachewise([
        "report",
        text(&recording),
        "--container",
        &near,
    ]))
    .expect(2, "no container has this name")
    .says(&container.name, "the nearest is named");
}

fn denied() {
    let Some(container) = Container::new("names for other users") else {
        return;
    };
    let docker = container.host().join("var/lib/docker");
    fs::set_permissions(docker, fs::Permissions::from_mode(0o710)).expect("it is ours");
    let scratch = Scratch::new();
    let mut top = cachewise_as_nobody(&scratch);
    top.args([
        "top", "-b", "-d", "0.1", "-n", "1", "--view", "cgroup", "-o", "jsonl",
    ]);
    // Only a group with memory has a row without a probe.
    let _idle = idle(&container.group);
    let ended = Ended::of(top.env(HOST_ROOT, container.host())).expect(0, "rows of groups");
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
        container.id[..12],
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

/// A process in a group, which reads a file again and again.
fn reader(group: &Group, file: &Path, token: &str) -> Started {
    let script = "echo $$ >\"$1\"/cgroup.procs && echo there && \
                  while cat \"$2\" >/dev/null; do :; done";
    let mut reader = Command::new("sh");
    reader.args(["-c", script, token, text(group.path()), text(file)]);
    let mut reader = Started::of(&mut reader);
    assert_eq!(reader.line().as_deref(), Some(&b"there\n"[..]), "it is in");
    reader
}

fn rows_of(command: &mut Command) -> Vec<Value> {
    let ended = Ended::of(command).expect(0, "rows");
    let text = ended.out();
    let rows = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is a document"));
    rows.collect()
}

fn of_a_container() {
    let Some(container) = Container::new("top --container") else {
        return;
    };
    let scratch = Scratch::new();
    let (inside, outside) = (scratch.file("in", 1 << 20), scratch.file("out", 1 << 20));
    let _busy = Busy::with(&outside);
    let _reader = reader(&container.group, &inside, "reader");
    let mut top = cachewise(["top", "-b", "-d", "0.5", "-n", "2", "-o", "jsonl"]);
    top.args(["--container", &container.name])
        .env(HOST_ROOT, container.host());
    let rows = rows_of(&mut top);
    let of_processes: Vec<&Value> = rows.iter().filter(|row| !row["pid"].is_null()).collect();
    assert!(!of_processes.is_empty(), "the reader has rows: {rows:?}");
    for row in of_processes {
        assert_eq!(
            row["container_id"], container.id,
            "no other process: {row:#}"
        );
    }
}

fn accepted() {
    let Some(container) = Container::new("selection by name") else {
        return;
    };
    let service = container.above.inner_named("cachewise-test-named.service");
    let _idle = idle(&container.group);
    for selection in [
        ["--container", &container.name],
        ["--container", &container.id[..12]],
        ["--unit", "cachewise-test-named"],
        ["--unit", "cachewise-test-named.service"],
        ["--cgroup", text(service.path())],
    ] {
        let recording = Scratch::new();
        let recording = recording.directory().join("named.rec");
        for command in [
            &["stat", "0.05", "1"][..],
            &["top", "-b", "-d", "0.05", "-n", "1"],
            &["record", "-d", "0.05", text(&recording)],
            &["size", "-d", "0.05"],
        ] {
            let mut command = cachewise(command);
            command.args(selection).env(HOST_ROOT, container.host());
            Ended::of(&mut command).expect(0, "the name is found");
        }
    }
    let mut run = cachewise(["run", "-d", "0.05", "--container", &container.name]);
    Ended::of(run.env(HOST_ROOT, container.host())).expect(0, "its processes are followed");
    let mut guard = cachewise(["guard", "--dry-run", "-d", "0.05", "--keep", "1%"]);
    guard
        .args(["--container", &container.name])
        .env(HOST_ROOT, container.host());
    Ended::of(&mut guard)
        .expect(0, "nothing is reclaimed")
        .says(&container.id, "the group is the container's");
}

/// A process in a group that does nothing.
fn idle(group: &Group) -> Started {
    let script = "echo $$ >\"$1\"/cgroup.procs && echo there && exec sleep 1000";
    let mut idle = Command::new("sh");
    let mut idle = Started::of(idle.args(["-c", script, "sh", text(group.path())]));
    assert_eq!(idle.line().as_deref(), Some(&b"there\n"[..]), "it is in");
    idle
}

fn absent() {
    let Some(container) = Container::new("absent names") else {
        return;
    };
    let _service = container.above.inner_named("cachewise-test-near.service");
    let typo = container.name.replace("cache", "cach");
    for (selection, meant) in [
        (
            ["--container", &typo],
            &*format!("did you mean {}?", container.name),
        ),
        (
            ["--container", "eeee"],
            "no container has the name or id \"eeee\"",
        ),
        (
            ["--unit", "cachewise-test-nare"],
            "did you mean cachewise-test-near.service?",
        ),
        (
            ["--command", "no such command line"],
            "`ps -eo pid,args` lists them",
        ),
        (["--cgroup", "/no/such/group"], "no control group"),
    ] {
        let mut stat = cachewise(["stat", "0.05", "1"]);
        Ended::of(stat.args(selection).env(HOST_ROOT, container.host()))
            .expect(2, "there is none")
            .says(meant, "the message helps");
    }
}

fn ambiguous() {
    let Some(container) = Container::new("ambiguous ids") else {
        return;
    };
    let other = format!("{}{}", &container.id[..8], "0".repeat(56));
    let _other = container.above.inner_named(&other);
    let mut stat = cachewise(["stat", "0.05", "1", "--container", &container.id[..8]]);
    Ended::of(stat.env(HOST_ROOT, container.host()))
        .expect(2, "two begin so")
        .says(&container.name, "one of them")
        .says(&other[..12], "the other, which has no name")
        .says("--cgroup", "and the fix");
    let mut stat = cachewise(["stat", "0.05", "1", "--container", &container.id[..9]]);
    Ended::of(stat.env(HOST_ROOT, container.host())).expect(0, "one more digit is enough");
}

fn by_command_line() {
    let Some(container) = Container::new("selection by command line") else {
        return;
    };
    let scratch = Scratch::new();
    let (inside, outside) = (scratch.file("in", 1 << 20), scratch.file("out", 1 << 20));
    let _busy = Busy::with(&outside);
    let token = format!("token-{}", std::process::id());
    let one = reader(&container.group, &inside, &token);
    let two = reader(&container.group, &inside, &token);
    let mut top = cachewise(["top", "-b", "-d", "0.5", "-n", "2", "-o", "jsonl"]);
    top.args(["--view", "file", "--command", &token]);
    let rows = rows_of(&mut top);
    let read = |file: &Path| {
        let rows = rows.iter().filter(|row| row["path"] == text(file));
        rows.filter_map(|row| row["read_requested_pages"].as_u64())
            .sum::<u64>()
    };
    assert!(
        read(&inside) > 0,
        "children of the shells read it: {rows:?}"
    );
    assert_eq!(read(&outside), 0, "no other process is counted");
    let mut top = cachewise(["top", "-b", "-d", "0.5", "-n", "2", "-o", "jsonl"]);
    let rows = rows_of(top.args(["--command", &token]));
    let has = |pid: u32| {
        rows.iter()
            .any(|row| row["ppid"] == pid || row["pid"] == pid)
    };
    assert!(has(one.pid()) && has(two.pid()), "of both shells: {rows:?}");
}

fn held() {
    let Some(container) = Container::new("files --container") else {
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.file("held", 1 << 20);
    let script = "exec 9<\"$2\" && echo $$ >\"$1\"/cgroup.procs && echo there && exec sleep 1000";
    let mut holder = Command::new("sh");
    holder.args([
        "-c",
        script,
        "sh",
        text(container.group.path()),
        text(&file),
    ]);
    let mut holder = Started::of(&mut holder);
    assert_eq!(holder.line().as_deref(), Some(&b"there\n"[..]), "it is in");
    let mut files = cachewise(["files", "--container", &container.name, "-o", "jsonl"]);
    let rows = rows_of(files.env(HOST_ROOT, container.host()));
    let is_held = rows.iter().any(|row| row["path"] == text(&file));
    assert!(is_held, "the open file is listed: {rows:?}");
}

fn contradictions() {
    for arguments in [
        &["stat", "--unit", "a", "--cgroup", "/b", "1", "1"][..],
        &["stat", "--unit", "a", "--container", "b", "1", "1"],
        &["top", "-b", "--pid", "1", "--command", "x"],
        &["record", "--only", "--unit", "a", "x.rec", "--", "true"],
        &["run", "--unit", "a", "--", "true"],
        &["size", "--unit", "a", "--", "true"],
        &["files", "--unit", "a", "/etc"],
        &["files", "--all", "--container", "a"],
    ] {
        let ended = Ended::of(&mut cachewise(arguments)).expect(2, "they contradict");
        assert!(!ended.err().is_empty(), "{arguments:?}: and it says so");
    }
    Ended::of(&mut cachewise(["stat", "--command", "re:[", "1", "1"]))
        .expect(2, "no pattern")
        .says("regular expression", "the fault is named");
}

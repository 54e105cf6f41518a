//! `--label`: files by the names of a list.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{Ended, Scratch, Trial, as_nobody, cachewise, needs_root, plain, report_of};

pub fn trials() -> Vec<Trial> {
    vec![
        plain("files_have_the_label_beside_the_path", files),
        plain("wrong_lists_are_refused_with_their_line", wrong),
        needs_root("run_and_recordings_have_labels", run),
        needs_root("postgresql_relations_have_their_names", postgresql),
    ]
}

fn text(path: &Path) -> &str {
    path.to_str().expect("tests make ordinary names")
}

/// A list with this text.
fn list(scratch: &Scratch, text: &str) -> PathBuf {
    let path = scratch.directory().join("labels.tsv");
    fs::write(&path, text).expect("a file for the test");
    path
}

fn files() {
    let scratch = Scratch::new();
    let (known, other) = (scratch.file("16385", 8192), scratch.file("163850", 8192));
    let labels = list(
        &scratch,
        &format!("# a table\n{}\torders\n", known.display()),
    );
    let arguments = [
        "files",
        "--label",
        text(&labels),
        text(&known),
        text(&other),
    ];
    let ended = Ended::of(cachewise(arguments).args(["-o", "json"])).expect(0, "both are listed");
    let json: Value = serde_json::from_str(&ended.out()).expect("a document");
    let rows = json["rows"].as_array().expect("rows");
    let row = |path: &Path| {
        let row = rows.iter().find(|row| row["path"] == text(path));
        row.unwrap_or_else(|| panic!("{} is in {json:#}", path.display()))
    };
    assert_eq!(row(&known)["label"], "orders", "{json:#}");
    assert_eq!(row(&other)["label"], Value::Null, "{json:#}");
    assert_eq!(row(&other)["reason_codes"]["label"], "no_label", "{json:#}");
    let table = Ended::of(&mut cachewise(arguments))
        .expect(0, "a table")
        .out();
    assert!(
        table.contains("LABEL") && table.contains("orders") && table.contains(text(&known)),
        "both are shown: {table}"
    );
    let mut relative = cachewise(["files", "--label", text(&labels), "16385", "-o", "jsonl"]);
    let ended = Ended::of(relative.current_dir(scratch.directory())).expect(0, "it is listed");
    let says = ended.out().contains("\"label\":\"orders\"");
    assert!(says, "by a relative path too: {}", ended.out());
    let without = Ended::of(&mut cachewise(["files", text(&known)])).expect(0, "a table");
    assert!(
        !without.out().contains("LABEL"),
        "no list, no column: {}",
        without.out()
    );
}

fn wrong() {
    let scratch = Scratch::new();
    for (lines, message) in [
        ("/a\tb\n/c d\n", "labels.tsv:2: no tab"),
        (
            "base/1\torders\n",
            "labels.tsv:1: \"base/1\" is not an absolute path",
        ),
        ("/a[\torders\n", "labels.tsv:1: not a pattern"),
    ] {
        let labels = list(&scratch, lines);
        let mut files = cachewise(["files", "--label", text(&labels), "/etc/hostname"]);
        Ended::of(&mut files)
            .expect(2, "refused")
            .says(message, "the line");
        let mut run = cachewise(["run", "--label", text(&labels), "--", "true"]);
        Ended::of(&mut run)
            .expect(2, "nothing is run")
            .says(message, "the line");
    }
    Ended::of(&mut cachewise([
        "files",
        "--label",
        "/no/list",
        "/etc/hostname",
    ]))
    .expect(2, "no list")
    .says("/no/list", "it is named");
}

fn run() {
    let scratch = Scratch::new();
    let file = scratch.file("16385", 1 << 20);
    let labels = list(&scratch, &format!("{}*\torders\n", file.display()));
    let report = report_of(&["--label", text(&labels)], ["cat", text(&file)]);
    assert_eq!(report.file(&file)["label"], "orders", "a report has it");
    let run = ["run", "--label", text(&labels), "--", "cat", text(&file)];
    Ended::of(&mut cachewise(run))
        .expect(0, "it is run")
        .says("orders (", "the report for people has it before the path");

    let recording = scratch.directory().join("labels.rec");
    let record = [
        "record",
        "--label",
        text(&labels),
        text(&recording),
        "--",
        "cat",
        text(&file),
    ];
    Ended::of(&mut cachewise(record)).expect(0, "it is recorded");
    let label = |more: &[&str]| {
        let mut report = cachewise(["report", text(&recording), "--series", "--of", "files"]);
        report
            .args(["--columns", "path,label", "-o", "jsonl"])
            .args(more);
        let ended = Ended::of(&mut report).expect(0, "it is read");
        let rows: Vec<Value> = ended
            .out()
            .lines()
            .map(|line| serde_json::from_str(line).expect("each line is a document"))
            .collect();
        let row = rows.iter().find(|row| row["path"] == text(&file));
        row.expect("the file has a row")["label"].clone()
    };
    assert_eq!(label(&[]), "orders", "the recording keeps it");
    let other = list(&scratch, &format!("{}\tsales\n", file.display()));
    assert_eq!(
        label(&["--label", text(&other)]),
        "sales",
        "a report has its own"
    );
}

/// A server of PostgreSQL, stopped when dropped.
struct Server {
    programs: PathBuf,
    data: PathBuf,
}

impl Server {
    /// Makes a cluster and starts it, if PostgreSQL is installed.
    fn start(scratch: &Scratch) -> Option<Server> {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
        let versions = versions.flatten().map(|entry| entry.path().join("bin"));
        let programs = versions.filter(|bin| bin.join("initdb").exists()).max()?;
        let data = scratch.directory().join("pg");
        fs::create_dir(&data).expect("a directory for the test");
        let owned = Command::new("chown").arg("65534:65534").arg(&data).status();
        assert!(
            owned.is_ok_and(|status| status.success()),
            "the user nobody owns it"
        );
        let server = Server { programs, data };
        let data = text(&server.data);
        server.done(
            "initdb",
            &["-D", data, "-U", "me", "-A", "trust", "--no-sync"],
        );
        let options = format!("-c listen_addresses= -k {data} -c fsync=off");
        let log = format!("{data}/log");
        server.done(
            "pg_ctl",
            &["-D", data, "-o", &options, "-l", &log, "-w", "start"],
        );
        Some(server)
    }

    fn output(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = as_nobody();
        command.arg(self.programs.join(program)).args(arguments);
        let output = command.current_dir(&self.data).output();
        output.expect("a program of PostgreSQL can be started")
    }

    fn done(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.output(program, arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {told}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn query(&self, sql: &str) -> String {
        let socket = text(&self.data);
        self.done(
            "psql",
            &[
                "-AtX", "-h", socket, "-U", "me", "-d", "postgres", "-c", sql,
            ],
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.output(
            "pg_ctl",
            &["-D", text(&self.data), "-m", "immediate", "-w", "stop"],
        );
    }
}

/// The recipe of the page.
fn recipe() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/labels.md");
    let page = fs::read_to_string(page).expect("the page can be read");
    let block = page.split_once("```sql\n").expect("it has a recipe").1;
    block
        .split_once("```")
        .expect("the block ends")
        .0
        .to_owned()
}

fn postgresql() {
    let scratch = Scratch::new();
    let Some(server) = Server::start(&scratch) else {
        println!("skipped: labels of PostgreSQL: it is not installed");
        return;
    };
    server.query(
        "CREATE TABLE orders AS SELECT i, repeat('x', 500) AS note FROM generate_series(1, 20000) i",
    );
    server.query("CREATE INDEX orders_i ON orders (i)");
    server.query("VACUUM orders");
    server.query("CHECKPOINT");
    let table = server.query("SELECT pg_relation_filepath('orders')");
    let index = server.query("SELECT pg_relation_filepath('orders_i')");
    let labels = list(&scratch, &server.query(&recipe()));
    let base = server.data.join("base");
    let files = [
        "files",
        "--label",
        text(&labels),
        text(&base),
        "-o",
        "jsonl",
    ];
    let ended = Ended::of(&mut cachewise(files)).expect(0, "its files are listed");
    let rows: Vec<Value> = ended
        .out()
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is a document"))
        .collect();
    let label = |path: String| {
        let path = server.data.join(path);
        let row = rows.iter().find(|row| row["path"] == text(&path));
        row.unwrap_or_else(|| panic!("{} is listed", path.display()))["label"].clone()
    };
    let (table, index) = (table.trim(), index.trim());
    assert_eq!(
        label(table.to_owned()),
        "postgres.public.orders",
        "the table"
    );
    assert_eq!(
        label(index.to_owned()),
        "postgres.public.orders_i",
        "its index"
    );
    for fork in ["_fsm", "_vm"] {
        let fork = label(format!("{table}{fork}"));
        assert_eq!(fork, "postgres.public.orders (fork)", "its maps");
    }
}
